//! Compiles the scheduler and writes its loader's skeleton; compiles the rules once more for this machine, so that the
//! tests can run them beside their reference functions.

const RULES: &str = "src/bpf/rules_on_host.c";

fn main() {
    quell_bpf_build::skeleton("grant", &["-mcpu=v3"]);
    cc::Build::new().file(RULES).warnings_into_errors(true).compile("quell_rules");
}

//! Compiles the scheduler's rules for this machine.

const RULES: &str = "src/rules_on_host.c";
const HEADERS: &str = "../quell-scx/src/bpf";

fn main() {
    println!("cargo::rerun-if-changed={HEADERS}");
    println!("cargo::rerun-if-changed={RULES}");
    cc::Build::new().file(RULES).include(HEADERS).warnings_into_errors(true).compile("quell_rules");
}

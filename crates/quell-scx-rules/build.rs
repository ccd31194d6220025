//! Compiles the scheduler's rules, and all of its kernel half, for this machine.

const RULES: &str = "src/rules_on_host.c";
const HALF: &str = "src/half_on_host.c";
const KERNEL: &str = "src/kernel_on_host.h";
const HEADERS: &str = "../quell-scx/src/bpf";

fn main() {
    for source in [RULES, HALF, KERNEL, HEADERS] {
        println!("cargo::rerun-if-changed={source}");
    }
    cc::Build::new().file(RULES).include(HEADERS).warnings_into_errors(true).compile("quell_rules");
    // Operations leave parameters unused, and tests functions.
    let mut half = cc::Build::new();
    for flag in ["-Wno-unused-parameter", "-Wno-unused-function", "-Wno-unused-variable", "-Wno-sign-compare"] {
        half.flag_if_supported(flag);
    }
    half.file(HALF).include(HEADERS).warnings_into_errors(true).compile("quell_half");
}

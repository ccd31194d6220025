//! Compiles the scheduler's rules, and all of its kernel half, for this machine; and the simulation of it, as it is and with
//! each fixed fault put back.

use std::path::{Path, PathBuf};
use std::{env, fs};

include!("faults.rs");

const RULES: &str = "src/rules_on_host.c";
const HALF: &str = "src/half_on_host.c";
const SIMULATION: &str = "src/simulation_on_host.c";
const HEADERS: &str = "../quell-scx/src/bpf";
/// Operations leave parameters unused, and tests functions.
const LENIENT: [&str; 5] = [
    "-Wno-unused-parameter",
    "-Wno-unused-function",
    "-Wno-unused-variable",
    "-Wno-sign-compare",
    "-Wno-stringop-truncation",
];

fn main() {
    for source in ["src", "faults.rs", HEADERS] {
        println!("cargo::rerun-if-changed={source}");
    }
    // As in the kernel, whatever the profile: it is measured.
    cc::Build::new().file(RULES).include(HEADERS).opt_level(2).warnings_into_errors(true).compile("quell_rules");
    let mut half = cc::Build::new();
    for flag in LENIENT {
        half.flag_if_supported(flag);
    }
    half.file(HALF).include(HEADERS).warnings_into_errors(true).compile("quell_half");

    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo names it"));
    let simulation = out.join("simulation.so");
    library(Path::new(HEADERS), 2, &simulation);
    // A library of its own each: they have the same names, and variables.
    for copy in ["shares.so", "shares-as-one.so", "by-progress.so"] {
        fs::copy(&simulation, out.join(copy)).expect("a copy");
    }
    for (number, fault) in FAULTS.iter().enumerate() {
        let headers = out.join(format!("fault-{number}"));
        put_back(fault, &headers);
        // A fault is found within some events: these compile in half the time.
        library(&headers, 1, &out.join(format!("fault-{number}.so")));
    }
}

fn library(headers: &Path, optimised: u32, to: &Path) {
    let mut build = cc::Build::new();
    for flag in LENIENT {
        build.flag_if_supported(flag);
    }
    let compiler = build.include(headers).opt_level(optimised).pic(true).warnings_into_errors(true).get_compiler();
    let status = compiler.to_command().args(["-shared", SIMULATION, "-o"]).arg(to).status().expect("the compiler runs");
    assert!(status.success(), "{SIMULATION} does not compile with {}", headers.display());
}

/// A copy of the headers in which the fault is there again.
fn put_back(fault: &Fault, headers: &Path) {
    copy(Path::new(HEADERS), headers);
    let path = headers.join(fault.file);
    let text = fs::read_to_string(&path).expect("text");
    assert_eq!(text.matches(fault.now).count(), 1, "{}: the fix is not where it was", fault.name);
    fs::write(path, text.replace(fault.now, fault.then)).expect("a copy");
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("the headers") {
        let path = entry.expect("a header").path();
        let target = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, target).expect("a copy");
        }
    }
}

//! Compiles the scheduler and writes its loader's skeleton; compiles the rules once more for this machine, so that the
//! tests can run them beside their reference functions.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use libbpf_cargo::SkeletonBuilder;

const SOURCE: &str = "src/bpf/grant.bpf.c";
const RULES: &str = "src/bpf/rules_on_host.c";
/// The oldest clang that is known to work.
const OLDEST: u32 = 14;
const NEWEST: u32 = 30;

fn main() {
    println!("cargo:rerun-if-changed=src/bpf");
    println!("cargo:rerun-if-env-changed=BPF_CLANG");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("grant.skel.rs");
    let mut arguments = vec!["-mcpu=v3".to_owned()];
    arguments.extend(kernel_headers().map(|headers| format!("-I{headers}")));
    let mut builder = SkeletonBuilder::new();
    builder.source(SOURCE).clang(clang()).clang_args(arguments);
    if let Err(error) = builder.build_and_generate(&out) {
        panic!("{SOURCE}: {error:?}");
    }
    cc::Build::new().file(RULES).warnings_into_errors(true).compile("quell_rules");
}

/// `BPF_CLANG`, or `clang` if it is new enough, or the newest `clang-N`.
fn clang() -> String {
    if let Ok(named) = env::var("BPF_CLANG") {
        return named;
    }
    let numbered = (OLDEST..=NEWEST).rev().map(|version| format!("clang-{version}"));
    std::iter::once("clang".to_owned())
        .chain(numbered)
        .find(|name| version(name).is_some_and(|version| version >= OLDEST))
        .unwrap_or_else(|| panic!("no clang from {OLDEST} on is here; install one, or name it in BPF_CLANG"))
}

/// The major version of a clang, if there is one of this name.
fn version(clang: &str) -> Option<u32> {
    let output = Command::new(clang).arg("-dumpversion").output().ok()?;
    String::from_utf8(output.stdout).ok()?.split('.').next()?.trim().parse().ok()
}

/// Where Debian and its kin keep the kernel's headers of an architecture; elsewhere clang finds them by itself.
fn kernel_headers() -> Option<String> {
    let arch = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets CARGO_CFG_TARGET_ARCH");
    let path = format!("/usr/include/{arch}-linux-gnu");
    Path::new(&path).join("asm").exists().then_some(path)
}

//! For build scripts: compiles a BPF program and writes its loader's skeleton.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use libbpf_cargo::SkeletonBuilder;

/// The oldest clang whose BPF code has the relocations that the programs need.
const OLDEST: u32 = 14;
const NEWEST: u32 = 30;

/// Compiles `src/bpf/NAME.bpf.c`, with these arguments for clang, to `NAME.skel.rs` in the build's output directory.
///
/// # Panics
/// If there is no clang that is new enough, or the program does not compile: a build script has no better way to say so.
pub fn skeleton(name: &str, arguments: &[&str]) {
    println!("cargo:rerun-if-changed=src/bpf");
    println!("cargo:rerun-if-env-changed=BPF_CLANG");
    let source = format!("src/bpf/{name}.bpf.c");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join(format!("{name}.skel.rs"));
    let mut arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
    arguments.extend(kernel_headers().map(|headers| format!("-I{headers}")));
    let mut builder = SkeletonBuilder::new();
    builder.source(&source).clang(clang()).clang_args(arguments);
    if let Err(error) = builder.build_and_generate(&out) {
        panic!("{source}: {error:?}");
    }
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

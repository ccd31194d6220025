//! A guest that is a node.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use quell_guest::testing::{Said, Script};
use quell_guest::{Lockstep, Machine};

/// Containerd's own time limits and the shares of CPUs are then the guest's, whatever the host does beside it.
pub const TIME: Lockstep = Lockstep { serial: false, mips: 200, quantum_ns: 10_000 };

/// Times to some 50 µs: it is emulated in a third of the time.
pub const COARSE: Lockstep = Lockstep { quantum_ns: 50_000, ..TIME };

/// Runs a script on a node with this many CPUs, after `node.sh`; QUELL and LOG are Quell and `nri`'s example. None, after saying so,
/// where Go is not installed.
pub fn run(cpus: u32, minutes: u64, text: &str) -> Option<Said> {
    run_with(cpus, minutes, TIME, text, &[])
}

/// The folder of one of the programs of `scripts/kubernetes`. None, after saying so, where it was not compiled yet.
pub fn compiled(program: &str) -> Option<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/kubernetes");
    let output = Command::new(script).args([program, "--if-there"]).stderr(Stdio::inherit()).output().unwrap();
    if !output.status.success() {
        println!("skipped: no {program}: scripts/kubernetes {program} compiles it");
        return None;
    }
    Some(String::from_utf8(output.stdout).unwrap().trim_end().into())
}

/// As [`run`], with these programs, too, in this emulated time.
pub fn run_with(cpus: u32, minutes: u64, time: Lockstep, text: &str, more: &[PathBuf]) -> Option<Said> {
    let Some(programs) = programs() else {
        println!("skipped: containerd is written in Go, and Go is not installed");
        return None;
    };
    let quell = env!("CARGO_BIN_EXE_quell");
    let log = Path::new(quell).with_file_name("examples").join("log");
    assert!(log.exists(), "{} is missing: cargo build --locked -p nri --example log", log.display());
    let log = log.to_str().unwrap();
    let machine = Machine { memory_mib: Some(3072), ..Machine::measuring(cpus, time, Vec::new()) };
    let text = [include_str!("node.sh"), text].concat();
    let script = Script::new(machine, Duration::from_secs(60 * minutes), &text);
    let script = script.with("QUELL", quell).with("LOG", log).with("NODE", &programs.node).with("CRI", &programs.cri);
    let packed = [quell, log, programs.cri.to_str().unwrap()];
    let node = ["containerd", "containerd-shim-runc-v2", "ctr", "runc"].map(|name| programs.node.join(name));
    let node = node.iter().chain(more).map(|path| path.to_str().unwrap());
    let said = script.packed(packed.into_iter().chain(node)).run();
    println!("{}\n{}", said.out, said.err);
    assert_eq!(said.status, 0, "the script failed");
    Some(said)
}

/// What is after `name ` in the first such line.
pub fn value<'a>(said: &'a Said, name: &str) -> &'a str {
    let found = said.out.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    found.unwrap_or_else(|| panic!("no line of {name}"))
}

struct Programs {
    /// The folder of containerd's and runc's.
    node: PathBuf,
    cri: PathBuf,
}

fn programs() -> Option<&'static Programs> {
    static PROGRAMS: OnceLock<Option<Programs>> = OnceLock::new();
    PROGRAMS.get_or_init(build).as_ref()
}

fn build() -> Option<Programs> {
    let is_there = |go: &&str| Command::new(go).arg("version").output().is_ok_and(|output| output.status.success());
    let go = ["go", "/usr/local/go/bin/go"].into_iter().find(is_there)?;
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let cri = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cri");
    let mut command = Command::new(go);
    command.args(["build", "-buildvcs=false", "-trimpath", "-ldflags=-s -w", "-o"]).arg(&cri).arg(".");
    output(command.current_dir(own.join("tests/kubernetes/cri")).env("CGO_ENABLED", "0"));
    let node = output(&mut Command::new(own.join("../../scripts/kubernetes")));
    Some(Programs { node: node.trim_end().into(), cri })
}

fn output(command: &mut Command) -> String {
    let output = command.stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

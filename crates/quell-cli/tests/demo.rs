//! `quell demo` as its users call it: an ordinary one, and one who mistypes.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The user number of `nobody`, who has no privileges.
const ORDINARY: u32 = 65534;

/// The demo in a directory that an ordinary user may read, and not write to. The program is copied there: that user might not
/// reach the build's directory; by a process of its own, since a program that this one has open for writing cannot be run,
/// and what another test forks meanwhile has it open as well.
fn demo(directory: &Path, arguments: &[&str], ordinary: bool) -> Output {
    fs::set_permissions(directory, Permissions::from_mode(0o755)).unwrap();
    let program = directory.join("quell");
    assert!(Command::new("cp").arg(env!("CARGO_BIN_EXE_quell")).arg(&program).status().unwrap().success());
    let mut command = Command::new(&program);
    command.arg("demo").args(arguments).current_dir(directory).env("TMPDIR", "/tmp");
    if ordinary && rustix::process::geteuid().is_root() {
        command.uid(ORDINARY).gid(ORDINARY);
    }
    command.output().unwrap()
}

#[test]
fn an_ordinary_user_gets_a_table_the_skipped_phases_and_status_0() {
    let directory = tempfile::tempdir().unwrap();
    let output = demo(directory.path(), &["--seconds", "1", "--rate", "2000"], true);
    let (text, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{text}{said}");
    for title in ["server alone", "co-run, plain Linux", "antagonist SCHED_IDLE", "Quell rkube: own CPUs"] {
        let mut rows = text.lines().filter(|line| line.trim_start().starts_with(title));
        assert!(rows.any(|row| row.contains("/s")), "{title} is measured: {text}");
    }
    for title in ["server SCHED_FIFO (unsafe)", "Quell guard"] {
        let row = text.lines().find(|line| line.trim_start().starts_with(title)).expect(title);
        assert!(row.contains("skipped"), "{row}");
        assert!(text.contains(&format!("skipped '{title}': it needs real-time scheduling")), "{text}");
    }
    let table = text.find("server alone").unwrap();
    // Root in a container may lack the right to real-time threads, but writes where it likes.
    if rustix::process::geteuid().is_root() {
        assert!(text.find("are not written").is_some_and(|note| note > table), "said behind the table: {text}");
    }
    let chart = text.find("p99 latency").expect("a chart");
    assert!(chart < table, "{text}");
    // Beside other tests the server alone may be disturbed: then it says so, and compares nothing.
    let result = text.lines().find(|line| line.starts_with("result: ")).unwrap();
    if result.starts_with("result: beside") {
        assert!(result.contains("plain Linux") && result.contains("skipped: SCHED_FIFO, Quell guard"), "{result}");
    } else {
        assert!(result.starts_with("result: no ratios: ") && !text.contains('×'), "{text}");
    }
    let last = text.trim_end().lines().last().unwrap();
    assert!(last.starts_with("your own service: `quell protect NAME`"), "{last}");
}

#[test]
fn a_runaway_without_rights_is_watched_on_plain_linux() {
    let directory = tempfile::tempdir().unwrap();
    let output = demo(directory.path(), &["runaway"], true);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(text.lines().filter(|line| line.contains("skipped") && line.contains('–')).count(), 2, "{text}");
    assert!(text.lines().last().unwrap().starts_with("result: beside"), "{text}");
}

#[test]
fn mistakes_are_refused_before_the_first_phase() {
    let directory = tempfile::tempdir().unwrap();
    for (arguments, status, words) in [
        (&["--repeat", "0"][..], 2, ["--repeat", "0 is not in"]),
        (&["--seconds", "0"], 2, ["--seconds", "0 is not in"]),
        (&["--antagonist", "foo"], 2, ["foo", "stream"]),
        (&["--server-threads", "0"], 2, ["--server-threads", "0 is not in"]),
        (&["--server-threads", "60000"], 1, ["--server-threads 60000", "give at most"]),
        (&["--antagonist-threads", "0"], 1, ["threads: 0", "1 to 65536"]),
        (&["--phases", "alone,linus"], 1, ["no phase 'linus'", "linux-best"]),
        (&["--rate", "0"], 2, ["--rate", "above zero"]),
        (&["--out", "/nowhere/at/all"], 1, ["/nowhere/at/all", "--out"]),
    ] {
        let begun = std::time::Instant::now();
        let output = demo(directory.path(), arguments, false);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {text}");
        assert!(words.iter().all(|word| text.contains(word)), "{arguments:?}: {text}");
        assert!(!text.contains("memcached with"), "{arguments:?} began to measure: {text}");
        assert!(begun.elapsed().as_secs() < 60, "{arguments:?}");
    }
}

/// A process that ends with the test.
struct Spinner(std::process::Child);

impl Drop for Spinner {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_loaded_machine_is_named_before_the_first_phase_and_gets_no_ratio() {
    let cpus = std::thread::available_parallelism().unwrap().get();
    let spin = || Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
    let _spinners: Vec<Spinner> = (0..cpus).map(|_| Spinner(spin())).collect();
    let directory = tempfile::tempdir().unwrap();
    let output = demo(directory.path(), &["--seconds", "1", "--phases", "alone,linux", "--rate", "5000"], false);
    let (text, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let busy = said.find("! this machine is busy: other programs use ").unwrap_or_else(|| panic!("not said: {said}"));
    assert!(said.find("server alone").is_none_or(|phase| busy < phase), "{said}");
    assert_eq!(output.status.code(), Some(0), "{text}{said}");
    let result = text.lines().find(|line| line.starts_with("result: ")).unwrap();
    assert!(result.starts_with("result: no ratios: ") && !text.contains('×'), "{text}");
    assert!(result.contains("run the demo again") || result.contains("give"), "what to do: {result}");
}

#[test]
fn a_demo_that_is_killed_leaves_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_quell"));
    command.args(["demo", "--seconds", "60", "--rate", "2000", "--phases", "linux"]).current_dir(directory.path());
    command.env("TMPDIR", directory.path()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut demo = command.spawn().unwrap();
    let files = format!("/proc/{}/fd", demo.id());
    let counts = |entry: fs::DirEntry| {
        fs::read_link(entry.path()).is_ok_and(|to| to.to_string_lossy().contains("quell-progress"))
    };
    let begun = Instant::now();
    while !fs::read_dir(&files).unwrap().flatten().any(counts) {
        assert!(begun.elapsed() < Duration::from_secs(90) && demo.try_wait().unwrap().is_none(), "no antagonist");
        std::thread::sleep(Duration::from_millis(20));
    }
    demo.kill().unwrap();
    demo.wait().unwrap();
    let left: Vec<_> = fs::read_dir(directory.path()).unwrap().flatten().map(|entry| entry.path()).collect();
    assert!(left.is_empty(), "{left:?}");
}

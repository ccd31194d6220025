//! `quell exec` as its user meets it.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Much longer than anything takes, for a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn exec(run_dir: &tempfile::TempDir, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quell"));
    command.arg("exec").args(arguments).env("QUELL_RUN_DIR", run_dir.path()).stdin(Stdio::null());
    command
}

fn said(arguments: &[&str]) -> Output {
    exec(&tempfile::tempdir().unwrap(), arguments).output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}: not after {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A process that ends with the test, in a group of its own.
struct Ours(Child);

impl Ours {
    fn sleeper() -> Ours {
        let mut command = Command::new("sh");
        command.args(["-c", "while :; do sleep 0.2; done"]).stdin(Stdio::null()).process_group(0);
        Ours(command.spawn().unwrap())
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }

    /// The number of its scheduling policy, as in sched(7): 0 other, 5 idle.
    fn policy(&self) -> u32 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap();
        stat.rsplit_once(") ").unwrap().1.split(' ').nth(38).unwrap().parse().unwrap()
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn exit_statuses_are_as_of_env() {
    let cases: [(&[&str], i32); 7] = [
        (&["--class", "be", "--", "sh", "-c", "exit 3"], 3),
        (&["--class", "be", "--", "sh", "-c", "kill -9 $$"], 128 + 9),
        (&["--class", "be", "--", "/no/such/command"], 127),
        (&["--class", "be", "--", "/etc/passwd"], 126),
        (&["--class", "be", "--policy", "nonsense", "--", "true"], 125),
        (&["--class", "be", "--pid", "2147483647"], 125),
        (&["--class", "be"], 2),
    ];
    for (arguments, expected) in cases {
        let output = said(arguments);
        assert_eq!(output.status.code(), Some(expected), "{arguments:?}: {}", text(&output));
    }
}

#[test]
fn what_was_set_is_one_line_unless_it_shall_be_quiet() {
    let output = said(&["--class", "be", "--name", "night", "--", "true"]);
    assert_eq!(text(&output), "quell: night: runs only on idle CPUs under guard\n");
    assert_eq!(text(&said(&["--class", "be", "--quiet", "--", "true"])), "");
}

/// A process has no `cpu.max` of its own, on whatever machine.
#[test]
fn a_limit_that_nothing_keeps_is_said() {
    let output = said(&["--class", "be", "--limit", "0.5", "--quiet", "--", "true"]);
    let said = text(&output);
    assert!(output.status.success() && said.lines().count() == 1, "{said}");
    assert!(said.starts_with("quell: true: limit = 0.5 is not kept: "), "{said}");
    assert!(said.contains("systemd-run --scope -p CPUQuota=50%"), "{said}");
    let strict =
        text(&self::said(&["--class", "lc", "--cpus", "1", "--strict", "--policy", "none", "--quiet", "--", "true"]));
    let keys: Vec<&str> =
        strict.lines().filter_map(|line| line.strip_prefix("quell: true: ")?.split(' ').next()).collect();
    assert_eq!(keys, ["cpus", "reservation"], "{strict}");
}

#[test]
fn what_runs_already_is_managed_until_ctrl_c_and_goes_on() {
    let (ours, run_dir) = (Ours::sleeper(), tempfile::tempdir().unwrap());
    let arguments = ["--class", "be", "--pid", &ours.pid()];
    let mut quell = exec(&run_dir, &arguments).stderr(Stdio::piped()).spawn().unwrap();
    until("it is managed", || ours.policy() == 5);
    kill_process(Pid::from_raw(quell.id().cast_signed()).unwrap(), Signal::INT).unwrap();
    assert_eq!(quell.wait().unwrap().code(), Some(0));
    assert_eq!(ours.policy(), 0, "it is put back, and goes on");
}

#[test]
fn what_runs_already_is_managed_until_it_ends() {
    let (mut first, mut second) = (Ours::sleeper(), Ours::sleeper());
    let run_dir = tempfile::tempdir().unwrap();
    let arguments = ["--class", "be", "--pid", &first.pid(), "--pid", &second.pid()];
    let mut quell = exec(&run_dir, &arguments).spawn().unwrap();
    until("both are managed", || first.policy() == 5 && second.policy() == 5);
    first.0.kill().unwrap();
    first.0.wait().unwrap();
    assert!(quell.try_wait().unwrap().is_none(), "one of them is left");
    second.0.kill().unwrap();
    second.0.wait().unwrap();
    assert_eq!(quell.wait().unwrap().code(), Some(0));
}

#[test]
fn quell_itself_and_threads_of_the_kernel_are_not_to_be_managed() {
    let own = std::process::id().to_string();
    let output = said(&["--class", "be", "--pid", &own]);
    assert_eq!((output.status.code(), text(&output).contains("started it")), (Some(125), true), "{}", text(&output));
}

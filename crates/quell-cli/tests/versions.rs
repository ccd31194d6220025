//! A journal of another version of Quell, after an agent was killed: a newer one is refused, with the fix, and nothing is changed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

const PATIENCE: Duration = Duration::from_secs(90);

struct Ours(Child);

impl Drop for Ours {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}: not after {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The number of a process's scheduling policy, as in sched(7).
fn policy(pid: u32) -> u32 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(") ").unwrap().1.split(' ').nth(38).unwrap().parse().unwrap()
}

fn quell(run_dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quell"));
    command.args(arguments).env("QUELL_RUN_DIR", run_dir).stdin(Stdio::null());
    command
}

fn error(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A journal that an agent left when it was killed together with its guardian, and the process that it names.
struct Killed {
    directory: tempfile::TempDir,
    batch: Ours,
}

impl Killed {
    fn make() -> Killed {
        let directory = tempfile::tempdir().unwrap();
        let batch = Ours(Command::new("sleep").arg("300").spawn().unwrap());
        let config = directory.path().join("quell.toml");
        let workload = format!("name = \"batch\"\nclass = \"be\"\nmatch = [{{ pid = {} }}]\n", batch.0.id());
        fs::write(&config, format!("[[policy]]\nname = \"guard\"\n[[workload]]\n{workload}")).unwrap();
        let mut agent = quell(&directory.path().join("run"), &["run", config.to_str().unwrap()]);
        let mut agent = Ours(agent.stderr(Stdio::null()).spawn().unwrap());
        until("the agent sets the class", || policy(batch.0.id()) != 0);
        let guardian = agent.0.id();
        let children = fs::read_to_string(format!("/proc/{guardian}/task/{guardian}/children")).unwrap();
        let worker: i32 = children.split_whitespace().next().unwrap().parse().unwrap();
        // Stopped first: neither puts back what the other leaves.
        for signal in [Signal::STOP, Signal::KILL] {
            for pid in [guardian.cast_signed(), worker] {
                kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
            }
        }
        agent.0.wait().unwrap();
        let worker = format!("/proc/{worker}");
        until("the worker is gone", || !Path::new(&worker).exists());
        assert_ne!(policy(batch.0.id()), 0);
        Killed { directory, batch }
    }

    fn run_dir(&self) -> PathBuf {
        self.directory.path().join("run")
    }

    fn journal(&self) -> PathBuf {
        self.run_dir().join("agent.journal")
    }

    fn replace(&self, from: &str, to: &str) {
        let text = fs::read_to_string(self.journal()).unwrap();
        assert!(text.contains(from), "{text}");
        fs::write(self.journal(), text.replacen(from, to, 1)).unwrap();
    }
}

#[test]
fn a_journal_in_a_newer_format_is_refused_and_the_version_that_wrote_it_puts_it_back() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("not tested here: a class is put back by root alone");
        return;
    }
    let killed = Killed::make();
    let class = policy(killed.batch.0.id());
    let own = format!("\"program\":\"{}\"", env!("CARGO_PKG_VERSION"));
    killed.replace("\"version\":1", "\"version\":2");
    killed.replace(&own, "\"program\":\"9.1.0\"");
    let written = fs::read(killed.journal()).unwrap();
    let config = killed.directory.path().join("quell.toml");
    for arguments in [&["restore"][..], &["run", config.to_str().unwrap()]] {
        let said = quell(&killed.run_dir(), arguments).output().unwrap();
        let fix = "install Quell 9.1.0 again and run its `quell restore`";
        assert!(said.status.code() == Some(1) && error(&said).contains(fix), "{arguments:?}: {said:?}");
        assert_eq!((policy(killed.batch.0.id()), fs::read(killed.journal()).unwrap()), (class, written.clone()));
    }
    let said = quell(&killed.run_dir(), &["doctor", "--all"]).output().unwrap();
    assert!(String::from_utf8_lossy(&said.stdout).contains("quell restore # of Quell 9.1.0"), "{said:?}");
    // The version that wrote it.
    killed.replace("\"version\":2", "\"version\":1");
    let said = quell(&killed.run_dir(), &["restore"]).output().unwrap();
    assert!(said.status.success(), "{said:?}");
    assert_eq!(policy(killed.batch.0.id()), 0);
    assert!(!killed.journal().exists());
}

#[test]
fn the_journal_of_the_version_before_is_taken_over() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("not tested here: a class is put back by root alone");
        return;
    }
    let killed = Killed::make();
    // As 0.1.0 wrote it.
    killed.replace(&format!(",\"program\":\"{}\"", env!("CARGO_PKG_VERSION")), "");
    let config = killed.directory.path().join("quell.toml");
    fs::write(&config, "[[policy]]\nname = \"guard\"\n[[workload]]\nname = \"none\"\nclass = \"be\"\nmatch = [{ unit = \"quell-no-such\" }]\n").unwrap();
    let mut agent = quell(&killed.run_dir(), &["run", config.to_str().unwrap()]);
    let _agent = Ours(agent.stderr(Stdio::null()).spawn().unwrap());
    until("the next agent puts it back", || policy(killed.batch.0.id()) == 0);
}

//! The program as the controller of a cluster that lives: it answers, dies, comes back, and leaves nothing.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// A running controller.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A command of quell-lab, or of quell-cluster, which a test of the workspace builds as well.
fn command(line: &str, folder: &Path) -> Command {
    let (program, words) = line.split_once(' ').unwrap();
    let file = Path::new(env!("CARGO_BIN_EXE_quell-lab")).with_file_name(program);
    assert!(file.is_file(), "{} is not there: cargo build --workspace", file.display());
    let mut command = Command::new(file);
    command.args(words.split(' ')).arg("--dir").arg(folder);
    command
}

fn start(words: &str, folder: &Path) -> Running {
    Running(command(words, folder).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
}

fn once(words: &str, folder: &Path) -> Output {
    command(words, folder).output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// The status, once it is like that.
fn status(folder: &Path, is: impl Fn(&serde_json::Value) -> bool) -> serde_json::Value {
    let begun = Instant::now();
    loop {
        let output = once("quell-cluster status --json", folder);
        match serde_json::from_slice(&output.stdout) {
            Ok(status) if is(&status) => return status,
            _ => assert!(begun.elapsed() < Duration::from_secs(60), "{}", text(&output)),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The lines of the page's first block of the running cluster.
fn lines_of_the_page() -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/lab/cluster.md");
    let page = std::fs::read_to_string(path).unwrap();
    let block =
        page.split("```sh\n").find(|block| block.starts_with("quell-lab cluster live ")).expect("the block of `live`");
    let lines = block.split("```").next().unwrap().lines();
    lines.map(|line| line.trim_end_matches(" &").to_owned()).collect()
}

#[test]
fn a_controller_answers_dies_and_the_next_one_finds_the_cluster() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, socket) = (folder.path(), folder.path().join("api.sock"));
    let lines = lines_of_the_page();
    let none = once("quell-cluster status", folder);
    assert!(!none.status.success() && text(&none).contains("quell-lab cluster live SCENARIO"), "{}", text(&none));
    let mut first = start(&lines[0], folder);
    let seen = status(folder, |status| status["now"].as_u64() > Some(0));
    assert_eq!((&seen["found"], &seen["pending"]), (&false.into(), &0.into()), "{seen}");
    for line in &lines[1..] {
        let output = once(line, folder);
        assert!(output.status.success() && !output.stdout.is_empty(), "{line}: {}", text(&output));
    }
    let missing = text(&once("quell-cluster why 100000", folder));
    assert!(missing.contains("there is no /v1/workloads/100000"), "{missing}");
    let second = once(&lines[0], folder);
    assert!(!second.status.success() && text(&second).contains("another controller"), "{}", text(&second));

    first.0.kill().unwrap();
    first.0.wait().unwrap();
    assert!(socket.exists(), "it had no time to remove it");
    let mut next = start(&lines[0], folder);
    let found = status(folder, |status| status["found"] == true && status["now"].as_u64() > seen["now"].as_u64());
    let all = |status: &serde_json::Value| status["placed"].as_u64().unwrap() + status["pending"].as_u64().unwrap();
    assert_eq!(all(&found), all(&seen), "no workload is lost");

    kill_process(Pid::from_child(&next.0), Signal::TERM).unwrap();
    assert!(next.0.wait().unwrap().success());
    assert!(!socket.exists() && folder.join("journal.jsonl").exists());
    let other = once("quell-lab cluster live two-hosts-that-do-not-exist", folder);
    assert!(!other.status.success());
    let other = text(&once("quell-lab cluster live testbed", folder));
    assert!(other.contains("--fresh"), "{other}");
}

#[test]
fn a_cluster_that_is_over_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let output = once("quell-lab cluster live quiet-host --speed 100000", folder.path());
    assert!(output.status.success() && text(&output).contains("over"), "{}", text(&output));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

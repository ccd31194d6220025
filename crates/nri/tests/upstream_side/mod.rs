//! Upstream's runtime side as a process: `tests/upstream`, built with Go.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use std::{fs, thread};

use serde_json::{Value, json};

/// Longest wait for anything: far more than any machine takes.
const PATIENCE: Duration = Duration::from_secs(120);

/// The program; None, after saying so, where Go is not installed.
pub fn program() -> Option<&'static Path> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    PROGRAM.get_or_init(build).as_deref()
}

fn build() -> Option<PathBuf> {
    let is_there = |go: &&str| Command::new(go).arg("version").output().is_ok_and(|output| output.status.success());
    let Some(go) = ["go", "/usr/local/go/bin/go"].into_iter().find(is_there) else {
        println!("skipped: upstream's side of NRI is written in Go, and Go is not installed");
        return None;
    };
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("nri-upstream");
    let output = Command::new(go)
        .args(["build", "-buildvcs=false", "-tags=nri_no_wasm", "-o"])
        .arg(&program)
        .arg(".")
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/upstream"))
        .output()
        .unwrap();
    assert!(output.status.success(), "go build: {}", String::from_utf8_lossy(&output.stderr));
    Some(program)
}

/// A runtime. It ends when this is dropped.
pub struct Upstream {
    process: Child,
    log: PathBuf,
    input: Option<ChildStdin>,
    answers: Receiver<Value>,
    events: Receiver<Value>,
}

impl Upstream {
    /// Listens on a socket once it is started, starts the plug-ins in a folder, and waits for answers until a limit.
    pub fn new(program: &Path, socket: &Path, plugins: &Path, limit: Duration) -> Upstream {
        let log = socket.with_extension("log");
        let mut process = Command::new(program)
            .args([socket, plugins])
            .arg(limit.as_millis().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let ((to_answers, answers), (to_events, events)) = (channel(), channel());
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let value: Value = serde_json::from_str(&line).unwrap();
                let _ = if value["event"].is_null() { to_answers.send(value) } else { to_events.send(value) };
            }
        });
        Upstream { input: process.stdin.take(), process, log, answers, events }
    }

    /// Sends a message without waiting for the answer.
    pub fn send(&mut self, method: &str, message: &Value) {
        let line = json!({"do": method, "message": message}).to_string() + "\n";
        self.input.as_mut().unwrap().write_all(line.as_bytes()).unwrap();
    }

    /// The next answer, or the words of the refusal.
    pub fn answer(&mut self) -> Result<Value, String> {
        let mut value = self.answers.recv_timeout(PATIENCE).expect("an answer");
        match value["error"].as_str() {
            Some(words) => Err(words.to_owned()),
            None => Ok(value["answer"].take()),
        }
    }

    /// The answer to a message.
    pub fn ask(&mut self, method: &str, message: &Value) -> Result<Value, String> {
        self.send(method, message);
        self.answer()
    }

    /// Waits until a plug-in is synchronised; what it says of that.
    pub fn synchronized(&mut self) -> Value {
        self.events.recv_timeout(PATIENCE).expect("a synchronisation")["event"].take()
    }

    /// The CPUs on which a container runs.
    pub fn cpus(&mut self, container: &str) -> Option<String> {
        self.ask("Cpus", &Value::Null).unwrap()[container].as_str().map(str::to_owned)
    }

    /// The process's number.
    pub fn pid(&self) -> i32 {
        self.process.id() as i32
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if thread::panicking() {
            println!("{}", fs::read_to_string(&self.log).unwrap_or_default());
        }
    }
}

//! What strangers say, are named, and hold open.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, geteuid, kill_process};
use rustix::thread::set_thread_res_uid;
use tempfile::TempDir;

/// Much longer than anything takes, for a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
const STRANGER: u32 = 65534;

/// A child that ends with the test.
struct Ours(Child);

impl Drop for Ours {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn quell(scene: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quell"));
    command.args(arguments).current_dir(scene).env("QUELL_RUN_DIR", scene.join("run")).env("QUELL_LOG", "info");
    command
}

/// An agent whose API answers, with a sleeping process as workload `web`.
struct Agent {
    scene: TempDir,
    child: Child,
    _web: Ours,
}

impl Agent {
    /// `more` has the keys of the workload, and tables before `[[workload]]`.
    fn start(tables: &str, keys: &str) -> Agent {
        let scene = tempfile::tempdir().unwrap();
        let web = Ours(Command::new("sleep").arg("300").spawn().unwrap());
        let file = format!(
            "{tables}\n[[policy]]\nname = \"none\"\n[[workload]]\nname = \"web\"\nclass = \"lc\"\n{keys}\nmatch = [{{ pid = {} }}]\n",
            web.0.id()
        );
        std::fs::write(scene.path().join("q.toml"), file.replace("SCENE", &scene.path().display().to_string()))
            .unwrap();
        let log = std::fs::File::create(scene.path().join("log")).unwrap();
        let child =
            quell(scene.path(), &["run", "--config", "q.toml"]).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        let agent = Agent { scene, child, _web: web };
        agent.until("it answers", || quell(agent.scene.path(), &["status"]).output().unwrap().status.success());
        agent
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.scene.path().join("log")).unwrap()
    }

    fn until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !holds() {
            assert!(begun.elapsed() < PATIENCE, "not in time: {what}\n{}", self.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn latency(&self) -> Option<f64> {
        let status = quell(self.scene.path(), &["status", "--json"]).output().unwrap();
        let status: serde_json::Value = serde_json::from_slice(&status.stdout).ok()?;
        status["workloads"][0]["latency_ns"]["value"].as_f64()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::INT);
        let _ = self.child.wait();
    }
}

fn is_root() -> bool {
    let root = geteuid().is_root();
    if !root {
        println!("only root can run an agent and be another user");
    }
    root
}

/// A service's metrics, answered by a thread of this user: a page for each question.
fn service(user: u32, page: impl Fn(u64) -> String + Send + 'static) -> SocketAddr {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        if user != 0 {
            let uid = rustix::process::Uid::from_raw(user);
            set_thread_res_uid(uid, uid, uid).unwrap();
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        sender.send(listener.local_addr().unwrap()).unwrap();
        for (count, stream) in (1..).zip(listener.incoming()) {
            let Ok(mut stream) = stream else { return };
            let _ = stream.read(&mut [0; 1024]);
            let page = page(count);
            let _ = write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{page}", page.len());
        }
    });
    receiver.recv().unwrap()
}

#[test]
fn a_program_named_like_a_terminals_orders_is_printed_as_it_is_spelled() {
    let scene = tempfile::tempdir().unwrap();
    let program = scene.path().join("\u{1b}[31mX\u{1b}[2J\nY");
    std::fs::copy("/bin/sleep", &program).unwrap();
    let named = Ours(Command::new(&program).arg("300").spawn().unwrap());
    let file = format!(
        "[[policy]]\nname = \"guard\"\n[[workload]]\nname = \"web\"\nclass = \"lc\"\ncpus = 1\nmatch = [{{ pid = {} }}]\n",
        named.0.id()
    );
    std::fs::write(scene.path().join("q.toml"), file).unwrap();
    for arguments in [&["run", "--config", "q.toml", "--dry-run", "--once"][..], &["check", "q.toml"]] {
        let output = quell(scene.path(), arguments).output().unwrap();
        assert!(!output.stdout.contains(&0x1b), "{}", String::from_utf8_lossy(&output.stdout).escape_debug());
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if let Some(line) = text.lines().find(|line| line.contains("would set")) {
            assert!(line.contains("\\x1b[31mX\\x1b[2J\\nY"), "{line}");
        } else if arguments[0] == "run" && geteuid().is_root() {
            panic!("nothing would be set: {text}{}", String::from_utf8_lossy(&output.stderr));
        }
    }
    std::fs::write(
        scene.path().join("bad.toml"),
        "[[workload]]\nname = \"w\\u001b[2J\"\nclass = \"lc\"\nmatch = [{ unit = \"w\" }]\n",
    )
    .unwrap();
    let output = quell(scene.path(), &["check", "bad.toml"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success() && said.contains("a terminal would obey") && !said.contains('\u{1b}'), "{said:?}");
}

#[test]
fn silent_connections_keep_no_reader_of_metrics_out() {
    if !is_root() {
        return;
    }
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let agent = Agent::start(&format!("[metrics]\nlisten = \"{free}\"\nsocket = \"SCENE/metrics.sock\""), "");
    let socket = agent.scene.path().join("metrics.sock");
    let silent: Vec<TcpStream> = (0..40).map(|_| TcpStream::connect(free).unwrap()).collect();
    let quiet: Vec<UnixStream> = (0..40).map(|_| UnixStream::connect(&socket).unwrap()).collect();
    let page = |mut stream: Box<dyn ReadWrite>| {
        stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: quell\r\n\r\n").unwrap();
        let mut text = String::new();
        let _ = stream.read_to_string(&mut text);
        text
    };
    let begun = Instant::now();
    let texts =
        [page(Box::new(TcpStream::connect(free).unwrap())), page(Box::new(UnixStream::connect(&socket).unwrap()))];
    for text in texts {
        assert!(text.contains("200 OK") && text.contains("quell_"), "{text:?}");
    }
    // The seats of silent connections come back after 5 s by themselves.
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    drop((silent, quiet));
    // The socket is the group's; the port is everyone's.
    let stranger = std::thread::spawn(move || {
        let uid = rustix::process::Uid::from_raw(STRANGER);
        set_thread_res_uid(uid, uid, uid).unwrap();
        (UnixStream::connect(&socket).is_ok(), TcpStream::connect(free).is_ok())
    });
    assert_eq!(stranger.join().unwrap(), (false, true));
}

trait ReadWrite: Read + Write {}
impl<T: Read + Write> ReadWrite for T {}

/// 1000 more requests at each question, all between 2 and 5 of the unit.
fn milliseconds(count: u64) -> String {
    let bucket = |bound: &str, count: u64| format!("took_ms_bucket{{le=\"{bound}\"}} {count}\n");
    [("1", 0), ("2", 0), ("5", count * 1000), ("+Inf", count * 1000)]
        .map(|(bound, count)| bucket(bound, count))
        .concat()
}

#[test]
fn a_latency_in_milliseconds_is_read_and_a_strangers_is_not_believed() {
    if !is_root() {
        return;
    }
    let latency = |address: SocketAddr, metric: &str| {
        format!(
            "slo = {{ quantile = 0.99, bound = \"10ms\" }}\nlatency = {{ address = \"{address}\", metric = \"{metric}\" }}"
        )
    };
    let other = |count: u64| milliseconds(count) + "\n# \u{fffd}\n";
    let agent = Agent::start("", &latency(service(0, other), "took_ms"));
    let mut found = None;
    agent.until("a latency", || {
        found = agent.latency();
        found.is_some()
    });
    assert!((2e6..=5e6).contains(&found.unwrap()), "{found:?}");
    drop(agent);
    let agent = Agent::start("", &latency(service(STRANGER, milliseconds), "took_ms"));
    agent.until("its refusal", || agent.log().contains("its answer is not believed"));
    std::thread::sleep(Duration::from_millis(2500));
    assert_eq!(agent.latency(), None, "{}", agent.log());
    assert_eq!(agent.log().matches("its answer is not believed").count(), 1, "it is said once");
    drop(agent);
    let unlike = |count: u64| milliseconds(count) + "took_ms_bucket{r=\"b\",le=\"+Inf\"} 5\n";
    let agent = Agent::start("", &latency(service(0, unlike), "took_ms"));
    agent.until("its refusal", || agent.log().contains("unlike bounds"));
    assert_eq!(agent.latency(), None);
}

//! A slow start is not taken for a hang, and a hang is: workers that take long step by step, that hang, and whose guardian was
//! stopped meanwhile. And one that starts again finds what the one before left. The process starts itself as the agents.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use quell_agent::guardian::{News, Options, RunDir, Worker, supervise};
use quell_linux::write::{Journal, Place, Value, Write};
use quell_model::Nanos;
use rustix::process::{Pid, Signal, kill_process};

const HUNG_AFTER: Nanos = Nanos::from_secs(4);
const PATIENCE: Duration = Duration::from_secs(60);

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let role: Vec<&str> = arguments.iter().skip(1).map(String::as_str).collect();
    match role[..] {
        ["agent", what, directory] => std::process::exit(agent(what, directory).into()),
        // What `cargo test` passes on.
        [.., "--list"] => {}
        _ => {
            let tests: [fn(); 6] = [
                steps_of_a_long_start_keep_a_worker_alive,
                a_worker_that_hangs_is_killed_in_a_stage_too,
                a_guardian_that_was_stopped_spares_its_worker,
                a_worker_finds_what_the_one_before_left_when_it_was_killed,
                a_system_without_pairs_of_sockets_has_a_worker_that_leaves_nothing,
                a_run_directory_that_is_removed_leaves_nothing_and_is_made_again,
            ];
            // They sleep, mostly; a panic of one is the scope's.
            thread::scope(|scope| tests.into_iter().for_each(|test| drop(scope.spawn(test))));
        }
    }
}

fn agent(what: &str, directory: &str) -> u8 {
    let claim = RunDir::at(directory.into()).and_then(|directory| directory.claim("agent")).expect("no other agent");
    let mut options = Options::new(claim);
    options.restart = matches!(what, "leaves" | "removes");
    options.news = Box::new(|news| match news {
        News::Removed(path) => println!("removed: {}", path.ends_with("run")),
        News::Hung(why) => println!("hung: {why}"),
        News::Starved(why) => println!("starved: {why}"),
        News::Died { how, .. } => println!("died: {how}"),
        _ => {}
    });
    if what == "alone" {
        refuse_pairs_of_sockets();
    }
    let ending = supervise(options, &mut |worker, journal| {
        worker.stop_on_signals().expect("signals are caught");
        match what {
            "slow" => slow(worker),
            "hangs" => hangs(worker),
            "leaves" => leaves(worker),
            "alone" => alone(worker),
            "removes" => removes(worker, journal, directory.as_ref()),
            _ => turns(worker),
        }
    });
    ending.expect("the guardian works").exit_status()
}

/// Longer than a hang, in steps.
fn slow(worker: &Worker) -> u8 {
    worker.beat(HUNG_AFTER);
    for _ in 0..60 {
        thread::sleep(Duration::from_millis(100));
        worker.step();
    }
    println!("it is at work");
    0
}

/// A stage that has its time, and one that never ends.
fn hangs(worker: &Worker) -> u8 {
    worker.beat(Nanos::from_millis(500));
    worker.stage(Nanos::from_secs(30));
    thread::sleep(Duration::from_secs(2));
    println!("the long stage is over");
    worker.stage(Nanos::from_millis(500));
    loop {
        thread::sleep(Duration::from_secs(1));
    }
}

fn turns(worker: &Worker) -> u8 {
    println!("worker {}", std::process::id());
    while !worker.stop().load(Ordering::Acquire) {
        worker.beat(HUNG_AFTER);
        thread::sleep(Duration::from_millis(50));
    }
    0
}

/// The first one dies, the second one ends.
fn leaves(worker: &Worker) -> u8 {
    if !worker.is_again() {
        worker.store().put(b"a file", &[File::open("/dev/null").expect("it is there").into()]).expect("there is room");
        send(std::process::id() as i32, Signal::KILL);
    }
    let (bytes, descriptors) = worker.store().take().expect("something was left");
    println!("{} and {} descriptor", String::from_utf8_lossy(&bytes), descriptors.len());
    0
}

/// The first one changes a value and removes the run directory; the second one says what it finds.
fn removes(worker: &Worker, mut journal: Box<dyn Journal>, directory: &Path) -> u8 {
    let value = directory.with_file_name("value");
    if worker.is_again() {
        let there = ["agent.lock", "agent.journal"].map(|name| directory.join(name).exists());
        println!("value {}, {there:?}", std::fs::read_to_string(value).unwrap_or_default().trim_end());
        return 0;
    }
    std::fs::write(&value, "2").expect("a file");
    let (origin, after) = (Value::Text("1".into()), Value::Text("2".into()));
    let place = Place::File(value);
    journal.before(&Write { workload: None, place, origin: origin.clone(), before: origin, after }).expect("a record");
    // The guardian looks each 100 ms.
    let guardian = format!("/proc/{}/fd", rustix::process::getppid().expect("a guardian").as_raw_pid());
    let has_it = || {
        let open = std::fs::read_dir(&guardian).into_iter().flatten().flatten();
        open.filter_map(|entry| std::fs::read_link(entry.path()).ok()).any(|path| path.ends_with("agent.journal"))
    };
    let begun = Instant::now();
    while !has_it() && begun.elapsed() < PATIENCE / 6 {
        thread::sleep(Duration::from_millis(10));
    }
    std::fs::remove_dir_all(directory).expect("it is ours");
    thread::sleep(PATIENCE / 6);
    println!("nothing has ended it");
    send(std::process::id() as i32, Signal::KILL);
    1
}

fn alone(worker: &Worker) -> u8 {
    let is_refused = worker.store().put(b"something", &[]).is_err();
    println!("usable: {}, refused: {is_refused}", worker.store().is_usable());
    u8::from(worker.store().take().is_some())
}

/// As RestrictAddressFamilies= of a unit without AF_UNIX does, for this process and its children (seccomp(2)).
fn refuse_pairs_of_sockets() {
    const LOAD: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS: the number of the system call is the first word
    const IF_EQUAL: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
    const RETURN: u16 = 0x06;
    let line = |code, k, jt, jf| libc::sock_filter { code, k, jt, jf };
    let mut lines = [
        line(LOAD, 0, 0, 0),
        line(IF_EQUAL, libc::SYS_socketpair as u32, 0, 1),
        line(RETURN, libc::SECCOMP_RET_ERRNO | libc::EAFNOSUPPORT as u32, 0, 0),
        line(RETURN, libc::SECCOMP_RET_ALLOW, 0, 0),
    ];
    let filter = libc::sock_fprog { len: lines.len() as u16, filter: lines.as_mut_ptr() };
    // SAFETY: the program lives during the calls, and has the length that it says.
    let refused = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
            || libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) != 0
    };
    assert!(!refused, "a filter: {}", std::io::Error::last_os_error());
}

struct Agent {
    child: Child,
    said: BufReader<ChildStdout>,
    _directory: tempfile::TempDir,
}

impl Agent {
    fn start(what: &str) -> Agent {
        let directory = tempfile::tempdir().expect("a directory");
        let own = std::env::current_exe().expect("this program has a path");
        let mut command = Command::new(own);
        command.args(["agent", what]).arg(directory.path().join("run")).stdout(Stdio::piped());
        let mut child = command.spawn().expect("start an agent");
        let said = BufReader::new(child.stdout.take().expect("a pipe"));
        Agent { child, said, _directory: directory }
    }

    /// What is left of its output, and its exit status.
    fn end(mut self) -> (String, Option<i32>) {
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("it is our child") {
                break status;
            }
            if begun.elapsed() > PATIENCE {
                let _ = self.child.kill();
                panic!("the agent does not end");
            }
            thread::sleep(Duration::from_millis(10));
        };
        let rest: Vec<String> = self.said.lines().map_while(Result::ok).collect();
        (rest.join("\n"), status.code())
    }
}

fn send(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).expect("a process number"), signal).expect("it lives");
}

fn steps_of_a_long_start_keep_a_worker_alive() {
    let (said, status) = Agent::start("slow").end();
    assert_eq!((said.as_str(), status), ("it is at work", Some(0)));
    println!("test steps_of_a_long_start_keep_a_worker_alive ... ok");
}

fn a_worker_that_hangs_is_killed_in_a_stage_too() {
    let (said, status) = Agent::start("hangs").end();
    assert_eq!(status, Some(128 + 9), "{said}");
    let at = |text: &str| said.find(text).unwrap_or_else(|| panic!("'{text}' is missing in: {said}"));
    assert!(at("the long stage is over") < at("hung: its loop has made no progress for"), "{said}");
    println!("test a_worker_that_hangs_is_killed_in_a_stage_too ... ok");
}

fn a_worker_finds_what_the_one_before_left_when_it_was_killed() {
    let (said, status) = Agent::start("leaves").end();
    assert_eq!((said.as_str(), status), ("died: the worker was killed by signal 9\na file and 1 descriptor", Some(0)));
    println!("test a_worker_finds_what_the_one_before_left_when_it_was_killed ... ok");
}

fn a_system_without_pairs_of_sockets_has_a_worker_that_leaves_nothing() {
    let (said, status) = Agent::start("alone").end();
    assert_eq!((said.as_str(), status), ("usable: false, refused: true", Some(0)));
    println!("test a_system_without_pairs_of_sockets_has_a_worker_that_leaves_nothing ... ok");
}

/// Before: nothing was put back, and no worker could start again.
fn a_run_directory_that_is_removed_leaves_nothing_and_is_made_again() {
    let (said, status) = Agent::start("removes").end();
    let expected = "removed: true\ndied: the worker was killed by signal 9\nvalue 1, [true, true]";
    assert_eq!((said.as_str(), status), (expected, Some(0)));
    println!("test a_run_directory_that_is_removed_leaves_nothing_and_is_made_again ... ok");
}

/// As in a virtual machine that is paused: both stand still, and the guardian goes on first.
fn a_guardian_that_was_stopped_spares_its_worker() {
    let mut agent = Agent::start("turns");
    let guardian = agent.child.id() as i32;
    let mut line = String::new();
    agent.said.read_line(&mut line).expect("it says who works");
    let worker: i32 = line.trim().strip_prefix("worker ").and_then(|pid| pid.parse().ok()).expect("a number");
    assert!(Path::new(&format!("/proc/{worker}")).exists());
    thread::sleep(Duration::from_millis(300));
    send(guardian, Signal::STOP);
    send(worker, Signal::STOP);
    thread::sleep(Duration::from_nanos(2 * HUNG_AFTER.0));
    send(guardian, Signal::CONT);
    thread::sleep(Duration::from_millis(300));
    send(worker, Signal::CONT);
    thread::sleep(Duration::from_millis(500));
    send(worker, Signal::TERM);
    let (said, status) = agent.end();
    assert_eq!(status, Some(0), "{said}");
    assert!(!said.contains("hung") && !said.contains("died"), "{said}");
    println!("test a_guardian_that_was_stopped_spares_its_worker ... ok");
}

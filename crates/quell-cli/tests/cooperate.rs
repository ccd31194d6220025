//! Programs that cooperate beside a real agent: `quell run` serves them, and neither's end costs the other anything.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// Much longer than anything takes, for a busy machine: the longest is the guardian's pause after many deaths, 30 s.
const PATIENCE: Duration = Duration::from_secs(180);

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}: not after {PATIENCE:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// A file of libquell's.
fn libquell(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../libquell").join(path)
}

/// A process that ends with the test.
struct Ours(Child);

impl Ours {
    fn pid(&self) -> i32 {
        self.0.id().cast_signed()
    }

    /// An agent's worker.
    fn worker(&self) -> Option<i32> {
        let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", self.pid())).ok()?;
        children.split_whitespace().next()?.parse().ok()
    }

    fn stop(mut self) {
        send(self.pid(), Signal::TERM);
        self.0.wait().unwrap();
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        let _ = (self.0.kill(), self.0.wait());
    }
}

fn send(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

/// Of each program: a descriptor of each page, and a mapping of Quell's.
const PAGES: usize = 3;

/// Memory of programs' pages that a process has open or mapped.
fn pages_of(pid: i32) -> usize {
    // A worker may end meanwhile.
    let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let open = open.filter_map(|fd| fs::read_link(fd.path()).ok()).map(|target| target.display().to_string());
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    open.chain(maps.lines().map(str::to_owned)).filter(|name| name.contains("memfd:quell-")).count()
}

/// A configuration with one workload: the processes whose command lines hold a word of this test's own.
struct Scene {
    directory: TempDir,
    word: String,
}

impl Scene {
    fn new(name: &str) -> Scene {
        let directory = tempfile::tempdir().unwrap();
        let scene = Scene { directory, word: format!("quell-{name}-{}", std::process::id()) };
        let (word, user) = (&scene.word, rustix::process::geteuid().as_raw());
        let text = format!(
            "[[policy]]\nname = \"rkube\"\n[[workload]]\nname = \"web\"\nclass = \"lc\"\ncpus = 1\nreservation = \"strict\"\n\
             match = [{{ command = \"{word}\", user = \"{user}\" }}]\n"
        );
        fs::write(scene.path("quell.toml"), text).unwrap();
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn run(&self) -> Ours {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quell"));
        command.arg("run").arg("--config").arg(self.path("quell.toml")).arg("--run-dir").arg(self.path("run"));
        command.arg("--socket").arg(self.path("socket")).stdin(Stdio::null()).stdout(Stdio::null());
        Ours(command.env("QUELL_LOG", "warn").process_group(0).spawn().unwrap())
    }

    /// Compiles a program in C.
    fn compiled(&self, file: &str) -> PathBuf {
        let beside = env::current_exe().unwrap().parent().unwrap().to_owned();
        let library = [beside.join("libquell.a"), beside.join("../libquell.a")].into_iter().find(|path| path.exists());
        let program = self.path(Path::new(file).file_stem().unwrap().to_str().unwrap());
        let mut cc = Command::new("cc");
        cc.args(["-std=c11", "-D_GNU_SOURCE", "-O1", "-o"]).arg(&program).arg("-I").arg(libquell(""));
        cc.arg(libquell(file)).arg(library.unwrap()).args(["-lpthread", "-ldl", "-lm", "-lgcc_s"]);
        let output = cc.output().expect("a C compiler");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        program
    }

    /// A program as a process of the workload, which finds the agent's socket.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.arg(&self.word).env("QUELL_RUNTIME", self.path("run/runtime/quell.sock")).process_group(0);
        command
    }

    /// What `quell status` remarks about exporting.
    fn exports(&self) -> Option<String> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quell"));
        let output = command.args(["status", "--json", "--socket"]).arg(self.path("socket")).output().unwrap();
        let status: Value = serde_json::from_slice(&output.stdout).ok()?;
        let remarks = status["configured"][0]["remarks"].as_array()?;
        let of = |remark: &&Value| remark["about"] == "exports";
        remarks.iter().find(of).map(|remark| remark["text"].as_str().unwrap().to_owned())
    }
}

/// `talk.c` as a process.
struct Talker {
    process: Ours,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Talker {
    fn of(scene: &Scene, program: &Path) -> Talker {
        let mut child = scene.command(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Talker { process: Ours(child), input, output }
    }

    fn does(&mut self, word: &str) -> String {
        writeln!(self.input, "{word}").unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    fn follows(&mut self, cpus: usize) {
        let expected = format!("{cpus} {cpus}");
        until("it learns its CPUs", || self.does("cpus") == expected);
    }
}

/// Workloads of any user are managed, and there are CPUs to divide.
fn may_manage() -> bool {
    let enough = thread::available_parallelism().is_ok_and(|count| count.get() >= 2);
    if !(enough && rustix::process::geteuid().is_root()) {
        eprintln!("not tested here: needs root and two CPUs");
        return false;
    }
    true
}

#[test]
fn a_program_exports_to_a_real_agent_and_each_outlives_the_other() {
    if !may_manage() {
        return;
    }
    let there = thread::available_parallelism().unwrap().get();
    let scene = Scene::new("exports");
    let mut program = Talker::of(&scene, &scene.compiled("tests/talk.c"));
    assert!(program.does("attach").starts_with("2 no Quell agent answers"));
    assert_eq!(program.does("worker"), "1");
    program.follows(there);

    let agent = scene.run();
    until("it attaches", || program.does("attach") == "0 attached to workload 'web'");
    let exports = Some("1 process reports how long requests wait, of 1 worker");
    until("the status shows it", || scene.exports().as_deref() == exports);
    program.follows(1);

    let worker = agent.worker().unwrap();
    send(worker, Signal::KILL);
    assert_eq!(program.does("queued"), "1", "it runs on");
    until("the next worker has it", || {
        program.does("cpus");
        agent.worker().is_some_and(|next| next != worker) && scene.exports().as_deref() == exports
    });
    agent.stop();
    program.follows(there);
    assert_eq!(program.does("dequeued"), "1", "it runs on");

    let agent = scene.run();
    until("the next agent has it", || {
        program.does("cpus");
        scene.exports().as_deref() == exports
    });
    program.follows(1);
    let worker = agent.worker().unwrap();
    assert_eq!(pages_of(worker), PAGES);
    drop(program);
    until("its pages are freed", || pages_of(worker) == 0);
    until("the status shows it", || scene.exports().is_none());
    agent.stop();
}

/// Open descriptors, and resident memory in KiB.
fn held_by(pid: i32) -> (usize, u64) {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let resident = line.trim().trim_end_matches(" kB").parse().unwrap();
    (fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count(), resident)
}

/// `QUELL_CHAOS=100` for more rounds, which take longer: the guardian waits twice as long after each death, up to 30 s.
#[test]
fn programs_and_workers_that_are_killed_under_load_leave_nothing() {
    if !may_manage() {
        return;
    }
    let rounds: usize = env::var("QUELL_CHAOS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(4);
    let scene = Scene::new("chaos");
    let talk = scene.compiled("tests/talk.c");
    let agent = scene.run();
    let mut lives = Talker::of(&scene, &talk);
    until("it attaches", || lives.does("attach").starts_with("0 "));
    lives.does("worker");
    let mut first = None;
    for round in 0..rounds {
        let worker = agent.worker().unwrap();
        for _ in 0..3 {
            let mut dies = Talker::of(&scene, &talk);
            until("another one attaches", || dies.does("attach").starts_with("0 "));
            dies.does("worker");
            until("both export", || pages_of(worker) == 2 * PAGES);
            dies.does("queued");
            drop(dies);
            until("the dead one's pages are freed", || pages_of(worker) == PAGES);
        }
        send(worker, Signal::KILL);
        let ended = Instant::now();
        // No answer of the living one is lost meanwhile.
        until("the next worker has it, and its CPUs", || {
            assert!(lives.does("queued") == "1" && lives.does("dequeued") == "1");
            let cpus = lives.does("cpus");
            let next = agent.worker().filter(|next| *next != worker);
            next.is_some_and(|next| pages_of(next) == PAGES) && cpus == "1 1"
        });
        let held = [lives.process.pid(), agent.pid()].map(held_by);
        println!("round {round}: program and guardian hold {held:?}; the next worker after {:?}", ended.elapsed());
        for (now, then) in held.iter().zip(first.get_or_insert(held)) {
            assert!(now.0 <= then.0 + 1 && now.1 <= then.1 + 4 * 1024, "{held:?}, at first {then:?}");
        }
    }
    agent.stop();
    lives.follows(thread::available_parallelism().unwrap().get());
}

#[test]
fn hello_attaches_in_c_and_in_rust() {
    if !may_manage() {
        return;
    }
    let scene = Scene::new("hello");
    let hello = env::current_exe().unwrap().parent().unwrap().join("../examples/hello-cooperates");
    let programs = [scene.compiled("examples/hello.c"), hello];
    let agent = scene.run();
    for program in programs {
        // A new process is found at the next look for it, and may end before.
        until("it attaches and knows its CPUs", || {
            let output = scene.command(&program).output().unwrap();
            let said = String::from_utf8(output.stdout).unwrap();
            let requests = said.strip_prefix("request 0\nrequest 1\nrequest 2\n").expect("it takes requests");
            output.stderr.is_empty() && requests == "1 of 1 CPUs\n"
        });
    }
    until("their pages are freed", || pages_of(agent.worker().unwrap()) == 0);
    agent.stop();
}

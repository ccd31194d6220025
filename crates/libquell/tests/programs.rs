//! Programs in C and Rust, against an agent's thread and a Linux host, and without.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use quell_agent::cooperate::Cooperation;
use quell_linux::{Exporting, HostOptions, LinuxHost, Roots};
use quell_model::{
    Class, CpuCount, Event, Host, Nanos, Quality, Selector, Signal, SignalSet, View, Workload, WorkloadId,
};
use quell_page::{Answer, Hello, VERSION, Verdict};

const PATIENCE: Duration = Duration::from_secs(30);
const ONE: Exporting = Exporting { processes: 1, workers: 1, strangers: 0 };

fn source(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Where cargo put the libraries.
fn built() -> PathBuf {
    let deps = env::current_exe().unwrap().parent().unwrap().to_owned();
    let has = |folder: &Path| folder.join("libquell.so").exists() && folder.join("libquell.a").exists();
    [deps.clone(), deps.join("..")].into_iter().find(|folder| has(folder)).expect("libquell.so and libquell.a")
}

/// Compiles a program in C against the library.
fn compiled(file: &str, is_static: bool, into: &Path) -> PathBuf {
    let program = into.join(if is_static { "static" } else { "shared" });
    let library = built();
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-O1", "-o"]).arg(&program).arg("-I");
    cc.arg(source("")).arg(source(file));
    match is_static {
        true => cc.arg(library.join("libquell.a")).args(["-lpthread", "-ldl", "-lm", "-lgcc_s"]),
        false => cc.arg("-L").arg(&library).arg("-lquell").arg(format!("-Wl,-rpath,{}", library.display())),
    };
    let output = cc.output().expect("a C compiler");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

/// An agent's part in this, without policies.
struct Agent {
    directory: PathBuf,
    host: LinuxHost,
    cooperation: Option<Cooperation>,
    view: View,
    id: WorkloadId,
}

impl Agent {
    /// With one workload: this process and those that it starts, or another one.
    fn of(directory: &Path, pid: i32) -> Agent {
        let options =
            HostOptions { include_self: true, scan_interval: Nanos::from_millis(20), ..HostOptions::default() };
        let mut host = LinuxHost::new(Roots::default(), options).unwrap();
        let mut workload = Workload::new("server", Class::LatencyCritical, CpuCount::whole(1));
        workload.limit = Some(CpuCount(1_500));
        workload.selectors = vec![Selector::Pid(pid)];
        let id = host.attach(workload).unwrap();
        let view = View::new(host.topology());
        let mut agent = Agent { directory: directory.join("runtime"), host, cooperation: None, view, id };
        agent.start();
        agent.turn();
        agent
    }

    fn start(&mut self) {
        self.cooperation = Some(Cooperation::start(&self.directory, &Roots::default()).unwrap());
    }

    fn socket(&self) -> PathBuf {
        self.directory.join("quell.sock")
    }

    fn turn(&mut self) {
        let wanted = SignalSet::of(&[Signal::QueueingDelay, Signal::RequestStart]);
        self.host.observe(wanted, &mut self.view, &mut Vec::<Event>::new()).unwrap();
        self.cooperation.iter_mut().for_each(|cooperation| cooperation.turned(&mut self.host));
    }

    /// Turns until this is so.
    fn until(&mut self, what: &str, mut is_so: impl FnMut(&mut Agent) -> bool) {
        let begin = Instant::now();
        while !is_so(self) {
            assert!(begin.elapsed() < PATIENCE, "{what}");
            self.turn();
            thread::sleep(Duration::from_millis(2));
        }
    }

    fn exporting(&self) -> Exporting {
        self.host.exporting(self.id)
    }

    /// The queueing delay, if it is exact.
    fn delay(&self) -> Nanos {
        let sample = self.view.workloads.queueing_delay[self.id.index()];
        assert_eq!(sample.quality, Quality::Exact);
        sample.value
    }
}

/// `talk.c` as a process; it ends with this value.
struct Program(Child, ChildStdin, BufReader<ChildStdout>);

impl Program {
    fn start(program: &Path, socket: &Path) -> Program {
        Program::run(Command::new(program), socket)
    }

    fn run(mut command: Command, socket: &Path) -> Program {
        command.env("QUELL_RUNTIME", socket).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Program(child, input, BufReader::new(output))
    }

    fn say(&mut self, word: &str) {
        writeln!(self.1, "{word}").unwrap();
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.2.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    fn does(&mut self, word: &str) -> String {
        self.say(word);
        self.answer()
    }

    /// Attaches as a member of the workload, which it is once a scan has found it: until then it is in none.
    fn joins(&mut self, agent: &mut Agent) -> String {
        let begin = Instant::now();
        loop {
            let answer = self.attaches(agent);
            if answer.starts_with("0 ") || begin.elapsed() > PATIENCE {
                return answer;
            }
        }
    }

    /// While the agent turns. On a busy machine the answer may come later than a program waits.
    fn attaches(&mut self, agent: &mut Agent) -> String {
        loop {
            self.say("attach");
            let answer = thread::scope(|scope| {
                let answer = scope.spawn(|| self.answer());
                agent.until("the program has an answer", |_| answer.is_finished());
                answer.join().unwrap()
            });
            if !answer.starts_with(&libc::ETIMEDOUT.to_string()) {
                return answer;
            }
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = (self.0.kill(), self.0.wait());
    }
}

fn own_pid() -> i32 {
    std::process::id().cast_signed()
}

#[test]
fn hello_in_c_and_rust_runs_without_an_agent() {
    let directory = tempfile::tempdir().unwrap();
    let mut programs =
        [false, true].map(|is_static| compiled("examples/hello.c", is_static, directory.path())).to_vec();
    programs.push(env::current_exe().unwrap().parent().unwrap().join("../examples/hello"));
    for program in programs {
        let output = Command::new(&program).env("QUELL_RUNTIME", directory.path().join("none")).output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() && err.contains("no Quell agent answers"), "{}: {out}{err}", program.display());
        let cpus = out.strip_prefix("request 0\nrequest 1\nrequest 2\n").unwrap_or_else(|| panic!("{out}"));
        let there = thread::available_parallelism().unwrap();
        assert_eq!(cpus, format!("{there} of {there} CPUs\n"), "{}", program.display());
    }
    for file in ["examples/hello.c", "examples/hello.rs"] {
        assert!(fs::read_to_string(source(file)).unwrap().lines().count() <= 15, "{file}");
    }
}

#[test]
fn the_queueing_delay_is_the_programs_and_the_program_learns_its_cpus() {
    let directory = tempfile::tempdir().unwrap();
    let talk = compiled("tests/talk.c", false, directory.path());
    let mut agent = Agent::of(directory.path(), own_pid());
    let mut program = Program::start(&talk, &agent.socket());
    assert_eq!(program.joins(&mut agent), "0 attached to workload 'server'");
    assert_eq!(program.does("worker"), "1");
    agent.until("its worker is counted", |agent| agent.exporting() == ONE);
    assert_eq!(program.does("begin"), "1", "a request is no wait");
    program.does("end");

    let before = Instant::now();
    assert_eq!(program.does("queued"), "1");
    let after = Instant::now();
    thread::sleep(Duration::from_millis(20));
    let least = after.elapsed();
    agent.turn();
    let (delay, most) = (Duration::from(agent.delay()), before.elapsed());
    assert!(delay >= least, "{delay:?}, waited at least {least:?}");
    // The kernel's figure counts where it is larger; a thread of this test can have waited no longer than the test takes.
    assert!(delay <= most || quell_linux_traces(), "{delay:?}, waited at most {most:?}");
    program.does("dequeued");

    let there = thread::available_parallelism().unwrap().get();
    let expected = format!("{0} {0}", there.min(2));
    agent.until("it learns its limit, 1.5 CPUs", |_| program.does("cpus") == expected);
    assert_eq!(program.does("leave"), "0");

    assert_eq!(program.does("fork"), "0", "the child has memory of its own");
    agent.turn();
    assert_eq!(agent.exporting(), ONE, "and is not the parent");
    assert_eq!(program.does("queued"), "1");

    drop(program);
    agent.until("its pages go with it", |agent| agent.exporting() == Exporting::default());
}

#[test]
fn a_thread_is_found_by_its_number_in_its_own_namespace_and_among_its_process_alone() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("not tested here: needs root");
    }
    let directory = tempfile::tempdir().unwrap();
    let talk = compiled("tests/talk.c", true, directory.path());
    let mut agent = Agent::of(directory.path(), own_pid());
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--kill-child"]).arg(talk);
    let mut inside = Program::run(command, &agent.socket());
    assert_eq!(inside.joins(&mut agent), "0 attached to workload 'server'");
    inside.does("worker");
    agent.until("its thread is known", |agent| agent.exporting() == ONE);
    drop(inside);
    agent.until("its pages go with it", |agent| agent.exporting() == Exporting::default());

    let mut liar = Program::start(&directory.path().join("static"), &agent.socket());
    liar.joins(&mut agent);
    liar.does("worker");
    agent.until("its thread is known", |agent| agent.exporting() == ONE);
    liar.does("lie");
    agent.until("process 1 is not its own", |agent| agent.exporting() == Exporting { strangers: 1, ..ONE });
}

#[test]
fn events_that_wait_count_as_tasks_do() {
    let directory = tempfile::tempdir().unwrap();
    let talk = compiled("tests/talk.c", true, directory.path());
    let mut agent = Agent::of(directory.path(), own_pid());
    let mut program = Program::start(&talk, &agent.socket());
    program.joins(&mut agent);
    program.does("worker");
    agent.until("its worker is counted", |agent| agent.exporting() == ONE);
    program.does("events");
    thread::sleep(Duration::from_millis(20));
    program.does("events");
    agent.turn();
    assert!(agent.delay() >= Nanos::from_millis(20), "the oldest one counts");
    program.does("handled");
    agent.turn();
    assert!(agent.delay() < Nanos::from_millis(20) || quell_linux_traces());
}

/// May this process trace the kernel?
fn quell_linux_traces() -> bool {
    let host = LinuxHost::new(Roots::default(), HostOptions::default()).unwrap();
    host.capabilities().signals[&Signal::QueueingDelay] == quell_model::Support::Yes
}

#[test]
fn a_program_runs_on_without_its_agent_and_has_the_next_one() {
    let directory = tempfile::tempdir().unwrap();
    let talk = compiled("tests/talk.c", true, directory.path());
    let mut agent = Agent::of(directory.path(), own_pid());
    let mut program = Program::start(&talk, &agent.socket());
    program.joins(&mut agent);
    program.does("worker");
    assert!(program.joins(&mut agent).starts_with("0 "), "twice is once");
    agent.until("its worker is counted", |agent| agent.exporting() == ONE);
    agent.cooperation = None;
    assert!(!agent.socket().exists());
    let there = thread::available_parallelism().unwrap().get();
    let begin = Instant::now();
    while program.does("cpus") != format!("{there} {there}") {
        assert!(begin.elapsed() < PATIENCE);
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(program.does("queued"), "1");
    agent.start();
    agent.until("it asks again", |agent| {
        program.does("cpus");
        agent.exporting() == ONE
    });
    agent.turn();
    assert!(agent.delay() > Nanos::ZERO, "what waited before waits");
}

#[test]
fn a_stranger_learns_what_to_do_and_silent_ones_keep_no_program_out() {
    let directory = tempfile::tempdir().unwrap();
    let talk = compiled("tests/talk.c", false, directory.path());
    let mut member = Program::start(&talk, &directory.path().join("runtime/quell.sock"));
    let mut agent = Agent::of(directory.path(), member.0.id().cast_signed());
    let silent: Vec<UnixStream> = (0..200).filter_map(|_| UnixStream::connect(agent.socket()).ok()).collect();
    assert!(silent.len() > 100);
    let answer = member.joins(&mut agent);
    assert!(answer.starts_with("0 "), "{answer}");
    let mut stranger = Program::start(&talk, &agent.socket());
    let answer = stranger.attaches(&mut agent);
    assert!(answer.starts_with("1 this process is in no workload of Quell's: select it"), "{answer}");
    assert_eq!(stranger.does("worker"), "1", "it runs on");
    let mut odd = UnixStream::connect(agent.socket()).unwrap();
    odd.write_all(b"GET / HTTP/1.1\r\n").unwrap();
    agent.until("what is no program is shown out", |_| {
        odd.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        matches!(odd.read(&mut [0; 1]), Ok(0)) || odd.take_error().is_ok_and(|error| error.is_some())
    });
    assert_eq!(agent.exporting().processes, 1);
}

#[test]
fn programs_that_are_killed_leave_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let talk = compiled("tests/talk.c", false, directory.path());
    let mut agent = Agent::of(directory.path(), own_pid());
    let open = || fs::read_dir("/proc/self/fd").unwrap().count();
    let mut before = None;
    for round in 0..12 {
        let mut program = Program::start(&talk, &agent.socket());
        program.joins(&mut agent);
        program.does("worker");
        drop(program);
        agent.until("its pages go with it", |agent| agent.exporting() == Exporting::default());
        if round == 1 {
            before = Some(open());
        }
    }
    // Other tests of this program run beside.
    let before = before.unwrap();
    agent.until("no descriptor is left of them", |_| open() < before + 12);
}

#[test]
fn another_version_is_refused_with_the_fix() {
    let directory = tempfile::tempdir().unwrap();
    let agent = Agent::of(directory.path(), own_pid());
    let mut newer = UnixStream::connect(agent.socket()).unwrap();
    newer.write_all(&Hello { version: VERSION + 1 }.bytes()).unwrap();
    newer.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut bytes = [0; Answer::SIZE];
    newer.read_exact(&mut bytes).unwrap();
    let answer = Answer::read(&bytes).unwrap();
    assert!(answer.verdict == Verdict::Version && answer.words().contains("libquell"), "{}", answer.words());
}

#[test]
fn the_header_has_each_function() {
    let (header, abi) =
        (fs::read_to_string(source("quell.h")).unwrap(), fs::read_to_string(source("src/abi.rs")).unwrap());
    let names: Vec<&str> = abi.split("extern \"C\" fn ").skip(1).filter_map(|rest| rest.split('(').next()).collect();
    assert_eq!(names.len(), 11);
    names.iter().for_each(|name| assert!(header.contains(&format!("{name}(")), "{name}"));
}

#[test]
fn the_documents_code_is_that_of_the_examples() {
    let page = fs::read_to_string(source("../../docs/extend/cooperate.md")).unwrap();
    for (language, file) in [("c", "examples/hello.c"), ("rust", "examples/hello.rs")] {
        let code = fs::read_to_string(source(file)).unwrap();
        assert!(page.contains(&format!("```{language}\n{code}```\n")), "{file}");
    }
}

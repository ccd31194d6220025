//! The rounds.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use quell_linux::sched::{Kernel, ThreadCalls};
use quell_model::CpuSet;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use super::agent::REPORTED_TOO_EARLY;
use super::hardware::{Hardware, PAUSED};
use super::late::Sleeper;
use super::threads::{is_settled, victims, wrong};

/// What a round kills.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kill {
    Worker,
    Guardian,
    Both,
    /// The worker is stopped, so that it seems to hang.
    Hang,
}

const KILLS: [Kill; 4] = [Kill::Worker, Kill::Guardian, Kill::Both, Kill::Hang];
/// Longer than this and the test says so: much longer than the second that is promised, for a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// What is promised, from when a death can be known: a worker that hangs is known so after [`HUNG_AFTER`].
const PROMISE: Duration = Duration::from_secs(1);
const HUNG_AFTER: Duration = Duration::from_secs(1);
/// With this many rounds the promise itself is asserted. Fewer rounds run among all other tests: there, delays that the
/// machine causes to a bare thread are allowed on top.
const MANY_ROUNDS: u64 = 1000;

/// So soon every process runs again that a lease, a slice or a knob had paused, beyond what the machine delays a bare thread;
/// asserted with this many rounds of those.
const RUNS_AGAIN: Duration = Duration::from_millis(1300);
const MANY_PAUSES: u64 = 200;

struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

pub struct Victim {
    pub child: Child,
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Plays rounds in a pid namespace of their own, where the system allows it.
pub fn run_in_container(rounds: u64) {
    let namespace = || {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--kill-child", "--mount-proc"]);
        command
    };
    let allowed = may_set_classes() && namespace().arg("true").output().is_ok_and(|output| output.status.success());
    if !allowed {
        println!("kill: in a container: skipped: no permission for a pid namespace (run as root)");
        return;
    }
    println!("kill: in a container:");
    let own = std::env::current_exe().expect("this program has a path");
    // The shell is its process 1, which takes orphans in and reaps them.
    let script = "\"$0\" container \"$1\"; exit $?";
    let mut command = namespace();
    command.args(["sh", "-c", script]).arg(own).arg(rounds.to_string());
    // Process numbers are the same each time there.
    let status = command.env("QUELL_KILL_SEED", seed().to_string()).status();
    assert!(status.expect("unshare was there").success(), "the rounds in a container failed");
}

/// Plays rounds; `on_files`: with control groups and frequencies that are files, whose knobs are turned at random.
pub fn run(rounds: u64, on_files: bool) {
    if !may_set_classes() {
        println!("kill: skipped: no permission for real-time classes (run as root)");
        return;
    }
    let seed = seed();
    println!(
        "kill: {rounds} rounds{}, seed {seed}",
        if on_files { " with control groups and frequencies" } else { "" }
    );
    let directory = tempfile::tempdir().expect("a temporary directory");
    let token = format!("quell-kill-test-{}", std::process::id());
    let config = directory.path().join("quell.toml");
    fs::write(&config, configuration(&token)).expect("write the configuration");
    let all = Kernel::new().map(|kernel| kernel.affinity(0).expect("our own CPUs")).expect("/proc is there");
    let hardware = on_files.then(|| Hardware::new(&all));
    let stage = Stage { directory: directory.path(), config: &config, token: &token, all, hardware: hardware.as_ref() };
    let mut numbers = Numbers(seed);
    let mut victims: Vec<Victim> = ["lc", "be", "lc", "be"].iter().map(|kind| start_and_settle(kind, &token)).collect();
    let (mut took, mut effective, mut threads, mut in_time) = (Vec::new(), 0, 0, 0);
    let mut paused = Vec::new();
    for round in 0..rounds {
        // Orphans come to process 1 or to a supervisor, by turns.
        let supervisor = (round % 2 == 1).then(rustix::process::getpid);
        rustix::process::set_child_subreaper(supervisor).expect("every process may");
        let another = (numbers.below(4) == 0).then(|| numbers.below(victims.len() as u64) as usize);
        for (at, victim) in victims.iter_mut().enumerate() {
            // A victim lives for a minute, and on a machine under load rounds take long.
            if another == Some(at) || !matches!(victim.child.try_wait(), Ok(None)) {
                *victim = start_and_settle(if at.is_multiple_of(2) { "lc" } else { "be" }, &token);
            }
        }
        let kill = KILLS[numbers.below(10).checked_sub(6).unwrap_or(round % 3) as usize % KILLS.len()];
        let wait = Duration::from_micros(numbers.below(150_000));
        let result = one_round(&mut numbers, &stage, kill, wait);
        effective += u64::from(result.was_set);
        threads += result.threads;
        took.push((kill, result.took));
        if result.had_paused {
            paused.push((result.took, result.late));
        }
        in_time += u64::from(result.took <= PROMISE + result.late);
        reap_orphans(&victims);
        if !result.wrong.is_empty() {
            victims.clear();
            panic!(
                "round {round} ({kill:?} after {wait:?}): not put back:\n{}\n{}",
                result.wrong.join("\n"),
                result.said
            );
        }
    }
    victims.clear();
    end_orphans(&token);
    let p99 = report(&mut took, effective, threads);
    println!("kill: {in_time} of {rounds} within {PROMISE:?} more than a bare thread was late");
    if on_files {
        let mut times: Vec<Duration> = paused.iter().map(|(took, _)| *took).collect();
        times.sort();
        line("in a pause", &times);
        let is_late = |(took, late): &&(Duration, Duration)| *took > RUNS_AGAIN + *late;
        let late = paused.iter().filter(is_late).count();
        println!("kill: {late} of {} later than {RUNS_AGAIN:?} and a bare thread's delay", paused.len());
        assert!(rounds < MANY_PAUSES || late == 0, "a process was paused for too long after a kill");
    }
    if rounds >= MANY_ROUNDS {
        assert!(p99 <= PROMISE, "p99 is {p99:.0?}");
    } else {
        assert!(rounds - in_time <= rounds.div_ceil(10), "only {in_time} of {rounds} rounds were in time");
    }
    assert!(effective * 3 >= rounds, "Quell had set something in {effective} of {rounds} rounds only");
}

fn seed() -> u64 {
    let asked = std::env::var("QUELL_KILL_SEED").ok().and_then(|text| text.parse().ok());
    asked.unwrap_or_else(|| u64::from(std::process::id()))
}

/// Where rounds are played.
struct Stage<'a> {
    directory: &'a Path,
    config: &'a Path,
    token: &'a str,
    all: CpuSet,
    hardware: Option<&'a Hardware>,
}

impl Stage<'_> {
    /// Everything that is not as it was.
    fn wrong(&self) -> Vec<String> {
        let threads: Vec<String> = wrong(self.token, &self.all).iter().map(ToString::to_string).collect();
        threads.into_iter().chain(self.hardware.into_iter().flat_map(|hardware| hardware.wrong(self.token))).collect()
    }
}

struct Result {
    /// Had Quell changed something when it was killed?
    was_set: bool,
    /// Was a process paused?
    had_paused: bool,
    threads: usize,
    /// From when the death could be known until everything was back.
    took: Duration,
    /// How late a bare thread was meanwhile, all in all.
    late: Duration,
    wrong: Vec<String>,
    said: String,
}

fn one_round(numbers: &mut Numbers, stage: &Stage<'_>, kill: Kill, wait: Duration) -> Result {
    let &Stage { directory, config, token, hardware, .. } = stage;
    let run = directory.join("run");
    let own = std::env::current_exe().expect("this program has a path");
    let environment = hardware.map(Hardware::environment);
    let mut agent = Command::new(&own)
        .args(["agent".as_ref(), run.as_os_str(), config.as_os_str()])
        .envs(environment)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("start the agent");
    let guardian = agent.id() as i32;
    let at_work = numbers.below(3) != 0;
    let mut late = (numbers.below(3) == 0).then(|| start("be", token, &["plain"]));
    // Often at any instant of its beginning; otherwise when it is at work.
    let begun = Instant::now();
    while at_work && stage.wrong().is_empty() && begun.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(2));
    }
    thread::sleep(wait);
    let worker = children_of(guardian).first().copied();
    let set = stage.wrong();
    let (was_set, had_paused) = (!set.is_empty(), set.iter().any(|wrong| wrong.ends_with(PAUSED)));
    let sleeper = Sleeper::begin();
    let began = Instant::now();
    let send = |pid: i32, signal| {
        let _ = kill_process(Pid::from_raw(pid).expect("a process number"), signal);
    };
    match (kill, worker) {
        (Kill::Worker, Some(worker)) => send(worker, Signal::KILL),
        (Kill::Hang, Some(worker)) => send(worker, Signal::STOP),
        (Kill::Both, Some(worker)) if numbers.below(2) == 0 => {
            send(worker, Signal::KILL);
            send(guardian, Signal::KILL);
        }
        (Kill::Both, Some(worker)) => {
            send(guardian, Signal::KILL);
            send(worker, Signal::KILL);
        }
        // Before it has a worker, or the guardian alone.
        _ => send(guardian, Signal::KILL),
    }
    // A hung worker that never turned is not watched: let it go on and stop it.
    if kill == Kill::Hang && !was_set {
        thread::sleep(Duration::from_millis(100));
        worker.into_iter().for_each(|worker| send(worker, Signal::KILL));
    }
    let mut said = String::new();
    loop {
        let guardian_ended = agent.try_wait().expect("it is our child").is_some();
        if guardian_ended && worker.is_none_or(gone) {
            break;
        }
        if began.elapsed() > PATIENCE {
            said.push_str("it does not end\n");
            let _ = agent.kill();
            worker.into_iter().for_each(|worker| send(worker, Signal::KILL));
            break;
        }
        thread::sleep(Duration::from_millis(1));
    }
    let known_after = if kill == Kill::Hang && was_set { HUNG_AFTER } else { Duration::ZERO };
    let mut took = began.elapsed().saturating_sub(known_after);
    let output = agent.wait_with_output().expect("it has ended");
    said.push_str(&String::from_utf8_lossy(&output.stdout));
    said.push_str(&String::from_utf8_lossy(&output.stderr));
    // A guardian that was killed just when it had killed a worker that hung: then both are dead.
    if kill == Kill::Both || worker.is_none() || (kill == Kill::Guardian && said.contains("hung:")) {
        let began = Instant::now();
        let restore = || Command::new(&own).arg("restore").arg(&run).envs(environment).output().expect("start restore");
        let mut done = restore();
        // A worker that was just being born still lives, and puts back what it did by itself.
        while done.status.code() == Some(5) && began.elapsed() < PATIENCE {
            done = restore();
        }
        said.push_str(&String::from_utf8_lossy(&done.stdout));
        said.push_str(&String::from_utf8_lossy(&done.stderr));
        took = began.elapsed();
    }
    let lateness = sleeper.late();
    let mut wrong = stage.wrong();
    if said.contains(REPORTED_TOO_EARLY) {
        wrong.push(REPORTED_TOO_EARLY.to_owned());
    }
    let threads = victims(token).len();
    if let Some(mut victim) = late.take() {
        let _ = victim.child.kill();
    }
    Result { was_set, had_paused, threads, took, late: lateness, wrong, said }
}

/// Has it ended? A dead orphan stays listed until its supervisor has asked for it.
fn gone(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['Z', 'X']))
}

/// What a supervisor does with dead children that it did not start itself.
fn reap_orphans(own: &[Victim]) {
    for pid in children_of(std::process::id() as i32) {
        if gone(pid) && own.iter().all(|victim| victim.child.id() as i32 != pid) {
            let _ = waitpid(Pid::from_raw(pid), WaitOptions::NOHANG);
        }
    }
}

fn configuration(token: &str) -> String {
    let user = rustix::process::geteuid().as_raw();
    format!(
        r#"
[agent]
watchdog_timeout = "1s"
[[policy]]
name = "rkube"
[[policy]]
name = "guard"
[[workload]]
name = "lc"
class = "lc"
cpus = 1
reservation = "strict"
match = [{{ command = "victim lc {token}", user = "{user}" }}]
[[workload]]
name = "be"
class = "be"
match = [{{ command = "victim be {token}", user = "{user}" }}]
"#
    )
}

fn start(kind: &str, token: &str, more: &[&str]) -> Victim {
    let own = std::env::current_exe().expect("this program has a path");
    let mut command = Command::new(own);
    command.args(["victim", kind, token]).args(more).stdin(Stdio::null());
    Victim { child: command.spawn().expect("start a victim") }
}

/// A victim whose pinned and nice threads have done so: what a thread sets itself under Quell cannot always be distinguished
/// from what it inherited.
fn start_and_settle(kind: &str, token: &str) -> Victim {
    let victim = start(kind, token, &[]);
    let begun = Instant::now();
    while !is_settled(victim.child.id() as i32) {
        assert!(begun.elapsed() < PATIENCE, "a victim does not get on");
        thread::sleep(Duration::from_millis(5));
    }
    victim
}

fn children_of(pid: i32) -> Vec<i32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace().filter_map(|child| child.parse().ok()).collect()
}

pub fn may_set_classes() -> bool {
    use quell_linux::sched::ThreadClass;
    use quell_model::SchedClass;
    let mut kernel = Kernel::new().expect("/proc is there");
    let fifo = ThreadClass::of(SchedClass::Fifo { priority: 1 });
    let normal = ThreadClass { class: SchedClass::NORMAL, reset_on_fork: false };
    kernel.set_class(0, &fifo).is_ok() && kernel.set_class(0, &normal).is_ok()
}

fn end_orphans(token: &str) {
    for pid in victims(token) {
        let _ = kill_process(Pid::from_raw(pid).expect("a process number"), Signal::KILL);
    }
}

/// Prints how long putting back took; returns the p99 of all rounds.
fn report(took: &mut [(Kill, Duration)], effective: u64, processes: usize) -> Duration {
    took.sort();
    println!(
        "kill: {} rounds, Quell had changed something in {effective}; {:.0} processes in the mean",
        took.len(),
        processes as f64 / took.len().max(1) as f64
    );
    for kill in KILLS {
        let times: Vec<Duration> = took.iter().filter(|(kind, _)| *kind == kill).map(|(_, time)| *time).collect();
        line(&format!("{kill:?}"), &times);
    }
    let mut all: Vec<Duration> = took.iter().map(|(_, time)| *time).collect();
    all.sort();
    line("all", &all);
    at(&all, 0.99)
}

/// A line about times in order.
fn line(what: &str, times: &[Duration]) {
    if times.is_empty() {
        return;
    }
    let [p50, p99, longest] = [0.5, 0.99, 1.0].map(|share| at(times, share).as_millis());
    let count = times.len();
    println!("kill: {what}: {count} times, everything back after p50 {p50} ms, p99 {p99} ms, longest {longest} ms");
}

fn at(times: &[Duration], share: f64) -> Duration {
    times[((times.len() - 1) as f64 * share) as usize]
}

//! `quell exec` as its user meets it.

use std::io::BufRead;
use std::process::{Command, Output, Stdio};
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

/// The number of a process's scheduling policy, as in sched(7): 0 other, 5 idle.
fn policy(pid: i32) -> u32 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(") ").unwrap().1.split(' ').nth(38).unwrap().parse().unwrap()
}

fn send(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

/// The first child of a process; None: it has none yet.
fn child_of(pid: i32) -> Option<i32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
    tasks
        .filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok())
        .find_map(|children| children.split_whitespace().next().and_then(|child| child.parse().ok()))
}

#[test]
fn exit_statuses_are_as_of_env() {
    let cases: [(&[&str], i32); 8] = [
        (&["--class", "be", "--", "sh", "-c", "exit 3"], 3),
        (&["--class", "be", "--", "sh", "-c", "kill -9 $$"], 128 + 9),
        (&["--class", "be", "--", "/no/such/command"], 127),
        (&["--class", "be", "--", "/etc/passwd"], 126),
        (&["--class", "be", "--policy", "nonsense", "--", "true"], 125),
        (&["--be", "--", "sh", "-c", "exit 4"], 4),
        (&["--class", "be"], 2),
        (&["nginx"], 2),
    ];
    for (arguments, expected) in cases {
        let output = said(arguments);
        assert_eq!(output.status.code(), Some(expected), "{arguments:?}: {}", text(&output));
    }
}

#[test]
fn a_guess_at_its_words_gets_the_words_that_are_right() {
    for words in [&["nginx"][..], &["--be", "nginx"], &["nginx", "--", "-g"]] {
        let guess = text(&said(words));
        assert!(guess.contains("`quell exec -- nginx") && guess.contains("`quell protect nginx`"), "{guess}");
        assert_eq!(guess.lines().count(), 1, "{guess}");
    }
}

#[test]
fn what_was_set_is_one_line_unless_it_shall_be_quiet() {
    let output = said(&["--class", "be", "--name", "night", "--", "true"]);
    let has_autogroups = std::fs::read_to_string("/proc/sys/kernel/sched_autogroup_enabled");
    let set = match has_autogroups.is_ok_and(|text| text.trim() == "1") {
        true => "SCHED_IDLE, which applies within its session only; a session of its own gets nice 19",
        false => "runs only on idle CPUs",
    };
    assert_eq!(text(&output), format!("quell: night: {set} under guard\n"));
    assert_eq!(text(&said(&["--class", "be", "--quiet", "--", "true"])), "");
}

#[test]
fn what_nothing_acts_on_is_said() {
    let strict =
        text(&self::said(&["--class", "lc", "--cpus", "1", "--strict", "--policy", "none", "--quiet", "--", "true"]));
    let keys: Vec<&str> =
        strict.lines().filter_map(|line| line.strip_prefix("quell: true: ")?.split(' ').next()).collect();
    assert_eq!(keys, ["cpus", "reservation"], "{strict}");
    let many = text(&said(&["--class", "lc", "--cpus", "1000", "--policy", "rkube", "--quiet", "--", "true"]));
    assert!(many.contains("--cpus 1000 is more than this machine has"), "{many}");
}

#[test]
fn a_policy_without_its_scheduler_says_what_stands_in() {
    assert!(!text(&said(&["--class", "be", "--", "true"])).contains("affinity"));
    let said = text(&said(&["--class", "be", "--policy", "caladan", "--", "true"]));
    if said.contains("run in the host's pid namespace") {
        eprintln!("not tested here: caladan cannot work in a pid namespace");
        return;
    }
    assert!(said.contains("caladan lends CPUs by affinity here"), "{said}");
}

#[test]
fn what_a_command_waits_for_in_its_first_while_is_said_and_that_it_has_no_before() {
    let script = "for i in $(seq 500); do sleep 0.01; done";
    let words = ["--policy", "none", "--name", "web", "--measure", "2s", "--", "sh", "-c", script];
    let said = text(&said(&words));
    let line = said.lines().find(|line| line.contains("queueing delay p")).unwrap_or_else(|| panic!("{said}"));
    assert!(line.starts_with("quell: web: ") && line.contains("there is no before"), "{line}");
    assert!(line.ends_with("`quell prove sh`"), "{line}");
    for quiet in [&["--quiet"][..], &["--measure", "0"], &["--be"]] {
        let words =
            [quiet, &["--policy", "none", "--", "sh", "-c", "for i in $(seq 200); do sleep 0.01; done"]].concat();
        assert!(!text(&self::said(&words)).contains("before"), "{quiet:?}");
    }
}

#[test]
fn a_probe_waits_until_the_command_answers() {
    if Command::new("memcached").arg("-V").output().is_err() {
        eprintln!("not tested here: needs memcached");
        return;
    }
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let url = format!("memcached://127.0.0.1:{port}");
    let server = format!("sleep 1; exec timeout 8 memcached -u root -l 127.0.0.1 -t 1 -p {port}");
    let words = ["--policy", "none", "--name", "cache", "--measure", "2s", "--url", &url, "--", "sh", "-c", &server];
    let said = text(&said(&words));
    assert!(said.contains("quell: cache: p") && said.contains("requests of a probe"), "{said}");
}

/// Does this machine refuse a limit? Then it is refused before the command starts, and said.
fn is_refused(output: &Output) -> bool {
    let refused = output.status.code() == Some(125);
    if refused {
        assert!(text(output).contains("--limit 0.5 cannot be kept: ") && output.stdout.is_empty(), "{}", text(output));
    }
    refused
}

#[test]
fn a_limit_is_kept_by_a_cgroup_of_its_own_or_refused_before_the_command_starts() {
    let output = said(&["--class", "be", "--limit", "500m", "--quiet", "--", "cat", "/proc/self/cgroup"]);
    if is_refused(&output) {
        return;
    }
    assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output));
    let groups = String::from_utf8_lossy(&output.stdout).into_owned();
    let group = groups.lines().find_map(|line| line.splitn(3, ':').nth(2).filter(|path| path.contains("quell-exec-")));
    let group = group.unwrap_or_else(|| panic!("{groups}")).trim_start_matches('/');
    for root in ["", "unified", "cpu", "cpu,cpuacct"] {
        let path = std::path::Path::new("/sys/fs/cgroup").join(root).join(group);
        assert!(!path.exists(), "{} is left", path.display());
    }
}

#[test]
fn a_limit_with_guard_is_refused_where_a_new_cgroup_has_no_real_time_budget() {
    let output = said(&["--class", "lc", "--cpus", "0.5", "--limit", "0.5", "--", "echo", "started"]);
    if output.status.success() {
        assert!(text(&output).contains("limit 0.5 by cpu."), "{}", text(&output));
        return;
    }
    assert!(output.status.code() == Some(125) && output.stdout.is_empty(), "{}", text(&output));
    assert!(["RT group scheduling", "cannot"].iter().any(|part| text(&output).contains(part)), "{}", text(&output));
}

#[test]
fn a_command_of_a_killed_quell_goes_back_to_its_cgroup() {
    if is_refused(&said(&["--class", "be", "--limit", "0.5", "--quiet", "--", "true"])) {
        return;
    }
    let run_dir = tempfile::tempdir().unwrap();
    let arguments = ["--class", "be", "--limit", "0.5", "--quiet", "--", "sleep", "300"];
    let mut quell = exec(&run_dir, &arguments).spawn().unwrap();
    let mut found = None;
    until("it is in a cgroup of its own", || {
        found = child_of(quell.id().cast_signed()).and_then(|worker| Some((worker, child_of(worker)?)));
        let group = |(_, command)| std::fs::read_to_string(format!("/proc/{command}/cgroup")).unwrap_or_default();
        found.is_some_and(|found| group(found).contains("quell-exec-"))
    });
    let (worker, command) = found.unwrap();
    send(worker, Signal::KILL);
    until("it is back", || {
        !std::fs::read_to_string(format!("/proc/{command}/cgroup")).unwrap().contains("quell-exec-")
    });
    send(command, Signal::KILL);
    assert_eq!(quell.wait().unwrap().code(), Some(128 + 9));
}

#[test]
fn what_a_command_leaves_running_stays_managed_until_ctrl_c() {
    let (run_dir, directory) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = directory.path().join("pid");
    let script =
        format!("(setsid sh -c 'echo $$ > {0}.new; mv {0}.new {0}; exec sleep 300' &); exit 4", file.display());
    let mut command = exec(&run_dir, &["--class", "be", "--", "sh", "-c", &script]);
    let mut quell = command.stderr(Stdio::piped()).spawn().unwrap();
    let said = std::io::BufReader::new(quell.stderr.take().unwrap());
    let line = said.lines().map(Result::unwrap).find(|line| line.contains("remain managed"));
    assert!(line.unwrap().contains("has ended with status 4"));
    until("the daemon runs", || file.exists());
    let daemon: i32 = std::fs::read_to_string(&file).unwrap().trim().parse().unwrap();
    assert_eq!(policy(daemon), 5);
    send(quell.id().cast_signed(), Signal::INT);
    assert_eq!(quell.wait().unwrap().code(), Some(4));
    assert_eq!(policy(daemon), 0, "it is put back, and goes on");
    send(daemon, Signal::KILL);
}

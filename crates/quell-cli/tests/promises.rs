//! What `quell check`, `quell doctor` and `quell run` promise of each other.

use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// Much longer than anything takes, for a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn quell(directory: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quell"));
    command.args(arguments).current_dir(directory).env("QUELL_RUN_DIR", directory.join("run")).env("QUELL_LOG", "warn");
    command.output().unwrap()
}

/// The same, ended after that many seconds.
fn quell_within(seconds: u32, directory: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new("timeout");
    command.args(["--kill-after", "5", &seconds.to_string(), env!("CARGO_BIN_EXE_quell")]).args(arguments);
    command.current_dir(directory).env("QUELL_RUN_DIR", directory.join("run")).env("QUELL_LOG", "warn");
    command.output().unwrap()
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

const WORKLOAD: &str = "[[policy]]\nname = \"none\"\n[[workload]]\nname = \"web\"\nclass = \"lc\"\n\
                        match = [{ command = \"no such command line as this\", user = \"0\" }]\n";

#[test]
fn what_nothing_acts_on_is_said_by_check_run_and_status() {
    let scene = tempfile::tempdir().unwrap();
    let asked = "limit = 1.5\ncpus = 1\nreservation = \"strict\"\nslo = { quantile = 0.99, bound = \"1ms\" }\n\
                 grace = { signal = \"urg\", time = \"20us\" }\nmatch =";
    std::fs::write(scene.path().join("quell.toml"), WORKLOAD.replace("match =", asked)).unwrap();
    let check = quell(scene.path(), &["check", "quell.toml"]);
    assert!(check.status.success(), "{}", said(&check));
    // An SLO is watched whatever the policy: no more than an information.
    assert_eq!(said(&check).matches("info: workload 'web': slo = ").count(), 1, "{}", said(&check));
    for key in ["cpus", "limit", "reservation", "grace"] {
        let about = format!("warning: workload 'web': {key} = ");
        assert_eq!(said(&check).matches(&about).count(), 1, "{key}: {}", said(&check));
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_quell"));
    command.args(["run", "--config", "quell.toml", "--shadow", "--socket", "socket"]).current_dir(scene.path());
    let log = std::fs::File::create(scene.path().join("log")).unwrap();
    let mut run = command.env("QUELL_RUN_DIR", scene.path().join("run")).stderr(log).spawn().unwrap();
    let begun = Instant::now();
    let status = loop {
        let status = quell(scene.path(), &["status", "--socket", "socket"]);
        if status.status.success() || begun.elapsed() > PATIENCE {
            break status;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let _ = run.kill();
    let _ = run.wait();
    let log = std::fs::read_to_string(scene.path().join("log")).unwrap();
    for key in ["cpus", "limit", "reservation", "grace"] {
        let about = format!("workload 'web': {key} = ");
        assert_eq!(log.matches(&about).count(), 1, "{key}: {log}");
        assert!(said(&status).contains(&about), "{key}: {}", said(&status));
    }
}

#[test]
fn a_file_where_the_socket_should_be_stays_as_it_is() {
    let scene = tempfile::tempdir().unwrap();
    let at = |name: &str| scene.path().join(name);
    std::fs::write(at("quell.toml"), WORKLOAD).unwrap();
    std::fs::write(at("precious"), "data").unwrap();
    std::os::unix::fs::symlink(at("precious"), at("link")).unwrap();
    for name in ["precious", "link"] {
        for mode in [&["--shadow", "--once"][..], &["--dry-run", "--once"], &[]] {
            let arguments = [&["run", "--config", "quell.toml", "--socket", name], mode].concat();
            let mut command = Command::new(env!("CARGO_BIN_EXE_quell"));
            command.args(&arguments).current_dir(scene.path()).env("QUELL_RUN_DIR", at("run"));
            let mut child = command.stderr(std::process::Stdio::null()).spawn().unwrap();
            let begun = Instant::now();
            let status = loop {
                if let Some(status) = child.try_wait().unwrap() {
                    break Some(status);
                }
                // The old one would begin to work.
                if begun.elapsed() > PATIENCE || !at("precious").is_file() {
                    break None;
                }
                std::thread::sleep(Duration::from_millis(20));
            };
            let _ = child.kill();
            let _ = child.wait();
            assert_eq!(std::fs::read_to_string(at("precious")).unwrap(), "data", "{mode:?}");
            assert!(at("link").is_symlink());
            assert_eq!(status.and_then(|status| status.code()), Some(1), "{name} {mode:?}");
        }
    }
}

#[test]
fn what_the_doctor_says_of_a_policy_exec_does() {
    let scene = tempfile::tempdir().unwrap();
    let doctor = quell(scene.path(), &["doctor", "--json"]);
    let doctor: serde_json::Value = serde_json::from_slice(&doctor.stdout).unwrap();
    for policy in doctor["policies"].as_array().unwrap() {
        let name = policy["name"].as_str().unwrap();
        // A policy that keeps it from running for good is ended: the status is no success.
        let words = ["exec", "--class", "be", "--policy", name, "--", "sleep", "0.3"];
        let exec = quell_within(60, scene.path(), &words);
        let works = policy["fidelity"] != "cannot";
        assert_eq!(exec.status.success(), works, "{name}: {policy}: {}", said(&exec));
    }
}

/// A process whose command line holds the word; it ends with the test.
struct Sleeper(std::process::Child);

impl Sleeper {
    fn called(word: &str) -> Sleeper {
        let mut command = Command::new("sh");
        Sleeper(command.args(["-c", "while :; do sleep 0.2; done", word]).spawn().unwrap())
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn check_refuses_what_run_could_not_take() {
    let scene = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    std::fs::write(scene.path().join("precious"), "data").unwrap();
    let cases = [
        (String::new(), None),
        (
            "[api]\nsocket = \"precious\"".into(),
            Some("q.toml:2:10: error: cannot listen on precious: the path exists and is a file"),
        ),
        ("[api]\nsocket = \"no/such/socket\"".into(), Some("mkdir -p no/such")),
        ("[api]\ngroup = \"no-such-group\"".into(), Some("q.toml:2:9: error: cannot give the socket to the group")),
        (format!("[metrics]\nlisten = \"{}\"", taken.local_addr().unwrap()), Some("choose another port")),
    ];
    for (more, expected) in cases {
        std::fs::write(scene.path().join("q.toml"), format!("{more}\n{WORKLOAD}")).unwrap();
        let check = quell(scene.path(), &["check", "q.toml"]);
        let text = said(&check);
        assert_eq!(check.status.code(), Some(i32::from(expected.is_some())), "{more}: {text}");
        if let Some(expected) = expected {
            assert!(text.contains(expected), "{text}");
            let run = quell(scene.path(), &["run", "--config", "q.toml"]);
            assert_eq!(run.status.code(), Some(1), "{more}");
        }
    }
    assert_eq!(std::fs::read_to_string(scene.path().join("precious")).unwrap(), "data");
    assert!(!scene.path().join("run").exists() && !scene.path().join("no").exists(), "nothing is made");
}

#[test]
fn check_says_what_matches_and_who_is_claimed_twice() {
    let scene = tempfile::tempdir().unwrap();
    let word = format!("quell-check-{}", std::process::id());
    let sleeper = Sleeper::called(&word);
    let user = rustix::process::geteuid().as_raw();
    let configure = |other: &str| {
        let text = format!(
            "[[policy]]\nname = \"none\"\n[[workload]]\nname = \"web\"\nclass = \"lc\"\nmatch = [{{ command = \"{word}\", user = \"{user}\" }}]\n\
             [[workload]]\nname = \"batch\"\nclass = \"be\"\nmatch = [{{ command = \"{other}\", user = \"{user}\" }}]\n"
        );
        std::fs::write(scene.path().join("q.toml"), text).unwrap();
    };
    configure("no such command line");
    let check = quell(scene.path(), &["check", "q.toml"]);
    let text = String::from_utf8_lossy(&check.stdout).into_owned();
    let row = text.lines().find(|line| line.trim().starts_with("web")).unwrap_or_else(|| panic!("{}", said(&check)));
    assert!(row.contains("process") && row.contains("thread"), "{text}");
    assert!(text.lines().any(|line| line.trim().starts_with("batch") && line.trim().ends_with("nothing")), "{text}");
    let json = quell(scene.path(), &["check", "q.toml", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert!(json["workloads"][0]["matches"][0]["threads"].as_u64() >= Some(1), "{json}");
    assert_eq!(json["right"], true);
    // A pattern is a part of the command line, too.
    configure(&format!("{}*-{}", &word[..7], std::process::id()));
    let check = quell(scene.path(), &["check", "q.toml"]);
    let text = said(&check);
    let both = format!("workloads 'web' and 'batch' both match process {}", sleeper.0.id());
    assert!(check.status.code() == Some(1) && text.contains(&both), "{text}");
}

#[test]
fn a_pipeline_checks_for_another_machine() {
    let scene = tempfile::tempdir().unwrap();
    let text = "[api]\nsocket = \"no/such\"\n[[policy]]\nname = \"caladan\"\n[[workload]]\nname = \"web\"\nclass = \"lc\"\n\
                cpus = 7\nmatch = [{ pid = 4194303 }]\n";
    std::fs::write(scene.path().join("q.toml"), text).unwrap();
    let check = |more: &[&str]| quell(scene.path(), &[&["check", "q.toml"], more].concat());
    let scenario = "machine = { cores = 4, threads = 2, scheduler = \"quell\" }\n";
    std::fs::write(scene.path().join("s.toml"), scenario).unwrap();
    std::fs::write(scene.path().join("named.toml"), "machine = \"caladan\"\n").unwrap();
    for machine in [&["--cpus", "8"][..], &["--topology", "s.toml"], &["--topology", "1x4x2"]] {
        let offline = check(&[&["--offline"], machine].concat());
        assert_eq!(offline.status.code(), Some(0), "{machine:?}: {}", said(&offline));
        assert!(said(&offline).contains("warning: with Quell's own scheduler: workload 'web'"));
    }
    let small = check(&["--offline", "--cpus", "4"]);
    assert!(small.status.code() == Some(1) && said(&small).contains("7 guaranteed CPUs"), "{}", said(&small));
    assert_eq!(check(&["--offline"]).status.code(), Some(2), "for which machine?");
    for (topology, says) in
        [("caladan", "such as 2x16x2; or a scenario's file"), ("named.toml", "'caladan' is the laboratory's")]
    {
        let unknown = check(&["--offline", "--topology", topology]);
        assert!(unknown.status.code() == Some(1) && said(&unknown).contains(says), "{}", said(&unknown));
    }
}

#[test]
fn who_only_looks_needs_no_right_and_is_told_program_workload_and_value() {
    let scene = tempfile::tempdir().unwrap();
    if !rustix::process::geteuid().is_root() {
        return eprintln!("not tested here: needs root, to give rights up");
    }
    let word = format!("quell-looks-{}", std::process::id());
    let sleeper = Sleeper::called(&word);
    let user = rustix::process::geteuid().as_raw();
    let text = format!(
        "[[policy]]\nname = \"guard\"\n[[workload]]\nname = \"cache\"\nclass = \"lc\"\ncpus = 1\n\
         match = [{{ command = \"{word}\", user = \"{user}\" }}]\n"
    );
    std::fs::write(scene.path().join("q.toml"), text).unwrap();
    for mode in ["--dry-run", "--shadow"] {
        // Without the right to set classes, which a container's root has not either.
        let mut command = Command::new("setpriv");
        command.args(["--bounding-set=-sys_nice", "--inh-caps=-sys_nice"]);
        command.arg(env!("CARGO_BIN_EXE_quell")).args(["run", "--config", "q.toml", "--once", mode]);
        let output = command.current_dir(scene.path()).env("QUELL_RUN_DIR", scene.path().join("run")).output().unwrap();
        let text = said(&output);
        assert!(output.status.success(), "{text}");
        assert!(text.contains("CAP_SYS_NICE"), "{text}");
        let expected = format!("on cache (sh {}", sleeper.0.id());
        let line = text.lines().find(|line| line.contains("would set SCHED_FIFO 1") && line.contains(&expected));
        assert!(line.is_some(), "{mode}: {expected}: {text}");
    }
}

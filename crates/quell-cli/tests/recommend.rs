//! `quell recommend` on this machine, and `quell doctor`, which ends with a recommendation.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

const QUELL: &str = env!("CARGO_BIN_EXE_quell");

fn quell(words: &[&str]) -> Output {
    Command::new(QUELL).args(words).env("COLUMNS", "80").output().unwrap()
}

fn out(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// A process that ends with the test.
struct Subject(Child);

impl Subject {
    fn shell(script: &str) -> Subject {
        let mut command = Command::new("sh");
        Subject(command.args(["-c", script]).stdout(Stdio::null()).spawn().unwrap())
    }

    fn recommended(&self, more: &[&str]) -> Value {
        let pid = self.0.id().to_string();
        let words = [&["recommend", &pid, "--json", "--for", "1s"], more].concat();
        serde_json::from_str(&out(&quell(&words))).unwrap()
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_machine_alone_gets_one_policy_and_what_is_not_known() {
    let text = out(&quell(&["recommend"]));
    assert!(text.starts_with("NAME: ") && text.contains("\nrun ") && text.contains("\nunknown "), "{text}");
    let json: Value = serde_json::from_str(&out(&quell(&["recommend", "--json"]))).unwrap();
    let machine = &json["machine"];
    let cannot = machine["has_rights"] == true && !machine["cannot"]["guard"].is_null();
    assert_eq!(json["answer"], if cannot { "CPUWeight=" } else { "guard" });
    assert!(json["unknown"].as_array().unwrap().len() >= 5, "{json}");
}

#[test]
fn an_ordinary_user_gets_the_line_for_root_and_no_lack_of_the_machine() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("not tested here: needs root to become another user");
        return;
    }
    // Where that user can execute it.
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    std::fs::set_permissions(directory.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let program = directory.path().join("quell");
    std::fs::copy(QUELL, &program).unwrap();
    let as_user = |words: &[&str]| out(&Command::new(&program).args(words).uid(4711).gid(4711).output().unwrap());
    for words in [&["recommend"][..], &["doctor"]] {
        let text = as_user(words);
        assert!(text.contains("sudo quell protect NAME") && !text.contains("CPUWeight="), "{text}");
        assert!(!text.contains("no policy can work"), "{text}");
    }
    assert!(as_user(&["doctor"]).contains("sudo quell doctor"));
}

#[test]
fn a_thread_that_never_pauses_is_found_out() {
    let spinner = Subject::shell("while :; do :; done");
    let json = spinner.recommended(&["--cpus", "1"]);
    let workload = &json["workload"];
    assert!(workload["longest_run"].as_u64().unwrap() >= 50_000_000, "{json}");
    let may_be: &[&str] = match workload["disturbed"].as_bool().unwrap() {
        false => &["nothing"],
        true => &["caladan", "rkube", "CPUWeight="],
    };
    assert!(may_be.contains(&json["answer"].as_str().unwrap()), "{json}");
}

#[test]
fn what_rests_gives_no_facts_and_what_its_operator_says_counts() {
    let sleeper = Subject::shell("sleep 60 & wait");
    let json = sleeper.recommended(&[]);
    assert_eq!(json["workload"]["longest_run"], Value::Null, "{json}");
    let json = sleeper.recommended(&["--batch-may-get-less"]);
    assert_eq!((&json["answer"], json["workload"]["batch_may_get_less"].as_bool()), (&"CPUWeight=".into(), Some(true)));
}

#[test]
fn what_does_not_run_is_refused_in_one_line() {
    for target in ["no-such-program-here", "3999999", "unit:no-such.service"] {
        let refused = quell(&["recommend", target]);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(
            !refused.status.success() && said.lines().count() == 1 && refused.stdout.is_empty(),
            "{target}: {said}"
        );
    }
}

#[test]
fn the_doctor_is_one_screen_that_ends_with_a_recommendation() {
    let text = out(&quell(&["doctor"]));
    assert!(text.lines().count() <= 24, "{text}");
    let (_, end) = text.split_once("\n\n").unwrap();
    assert!(end.starts_with("NAME: ") && end.contains("\nrun "), "{text}");
    let all = out(&quell(&["doctor", "--all"]));
    assert!(all.lines().count() > 24 && all.contains("Knobs") && all.contains("Signals"), "{all}");
    let json: Value = serde_json::from_str(&out(&quell(&["doctor", "--json"]))).unwrap();
    assert!(json["recommendation"]["answer"].is_string(), "{json}");
}

/// A line that was pasted, as this program runs it.
fn pasted(line: &str, more: &[&str], run_directory: &Path) -> Output {
    let line = line.strip_prefix("sudo ").unwrap_or(line);
    let words = shlex::split(line).unwrap();
    assert_eq!(words[0], "quell", "{line}");
    let words = words[1..].iter().map(String::as_str).chain(more.iter().copied());
    Command::new(QUELL).args(words).env("QUELL_RUN_DIR", run_directory.join("run")).output().unwrap()
}

#[test]
fn what_is_to_be_pasted_passes_its_programs_own_checks() {
    let spinner = Subject::shell("while :; do sleep 0.01; done");
    let directory = tempfile::tempdir().unwrap();
    let can = quell(&["doctor", "guard"]).status.success();
    for more in [&["--be"][..], &[], &["--known-demand"], &["--contended", "bandwidth"], &["--batch-may-get-less"]] {
        let json = spinner.recommended(more);
        let Some(line) = json["paste"].as_str() else { continue };
        if let Some(text) = json["configuration"].as_str() {
            let file = line.rsplit(' ').next().unwrap();
            let path = directory.path().join(file);
            std::fs::write(&path, text).unwrap();
            out(&quell(&["check", path.to_str().unwrap()]));
        } else if line.contains("quell protect") && !line.contains("BATCH") && can {
            let done = pasted(line, &["--measure", "0", "--for", "200ms", "--quiet"], directory.path());
            out(&done);
        } else if line.contains("systemctl") {
            assert!(line.ends_with(".service CPUWeight=10"), "a process has no weight: {line}");
        }
    }
}

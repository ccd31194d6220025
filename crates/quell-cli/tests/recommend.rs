//! `quell recommend` on this machine, and `quell doctor`, which ends with a recommendation.

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
    assert!(text.starts_with("NAME: ") && text.contains("\npaste ") && text.contains("\nunknown "), "{text}");
    let json: Value = serde_json::from_str(&out(&quell(&["recommend", "--json"]))).unwrap();
    assert_eq!(json["answer"], if json["machine"]["cannot"]["guard"].is_null() { "guard" } else { "CPUWeight=" });
    assert!(json["unknown"].as_array().unwrap().len() >= 5, "{json}");
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
    assert!(end.starts_with("NAME: ") && end.contains("\npaste "), "{text}");
    let all = out(&quell(&["doctor", "--all"]));
    assert!(all.lines().count() > 24 && all.contains("Knobs") && all.contains("Signals"), "{all}");
    let json: Value = serde_json::from_str(&out(&quell(&["doctor", "--json"]))).unwrap();
    assert!(json["recommendation"]["answer"].is_string(), "{json}");
}

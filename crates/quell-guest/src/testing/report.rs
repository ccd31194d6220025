//! Reads the output of a test program.

use std::collections::BTreeMap;

/// End of a test, with its output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Passed(String),
    Failed(String),
}

/// The results of a test program's run.
#[derive(Clone, Debug)]
pub(super) struct Report {
    text: String,
    verdicts: BTreeMap<String, Verdict>,
}

impl Report {
    /// Reads the output of Rust's test harness.
    pub(super) fn read(text: String) -> Self {
        let mut verdicts = BTreeMap::new();
        for line in text.lines() {
            let Some((name, result)) = line.strip_prefix("test ").and_then(|line| line.split_once(" ... ")) else {
                continue;
            };
            // "name - should panic ... ok"
            let name = name.split(" - ").next().unwrap_or(name).to_owned();
            let output = output_of(&name, &text);
            match result.trim_end() {
                result if result.ends_with("ok") => verdicts.insert(name, Verdict::Passed(output)),
                result if result.ends_with("FAILED") => verdicts.insert(name, Verdict::Failed(output)),
                _ => None,
            };
        }
        Self { text, verdicts }
    }

    /// The test's end; `None` if it was not executed.
    pub(super) fn verdict(&self, test: &str) -> Option<&Verdict> {
        self.verdicts.get(test)
    }

    /// All that was printed.
    pub(super) fn text(&self) -> &str {
        &self.text
    }
}

/// Output of a test: the harness shows it between its own headings.
fn output_of(test: &str, text: &str) -> String {
    let heading = format!("---- {test} stdout ----");
    let after = text.lines().skip_while(|line| *line != heading).skip(1);
    let output: Vec<_> =
        after.take_while(|line| !line.starts_with("---- ") && !["failures:", "successes:"].contains(line)).collect();
    output.join("\n").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = "
running 4 tests
test suite::good ... ok
test suite::bad ... FAILED
test suite::skipped ... ignored
test suite::fearful - should panic ... ok

successes:

---- suite::good stdout ----
42

successes:
    suite::fearful
    suite::good

failures:

---- suite::bad stdout ----
thread 'suite::bad' panicked at src/lib.rs:1:2:
left: 1

failures:
    suite::bad

test result: FAILED. 2 passed; 1 failed; 1 ignored
";

    #[test]
    fn verdicts_are_read() {
        let report = Report::read(PRINTED.into());
        assert_eq!(report.verdict("suite::good"), Some(&Verdict::Passed("42".into())));
        assert_eq!(report.verdict("suite::fearful"), Some(&Verdict::Passed(String::new())));
        let output = "thread 'suite::bad' panicked at src/lib.rs:1:2:\nleft: 1";
        assert_eq!(report.verdict("suite::bad"), Some(&Verdict::Failed(output.into())));
    }

    #[test]
    fn what_did_not_run_has_no_verdict() {
        let report = Report::read(PRINTED.into());
        assert_eq!(report.verdict("suite::skipped"), None);
        assert_eq!(report.verdict("suite::never"), None);
    }
}

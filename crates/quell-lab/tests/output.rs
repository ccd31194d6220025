//! What the terminal and the reader of a pipe get; what both programs have in common is tested with `quell`.

use std::fs::File;
use std::process::{Command, Output, Stdio};

use unicode_width::UnicodeWidthStr;

const LISTS: [&[&str]; 2] = [&["paper", "--list"], &["run", "--list"]];

fn quell_lab(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quell-lab"));
    command.args(words);
    command
}

fn ended(words: &[&str]) -> Output {
    quell_lab(words).output().unwrap()
}

#[test]
fn a_full_output_is_an_error_of_one_line_and_no_panic() {
    for words in LISTS {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let ended = quell_lab(words).stdout(full).stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
        let errors = String::from_utf8(ended.stderr).unwrap();
        assert_eq!((ended.status.code(), errors.lines().count()), (Some(1), 1), "{words:?}: {errors}");
        assert!(errors.starts_with("quell-lab: ") && errors.contains("No space left"), "{words:?}: {errors}");
    }
}

#[test]
fn commands_print_json_with_the_version_or_refuse_to() {
    let listed: serde_json::Value = serde_json::from_slice(&ended(&["paper", "--list", "--json"]).stdout).unwrap();
    assert_eq!(listed[0]["version"], env!("CARGO_PKG_VERSION"));
    for words in [&["boot", "run", "--json", "--", "true"][..], &["completions", "bash", "--json"]] {
        assert_eq!(ended(words).status.code(), Some(2), "{words:?}");
    }
}

#[test]
fn tables_are_as_wide_as_columns_says_and_wide_if_asked_for() {
    let output = |words: &[&str], columns: &str| {
        String::from_utf8(quell_lab(words).env("COLUMNS", columns).output().unwrap().stdout).unwrap()
    };
    for words in [&["run", "--list"][..], &["run", "periodic"]] {
        for columns in [60, 80, 200] {
            let text = output(words, &columns.to_string());
            let widest = text.lines().map(UnicodeWidthStr::width).max().unwrap();
            assert!(widest <= columns, "{words:?} at {columns}:\n{text}");
        }
    }
    let narrow = output(&["run", "periodic"], "60");
    assert!(narrow.contains("not shown: "), "{narrow}");
    let wide = output(&["run", "periodic", "--wide"], "60");
    assert!(!wide.contains("not shown: ") && wide.contains("asked"), "{wide}");
}

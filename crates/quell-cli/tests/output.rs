//! What the terminal and the reader of a pipe get: widths, colours, completions, and ends of the output that are not there.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

const QUELL: &str = env!("CARGO_BIN_EXE_quell");

/// Commands that print at least a line and take no time.
const PRINTING: [&[&str]; 6] = [
    &["--help"],
    &["--version"],
    &["check", "--example"],
    &["completions", "bash"],
    &["doctor"],
    &["doctor", "--json"],
];

/// The exit status, and what stood on standard error.
fn into_full(words: &[&str], errors_too: bool) -> (Option<i32>, String) {
    let full = || File::options().write(true).open("/dev/full").unwrap();
    let errors = if errors_too { Stdio::from(full()) } else { Stdio::piped() };
    let ended =
        Command::new(QUELL).args(words).stdout(full()).stderr(errors).spawn().unwrap().wait_with_output().unwrap();
    (ended.status.code(), String::from_utf8(ended.stderr).unwrap())
}

#[test]
fn a_full_output_is_an_error_of_one_line_and_no_panic() {
    for words in PRINTING {
        let (status, errors) = into_full(words, false);
        assert_eq!((status, errors.lines().count()), (Some(1), 1), "{words:?}: {errors}");
        assert!(errors.starts_with("quell: ") && errors.contains("No space left"), "{words:?}: {errors}");
        assert_eq!(into_full(words, true).0, Some(1), "{words:?}");
    }
    assert_eq!(into_full(&["nonsense"], true).0, Some(2));
    assert_eq!(into_full(&["check", "/nonexistent"], true).0, Some(1));
}

#[test]
fn a_reader_that_closes_the_pipe_is_no_error_to_talk_about() {
    for words in PRINTING {
        // Closed before the command begins: what it prints would fit into the pipe.
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let ended = Command::new(QUELL).args(words).stdout(writer).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&ended.stderr), "", "{words:?}");
        assert_eq!(ended.status.code(), Some(141), "{words:?}");
    }
    let mut quell = Command::new(QUELL).args(["check", "--example"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(quell.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(!line.is_empty());
    assert!([Some(0), Some(141)].contains(&quell.wait().unwrap().code()));
}

#[test]
fn every_command_prints_json_with_the_version_or_refuses_to() {
    let output = |words: &[&str]| Command::new(QUELL).args(words).output().unwrap();
    let empty = tempfile::tempdir().unwrap();
    let directory = empty.path().to_str().unwrap();
    let configuration = empty.path().join("quell.toml");
    std::fs::write(&configuration, "[[polcy]]\n").unwrap();
    for words in [
        &["doctor", "--json"][..],
        &["doctor", "guard", "--json"],
        &["check", configuration.to_str().unwrap(), "--json"],
        &["restore", "--run-dir", directory, "--json"],
        &["antagonist", "cpu", "--threads", "1", "--duration", "20ms", "--json"],
    ] {
        let ended = output(words);
        let first = serde_json::from_slice::<serde_json::Value>(&ended.stdout)
            .unwrap_or_else(|error| panic!("{words:?}: {error}: {ended:?}"));
        let object = first.get(0).unwrap_or(&first);
        assert_eq!(object["version"], env!("CARGO_PKG_VERSION"), "{words:?}");
    }
    for words in [
        &["run", "--json"][..],
        &["exec", "--class", "be", "--json", "--", "true"],
        &["completions", "bash", "--json"],
        &["check", "--example", "--json"],
    ] {
        assert_eq!(output(words).status.code(), Some(2), "{words:?}");
    }
}

#[test]
fn tables_are_as_wide_as_columns_says() {
    let output = |words: &[&str], columns: &str| {
        let ended = Command::new(QUELL).args(words).env("COLUMNS", columns).output().unwrap();
        String::from_utf8(ended.stdout).unwrap()
    };
    for columns in [60, 80, 200] {
        let text = output(&["doctor"], &columns.to_string());
        let widest = text.lines().map(unicode_width::UnicodeWidthStr::width).max().unwrap();
        assert!(widest <= columns, "at {columns}:\n{text}");
    }
}

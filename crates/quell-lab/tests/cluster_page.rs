//! The page of users: its commands do what it says, and its scenario is one.

use std::path::Path;
use std::process::Command;

use quell_cluster_sim::scenario::Scenario;

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/lab/cluster.md");
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The texts of the page's blocks of this kind.
fn blocks(page: &str, kind: &str) -> Vec<String> {
    let fence = format!("```{kind}\n");
    page.split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

#[test]
fn the_commands_say_what_stands_there() {
    let found = blocks(&page(), "console");
    assert!(found.len() >= 3);
    for block in found {
        let (command, expected) = block.split_once('\n').unwrap();
        let words: Vec<&str> = command.strip_prefix("$ quell-lab ").expect(command).split(' ').collect();
        let output = Command::new(env!("CARGO_BIN_EXE_quell-lab")).args(words).output().unwrap();
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        for (line, expected) in text.lines().zip(expected.lines()).filter(|(_, expected)| *expected != "…") {
            assert_eq!(line.trim_end(), expected.trim_end(), "{command}");
        }
        assert_eq!(text.trim_end().lines().count(), expected.trim_end().lines().count(), "{command}");
    }
}

#[test]
fn the_scenario_is_one() {
    for text in blocks(&page(), "toml") {
        Scenario::parse(&text).unwrap();
    }
}

#[test]
fn a_record_is_replayed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("record");
    let run = |words: &[&str]| {
        let output =
            Command::new(env!("CARGO_BIN_EXE_quell-lab")).arg("cluster").args(words).arg(&file).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    assert_eq!(run(&["record", "quiet-host"]).0, Some(0));
    let (code, text) = run(&["replay", "quiet-host"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("all with the same plans"), "{text}");
    assert_eq!(run(&["replay", "testbed"]).0, Some(1));
}

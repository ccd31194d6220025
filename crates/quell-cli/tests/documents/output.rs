//! Is what a command prints what the document says?
//!
//! `…` stands for anything within a line, and on a line of its own for any lines. Where *numbers vary*, a number with
//! its unit may be any other one (also a dash, for none), and so the widths of columns and rules may differ.

use std::sync::LazyLock;

use regex::Regex;

/// A pattern for a text that a document shows.
pub fn is_same(shown: &str, printed: &str, numbers_vary: bool) -> bool {
    let prepared = |text: &str| text.lines().map(|line| prepare(line, numbers_vary)).collect::<Vec<_>>().join("\n");
    let parts: Vec<String> = prepared(shown).lines().map(pattern).collect();
    let whole = format!("^{}$", parts.concat());
    Regex::new(&whole).unwrap().is_match((prepared(printed).trim_end().to_owned() + "\n").trim_start_matches('\n'))
}

/// One line of the document.
fn pattern(line: &str) -> String {
    if line.trim() == "…" {
        return "(?:.*\n)*".into();
    }
    line.split('…').map(regex::escape).collect::<Vec<_>>().join(".*") + "\n"
}

fn prepare(line: &str, numbers_vary: bool) -> String {
    static NUMBER: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"\d[\d.,]*(?:e-?\d+)?(?: ?(?:ns|[µu]s|ms|s|min|h|%|k/s|M/s|/s|k|M|[KMG]i?B(?:/s)?)\b|\s?%)?")
            .unwrap()
    });
    if !numbers_vary {
        return line.trim_end().to_owned();
    }
    let words = line.split_whitespace().map(|word| if word == "–" { "0" } else { word }).collect::<Vec<_>>().join(" ");
    let rules = Regex::new("─+").unwrap().replace_all(&words, "─").into_owned();
    let numbers = NUMBER.replace_all(&rules, "#").into_owned();
    numbers.replace("#–#", "#")
}

#[test]
fn what_is_shown_stands_for_what_is_printed() {
    let same = |shown, printed| is_same(shown, printed, false);
    assert!(same("a 1\n", "a 1\n") && !same("a 1\n", "a 2\n") && !same("a\n", "a\nb\n") && !same("", "a\n"));
    assert!(same("a …\n", "a bc d\n") && !same("a …\n", "b bc\n") && same("… b\n", "a b\n"));
    assert!(same("a\n…\nd\n", "a\nb\nc\nd\n") && same("a\n…\n", "a\n") && !same("a\n…\nd\n", "a\nb\n"));
    assert!(same("(a|b)\n", "(a|b)\n") && same("", ""));
}

#[test]
fn numbers_vary_where_it_is_said() {
    let same = |shown, printed| is_same(shown, printed, true);
    assert!(same(" p99   22.4 µs\n──────\n", " p99     1.54 ms\n────────\n"));
    assert!(same("a  –  3\n", "a  2.5 ms  17 %\n") && same("22.3–22.4 µs\n", "1 ms\n"));
    assert!(!same("SCHED_FIFO 1\n", "SCHED_OTHER 1\n") && !same("a 1\n", "a\n"));
}

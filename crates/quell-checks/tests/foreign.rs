//! Names that any user may choose pass through `quell_model::foreign` before they are printed.
//!
//! Two kinds are looked for in the sources, tests left out: files that read a process's name or command line, and paths of
//! cgroups shown by `display()`.

use std::fs;
use std::path::{Path, PathBuf};

/// What reads something else of that name.
const OTHERS: [(&str, &str); 3] = [
    ("quell-agent/src/lock.rs", "compares it with its own, and prints it nowhere"),
    ("quell-linux/src/doctor/read.rs", "the kernel's own command line"),
    ("quell-scx/src/kernel.rs", "the kernel's own command line"),
];
/// Files and folders whose paths are cgroups'.
const CGROUPS: [&str; 9] = [
    "quell-linux/src/actuators",
    "quell-linux/src/cgroup",
    "quell-linux/src/error.rs",
    "quell-linux/src/host",
    "quell-linux/src/limit.rs",
    "quell-linux/src/members",
    "quell-linux/src/write",
    "quell-agent/src/run/dry.rs",
    "quell-agent/src/run/membership.rs",
];
/// Paths that Quell or the kernel chose.
const OWN: [&str; 1] = ["quell-linux/src/actuators/frequency.rs"];

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Sources below a place, by their path from `crates`, with their text up to their tests.
fn sources(place: &Path, into: &mut Vec<(String, String)>) {
    if place.is_dir() {
        fs::read_dir(place).expect("a folder").for_each(|entry| sources(&entry.expect("an entry").path(), into));
        return;
    }
    let name = place.strip_prefix(crates()).expect("below crates").to_string_lossy().into_owned();
    let is_test = name.ends_with("tests.rs") || name.contains("/testkit/");
    if name.ends_with(".rs") && !is_test {
        let text = fs::read_to_string(place).expect("text");
        into.push((name, text.split("#[cfg(test)]").next().unwrap_or_default().to_owned()));
    }
}

fn all() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(crates()).expect("crates") {
        sources(&entry.expect("an entry").path().join("src"), &mut found);
    }
    found
}

/// Does this line of code read a process's name or command line?
fn reads_a_name(line: &str) -> bool {
    let code = line.trim_start();
    !code.starts_with("//")
        && ["/comm\"", "\"comm\"", "/cmdline\"", "\"cmdline\""].iter().any(|name| code.contains(name))
}

#[test]
fn names_of_programs_and_threads_are_made_safe_where_they_are_read() {
    let sources = all();
    let reading: Vec<_> = sources.iter().filter(|(_, text)| text.lines().any(reads_a_name)).collect();
    assert!(reading.len() > 4, "{reading:?}");
    for (name, text) in reading {
        let is_other = OTHERS.iter().any(|(other, _)| name == other);
        let is_safe = text.contains("foreign::") || text.contains("comm(");
        assert!(
            is_other || is_safe,
            "{name} reads the name of a process, which any user chooses: use quell_linux::comm or quell_model::foreign"
        );
    }
}

#[test]
fn paths_of_cgroups_are_made_safe() {
    let mut found = Vec::new();
    CGROUPS.iter().for_each(|place| sources(&crates().join(place), &mut found));
    assert!(found.len() > 30, "{} files", found.len());
    for (name, text) in found.iter().filter(|(name, _)| !OWN.contains(&name.as_str())) {
        let shown = text.lines().position(|line| line.contains(".display()")).map(|at| at + 1);
        assert_eq!(shown, None, "{name}: any user may name a cgroup: use quell_model::foreign::path in this line");
    }
}

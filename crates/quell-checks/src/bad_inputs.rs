//! Bad inputs: a program runs in a directory of its own, and what it did is held against a row. Each is refused at once, in a
//! line or a list of lines that say where the mistake is and what would be right. Nothing changes by it, and nothing panics.
//!
//! Rows hold an input and what the message says, in this order, `…` between parts of it. A new mistake is a new row.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tempfile::TempDir;

/// A refusal takes a fraction of this, on a busy machine too.
const PATIENCE: &str = "20";

/// What a run is to be like.
pub struct Expected<'a> {
    /// Its exit status.
    pub status: i32,
    /// What the message holds: parts, in this order, with `…` between them.
    pub says: &'a str,
}

/// A directory with files that must stay as they are.
///
/// # Panics
/// If they cannot be written.
#[must_use]
pub fn scene(files: &[(&str, &str)]) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(directory.path().join(name), text).unwrap();
    }
    directory
}

/// Everything below a directory with its text, apart from the run directory, in which a lock may come to be.
fn files(directory: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("run") {
            found.push((path.clone(), String::new()));
            found.extend(files(&path));
        } else if path.is_file() {
            found.push((path.clone(), fs::read_to_string(&path).unwrap_or_default()));
        }
    }
    found.sort();
    found
}

/// Runs a program with these words.
///
/// # Errors
/// What is not as expected.
///
/// # Panics
/// If it cannot be run.
pub fn try_it(program: &str, directory: &Path, words: &[String], expected: &Expected) -> Result<(), String> {
    let before = files(directory);
    let output = Command::new("timeout")
        .args(["--signal", "KILL", PATIENCE, program])
        .args(words)
        .current_dir(directory)
        .env("QUELL_RUN_DIR", directory.join("run"))
        .env("QUELL_LAB_CACHE", directory.join("run/cache"))
        // No network is asked.
        .env("QUELL_LAB_MIRROR", "http://127.0.0.1:9")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let fault = |why: &str| Err(format!("  {}: {why}; it said: {said}", words.join(" ")));
    match output.status.code() {
        _ if said.contains("panicked at") || said.contains("RUST_BACKTRACE") => fault("it panicked"),
        None | Some(124 | 137) => fault(&format!("it did not end by itself within {PATIENCE} s ({})", output.status)),
        Some(status) if status != expected.status => fault(&format!("status {status}, not {}", expected.status)),
        _ if !holds(&said, expected.says) => fault(&format!("'{}' is not there", expected.says)),
        _ if !output.stdout.is_empty() => fault("there is something on standard output"),
        _ if files(directory) != before => fault("a file has changed"),
        _ => Ok(()),
    }
}

/// Runs every row, on two CPUs.
///
/// # Panics
/// If something is wrong, with all that is.
pub fn each<Row: Sync>(rows: &[Row], run: impl Fn(&Row) -> Result<(), String> + Sync) {
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some(row) = rows.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(why) = run(row) {
                wrong.lock().unwrap().push(why);
            }
        }
    };
    thread::scope(|scope| (0..2).for_each(|_| _ = scope.spawn(work)));
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{} of {} rows:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}

/// Does the text hold the parts, in their order?
#[must_use]
pub fn holds(text: &str, parts: &str) -> bool {
    let mut rest = text;
    parts.split('…').map(str::trim).all(|part| {
        let found = rest.find(part);
        rest = found.map_or("", |at| &rest[at + part.len()..]);
        found.is_some()
    })
}

//! Runs `quell` in a directory of its own, and holds what it did against a row.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tempfile::TempDir;

/// A refusal takes a fraction of this, on a busy machine too.
const PATIENCE: &str = "20";

/// What a run of `quell` is to be like.
pub struct Expected<'a> {
    /// Its exit status.
    pub status: i32,
    /// What the message holds; see [`super::holds`].
    pub says: &'a str,
}

/// A directory with files that must stay as they are.
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

/// Runs `quell` with these words; what is not as expected.
pub fn try_it(directory: &Path, words: &[String], expected: &Expected) -> Result<(), String> {
    let before = files(directory);
    let output = Command::new("timeout")
        .args(["--signal", "KILL", PATIENCE, env!("CARGO_BIN_EXE_quell")])
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
    let told = |why: &str| Err(format!("  {}: {why}; it said: {said}", words.join(" ")));
    match output.status.code() {
        _ if said.contains("panicked at") || said.contains("RUST_BACKTRACE") => told("it panicked"),
        None | Some(124 | 137) => told(&format!("it did not end by itself within {PATIENCE} s ({})", output.status)),
        Some(status) if status != expected.status => told(&format!("status {status}, not {}", expected.status)),
        _ if !super::holds(&said, expected.says) => told(&format!("'{}' is not there", expected.says)),
        _ if !output.stdout.is_empty() => told("there is something on standard output"),
        _ if files(directory) != before => told("a file has changed"),
        _ => Ok(()),
    }
}

/// Every row, on all CPUs; what is wrong.
pub fn each<Row: Sync>(rows: &[Row], run: impl Fn(&Row) -> Result<(), String> + Sync) -> Vec<String> {
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some(row) = rows.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(why) = run(row) {
                wrong.lock().unwrap().push(why);
            }
        }
    };
    thread::scope(|scope| (0..2).for_each(|_| _ = scope.spawn(work)));
    wrong.into_inner().unwrap()
}

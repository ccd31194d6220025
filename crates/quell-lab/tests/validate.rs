//! The simulated kernel is as near to the real one as docs/lab/validate.md says.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// A row is near if it is within its bound, or within what the real kernel varies.
fn is_near(row: &Value) -> bool {
    row["near"] != "no"
}

/// The judged rows that `quell-lab validate` prints in the repository's root.
fn rows(arguments: &[&str]) -> Vec<Value> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_quell-lab"));
    let output = command.args(["validate", "--json"]).args(arguments).current_dir(root).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code().is_some_and(|code| code < 2), "{}: {said}", output.status);
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    let rows = printed["rows"].as_array().unwrap().iter();
    rows.filter(|row| row["near"] != "not-judged").cloned().collect()
}

fn lines(rows: &[&Value]) -> String {
    let line = |row: &&Value| format!("{} {} {} {}\n", row["scene"], row["workload"], row["measure"], row["error"]);
    rows.iter().map(line).collect()
}

/// Nine rows of ten, of this many at least.
fn assert_near(rows: &[Value], least: usize) {
    let off: Vec<&Value> = rows.iter().filter(|row| !is_near(row)).collect();
    assert!(rows.len() >= least, "{} rows", rows.len());
    assert!(off.len() * 10 <= rows.len(), "{} of {} rows are off:\n{}", off.len(), rows.len(), lines(&off));
}

#[test]
fn the_simulator_is_as_near_to_a_kernel_as_when_it_was_compared() {
    // What the kernel did is kept: nothing boots.
    assert_near(&rows(&["--keep", "scenes/real"]), 132);
}

/// The rows of scenes whose results of three seeds are kept in `kept`.
fn rows_of(kept: &str, scenes: &str, names: &[&str]) -> Vec<Value> {
    let files: Vec<String> = names.iter().map(|name| format!("{scenes}/{name}.toml")).collect();
    let arguments = ["--keep", kept, "--seeds", "3"].into_iter().chain(files.iter().map(String::as_str));
    rows(&arguments.collect::<Vec<_>>())
}

#[test]
fn it_is_as_near_to_a_kernel_with_cfs() {
    let names =
        ["alone", "barrier", "crowd", "double", "fourfold", "nested", "nice", "one", "quota", "spin", "weights"];
    assert_near(&rows_of("scenes/cfs/real", "scenes/cfs", &names), 35);
}

#[test]
fn it_is_as_near_to_a_later_kernel() {
    let names = ["fifo", "four", "heavy", "idle", "nested", "one", "quota", "slice", "spin", "weights"];
    assert_near(&rows_of("scenes/7.0/real", "scenes", &names), 36);
}

#[test]
fn a_kernel_that_boots_now_is_as_near() {
    let rows = rows(&["scenes/one.toml", "scenes/fifo.toml", "scenes/idle.toml", "--seeds", "1"]);
    let plain = rows.iter().filter(|row| row["measure"] != "p99");
    let off: Vec<&Value> = plain.clone().filter(|row| !is_near(row)).collect();
    assert_eq!(plain.count(), 9);
    assert!(off.is_empty(), "off:\n{}", lines(&off));
}

#[test]
#[ignore = "boots a kernel for each scene: half an hour"]
fn the_whole_table_is_as_near_when_it_is_played_again() {
    assert_near(&rows(&[]), 132);
}

//! Each file of the BPF scheduler says at its head which problem it solves, by which rule, where it is called, and its limits.

use std::fs;
use std::path::{Path, PathBuf};

/// The C files of a folder and of those below it.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("the scheduler's sources").map(|entry| entry.expect("a file").path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let is_source = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "h" || extension == "c");
    files.into_iter().filter(is_source).chain(folders.iter().flat_map(|folder| sources(folder))).collect()
}

#[test]
fn each_header_of_the_scheduler_says_problem_rule_callers_and_limits() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../quell-scx/src/bpf");
    let all = sources(&folder);
    for path in &all {
        let text = fs::read_to_string(path).expect("text");
        let head = text.split("#ifndef").next().unwrap_or_default().split("#include").next().unwrap_or_default();
        let places: Vec<_> = ["Problem: ", "Rule: ", "Callers: ", "Limits: "].map(|word| head.find(word)).into();
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{}: {places:?}", path.display());
    }
    assert!(all.len() > 15, "{} files", all.len());
}

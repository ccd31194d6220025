//! Words: how many stand under `docs/`, and which stand where a kernel or platform engineer would say another one. Counts of these
//! may only fall: one that has fallen is written down here.

use std::path::{Path, PathBuf};

use regex::Regex;

/// Hand-written words under `docs/`.
const UNDER_DOCS: usize = 37_800;

/// Pages that are made of what is declared.
const GENERATED: [&str; 2] = ["policies.md", "signals.md"];

/// Words that are to go, how often they stand in comments, messages and pages, and what is said instead.
const TO_GO: &[(&str, usize, &str)] = &[
    (r"mend(s|ed|ing)?", 0, "fix, hint"),
    (r"heed(s|ed|ing)?", 0, "take into account, respect"),
    // Those that stand are the verdict "cannot tell".
    (r"(tells|tell|told|telling)", 13, "say, report, notify"),
    (r"hear(s|d|ing)?", 0, "receive, notice"),
    (r"heirs?", 0, "next holder"),
    (r"nobody", 7, "no one, none"),
    (r"so (many|long)", 0, "this many, for this time"),
    (r"whoever", 0, "what, the process that"),
];

/// Words that no source of the BPF scheduler has: a thread or a CPU is not a person, and the kernel has words of its own.
const NOT_IN_BPF: &str = r"who|whom|whoever|(no|some|any|every)body|mends?|heeds?|told|tells?|heard?|hears|stay(s|ed)?|heirs?|so (many|much|long)";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The files below a folder with one of these endings, in order.
fn below(folder: &Path, endings: &[&str], found: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            if !path.ends_with("bpf") && !path.ends_with("snapshots") && !path.ends_with("target") {
                below(&path, endings, found);
            }
        } else if path.extension().is_some_and(|ending| endings.iter().any(|known| ending == *known)) {
            found.push(path);
        }
    }
}

#[test]
fn there_are_no_more_words_under_docs() {
    let mut pages = Vec::new();
    below(&root().join("docs"), &["md"], &mut pages);
    let is_generated = |page: &&PathBuf| GENERATED.iter().any(|name| page.ends_with(Path::new("reference").join(name)));
    let words = |page: &PathBuf| std::fs::read_to_string(page).unwrap().split_whitespace().count();
    let count: usize = pages.iter().filter(|page| !is_generated(page)).map(words).sum();
    assert!(count <= UNDER_DOCS, "{count} words, {UNDER_DOCS} at most: shorten, or move what is dated to notebook/");
}

#[test]
fn words_that_are_to_go_do_not_come_back() {
    let mut files = vec![root().join("README.md")];
    for folder in ["crates", "docs", "scenarios", "scenes", "packaging"] {
        below(&root().join(folder), &["rs", "md", "toml", "sh"], &mut files);
    }
    files.retain(|file| !file.ends_with("tests/words.rs"));
    let texts: Vec<String> = files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect();
    let mut wrong = Vec::new();
    for (word, most, instead) in TO_GO {
        let pattern = Regex::new(&format!(r"(?i)\b{word}\b")).unwrap();
        let count: usize = texts.iter().map(|text| pattern.find_iter(text).count()).sum();
        if count > *most {
            wrong.push(format!("{word}: {count} times, {most} at most; say: {instead}"));
        } else if count < *most {
            wrong.push(format!("{word}: only {count} times: write that down in place of {most}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_bpf_scheduler_has_the_fields_words() {
    let mut files = Vec::new();
    let folder = root().join("crates/quell-scx/src/bpf");
    for folder in std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()) {
        below(&folder, &["h"], &mut files);
    }
    files.push(folder.join("grant.bpf.c"));
    assert!(files.len() > 40, "{} files", files.len());
    // Names and texts are others' words.
    let names = Regex::new("`[^`]*`|\"[^\"]*\"|[A-Z_]{2,}").unwrap();
    let words = Regex::new(&format!(r"(?i)\b({NOT_IN_BPF})\b")).unwrap();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let wrong: Vec<_> = text.lines().filter(|line| words.is_match(&names.replace_all(line, ""))).collect();
        assert!(wrong.is_empty(), "{}:\n{}", file.display(), wrong.join("\n"));
    }
}

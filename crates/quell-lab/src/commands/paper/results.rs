//! Results of full runs, kept beside the claims, and the page that is made of them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use quell_evidence::{Results, Row, Topic, topics};

use super::figure::real;
use super::table::{claimed, interval, kind, number, summary};

/// A topic, and its figures that real programs run.
fn with_real(topic: &'static Topic) -> impl Iterator<Item = &'static Topic> {
    std::iter::once(topic).chain(real::topics(&topic.id))
}

/// The file of one of these, in the topic's directory.
fn path(directory: &Path, topic: &Topic, one: &Topic) -> PathBuf {
    let rest = one.id.strip_prefix(&topic.id).unwrap_or_default();
    directory.join(&topic.id).join(format!("results{rest}.toml"))
}

/// Each topic's rows, into its directory.
pub fn write(directory: &Path, chosen: &[&'static Topic], rows: &[Row], seeds: u64) -> Result<()> {
    for (topic, one) in chosen.iter().flat_map(|topic| with_real(topic).map(move |one| (topic, one))) {
        let path = path(directory, topic, one);
        let build = concat!("quell ", env!("CARGO_PKG_VERSION"));
        let results = Results::of(one, rows, build, seeds);
        // Without --real they were not run, and keep what they had.
        if results.rows.is_empty() {
            continue;
        }
        let text = toml::to_string(&results).context("write results as TOML")?;
        let folder = path.parent().unwrap_or(directory);
        fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
        fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
    }
    Ok(())
}

/// All tables as Markdown.
pub fn page(directory: &Path) -> Result<String> {
    let mut text = "\
# What came out

The tables of the full runs, five seeds or more where anything is random, judged by the strict rules
([reproduce](../docs/lab/reproduce.md)); `quell-lab paper TOPIC` says what each row is, and why it differs. This page is made of
`papers/TOPIC/results.toml`: `quell-lab paper TOPIC --results papers` runs a topic and writes them, `make docs` makes the page. Inputs and
derived rows are left out.
"
    .to_owned();
    for (topic, one) in topics().iter().flat_map(|topic| with_real(topic).map(move |one| (topic, one))) {
        let path = path(directory, topic, one);
        let Ok(kept) = fs::read_to_string(&path) else { continue };
        let results = Results::read(&kept).map_err(|error| anyhow!("{}: {error}", path.display()))?;
        text += &section(one, &results);
    }
    Ok(text)
}

fn section(topic: &'static Topic, results: &Results) -> String {
    let mut text = format!("\n## {}\n\n{}.\n", topic.id, topic.title.trim_end_matches('.'));
    if results.is_stale() {
        text += "\n**Assumptions were changed after this run.**\n";
    }
    let rows = results.judged(topic);
    text += &format!("\n```text\n{}```\n", summary(&rows));
    text += "\n| row | kind | claimed | ours | 95 % interval | verdict |\n|---|---|---|---|---|---|\n";
    let is_judged = |row: &&Row| row.ours.is_some() && !["input", "derived"].contains(&kind(row.claim));
    for row in rows.iter().filter(is_judged) {
        let id = row.claim.id.split_once('.').map_or(row.claim.id.as_str(), |(_, id)| id);
        let known = if row.surprises() { ", not known" } else { "" };
        text += &format!(
            "| `{id}` | {} | {} | {} | {} | {}{known} |\n",
            kind(row.claim),
            claimed(row.claim),
            row.ours.map_or("–".to_owned(), number),
            row.interval.map_or("–".to_owned(), interval),
            row.verdict,
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_project(path: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
    }

    #[test]
    fn the_page_is_the_results() {
        let path = of_project("papers/results.md");
        let page = page(&of_project("papers")).unwrap();
        if std::env::var_os("QUELL_WRITE").is_some() {
            fs::write(&path, &page).unwrap();
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), page, "make docs writes it anew");
    }

    #[test]
    fn a_changed_assumption_is_said() {
        let topic = quell_evidence::topic("rkube").unwrap();
        let results = Results::of(topic, &[], "quell", 5);
        assert!(!section(topic, &results).contains("were changed"));
        assert!(section(topic, &Results { assumed: "another".into(), ..results }).contains("were changed"));
    }
}

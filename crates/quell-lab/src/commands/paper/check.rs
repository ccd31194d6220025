//! `quell-lab paper --check`: claims' quotations and lists of sentences against the papers' texts.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use quell_evidence::{Sentences, topics};

/// Checks all texts that are listed. Each is a file of this directory, `NAME.txt`.
pub fn run(out: &mut impl Write, directory: &Path) -> Result<ExitCode> {
    let mut is_fine = true;
    for list in Sentences::all() {
        let path = directory.join(&list.text).with_extension("txt");
        let text = std::fs::read(&path).with_context(|| format!("read {}", path.display()))?;
        let checked = list.check(topics().iter().flat_map(|topic| &topic.claims), &text);
        is_fine &= checked.is_fine();
        let [rows, set_up, no_claims] = checked.listed;
        writeln!(
            out,
            "{}: {} quotations found; {} sentences listed: {rows} with rows, {set_up} set-up, {no_claims} no claims; \
             {} unlisted",
            list.text,
            checked.quotations,
            rows + set_up + no_claims,
            checked.unlisted.len()
        )?;
        for (line, words) in &checked.unlisted {
            writeln!(out, "  not listed: line {line}, \"{words} …\"")?;
        }
        for wrong in &checked.wrong {
            writeln!(out, "  {wrong}")?;
        }
    }
    Ok(if is_fine { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

//! Destinations of the demo's report. Files are checked before the first phase; results are printed before they are
//! written.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use quell_report::screen::Screen;

use super::result::DemoReport;

const JSON: &str = "report.json";
const PAGE: &str = "report.html";

/// The directory of the report's files.
pub struct Output {
    directory: PathBuf,
    /// The reason why the files cannot be written.
    refused: Option<io::Error>,
}

impl Output {
    /// Looks if the files can be written, and leaves nothing behind. A directory that the user named must take them; the present
    /// one need not.
    pub fn look(named: Option<&Path>) -> Result<Output> {
        let directory = named.unwrap_or(Path::new(".")).to_owned();
        let refused = [JSON, PAGE].iter().find_map(|name| writable(&directory, name).err());
        match (named, refused) {
            (Some(directory), Some(error)) => bail!(
                "cannot write the report into {}: {error}; name a directory that you may write to with --out",
                directory.display()
            ),
            (_, refused) => Ok(Output { directory, refused }),
        }
    }

    /// Writes the files; returns the line that says so, or why not.
    pub fn write(&self, report: &DemoReport) -> Result<String> {
        if let Some(error) = &self.refused {
            return Ok(format!(
                "! {JSON} and {PAGE} are not written: {}: {error}; name a directory with --out",
                self.directory.display()
            ));
        }
        for (name, text) in [(JSON, serde_json::to_string(report)?), (PAGE, report.page())] {
            let path = self.directory.join(name);
            fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(format!("written: {0}/{JSON}, {0}/{PAGE}", self.directory.display()))
    }
}

fn writable(directory: &Path, name: &str) -> io::Result<()> {
    match File::options().write(true).open(directory.join(name)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => tempfile::tempfile_in(directory).map(drop),
        other => other.map(drop),
    }
}

/// Prints lines on standard output.
pub fn print(lines: &[String]) -> Result<()> {
    let (mut out, screen) = (io::stdout().lock(), Screen::here());
    for line in lines {
        // A table fits already.
        let text = if line.contains('\n') || line.starts_with('{') { line.clone() } else { screen.wrap(line) };
        writeln!(out, "{text}")?;
    }
    out.flush()?;
    Ok(())
}

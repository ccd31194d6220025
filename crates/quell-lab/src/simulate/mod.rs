//! A scenario on the simulated machine, under one policy or several, swept over any of its keys.

mod compare;
mod csv;
mod json;
mod page;
mod plan;
mod progress;
pub mod stacks;
mod sweep_charts;
mod table;
#[cfg(test)]
mod tests;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use quell_report::screen::Screen;
use quell_report::table::table as text_table;
use quell_sim::scenario::{Detail, SHIPPED, Scenario};

use self::plan::Plan;
use self::progress::Progress;
use quell_command::output::WrongCommandLine;
use quell_command::outputs;

/// A scenario to be simulated.
#[derive(Default)]
pub struct Simulation {
    /// A scenario's file, or the name of one that comes with Quell.
    pub scenario: PathBuf,
    /// The stacks to compare: a stack's name, or policies joined by +; none: the scenario's, else `none`.
    pub against: Vec<String>,
    /// Changes, KEY=VALUE each.
    pub set: Vec<String>,
    /// Values that are swept, KEY=VALUE,VALUE,… each.
    pub sweep: Vec<String>,
    /// Where the results go as JSON, `-` for standard output.
    pub json: Option<PathBuf>,
    /// Where they go as CSV.
    pub csv: Option<PathBuf>,
    /// Where a page goes.
    pub html: Option<PathBuf>,
    /// Is the course of time in the JSON as well?
    pub series: bool,
    /// Where the only run is recorded.
    pub record: Option<PathBuf>,
}

/// The scenarios that come with Quell.
pub fn list(out: &mut impl Write) -> Result<()> {
    let title = |text: &str| Scenario::parse(Path::new("shipped"), text, &[]).map(|scenario| scenario.title);
    let rows = SHIPPED.iter().map(|shipped| Ok([shipped.name.to_owned(), title(shipped.text)?]));
    let table = text_table(["scenario", "what it is"], rows.collect::<Result<Vec<_>>>()?);
    Ok(writeln!(out, "{}", table.fit(&Screen::here()))?)
}

/// Runs it under each stack and gives the results.
pub fn run(asked: &Simulation) -> Result<ExitCode> {
    let mut out = io::stdout().lock();
    let path = &asked.scenario;
    let is_output = |path: &Option<PathBuf>| path.as_ref().is_some_and(|path| path.as_os_str() == "-");
    let takes_output = [&asked.json, &asked.csv].into_iter().filter(|path| is_output(path)).count();
    if takes_output > 1 {
        let wrong = "--json and --csv cannot both go to standard output: give one of them a file, --csv=FILE";
        bail!(WrongCommandLine(wrong.to_owned()));
    }
    let plan = Plan::read(path, &asked.set, &asked.sweep, &asked.against)?;
    if asked.record.is_some() && plan.runs() != 1 {
        bail!(
            "--record is of one run, and this is {}: choose a stack by --against, without sweep or repetitions",
            plan.runs()
        );
    }
    for file in [&asked.json, &asked.csv, &asked.html, &asked.record].into_iter().flatten() {
        if file.as_os_str() != "-" {
            outputs::check(file)?;
        }
    }
    for limit in &plan.limits {
        eprintln!("quell-lab: {limit}");
    }
    let detail = if asked.series || asked.html.is_some() { Detail::Course } else { Detail::Blocks };
    let outcomes = compare::all(&plan, detail, &Progress::new(plan.simulated(), plan.runs()))?;
    let mut give = |path: &Path, text: String| match path.as_os_str() == "-" {
        true => out.write_all(text.as_bytes()).context("write to standard output"),
        false => std::fs::write(path, text).with_context(|| format!("write {}", path.display())),
    };
    if let Some(file) = &asked.record {
        compare::record(&plan, file)?;
    }
    let of = json::Asked { scenario: &path.to_string_lossy(), set: &asked.set };
    if let Some(path) = &asked.json {
        give(path, json::lines(&of, &outcomes, asked.series)?)?;
    }
    if let Some(path) = &asked.csv {
        give(path, csv::text(&outcomes))?;
    }
    if let Some(path) = &asked.html {
        give(path, page::of(&plan, &outcomes).to_html())?;
    }
    if takes_output == 0 {
        writeln!(out, "{}", table::text(&plan, &outcomes, &Screen::here()))?;
    }
    Ok(ExitCode::SUCCESS)
}

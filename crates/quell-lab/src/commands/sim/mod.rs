//! `quell-lab sim`: a scenario on the simulated machine, under one policy or several, swept over any of its keys.

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
use clap::Args;
use quell_report::screen::Screen;
use quell_report::table::table as text_table;
use quell_sim::scenario::{Detail, SHIPPED, Scenario};

use self::plan::Plan;
use self::progress::Progress;
use quell_command::outputs;

/// Run a scenario on a simulated machine, under one policy or several.
///
/// The same scenario, policies and seed give the same output, byte for byte, on every machine.
#[derive(Args, Default)]
pub struct Arguments {
    /// A scenario's file, or the name of one that comes with Quell (see --list)
    #[arg(required_unless_present_any = ["list", "example"])]
    scenario: Option<PathBuf>,
    /// The stacks to compare: a stack's name, or policies joined by +, such as none,rkube+caladan [default: those of the
    /// scenario, else none]
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    policies: Vec<String>,
    /// Change the scenario: a dotted key and its value, such as workload.server.weight=300
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Run it with each of these values, and with all combinations if given several times
    #[arg(long, value_name = "KEY=VALUE,VALUE,…")]
    sweep: Vec<String>,
    /// Give the results as JSON, one line a policy (and combination of swept values); to standard output without a file
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    json: Option<PathBuf>,
    /// Give the results as CSV, one line for each workload under each policy; to standard output without a file
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    csv: Option<PathBuf>,
    /// Write a page with table, latency distributions and the course of time
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Have the course of time (of the first repetition) in the JSON as well
    #[arg(long, requires = "json")]
    series: bool,
    /// Record the only run, for `quell-lab replay`: of one stack, once, without a sweep
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Name the scenarios that come with Quell
    #[arg(long)]
    list: bool,
    /// Print the scenario as it is, a file's or one that comes with Quell, and run nothing
    #[arg(long)]
    print: bool,
    /// Print an annotated scenario, to begin one's own with
    #[arg(long)]
    example: bool,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let mut out = io::stdout().lock();
    if arguments.example {
        write!(out, "{}", SHIPPED[0].text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let Some(path) = arguments.scenario.as_ref().filter(|_| !arguments.list) else {
        let title = |text: &str| Scenario::parse(Path::new("shipped"), text, &[]).map(|scenario| scenario.title);
        let rows = SHIPPED.iter().map(|shipped| Ok([shipped.name.to_owned(), title(shipped.text)?]));
        writeln!(
            out,
            "{}",
            text_table(["scenario", "what it is"], rows.collect::<Result<Vec<_>>>()?).fit(&Screen::here())
        )?;
        return Ok(ExitCode::SUCCESS);
    };
    if arguments.print {
        let text = crate::scenario_file::text(path)?;
        Scenario::parse(path, &text, &arguments.set)?;
        write!(out, "{text}")?;
        return Ok(ExitCode::SUCCESS);
    }
    let is_output = |path: &Option<PathBuf>| path.as_ref().is_some_and(|path| path.as_os_str() == "-");
    let takes_output = [&arguments.json, &arguments.csv].into_iter().filter(|path| is_output(path)).count();
    if takes_output > 1 {
        bail!("--json and --csv cannot both go to standard output: give one of them a file, --csv=FILE");
    }
    let plan = Plan::read(path, &arguments.set, &arguments.sweep, &arguments.policies)?;
    if arguments.record.is_some() && plan.runs() != 1 {
        bail!(
            "--record is of one run, and this is {}: choose a stack by --policies, without sweep or repetitions",
            plan.runs()
        );
    }
    for file in [&arguments.json, &arguments.csv, &arguments.html, &arguments.record].into_iter().flatten() {
        if file.as_os_str() != "-" {
            outputs::check(file)?;
        }
    }
    for limit in &plan.limits {
        eprintln!("quell-lab: {limit}");
    }
    let detail = if arguments.series || arguments.html.is_some() { Detail::Course } else { Detail::Blocks };
    let outcomes = compare::all(&plan, detail, &Progress::new(plan.simulated(), plan.runs()))?;
    let mut give = |path: &Path, text: String| match path.as_os_str() == "-" {
        true => out.write_all(text.as_bytes()).context("write to standard output"),
        false => std::fs::write(path, text).with_context(|| format!("write {}", path.display())),
    };
    if let Some(file) = &arguments.record {
        compare::record(&plan, file)?;
    }
    let asked = json::Asked { scenario: &path.to_string_lossy(), set: &arguments.set };
    if let Some(path) = &arguments.json {
        give(path, json::lines(&asked, &outcomes, arguments.series)?)?;
    }
    if let Some(path) = &arguments.csv {
        give(path, csv::text(&outcomes))?;
    }
    if let Some(path) = &arguments.html {
        give(path, page::of(&plan, &outcomes).to_html())?;
    }
    if takes_output == 0 {
        writeln!(out, "{}", table::text(&plan, &outcomes, &Screen::here()))?;
    }
    Ok(ExitCode::SUCCESS)
}

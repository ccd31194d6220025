//! `quell disable`: takes out what `quell enable` or `quell protect --keep` has written.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;
use quell_agent::config;
use quell_command::output;
use quell_model::suggest::unknown;
use quell_model::{Policy as _, foreign};
use quell_report::screen::Screen;
use quell_report::table::table;
use serde::Serialize;

use super::agent_socket::AgentSocket;
use super::protect::keep::{MARK, directory, file_of};
use super::protect::reload::{Answer, Expected, reload};

/// Take out of the configuration what `quell enable` or `quell protect --keep` wrote
///
/// The drop-in is removed, and a running agent reads its configuration again: everything that was set on the workload is put
/// back.
#[derive(Args)]
pub struct Arguments {
    /// The workload's name
    #[arg(required_unless_present = "list", value_name = "NAME")]
    name: Option<String>,
    /// List them instead
    #[arg(long, conflicts_with = "name")]
    list: bool,
    /// The configuration
    #[arg(long, value_name = "FILE", default_value = config::DEFAULT_PATH)]
    config: PathBuf,
    #[command(flatten)]
    agent: AgentSocket,
    /// Print it as JSON
    #[arg(long)]
    json: bool,
}

/// A drop-in of these.
#[derive(Serialize)]
struct Kept {
    workload: String,
    class: &'static str,
    cpus_requested: f64,
    policy: Option<&'static str>,
    target: String,
    file: PathBuf,
}

/// What was done.
#[derive(Serialize)]
struct Disabled<'a> {
    workload: &'a str,
    file: &'a Path,
    /// Has a running agent put everything back?
    put_back: bool,
}

/// Lists or removes.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let kept = all(&arguments.config)?;
    let Some(name) = &arguments.name else { return list(&kept, arguments.json) };
    let file = file_of(&arguments.config, name);
    if !kept.iter().any(|known| known.file == file) {
        let names: Vec<&str> = kept.iter().map(|known| known.workload.as_str()).collect();
        if names.is_empty() {
            bail!(
                "neither `quell enable` nor `quell protect --keep` has written anything into {}",
                foreign::path(&config::drop_in_directory(&arguments.config))
            );
        }
        bail!("{}; see `quell disable --list`", unknown("kept workload", name, &names));
    }
    let (_, problems) = config::read_with(&arguments.config, Some((&file, None)));
    if let Some(problem) = problems.of(config::Severity::Error).next() {
        bail!("nothing is removed, as the rest of the configuration would be refused: {problem}");
    }
    directory(&file, false)?;
    fs::remove_file(&file).with_context(|| format!("cannot remove {}", file.display()))?;
    let put_back = reload(&arguments.agent, name, Expected::Removed)? != Answer::NoAgent;
    if arguments.json {
        output::json_line(Disabled { workload: name, file: &file, put_back })?;
    } else {
        let end = if put_back { "the agent has restored everything" } else { "no running agent has reloaded it yet" };
        writeln!(io::stdout(), "{}: {} is removed; {end}", foreign::text(name), foreign::path(&file))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn list(kept: &[Kept], json: bool) -> Result<ExitCode> {
    if json {
        output::json_line(serde_json::json!({ "kept": kept }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = io::stdout().lock();
    if kept.is_empty() {
        writeln!(out, "no drop-in is kept; `quell enable` and `quell protect NAME --keep` write one")?;
        return Ok(ExitCode::SUCCESS);
    }
    let row = |one: &Kept| {
        let policy = one.policy.unwrap_or("the one of all").to_owned();
        [
            foreign::text(&one.workload).into_owned(),
            one.class.to_owned(),
            one.cpus_requested.to_string(),
            policy,
            foreign::text(&one.target).into_owned(),
        ]
    };
    writeln!(
        out,
        "{}",
        table(["workload", "class", "CPUs", "policy", "matches"], kept.iter().map(row)).fit(&Screen::here())
    )?;
    Ok(ExitCode::SUCCESS)
}

/// Those beside a configuration.
fn all(config: &Path) -> Result<Vec<Kept>> {
    let directory = config::drop_in_directory(config);
    let entries = match fs::read_dir(&directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(|| format!("cannot list {}", directory.display())),
    };
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.sort();
    Ok(files.into_iter().filter_map(one).collect())
}

/// What a file keeps, if it is one of these.
fn one(file: PathBuf) -> Option<Kept> {
    let name = file.file_name()?.to_str()?;
    let is_ours =
        name.starts_with("protect-") && name.ends_with(".toml") && fs::symlink_metadata(&file).ok()?.is_file();
    let text = is_ours.then(|| fs::read_to_string(&file).ok()).flatten().filter(|text| text.starts_with(MARK))?;
    // A policy for all workloads stands elsewhere.
    let (read, _) = config::read_one(&file, &text);
    let workload = &read.workloads.first()?.workload;
    let selectors: Vec<String> = workload.selectors.iter().map(ToString::to_string).collect();
    Some(Kept {
        workload: workload.name.clone(),
        class: if workload.is_lc() { "lc" } else { "be" },
        cpus_requested: workload.cpus.as_f64(),
        policy: read.policies.first().map(|layer| layer.policy.describe().name),
        target: selectors.join(", "),
        file,
    })
}

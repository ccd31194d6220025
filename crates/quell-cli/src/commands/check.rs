//! `quell check`: is a configuration right, and does it fit this machine?

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use quell_agent::config::{self, AllMatch, Config, EXAMPLE, Problems, Scheduler, Severity, Start};
use quell_agent::run::check;
use quell_linux::{HostOptions, LinuxHost, Matched, Roots, Survey};
use quell_model::{CpuCount, Host, Policy, Selector, Shape, Topology, amount};
use quell_report::screen::Screen;
use quell_report::table::table;
use serde_json::{Value, json};

use quell_command::output;
use quell_daemon::Asked;

/// Say what is wrong with a configuration, with file, line and the fix
///
/// Reads the file and its drop-ins, checks every key, runs every policy once on this machine without writing anything,
/// lists what the selectors match, and checks that the agent's socket, group and port are available. Exit status 0 if
/// `quell run` would start with it (or the running agent would accept it), else 1. Privileges that an ordinary user lacks are warnings: the agent may run as root.
#[derive(Args)]
pub struct Arguments {
    /// The configuration
    #[arg(default_value = config::DEFAULT_PATH, value_name = "FILE")]
    file: PathBuf,
    /// Print an annotated example instead
    #[arg(long, conflicts_with = "json")]
    example: bool,
    /// Print what was found as JSON
    #[arg(long)]
    json: bool,
    /// Read nothing of this machine: check it for one with these CPUs, as a CI pipeline does
    #[arg(long, requires = "topology_given")]
    offline: bool,
    /// This many CPUs, one thread each (with --offline)
    #[arg(long, value_name = "N", group = "topology_given", requires = "offline",
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    cpus: Option<u32>,
    /// A machine by its shape SOCKETSxCORESxTHREADS, or the `machine` of a scenario's FILE (with --offline)
    #[arg(long, value_name = "MACHINE", group = "topology_given", requires = "offline")]
    topology: Option<String>,
}

/// What was found.
pub struct Examined {
    /// The configuration as this machine takes it, as far as it was understood.
    pub config: Config,
    /// Everything that is wrong with it.
    pub problems: Problems,
    /// What its selectors match, where a machine was looked at.
    survey: Option<Survey>,
}

impl Examined {
    /// The configuration, if it can be used.
    pub fn usable(self) -> Option<Config> {
        (!self.problems.are_fatal()).then_some(self.config)
    }
}

/// Checks.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    if arguments.example {
        write!(io::stdout(), "{EXAMPLE}")?;
        return Ok(ExitCode::SUCCESS);
    }
    let examined = match arguments.offline {
        true => offline(&arguments.file, &topology(arguments)?),
        false => examine(&arguments.file, &Start { only_checks: true, ..Start::default() }, Asked::Kernel)?,
    };
    let right = !examined.problems.are_fatal();
    if arguments.json {
        output::json(as_json(&examined))?;
    } else {
        if !examined.problems.0.is_empty() {
            eprintln!("{}", examined.problems);
        }
        if right {
            let mut out = io::stdout().lock();
            writeln!(out, "{}", summary(&examined.config))?;
            if let Some(survey) = &examined.survey {
                writeln!(
                    out,
                    "{}",
                    table(["workload", "class", "selector", "matches now"], rows(&examined.config, survey))
                        .fit(&Screen::here())
                )?;
            }
        } else {
            eprintln!("quell: refused: {}", amount(examined.problems.of(Severity::Error).count(), "error", "errors"));
        }
    }
    Ok(if right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Everything that is wrong with a configuration on this machine, for an agent that is started like this.
pub fn examine(file: &Path, start: &Start, asked: Asked) -> Result<Examined> {
    examine_read(config::read_all(file), start, asked)
}

/// As [`examine`], of what was read.
pub fn examine_read((config, before): (Config, Problems), start: &Start, asked: Asked) -> Result<Examined> {
    let options = HostOptions {
        partitions: config.machine.partition,
        preemption_mode: config.machine.preemption,
        cache: config.machine.cache,
        gpu: config.machine.gpu,
        // A right that this user lacks is a limit then.
        dry_run: start.only_looks || start.is_anothers(),
        ..HostOptions::default()
    };
    let host = LinuxHost::new(Roots::default(), options)?;
    let (config, fell_back) = quell_daemon::settle(config, asked);
    let own = config.has_own_scheduler().then_some(asked);
    let capabilities = quell_daemon::capabilities(&host.capabilities(), config.grants(), own);
    let (mut problems, survey) = check::check(&config, before, &host.topology(), &capabilities)?;
    if start.is_anothers() {
        problems.0.iter_mut().filter(|problem| problem.what.contains("CAP_")).for_each(|lacking| {
            lacking.severity = Severity::Warning;
        });
    }
    let granting = config.policies.iter().find(|layer| layer.policy.describe().grants);
    if let (Some(why), Some(layer)) = (fell_back, granting) {
        let what = format!("CPUs are granted by affinity, with policy guard beside: {why}");
        problems.warning(&layer.place, what);
    }
    problems.0.extend(config::look(&config, start).0);
    problems.sort(&config.files);
    Ok(Examined { config, problems, survey: Some(survey) })
}

/// Everything that is wrong with a configuration for a machine with these CPUs, of which nothing else is known.
fn offline(file: &Path, topology: &Arc<Topology>) -> Examined {
    let (config, before) = config::read_all(file);
    let chooses = config.machine.scheduler == Scheduler::Auto && config.grants();
    let mut problems = match chooses {
        true => {
            let affinity = config.clone().on_the_kernels_scheduler();
            let mut problems = config::check_rest(&affinity, before, topology, None, &mut AllMatch);
            // What is wrong only where the kernel can load Quell's own scheduler is no error everywhere.
            for problem in config::check(&config, topology, None, &mut AllMatch).of(Severity::Error) {
                if problems.0.iter().all(|other| other.what != problem.what) {
                    let what = format!("with Quell's own scheduler: {}", problem.what);
                    problems.warning(&problem.place, what);
                }
            }
            problems
        }
        false => config::check_rest(&config, before, topology, None, &mut AllMatch),
    };
    // Where the agent will run, and as which user, is not known.
    let mut disguises = Problems::default();
    config::selector::forbid_disguises(&config, &mut |_| Vec::new(), &mut disguises);
    for problem in disguises.0 {
        problems.warning(&problem.place, format!("refused where the agent runs as root: {}", problem.what));
    }
    if !problems.are_fatal() {
        config::unused::warn(&config, None, &mut |_| None, &mut problems);
    }
    problems.sort(&config.files);
    Examined { config, problems, survey: None }
}

/// The machine of the command line.
fn topology(arguments: &Arguments) -> Result<Arc<Topology>> {
    let text = arguments.topology.as_deref().unwrap_or_default();
    let shape = match arguments.cpus {
        Some(cores) => Ok(Shape::cores(cores)),
        None if Path::new(text).is_file() => return shape_of(Path::new(text)),
        None => text.parse::<Shape>(),
    };
    let topology =
        shape.and_then(Shape::topology).map_err(|why| anyhow!("--topology '{text}': {why}; or a scenario's file"));
    Ok(topology?.into())
}

/// A scenario's machine; the kernel that it has besides is not looked at.
fn shape_of(file: &Path) -> Result<Arc<Topology>> {
    let text = std::fs::read_to_string(file).with_context(|| format!("--topology: cannot read {}", file.display()))?;
    let scenario: toml::Table = text.parse().with_context(|| format!("--topology: {}", file.display()))?;
    let machine = scenario.get("machine").cloned();
    let mut machine =
        machine.with_context(|| format!("--topology: {} has no machine, as a scenario has", file.display()))?;
    match &mut machine {
        toml::Value::Table(table) => _ = table.remove("scheduler"),
        toml::Value::String(name) => {
            bail!("--topology: the machine '{name}' is the laboratory's: give its shape, such as 2x16x2")
        }
        _ => {}
    }
    let at = || format!("--topology: the machine in {}", file.display());
    let shape: Shape = machine.try_into().with_context(at)?;
    Ok(shape.topology().map_err(|why| anyhow!(why)).with_context(at)?.into())
}

fn summary(config: &Config) -> String {
    let files: Vec<String> = config.files.iter().map(|file| file.display().to_string()).collect();
    let policies: Vec<&str> = config.policies.iter().map(|layer| layer.policy.describe().name).collect();
    format!(
        "{}: valid; {} under {}",
        files.join(", "),
        amount(config.workloads.len(), "workload", "workloads"),
        policies.join(", then ")
    )
}

/// A row for each selector.
fn rows(config: &Config, survey: &Survey) -> Vec<[String; 4]> {
    let mut rows = Vec::new();
    for (member, matched) in config.workloads.iter().zip(&survey.matched) {
        let workload = &member.workload;
        for (at, (selector, found)) in workload.selectors.iter().zip(matched).enumerate() {
            let class = if workload.is_lc() { "lc" } else { "be" };
            let [name, class] = if at == 0 { [workload.name.as_str(), class] } else { ["", ""] };
            rows.push([name.to_owned(), class.to_owned(), selector.to_string(), matches_now(found)]);
        }
    }
    rows
}

fn matches_now(found: &Result<Matched, String>) -> String {
    match found {
        Ok(matched) => {
            let processes = amount(matched.processes, "process", "processes");
            format!("{processes}, {}", amount(matched.threads, "thread", "threads"))
        }
        Err(_) => "nothing".into(),
    }
}

fn as_json(examined: &Examined) -> Value {
    let problems: Vec<_> = examined
        .problems
        .0
        .iter()
        .map(|problem| {
            json!({
                "severity": problem.severity.word(),
                "file": *problem.place.file,
                "line": problem.place.line,
                "column": problem.place.column,
                "what": problem.what,
            })
        })
        .collect();
    let mut answer = json!({ "problems": problems, "right": !examined.problems.are_fatal() });
    if let Some(survey) = &examined.survey {
        let members = examined.config.workloads.iter().zip(&survey.matched);
        let selectors = |selectors: &[Selector], matched: &[Result<Matched, String>]| -> Vec<Value> {
            let each = selectors.iter().zip(matched);
            each.map(|(selector, found)| {
                let (processes, threads) = found.as_ref().map_or((0, 0), |found| (found.processes, found.threads));
                json!({ "selector": selector, "processes": processes, "threads": threads })
            })
            .collect()
        };
        let workloads: Vec<Value> = members
            .map(|(member, matched)| {
                let workload = &member.workload;
                json!({
                    "name": workload.name,
                    "class": workload.class,
                    "cpus": workload.cpus,
                    "limit": workload.limit.map(CpuCount::as_f64),
                    "matches": selectors(&workload.selectors, matched),
                })
            })
            .collect();
        answer["workloads"] = workloads.into();
    }
    answer
}

//! `quell protect`: what runs already, protected until Ctrl-C, with its latency before and after.

pub mod advice;
mod alone;
pub mod before;
pub mod course;
pub mod keep;
mod kept;
pub mod leased;
pub mod output;
pub mod reload;
mod sources;
pub mod target;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, bail};
use clap::Args;
use quell_command::output::WrongCommandLine;
use quell_command::units;
use quell_linux::target::quoted;
use quell_model::{CpuCount, Nanos, Policy as _, Workload};

use signal_hook::consts::{SIGINT, SIGTERM};

use super::agent_socket::AgentSocket;
use super::managed::{Asked, demand};
use course::Course;
use sources::Histogram;
use target::Subject;

/// What is wanted for a target, and how its latency is measured.
#[derive(Args)]
pub struct Wanted {
    #[command(flatten)]
    pub asked: Asked,
    /// CPUs requested; for lc these are guaranteed. May be fractional [default: its demand, followed while it runs]
    #[arg(long, value_name = "N")]
    pub cpus: Option<CpuCount>,
    #[command(flatten)]
    pub sources: Sources,
}

/// By what latency is measured.
#[derive(Args, Clone, Debug, Default)]
pub struct Sources {
    /// Measure latency by a probe: http://127.0.0.1:80/, memcached://127.0.0.1 or redis://127.0.0.1
    #[arg(long, value_name = "URL", conflicts_with = "histogram", value_parser = sources::url)]
    pub url: Option<String>,
    /// Measure latency by its own Prometheus histogram: 127.0.0.1:9102/metrics#http_request_duration_seconds
    #[arg(long, value_name = "PAGE", value_parser = sources::histogram)]
    pub histogram: Option<Histogram>,
}

impl Sources {
    /// Was none asked for?
    pub fn are_none(&self) -> bool {
        self.url.is_none() && self.histogram.is_none()
    }
}

/// Protect a running service until Ctrl-C, and report what that did to its latency
///
/// TARGET is a unit (nginx.service), a container (its id), a cgroup (/system.slice/nginx.service), a process (4711), or a
/// program's name (nginx). The processes of one unit, of one container or of one tree are one target; where a name means
/// several, they are listed. It is measured for a while, then protected, then measured again: by a probe (--url), by its own
/// histogram (--histogram), or else by the time that its threads wait for a CPU. Where an agent runs, the agent does it, for
/// as long as this command lasts. Ctrl-C puts everything back, and so does the end of this command, whatever ends it.
#[derive(Args)]
pub struct Arguments {
    /// What to protect: a unit, container, cgroup, process or program. Several are one workload
    #[arg(required = true, value_name = "TARGET")]
    targets: Vec<String>,
    #[command(flatten)]
    wanted: Wanted,
    /// End after this time
    #[arg(long = "for", value_name = "TIME", value_parser = units::positive_duration)]
    length: Option<Nanos>,
    /// Measure for this long before, and again after; 0: not at all
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = units::duration)]
    measure: Nanos,
    /// Write it into the agent's configuration, permanently; `quell disable NAME` removes it. Without an agent nothing is measured
    #[arg(long, conflicts_with = "length")]
    keep: bool,
    /// The configuration for --keep
    #[arg(long, value_name = "FILE", default_value = quell_agent::config::DEFAULT_PATH, requires = "keep")]
    config: PathBuf,
    #[command(flatten)]
    agent: AgentSocket,
    /// Print the result as one line of JSON
    #[arg(long)]
    json: bool,
}

/// Protects.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let stop = Arc::new(AtomicBool::new(false));
    // A terminal sends Ctrl-C to guardian and worker: one that comes twice must not kill.
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("cannot catch signals")?;
    }
    arguments.wanted.check()?;
    if arguments.keep {
        keep::check_place(&arguments.config)?;
    }
    let mut subject = Subject::find("protect", &arguments.targets)?;
    let agent = leased::agent(&arguments.agent)?;
    leased::refuse_managed(agent.as_ref(), &subject)?;
    subject.histogram = leased::histogram(&arguments.agent, &subject);
    let here = advice::Here::look(agent.is_none(), arguments.wanted.asked.policys_name(), &subject)?;
    let most = demand::most(here.cpus);
    if let Some(cpus) = arguments.wanted.cpus.filter(|cpus| *cpus > most) {
        let has = quell_model::amount(here.cpus as usize, "CPU", "CPUs");
        bail!(
            "--cpus {cpus} would take all of this machine, which has {has}: run `quell protect {} --cpus {most}`",
            subject.words
        );
    }
    check_parameters(&arguments.wanted.asked)?;
    let measure = arguments.measured(agent.is_some())?;
    let Some(before) = before::measure(&arguments.wanted, measure, &subject, &stop)? else {
        return Ok(before::interrupted(&subject));
    };
    let decided = here.decide(&arguments.wanted, arguments.keep, &subject, &before)?;
    let mut workload = Workload {
        reservation: decided.reservation,
        ..Workload::new(arguments.wanted.asked.name_or(&subject.name), arguments.wanted.asked.class(), decided.cpus)
    };
    workload.selectors.clone_from(&subject.selectors);
    workload.check()?;
    let policy = decided.policy.describe().name;
    let course = Course::new(arguments, &subject, &workload, policy, (measure, before), here.cpus);
    if arguments.keep {
        let set = arguments.wanted.asked.parameters();
        let kept = keep::keep(&arguments.config, &workload, &decided.policy, &subject, set, &arguments.agent)?;
        let effect = if kept.1 == reload::Answer::Manages { course.measure_kept(&stop)? } else { None };
        keep::print(&kept, &workload, &decided.policy, effect.as_ref(), arguments.json)?;
        return Ok(ExitCode::SUCCESS);
    }
    match agent {
        Some(agent) => leased::run(&agent, &course, arguments.wanted.asked.parameters(), decided.follows, &stop),
        None => alone::run(course, decided.policy, decided.follows),
    }
}

impl Wanted {
    /// Refuses a request that would protect nothing.
    ///
    /// # Errors
    /// With the fix.
    pub fn check(&self) -> Result<()> {
        let is_none = self.cpus.is_some_and(|cpus| cpus == CpuCount::ZERO) && self.asked.class().is_lc();
        if is_none {
            let why = "--cpus 0 would protect nothing: leave --cpus out, or give 0.1 or more";
            return Err(WrongCommandLine(why.to_owned()).into());
        }
        Ok(())
    }

    /// The command line that asks for the same permanently; `policy`: by this one, where none was named.
    #[must_use]
    pub fn keep_line(&self, targets: &[String], policy: Option<&str>) -> String {
        let targets: Vec<String> = targets.iter().map(|target| quoted(target)).collect();
        let cpus = self.cpus.map_or_else(String::new, |cpus| format!(" --cpus {cpus}"));
        let policy = policy.filter(|_| self.asked.policys_name().is_none());
        let policy = policy.map_or_else(String::new, |policy| format!(" --policy {policy}"));
        format!("quell protect {}{}{cpus}{policy} --keep", targets.join(" "), self.asked.words())
    }
}

/// After the measurement something is left of --for.
const LEFT_OVER: Nanos = Nanos::from_secs(1);
/// A shorter measurement says nothing.
const LEAST_MEASURED: Nanos = Nanos::from_secs(1);

impl Arguments {
    /// The command line that asks for the same permanently.
    fn keep_line(&self) -> String {
        self.wanted.keep_line(&self.targets, None)
    }

    /// For how long it is measured: not longer than it is protected, and not at all where nothing is.
    fn measured(&self, has_agent: bool) -> Result<Nanos> {
        if self.keep && !has_agent {
            if !self.wanted.sources.are_none() {
                let why = "without an agent --keep protects nothing yet, so nothing is measured: leave --url and --histogram out";
                return Err(WrongCommandLine(why.to_owned()).into());
            }
            return Ok(Nanos::ZERO);
        }
        let Some(length) = self.length.filter(|length| *length < self.measure + LEFT_OVER) else {
            return Ok(self.measure);
        };
        let (left, is_said) = (length.since(LEFT_OVER), self.measure > Nanos::ZERO && !self.wanted.asked.say().quiet);
        let measure = if left < LEAST_MEASURED { Nanos::ZERO } else { left };
        if is_said && measure == Nanos::ZERO {
            eprintln!(
                "quell: --for {length} is too short to measure what protection does: give --for {:.0}s or more",
                (self.measure + LEFT_OVER).as_secs_f64().ceil()
            );
        } else if is_said {
            eprintln!(
                "quell: measuring for {measure} before and after, and not for {}: --for {length} ends it then",
                self.measure
            );
        }
        Ok(measure)
    }
}

/// Parameters that fit no policy are refused before anything is measured.
fn check_parameters(asked: &Asked) -> Result<()> {
    match asked.policys_name() {
        Some(name) => asked.policy(name).map(|_| ()),
        None if asked.policy("rkube").is_ok() => Ok(()),
        None => asked.policy("guard").map(|_| ()),
    }
}

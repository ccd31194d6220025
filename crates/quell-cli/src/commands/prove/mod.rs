//! `quell prove`: does protection help? Off and on in random turns on the running service, and a verdict with its interval.

mod alone;
mod block;
mod configured;
mod course;
mod leased;
mod output;
mod page;
mod plan;
mod result;
mod slo;
mod used;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, bail};
use clap::Args;
use quell_command::output::WrongCommandLine;
use quell_command::{parameters, units};
use quell_model::{Nanos, Policy as _, Workload};
use quell_policy::AnyPolicy;
use signal_hook::consts::{SIGINT, SIGTERM};

use super::agent_socket::AgentSocket;
use super::managed::demand;
use super::protect::target::Subject;
use super::protect::{Wanted, advice, before, keep, leased as agents};
use course::Course;
use plan::Plan;

/// Time for which the service is measured before the plan is made.
const BEFORE: Nanos = Nanos::from_secs(5);

/// Does protection help? Off and on in random turns, and a verdict
///
/// TARGET is as for `quell protect`. It is protected and left alone in turns whose order is drawn at random, measured
/// meanwhile, and the answer is one of: helps, harms, no difference larger than x, cannot tell yet. What is compared, how
/// long the service is unprotected, and when a verdict is possible are fixed and said beforehand. Where an agent runs, the
/// agent switches; a workload of its configuration is compared with the whole agent switched off. Everything is as before
/// at the end, whatever ends this command. Exit status: 0 if it helps, else 1.
#[derive(Args)]
pub struct Arguments {
    /// What to protect: a unit, container, cgroup, process or program. Several are one workload
    #[arg(value_name = "TARGET", required_unless_present = "workload")]
    targets: Vec<String>,
    /// A workload of the agent's configuration
    #[arg(long, value_name = "NAME", conflicts_with_all = ["targets", "keep_if_helps"])]
    workload: Option<String>,
    #[command(flatten)]
    wanted: Wanted,
    /// Compare with this policy, and not with nothing
    #[arg(long, value_name = "POLICY", default_value = plan::OFF)]
    against: String,
    /// Length of it all; it ends earlier where a look says enough
    #[arg(long = "for", value_name = "TIME", default_value = "10m", value_parser = units::positive_duration)]
    length: Nanos,
    /// Share of the time without protection, 0.1 to 0.5
    #[arg(long, value_name = "SHARE", default_value_t = 1.0 / 3.0, hide_default_value = true)]
    off_share: f64,
    /// Fixes the order of the turns [default: another one each time]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// The service's objective, as p99=5ms; a block ends at once where it is missed by far [default: the agent's, if it has one]
    #[arg(long, value_name = "QUANTILE=TIME", value_parser = slo::parse)]
    slo: Option<quell_model::Slo>,
    /// A block ends at once where the objective is missed by more than this factor
    #[arg(long, value_name = "FACTOR", default_value_t = 3.0, value_parser = slo::factor)]
    abort_factor: f64,
    /// Begin although the objective is missed already
    #[arg(long, short)]
    yes: bool,
    /// If it helps, write it into the configuration, as `quell protect --keep` does
    #[arg(long)]
    keep_if_helps: bool,
    /// The configuration for --keep-if-helps
    #[arg(long, value_name = "FILE", default_value = quell_agent::config::DEFAULT_PATH, requires = "keep_if_helps")]
    config: PathBuf,
    #[command(flatten)]
    agent: AgentSocket,
    /// Print the result as one line of JSON
    #[arg(long)]
    json: bool,
    /// Write a page: both distributions, and the blocks over time
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Proves.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let stop = Arc::new(AtomicBool::new(false));
    // A terminal sends Ctrl-C to guardian and worker: one that comes twice must not kill.
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("cannot catch signals")?;
    }
    // What makes no sense is refused before anything is measured.
    plan::check(arguments)?;
    arguments.wanted.check()?;
    let against = match arguments.against.as_str() {
        plan::OFF => None,
        name => Some(parameters::policy(name, &[])?),
    };
    if arguments.keep_if_helps && against.is_some() {
        let why = "--keep-if-helps writes what helps against nothing: leave --against out".to_owned();
        return Err(WrongCommandLine(why).into());
    }
    if arguments.keep_if_helps {
        keep::check_place(&arguments.config)?;
    }
    if let Some(page) = &arguments.html {
        page::check(page)?;
    }
    let agent = agents::agent(&arguments.agent)?;
    if let Some(name) = &arguments.workload {
        let Some(agent) = &agent else {
            bail!("--workload {name} is one of an agent's, and no agent runs: give a TARGET, or start `quell run`")
        };
        return configured::run(agent, arguments, name, None, against.as_ref(), &stop);
    }
    let mut subject = Subject::find("prove", &arguments.targets)?;
    subject.histogram = agents::histogram(&arguments.agent, &subject);
    if let Some(agent) = &agent
        && let Some(name) = agents::managed_as(agent, &subject)
    {
        if arguments.keep_if_helps {
            bail!(
                "{} is in the agent's configuration already, as workload '{name}': leave --keep-if-helps out",
                subject.name
            );
        }
        return configured::run(agent, arguments, &name, Some(&subject), against.as_ref(), &stop);
    }
    let here = advice::Here::look(agent.is_none(), arguments.wanted.asked.policys_name(), &subject)?;
    let most = demand::most(here.cpus);
    if let Some(cpus) = arguments.wanted.cpus.filter(|cpus| *cpus > most) {
        bail!("--cpus {cpus} would take all of this machine's {} CPUs: give --cpus {most} or less", here.cpus);
    }
    let Some(before) = before::measure(&arguments.wanted, BEFORE, &subject, &stop)? else {
        return Ok(before::interrupted(&subject));
    };
    let decided = here.decide(&arguments.wanted, false, &subject, &before)?;
    let mut workload = Workload {
        reservation: decided.reservation,
        ..Workload::new(arguments.wanted.asked.name_or(&subject.name), arguments.wanted.asked.class(), decided.cpus)
    };
    workload.selectors.clone_from(&subject.selectors);
    workload.check()?;
    let Some(phase) = before.phase else {
        bail!("{}: nothing can be measured here: give --url for a probe, or its --histogram", subject.name)
    };
    let policies = Policies { on: decided.policy, off: against };
    let plan = Plan::of(arguments, &workload.name, policies.on.describe().name, &phase, &policies.all(), None)?;
    plan.say(arguments);
    let course = Course::new(arguments, &subject, workload, plan, Arc::clone(&stop));
    match agent {
        Some(agent) => leased::run(&agent, course, &policies),
        None => alone::run(course, &policies),
    }
}

impl Arguments {
    /// Is it a target that could be kept, and no workload of the configuration?
    pub fn is_of_a_target(&self) -> bool {
        self.workload.is_none()
    }

    /// The command line that protects the target permanently, by this policy.
    pub fn keep_line(&self, policy: &str) -> String {
        self.wanted.keep_line(&self.targets, Some(policy))
    }
}

/// What is compared.
pub struct Policies {
    /// While it is on.
    pub on: AnyPolicy,
    /// While it is off; None: nothing.
    pub off: Option<AnyPolicy>,
}

impl Policies {
    fn all(&self) -> Vec<&AnyPolicy> {
        std::iter::once(&self.on).chain(&self.off).collect()
    }
}

//! `quell doctor`: what works on this machine, and what stands in the way.

mod effects;
mod kubernetes;
pub mod short;
pub mod text;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;
use quell_agent::guardian::{Leftover, RunDir, leftovers};
use quell_linux::doctor::{Concern, Evidence, Finding, examine, findings};
use quell_linux::{HostOptions, LinuxHost, Roots};
use quell_model::{Capabilities, CpuSet, Description, Host, KnobKind, Signal, Support};
use quell_policy::recommend::{Advice, recommend};
use quell_policy::{AnyPolicy, Parameter};
use quell_report::screen::Screen;
use serde::Serialize;

use quell_command::output;

use super::facts::this_machine;

/// Report what limits Quell on this machine, and which policies work here.
///
/// Changes nothing, but for --effects. With --all: what each policy, knob and signal can do here, what is missing and how to get
/// it, and findings with their evidence: the file and its contents. Exit status 1 if POLICY cannot work here.
#[derive(Args)]
pub struct Arguments {
    /// Only this policy, with everything that it needs
    policy: Option<String>,
    /// As POLICY
    #[arg(long = "policy", value_name = "NAME", conflicts_with = "policy", hide = true)]
    named: Option<String>,
    /// Every policy, knob, signal and finding with its evidence
    #[arg(long, conflicts_with_all = ["policy", "named"])]
    all: bool,
    /// The CPUs that are meant to be exclusive, as a list such as 2-7 [default: all]
    #[arg(long, value_name = "LIST")]
    cpus: Option<CpuSet>,
    /// The run directory to search for what killed agents left [default: QUELL_RUN_DIR, or /run/quell]
    #[arg(long, value_name = "DIR")]
    run_dir: Option<PathBuf>,
    /// Measure how soon each cgroup knob takes effect here, with cgroups and threads of its own, and report nothing else
    /// (root, control groups of version 2; half a minute)
    #[arg(long, conflicts_with_all = ["policy", "named", "all", "cpus", "run_dir"])]
    effects: bool,
    /// Only what on this node of Kubernetes is in the way of CPUs for pods: kubelet, container runtime, cgroups, other plug-ins
    #[arg(long, conflicts_with_all = ["policy", "named", "all", "cpus", "run_dir", "effects"])]
    kubernetes: bool,
    /// With --kubernetes: the node's root; in a container with hostPID it is /proc/1/root
    #[arg(long, value_name = "DIR", default_value = "/", requires = "kubernetes")]
    root: PathBuf,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
}

/// Everything that the command says.
#[derive(Serialize)]
pub struct Report {
    host: String,
    exclusive: CpuSet,
    policies: Vec<PolicyReport>,
    signals: BTreeMap<Signal, Support>,
    knobs: BTreeMap<KnobKind, Support>,
    findings: Vec<Finding>,
    unread: Vec<String>,
    recommendation: Advice,
    /// May this user find out what works? Without, "cannot work" may be for want of rights.
    has_rights: bool,
}

/// How well one policy works here.
#[derive(Serialize)]
struct PolicyReport {
    name: &'static str,
    fidelity: Fidelity,
    missing: Vec<String>,
    limits: Vec<String>,
    parameters: Vec<Parameter>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Fidelity {
    Full,
    Partly,
    Cannot,
}

impl Fidelity {
    fn word(self) -> &'static str {
        match self {
            Fidelity::Full => "works",
            Fidelity::Partly => "works with limits",
            Fidelity::Cannot => "cannot work",
        }
    }
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let asked = arguments.policy.as_ref().or(arguments.named.as_ref());
    if arguments.effects {
        effects::run(arguments.json)?;
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.kubernetes {
        kubernetes::run(&arguments.root, arguments.json)?;
        return Ok(ExitCode::SUCCESS);
    }
    let roots = Roots::default();
    let capabilities = LinuxHost::new(roots.clone(), HostOptions::default())?.capabilities();
    let facts = examine(&roots)?;
    let exclusive = arguments.cpus.unwrap_or(facts.online);
    if exclusive.is_empty() {
        bail!("--cpus is empty; online CPUs: {}", facts.online);
    }
    if !exclusive.is_subset(&facts.online) {
        bail!("CPUs {} are not online; online are {}", exclusive.difference(&facts.online), facts.online);
    }
    let chosen: Vec<&Description> = match asked {
        None => AnyPolicy::ALL.iter().collect(),
        Some(name) => match AnyPolicy::ALL.iter().find(|policy| policy.name == name) {
            Some(policy) => vec![policy],
            None => bail!(AnyPolicy::unknown::<Infallible>(name)),
        },
    };
    let capabilities_for = |policy: &Description| quell_daemon::capabilities_for(&capabilities, policy);
    let mut found: Vec<Finding> =
        leftovers(&RunDir::path_of(arguments.run_dir.as_deref()), &roots.proc).iter().map(left_behind).collect();
    found.extend(quell_daemon::refusal().map(refused));
    if quell_scx::ready().is_ok() {
        found.extend(quell_scx::lacks().iter().map(lacking));
    }
    found.extend(findings(&facts, &exclusive));
    let machine = this_machine(&capabilities, facts.online.len() as u32, false);
    let report = Report {
        recommendation: recommend(&machine, None),
        has_rights: machine.has_rights,
        host: capabilities.host.clone(),
        exclusive,
        policies: chosen.into_iter().map(|policy| judge(&capabilities_for(policy), policy)).collect(),
        findings: found,
        unread: facts.unread,
        signals: capabilities.signals,
        knobs: capabilities.knobs,
    };
    if arguments.json {
        output::json_line(&report)?;
    } else {
        let screen = Screen::here();
        let text = match arguments.all || asked.is_some() {
            true => text::text(&report, asked.is_some(), &screen),
            false => short::text(&report, &screen),
        };
        write!(io::stdout(), "{text}")?;
    }
    let cannot = asked.is_some() && report.policies.iter().any(|one| one.fidelity == Fidelity::Cannot);
    Ok(if cannot { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// What a killed Quell left is found first: it may be why the rest is as it is.
fn left_behind(left: &Leftover) -> Finding {
    let values = left.values.map_or("a journal that this user or this version cannot read".to_owned(), |count| {
        format!("{count} to put back")
    });
    Finding {
        concern: Concern::Safety,
        what: left.what(),
        evidence: vec![Evidence { path: left.journal.display().to_string(), value: values }],
        consequence: "priorities, CPU sets and limits of an agent that is gone are still in force".into(),
        fix: left.fix.clone(),
    }
}

/// The kernel has sched_ext, and does not take this program.
fn refused(why: String) -> Finding {
    Finding {
        concern: Concern::Unavailable,
        what: "the kernel does not accept Quell's scheduler".into(),
        evidence: vec![Evidence { path: "loading it, without attaching it".into(), value: why }],
        consequence: "policies that grant CPUs lend them by affinity here, with guard beside them".into(),
        fix:
            "QUELL_LOG=debug quell check FILE shows what libbpf says; docs/how/scx.md lists the kernels that accept it"
                .into(),
    }
}

/// The kernel takes the program, and lacks something that makes it work less well.
fn lacking(lack: &quell_scx::Lack) -> Finding {
    Finding {
        concern: Concern::Latency,
        what: format!("this kernel lacks {}", lack.what),
        evidence: vec![Evidence { path: "/sys/kernel/btf/vmlinux".into(), value: "not in it".into() }],
        consequence: lack.consequence.into(),
        fix: "boot a newer kernel, if that matters here".into(),
    }
}

fn judge(capabilities: &Capabilities, policy: &Description) -> PolicyReport {
    let found = capabilities.fidelity(policy);
    let fidelity = match (found.missing.is_empty(), found.limits.is_empty()) {
        (true, true) => Fidelity::Full,
        (true, false) => Fidelity::Partly,
        (false, _) => Fidelity::Cannot,
    };
    let parameters = AnyPolicy::parameters(policy.name).unwrap_or_default();
    PolicyReport { name: policy.name, fidelity, missing: found.missing, limits: found.limits, parameters }
}

//! `quell doctor`: what works on this machine, and what stands in the way.

mod effects;

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
use quell_policy::{AnyPolicy, Parameter};
use quell_report::screen::Screen;
use quell_report::table::table;
use serde::Serialize;

use quell_command::output;

/// Say what each policy can do on this machine, what is missing and how to get it, and what makes CPUs of one's own
/// less than exclusive.
///
/// Changes nothing, but for --effects. Findings with their evidence: the file and what stands in it. Exit status 1 if POLICY
/// cannot work here.
#[derive(Args)]
pub struct Arguments {
    /// Only this policy, with everything that it needs
    policy: Option<String>,
    /// The CPUs that are meant to be exclusive, as a list such as 2-7; left out: all
    #[arg(long, value_name = "LIST")]
    cpus: Option<CpuSet>,
    /// The run directory to look for what killed agents left in [default: QUELL_RUN_DIR, or /run/quell]
    #[arg(long, value_name = "DIR")]
    run_dir: Option<PathBuf>,
    /// Measure how soon each knob of control groups acts here, with groups and threads of its own, and say nothing else
    /// (root, control groups of version 2; half a minute)
    #[arg(long, conflicts_with_all = ["policy", "cpus", "run_dir"])]
    effects: bool,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
}

/// Everything that the command says.
#[derive(Serialize)]
struct Report {
    host: String,
    exclusive: CpuSet,
    policies: Vec<PolicyReport>,
    signals: BTreeMap<Signal, Support>,
    knobs: BTreeMap<KnobKind, Support>,
    findings: Vec<Finding>,
    unread: Vec<String>,
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
    if arguments.effects {
        effects::run(arguments.json)?;
        return Ok(ExitCode::SUCCESS);
    }
    let roots = Roots::default();
    let capabilities = LinuxHost::new(roots.clone(), HostOptions::default())?.capabilities();
    let facts = examine(&roots)?;
    let exclusive = arguments.cpus.unwrap_or(facts.online);
    if exclusive.is_empty() {
        bail!("--cpus names no CPU; online are {}", facts.online);
    }
    if !exclusive.is_subset(&facts.online) {
        bail!("CPUs {} are not online; online are {}", exclusive.difference(&facts.online), facts.online);
    }
    let chosen: Vec<&Description> = match &arguments.policy {
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
    let report = Report {
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
        write!(io::stdout(), "{}", text(&report, arguments.policy.is_some(), &Screen::here()))?;
    }
    let cannot = arguments.policy.is_some() && report.policies.iter().any(|one| one.fidelity == Fidelity::Cannot);
    Ok(if cannot { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// What a killed Quell left is found first: it may be why the rest is as it is.
fn left_behind(left: &Leftover) -> Finding {
    let values =
        left.values.map_or("a journal that only root can read".to_owned(), |count| format!("{count} to put back"));
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
        what: "the kernel refuses Quell's scheduler".into(),
        evidence: vec![Evidence { path: "loading it, without attaching it".into(), value: why }],
        consequence: "policies that grant CPUs lend them by affinity here, with guard beside them".into(),
        fix: "QUELL_LOG=debug quell check FILE shows what libbpf says; docs/how/scx.md names the kernels that take it"
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
        fix: "boot a later kernel, if that matters here".into(),
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

fn text(report: &Report, one_policy: bool, screen: &Screen) -> String {
    let mut lines = vec![format!("Policies on the {} host", report.host)];
    let rows = report.policies.iter().map(|policy| {
        let because = if one_policy { String::new() } else { because(policy) };
        [policy.name.to_owned(), policy.fidelity.word().to_owned(), because]
    });
    lines.push(table(["policy", "here", if one_policy { "" } else { "because" }], rows).fit(screen));
    if one_policy {
        for policy in &report.policies {
            lines.extend(policy.missing.iter().map(|line| screen.hang(&format!("  missing  {line}"), 11)));
            lines.extend(policy.limits.iter().map(|line| screen.hang(&format!("  limit    {line}"), 11)));
            lines.push(String::new());
            lines.push(parameters(&policy.parameters, screen));
        }
    } else {
        lines.push(screen.wrap("`quell doctor POLICY` says the limits of a policy and all that it lacks."));
        lines.push(String::new());
        lines.push("Knobs".to_owned());
        let knobs = report.knobs.iter().map(|(kind, support)| supported(kind.name(), support));
        lines.push(table(["knob", "here", "how, or how to get it"], knobs).fit(screen));
        lines.push(String::new());
        lines.push("Signals".to_owned());
        let signals = report.signals.iter().map(|(signal, support)| supported(signal.name(), support));
        lines.push(table(["signal", "here", "how, or how to get it"], signals).fit(screen));
    }
    lines.push(String::new());
    match report.findings.len() {
        0 => lines.push("Nothing stands in the way.".to_owned()),
        count => {
            let s = if count == 1 { "" } else { "s" };
            lines.push(format!("{count} finding{s}, with CPUs {} meant to be exclusive", report.exclusive));
        }
    }
    for finding in &report.findings {
        let seen = finding.evidence.iter().map(|shown| format!("  seen   {}: {}", shown.path, shown.value));
        lines.push(String::new());
        lines.push(screen.hang(&format!("{}  {}", concern(finding.concern), finding.what), 15));
        lines.extend(seen.map(|line| screen.hang(&line, 9)));
        lines.push(screen.hang(&format!("  means  {}", finding.consequence), 9));
        lines.push(screen.hang(&format!("  fix    {}", finding.fix), 9));
    }
    lines.extend(report.unread.iter().map(|why| screen.wrap(&format!("! {why}"))));
    lines.join("\n") + "\n"
}

/// What can be set of a policy.
fn parameters(declared: &[Parameter], screen: &Screen) -> String {
    if declared.is_empty() {
        return "It has no parameters.".into();
    }
    let rows = declared.iter().map(|parameter| {
        let kind = parameter.kind.name().to_owned();
        [
            parameter.name.clone(),
            kind,
            parameter.default_text().to_owned(),
            parameter.allowed(),
            parameter.meaning.to_owned(),
        ]
    });
    let table = table(["parameter", "is a", "default", "allowed", "meaning"], rows).least(["is a"]).fit(screen);
    format!("Parameters, for `parameters` of a [[policy]] and for --set NAME=VALUE\n{table}")
}

fn supported(name: &str, support: &Support) -> [String; 3] {
    let (word, text) = match support {
        Support::Yes => ("yes", String::new()),
        Support::Partly(limit) => ("partly", limit.clone()),
        Support::No { why, fix } => ("no", format!("{why}; {fix}")),
    };
    [name.to_owned(), word.to_owned(), text]
}

fn concern(concern: Concern) -> &'static str {
    match concern {
        Concern::Unavailable => "[unavailable]",
        Concern::Exclusive => "[exclusive]  ",
        Concern::Latency => "[latency]    ",
        Concern::Shares => "[shares]     ",
        Concern::Safety => "[safety]     ",
    }
}

/// Why a policy cannot work; how many limits one has that can.
fn because(policy: &PolicyReport) -> String {
    let of = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    match (&policy.missing[..], policy.limits.len()) {
        ([], 0) => String::new(),
        ([], count) => of(count, "limit"),
        ([only], _) => only.clone(),
        ([first, more @ ..], _) => format!("{first} (and {} more)", more.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policys_parameters_are_a_table_with_defaults_ranges_and_meanings() {
        let of = |name: &str| parameters(&AnyPolicy::parameters(name).unwrap(), &Screen::columns(200));
        let guard = of("guard");
        let line = guard.lines().find(|line| line.contains("run_budget")).unwrap();
        assert!(["time", "50ms", "1ms to 10s", "without a pause"].iter().all(|part| line.contains(part)), "{guard}");
        assert!(of("caladan").contains("tasks.NAME.thresh_qd") && of("none").contains("no parameters"));
        let narrow = parameters(&AnyPolicy::parameters("guard").unwrap(), &Screen::columns(80));
        assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
    }

    /// A machine with something of everything.
    fn report() -> Report {
        let policy = |name, fidelity, missing: &[&str], limits: &[&str]| PolicyReport {
            name,
            fidelity,
            missing: missing.iter().map(ToString::to_string).collect(),
            limits: limits.iter().map(ToString::to_string).collect(),
            parameters: AnyPolicy::parameters(name).unwrap(),
        };
        let no = Support::No {
            why: "this kernel has no sched_ext".into(),
            fix: "boot one with CONFIG_SCHED_CLASS_EXT=y, from 6.12 on".into(),
        };
        Report {
            host: "linux".into(),
            exclusive: [quell_model::CpuId(1)].into_iter().collect(),
            policies: vec![
                policy("none", Fidelity::Full, &[], &[]),
                policy("guard", Fidelity::Partly, &[], &["knob 'idle-only': per thread, for workloads without controllers"]),
                policy(
                    "his",
                    Fidelity::Cannot,
                    &["signal 'llc-hit-ratio' is missing: the host counts none; run it in the simulator", "no ways"],
                    &[],
                ),
            ],
            signals: [(Signal::RunTime, Support::Yes), (Signal::QueueingDelay, no.clone())].into(),
            knobs: [(KnobKind::Class, Support::Yes), (KnobKind::CacheWays, no)].into(),
            findings: vec![Finding {
                concern: Concern::Latency,
                what: "CPUs may sleep so deep that they take 133 µs to wake up".into(),
                evidence: Vec::new(),
                consequence: "the first request after a pause is late by that much".into(),
                fix: "write 1 to /sys/devices/system/cpu/cpu*/cpuidle/state3/disable, or boot with intel_idle.max_cstate=1".into(),
            }],
            unread: vec!["/sys/kernel/debug/sched/preempt: permission denied".into()],
        }
    }

    #[test]
    fn the_doctor_fits_the_terminal() {
        for columns in [80, 200] {
            let text = text(&report(), false, &Screen::columns(columns));
            quell_report::testing::assert_fits(&text, columns);
            insta::assert_snapshot!(format!("doctor_{columns}"), text);
        }
    }
}

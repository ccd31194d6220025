//! `quell doctor`: what works on this machine, and what stands in the way.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;
use quell_bench::table::table;
use quell_linux::doctor::{Concern, Finding, examine, findings};
use quell_linux::{HostOptions, LinuxHost, Roots};
use quell_model::{Capabilities, CpuSet, Description, Host, KnobKind, Signal, Support};
use quell_policy::AnyPolicy;
use serde::Serialize;

/// Say what each policy can do on this machine, what is missing and how to get it, and what makes CPUs of one's own
/// less than exclusive.
///
/// Changes nothing. Findings with their evidence: the file and what stands in it.
#[derive(Args)]
pub struct Arguments {
    /// Only this policy, with everything that it needs
    policy: Option<String>,
    /// The CPUs that are meant to be exclusive, as a list such as 2-7; left out: all
    #[arg(long, value_name = "LIST")]
    cpus: Option<CpuSet>,
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
    let roots = Roots::default();
    let capabilities = LinuxHost::new(roots.clone(), HostOptions::default())?.capabilities();
    let facts = examine(&roots)?;
    let exclusive = arguments.cpus.unwrap_or(facts.online);
    if !exclusive.is_subset(&facts.online) {
        bail!("CPUs {} are not online; online are {}", exclusive.difference(&facts.online), facts.online);
    }
    let chosen: Vec<&Description> = match &arguments.policy {
        None => AnyPolicy::ALL.iter().collect(),
        Some(name) => match AnyPolicy::ALL.iter().find(|policy| policy.name == name) {
            Some(policy) => vec![policy],
            None => bail!("there is no policy '{name}'; there are: {}", AnyPolicy::names()),
        },
    };
    let capabilities_for = |policy: &Description| crate::host::capabilities_for(&capabilities, policy);
    let report = Report {
        host: capabilities.host.clone(),
        exclusive,
        policies: chosen.into_iter().map(|policy| judge(&capabilities_for(policy), policy)).collect(),
        findings: findings(&facts, &exclusive),
        unread: facts.unread,
        signals: capabilities.signals,
        knobs: capabilities.knobs,
    };
    let mut out = io::stdout().lock();
    if arguments.json {
        serde_json::to_writer(&mut out, &report)?;
        writeln!(out)?;
    } else {
        write!(out, "{}", text(&report, arguments.policy.is_some()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn judge(capabilities: &Capabilities, policy: &Description) -> PolicyReport {
    let found = capabilities.fidelity(policy);
    let fidelity = match (found.missing.is_empty(), found.limits.is_empty()) {
        (true, true) => Fidelity::Full,
        (true, false) => Fidelity::Partly,
        (false, _) => Fidelity::Cannot,
    };
    PolicyReport { name: policy.name, fidelity, missing: found.missing, limits: found.limits }
}

fn text(report: &Report, one_policy: bool) -> String {
    let mut lines = vec![format!("Policies on the {} host", report.host)];
    let rows = report.policies.iter().map(|policy| {
        let worst = policy.missing.first().or(policy.limits.first());
        let more = (policy.missing.len() + policy.limits.len()).saturating_sub(1);
        let more = if more == 0 { String::new() } else { format!(" (and {more} more)") };
        let worst = worst.map_or(String::new(), |line| format!("{}{more}", shortened(line)));
        [policy.name.to_owned(), policy.fidelity.word().to_owned(), if one_policy { String::new() } else { worst }]
    });
    lines.push(left(table(["policy", "here", if one_policy { "" } else { "because" }], rows), 3));
    if one_policy {
        for policy in &report.policies {
            lines.extend(policy.missing.iter().map(|line| format!("  missing  {line}")));
            lines.extend(policy.limits.iter().map(|line| format!("  limit    {line}")));
        }
    } else {
        lines.push("`quell doctor POLICY` says all of one policy.".to_owned());
        lines.push(String::new());
        lines.push("Knobs".to_owned());
        let knobs = report.knobs.iter().map(|(kind, support)| supported(kind.name(), support));
        lines.push(left(table(["knob", "here", "how, or how to get it"], knobs), 3));
        lines.push(String::new());
        lines.push("Signals".to_owned());
        let signals = report.signals.iter().map(|(signal, support)| supported(signal.name(), support));
        lines.push(left(table(["signal", "here", "how, or how to get it"], signals), 3));
    }
    lines.push(String::new());
    match report.findings.len() {
        0 => lines.push("Nothing stands in the way.".to_owned()),
        count => lines.push(format!("{count} findings, with CPUs {} meant to be exclusive", report.exclusive)),
    }
    for finding in &report.findings {
        lines.push(format!("\n{}  {}", concern(finding.concern), finding.what));
        lines.extend(finding.evidence.iter().map(|shown| format!("  seen   {}: {}", shown.path, shown.value)));
        lines.push(format!("  means  {}", finding.consequence));
        lines.push(format!("  mend   {}", finding.mend));
    }
    lines.extend(report.unread.iter().map(|why| format!("! {why}")));
    lines.join("\n") + "\n"
}

fn left(mut table: comfy_table::Table, columns: usize) -> String {
    for column in table.column_iter_mut().take(columns) {
        column.set_cell_alignment(comfy_table::CellAlignment::Left);
    }
    table.to_string()
}

fn supported(name: &str, support: &Support) -> [String; 3] {
    let (word, text) = match support {
        Support::Yes => ("yes", String::new()),
        Support::Partly(limit) => ("partly", limit.clone()),
        Support::No { why, mend } => ("no", format!("{why}; {mend}")),
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

/// As much of a line as a table bears.
fn shortened(line: &str) -> String {
    const LONGEST: usize = 90;
    match line.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line.to_owned(),
    }
}

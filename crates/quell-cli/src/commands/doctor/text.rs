//! `quell doctor --all` and `quell doctor POLICY`: everything, for people.

use quell_linux::doctor::{Concern, Finding};
use quell_model::Support;
use quell_policy::Parameter;
use quell_report::screen::Screen;
use quell_report::table::table;

use super::super::recommend;
use super::{PolicyReport, Report};

/// Everything.
pub fn text(report: &Report, one_policy: bool, screen: &Screen) -> String {
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
        lines.push(screen.wrap("`quell doctor POLICY` lists a policy's limits and everything it lacks."));
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
        0 => lines.push("No problem found.".to_owned()),
        count => {
            let s = if count == 1 { "" } else { "s" };
            lines.push(format!("{count} finding{s}, with CPUs {} meant to be exclusive", report.exclusive));
        }
    }
    for one in &report.findings {
        lines.push(String::new());
        lines.extend(finding(one, screen));
    }
    lines.extend(report.unread.iter().map(|why| screen.wrap(&format!("! {why}"))));
    if !one_policy {
        lines.push(String::new());
        lines.push(recommend::text(&report.recommendation, screen));
    }
    lines.join("\n").trim_end().to_owned() + "\n"
}

/// A finding with its evidence.
pub fn finding(finding: &Finding, screen: &Screen) -> Vec<String> {
    let seen = finding.evidence.iter().map(|shown| format!("  seen   {}: {}", shown.path, shown.value));
    let mut lines = vec![screen.hang(&format!("{}  {}", concern(finding.concern), finding.what), 15)];
    lines.extend(seen.map(|line| screen.hang(&line, 9)));
    lines.push(screen.hang(&format!("  means  {}", finding.consequence), 9));
    lines.push(screen.hang(&format!("  fix    {}", finding.fix), 9));
    lines
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

pub fn concern(concern: Concern) -> &'static str {
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
pub mod tests {
    use std::collections::BTreeMap;

    use quell_model::{KnobKind, Signal};
    use quell_policy::AnyPolicy;
    use quell_policy::recommend::{MachineFacts, OwnScheduler, recommend};

    use super::super::{Fidelity, PolicyReport};
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
    pub fn report() -> Report {
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
        let machine = MachineFacts {
            cpus: 2,
            own_scheduler: OwnScheduler::No("this kernel has no sched_ext".into()),
            alone: false,
            has_rights: true,
            cannot: BTreeMap::new(),
            counters: false,
            resctrl: false,
        };
        Report {
            recommendation: recommend(&machine, None),
            has_rights: true,
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

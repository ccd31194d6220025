//! The report on workloads, for people.

use quell_gap::{Report, WorkloadGap};
use quell_model::{Nanos, amount};
use quell_report::human;
use quell_report::screen::Screen;
use quell_report::table::table;

/// The report for people.
pub fn text(report: &Report, screen: &Screen) -> String {
    let window = report.window.0 as f64;
    let cpus = |time: Nanos| format!("{:.2}", time.0 as f64 / window);
    let seconds = |time: Nanos| format!("{:.3}", time.as_secs_f64());
    let head = [
        "workload",
        "requested",
        "demanded",
        "got",
        "honoured",
        "gap s",
        "FRS s",
        "PCT s",
        "rest s",
        "shared s",
        "phantom s",
    ];
    let rows = report.workloads.iter().map(|workload| {
        let account = workload.account();
        [
            marked(workload),
            cpus(account.requested),
            cpus(account.demanded),
            cpus(account.got),
            account.honoured().map_or("–".into(), human::percent),
            seconds(account.gap),
            seconds(account.frs),
            seconds(account.pct),
            seconds(account.rest),
            seconds(account.shared),
            seconds(account.phantom),
        ]
    });
    let mut text = table(head, rows).least(["phantom s", "shared s", "rest s", "demanded"]).fit(screen) + "\n";
    let mut line = |words: String| {
        text.push_str(&screen.wrap(&words));
        text.push('\n');
    };
    line(format!(
        "requested, demanded and got in CPUs, the others in CPU-seconds, over {}; this machine has {} CPUs",
        report.window, report.cpus
    ));
    if report.interrupted {
        line("ended before its time".into());
    }
    match &report.inexact {
        Some(reason) => line(format!("estimated: {reason}")),
        None if report.losses.events + report.losses.members > 0 => line(format!(
            "NOT exact: {} events and {} new threads were lost in tracing",
            report.losses.events, report.losses.members
        )),
        None if report.losses.switches > 0 => line(format!(
            "exact but for {} that the kernel did not report: {} scheduling events, none lost",
            amount(report.losses.switches, "switch", "switches"),
            report.events
        )),
        None => line(format!("exact: {} scheduling events, none lost", report.events)),
    }
    for workload in &report.workloads {
        if let Some(takers) = taken_by(workload) {
            line(takers);
        }
    }
    for workload in &report.workloads {
        if let Some(estimate) = workload.estimate {
            line(format!(
                "estimate of {}: gap {} ± {} s, causes ± {} s",
                workload.request.name,
                seconds(estimate.account.gap),
                seconds(estimate.gap_error),
                seconds(estimate.cause_error)
            ));
        }
    }
    if let Some(cost) = report.cost {
        line(format!(
            "tracing cost {} of CPU time in {} runs, {} each: {:.3} % of the machine",
            cost.time,
            cost.runs,
            Nanos(cost.time.0 / cost.runs.max(1)),
            100.0 * cost.time.0 as f64 / (window * f64::from(report.cpus))
        ));
    }
    if report.steal > Nanos::ZERO {
        line(format!(
            "the hypervisor took {} away; it counts as run time of the threads it was taken from",
            report.steal
        ));
    }
    for workload in &report.workloads {
        workload.caveats.iter().for_each(|caveat| line(format!("! {}: {caveat}", workload.request.name)));
    }
    text
}

/// A workload's name, with a mark if its accounts are not to be relied on.
fn marked(workload: &WorkloadGap) -> String {
    format!("{}{}", workload.request.name, if workload.caveats.is_empty() { "" } else { " !" })
}

/// Takers that are named; what the others took is one sum.
const TAKERS_SHOWN: usize = 5;

/// The processes that ran while it waited, in a line; none if it lost nothing that two decimals show.
fn taken_by(workload: &WorkloadGap) -> Option<String> {
    let hundredths = |nanos: u64| (nanos + 5_000_000) / 10_000_000;
    let seconds = |nanos: u64| format!("{:.2}", hundredths(nanos) as f64 / 100.0);
    let takers = workload.taken_by.as_ref()?;
    let all: u64 = takers.iter().map(|taker| taker.time.0).sum();
    let named = takers.iter().take(TAKERS_SHOWN).filter(|taker| hundredths(taker.time.0) > 0);
    let mut parts: Vec<String> = Vec::new();
    let mut others = all;
    for taker in named {
        others -= taker.time.0;
        let count = if taker.threads > 1 { format!("[{}]", taker.threads) } else { String::new() };
        parts.push(format!("{} {}{count}", seconds(taker.time.0), taker.name));
    }
    if hundredths(others) > 0 {
        parts.push(format!("{} others", seconds(others)));
    }
    (!parts.is_empty())
        .then(|| format!("{} waited {} s while others ran: {}", workload.request.name, seconds(all), parts.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::super::workload;
    use super::*;

    /// A cache that waited behind others, with all that can be said of it.
    fn report() -> Report {
        let account = quell_gap::Account {
            requested: Nanos::from_secs(3),
            demanded: Nanos::from_millis(450),
            due: Nanos::from_millis(450),
            got: Nanos::from_millis(158),
            kept: Nanos::from_millis(158),
            gap: Nanos::from_millis(292),
            frs: Nanos::from_millis(292),
            shared: Nanos::from_millis(294),
            ..Default::default()
        };
        let taker =
            |name: &str, threads, ms| quell_gap::Taker { name: name.into(), threads, time: Nanos::from_millis(ms) };
        let workload = quell_gap::WorkloadGap {
            request: workload("cache=pid:1,cpus=1").unwrap(),
            threads: 4,
            exact: Some(account),
            doubt: Some(Nanos::from_millis(6)),
            estimate: Some(quell_gap::Estimate {
                account,
                gap_error: Nanos::from_millis(200),
                cause_error: Nanos::from_millis(290),
            }),
            preemptions: Some(12),
            taken_by: Some(vec![taker("antagonist", 4, 240), taker("kworker", 3, 50)]),
            caveats: vec!["off by at most 6 ms: the kernel did not report which thread ran".into()],
        };
        Report {
            window: Nanos::from_secs(3),
            period: Nanos::from_millis(100),
            cpus: 2,
            workloads: vec![workload],
            inexact: None,
            losses: Default::default(),
            events: 48_213,
            late: 0,
            steal: Nanos::from_millis(3),
            interrupted: true,
            cost: None,
        }
    }

    #[test]
    fn the_report_fits_the_terminal() {
        for columns in [80, 200] {
            let text = text(&report(), &Screen::columns(columns));
            quell_report::testing::assert_fits(&text, columns);
            insta::assert_snapshot!(format!("gap_{columns}"), text);
        }
    }
}

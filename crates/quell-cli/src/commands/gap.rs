//! `quell gap`: what workloads get of the CPUs that they requested, and what takes the rest.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use quell_gap::{GapError, Machine, Method, Report, Request, Session, Window, WorkloadGap};
use quell_model::{CpuCount, Nanos, Selector, amount};
use quell_report::human;
use quell_report::screen::Screen;
use quell_report::table::table;
use serde::Serialize;

use quell_command::{output, progress, signals, units};

/// What workloads get of the CPUs that they requested, and what takes the rest.
///
/// Watches and changes nothing. The gap is what a workload was short of within its request; its causes are forced runqueue
/// sharing (FRS: it waited while another workload's thread ran on its CPU) and phantom CPU time (PCT: CPUs idled that its
/// threads could not use). docs/operate/gap.md defines every column.
#[derive(Args)]
pub struct Arguments {
    /// How long to watch
    #[arg(long = "for", default_value = "10s", value_name = "TIME", value_parser = units::positive_duration, allow_negative_numbers = true)]
    length: Nanos,
    /// A workload: its name, where its threads are (pid:N, cgroup:PATH, unit:NAME, command:TEXT,
    /// container:ID, pod:UID; several are allowed), and
    /// the CPUs that it requested
    #[arg(long = "workload", required = true, value_name = "NAME=WHERE,cpus=N", value_parser = workload)]
    workloads: Vec<Request>,
    /// Settle accounts by periods of this length; the kernel's quota period is 100 ms
    #[arg(long, default_value = "100ms", value_name = "TIME", value_parser = units::positive_duration, allow_negative_numbers = true)]
    period: Nanos,
    /// By which means
    #[arg(long, value_enum, default_value = "auto")]
    method: MethodName,
    /// Measure one such time after the other, until Ctrl-C
    #[arg(long)]
    watch: bool,
    /// Say what tracing costs
    #[arg(long)]
    overhead: bool,
    /// Print the report as one line of JSON (with --watch, a line for each time)
    #[arg(long)]
    json: bool,
}

/// [`Method`], with its help.
#[derive(Clone, Copy, ValueEnum)]
enum MethodName {
    /// Exact if the kernel allows tracing, else the estimate
    Auto,
    /// Exact by tracing the scheduler, or not at all
    Exact,
    /// Estimated from /proc/PID/schedstat
    Estimate,
    /// Both at once, to compare them
    Both,
}

/// How a workload's threads are named.
const SELECTORS: &str = "pid:N, cgroup:PATH, unit:NAME, command:TEXT, container:ID, pod:UID";

/// A workload from its text.
fn workload(text: &str) -> Result<Request, String> {
    let (name, rest) = text.split_once('=').ok_or("expected NAME=WHERE,cpus=N, such as web=pid:4242,cpus=2")?;
    if name.is_empty() {
        return Err("it has no name; write one before the =".into());
    }
    let mut request = Request { name: name.to_owned(), cpus: CpuCount::ZERO, selectors: Vec::new() };
    let mut requested = false;
    for part in rest.split(',') {
        if let Some(cpus) = part.strip_prefix("cpus=") {
            request.cpus = cpus.parse()?;
            requested = true;
            continue;
        }
        let selector = match part.split_once(':') {
            Some(("pid", pid)) => Selector::Pid(pid.parse().map_err(|_| format!("'{pid}' is not a process number"))?),
            Some(("cgroup", path)) => Selector::Cgroup(path.into()),
            Some(("unit", unit)) => Selector::Unit(unit.to_owned()),
            Some(("command", command)) => Selector::Command(command.into()),
            Some(("container", id)) => Selector::Container(id.to_owned()),
            Some(("pod", uid)) => Selector::Pod(uid.to_owned()),
            _ => return Err(format!("'{part}' is none of {SELECTORS}, cpus=N")),
        };
        request.selectors.push(selector);
    }
    match (request.selectors.is_empty(), requested) {
        (true, _) => Err(format!("it names no threads; add one of {SELECTORS}")),
        (_, false) => Err("it requests no CPUs; add cpus=N (cpus=0 for a neighbour without a request)".into()),
        _ => Ok(request),
    }
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let window = Window {
        length: arguments.length,
        period: arguments.period,
        method: match arguments.method {
            MethodName::Auto => Method::Auto,
            MethodName::Exact => Method::Exact,
            MethodName::Estimate => Method::Estimate,
            MethodName::Both => Method::Both,
        },
        cost: arguments.overhead,
    };
    if window.period < Nanos::from_millis(20) || window.length < window.period {
        bail!(
            "a period of {} in {}: a period is at least 20 ms, and the time to watch at least one period",
            window.period,
            window.length
        );
    }
    for (index, request) in arguments.workloads.iter().enumerate() {
        if arguments.workloads[..index].iter().any(|other| other.name == request.name) {
            bail!(
                "two workloads are called '{}'; give each a name of its own, or one workload both selectors",
                request.name
            );
        }
    }
    let stop = Arc::new(AtomicBool::new(false));
    signals::set_on_interrupt(&stop)?;
    let mut session = Session::open(&arguments.workloads, &window, &Machine::here()?)?;
    let mut reports = 0;
    loop {
        let bar = if arguments.watch && reports > 0 {
            indicatif::ProgressBar::hidden()
        } else {
            progress::of_time(window.length, "watching")
        };
        let report = session.measure(&mut |over| {
            bar.set_position(over.0 / 1_000_000);
            !stop.load(Ordering::Relaxed)
        });
        bar.finish_and_clear();
        match report {
            Ok(report) => print(&report, arguments)?,
            Err(GapError::Interrupted) if reports > 0 => break,
            Err(GapError::Interrupted) => {
                eprintln!("quell: interrupted before the first period of {} was over", window.period);
                return Ok(ExitCode::from(INTERRUPTED));
            }
            Err(error) => return Err(error.into()),
        }
        reports += 1;
        if !arguments.watch || stop.load(Ordering::Relaxed) {
            break;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The exit status where Ctrl-C left nothing to report.
const INTERRUPTED: u8 = 130;

/// In what the numbers of the JSON are.
const UNITS: [(&str, &str); 2] = [("cpus", "CPUs"), ("window, period, accounts, errors, doubt, takers' times", "ns")];

#[derive(Serialize)]
struct AsJson<'a> {
    units: BTreeMap<&'a str, &'a str>,
    #[serde(flatten)]
    report: &'a Report,
}

fn print(report: &Report, arguments: &Arguments) -> Result<()> {
    let mut out = io::stdout().lock();
    if arguments.json {
        serde_json::to_writer(&mut out, &output::stamped(AsJson { units: UNITS.into(), report }))?;
        writeln!(out)?;
    } else {
        if arguments.watch && out.is_terminal() {
            // From the top, on an empty screen.
            write!(out, "\x1b[H\x1b[2J")?;
        }
        write!(out, "{}", text(report, &Screen::here()))?;
        if arguments.watch && !out.is_terminal() {
            writeln!(out)?;
        }
    }
    out.flush()?;
    Ok(())
}

/// The report for people.
fn text(report: &Report, screen: &Screen) -> String {
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
        line(format!("the hypervisor took {} away; it counts as run time of whoever it was taken from", report.steal));
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
    use super::*;

    #[test]
    fn workloads_are_read_and_mistakes_name_the_fix() {
        let request = workload("web=cgroup:/a.slice/b,pid:7,cpus=1.5").unwrap();
        assert_eq!((request.name.as_str(), request.cpus), ("web", CpuCount(1500)));
        assert_eq!(request.selectors, [Selector::Cgroup("/a.slice/b".into()), Selector::Pid(7)]);
        let request = workload("web=container:4c01,pod:aa-bb,cpus=2").unwrap();
        assert_eq!(request.selectors, [Selector::Container("4c01".into()), Selector::Pod("aa-bb".into())]);
        for (text, fix) in [
            ("web", "NAME=WHERE"),
            ("=pid:1,cpus=1", "name"),
            ("web=cpus=1", "add one of pid:N"),
            ("web=pid:1", "add cpus=N"),
            ("web=pid:x,cpus=1", "process number"),
            ("web=pid:1,cpus=-1", "CPUs"),
            ("web=uid:1,cpus=1", "none of pid:N"),
        ] {
            let error = workload(text).unwrap_err();
            assert!(error.contains(fix), "{text}: {error}");
        }
    }

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
            caveats: vec!["off by at most 6 ms: the kernel did not tell who ran".into()],
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

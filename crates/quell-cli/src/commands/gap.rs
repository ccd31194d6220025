//! `quell gap`: what workloads get of the CPUs that they requested, and what takes the rest.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use quell_bench::human;
use quell_bench::table::table;
use quell_gap::{Machine, Method, Report, Request, Window, measure};
use quell_model::{CpuCount, Nanos, Selector};

use super::units;

/// What workloads get of the CPUs that they requested, and what takes the rest.
///
/// Watches and changes nothing. The gap is what a workload was short of within its request; its causes are forced runqueue
/// sharing (FRS: it waited while another workload's thread ran on its CPU) and phantom CPU time (PCT: CPUs idled that its
/// threads could not use). docs/gap.md defines every column.
#[derive(Args)]
#[command(after_help = "Example:\n  quell gap --for 10s --workload web=cgroup:/system.slice/web.service,cpus=2 \
                        --workload batch=pid:4242,cpus=1")]
pub struct Arguments {
    /// How long to watch
    #[arg(long = "for", default_value = "10s", value_name = "TIME")]
    length: humantime::Duration,
    /// A workload: its name, where its threads are (pid:N, cgroup:PATH, unit:NAME, command:TEXT; several are allowed), and
    /// the CPUs that it requested
    #[arg(long = "workload", required = true, value_name = "NAME=WHERE,cpus=N", value_parser = workload)]
    workloads: Vec<Request>,
    /// Settle accounts by periods of this length; the kernel's quota period is 100 ms
    #[arg(long, default_value = "100ms", value_name = "TIME")]
    period: humantime::Duration,
    /// By which means
    #[arg(long, value_enum, default_value = "auto")]
    method: MethodName,
    /// Say what tracing costs
    #[arg(long)]
    overhead: bool,
    /// Print the report as one line of JSON
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
            Some(("pid", pid)) => Selector::Pid(pid.parse().map_err(|_| format!("'{pid}' is no process number"))?),
            Some(("cgroup", path)) => Selector::Cgroup(path.into()),
            Some(("unit", unit)) => Selector::Unit(unit.to_owned()),
            Some(("command", command)) => Selector::Command(command.to_owned()),
            _ => return Err(format!("'{part}' is none of pid:N, cgroup:PATH, unit:NAME, command:TEXT, cpus=N")),
        };
        request.selectors.push(selector);
    }
    match (request.selectors.is_empty(), requested) {
        (true, _) => Err("it names no threads; add pid:N, cgroup:PATH, unit:NAME or command:TEXT".into()),
        (_, false) => Err("it requests no CPUs; add cpus=N (cpus=0 for a neighbour without a request)".into()),
        _ => Ok(request),
    }
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let window = Window {
        length: Nanos(units::nanoseconds(arguments.length)),
        period: Nanos(units::nanoseconds(arguments.period)),
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
    let bar = progress_bar(window.length, "watching");
    let report = measure(&arguments.workloads, &window, &Machine::here()?, &mut |over| {
        bar.set_position(over.0 / 1_000_000);
        true
    })?;
    bar.finish_and_clear();
    let mut out = io::stdout().lock();
    if arguments.json {
        serde_json::to_writer(&mut out, &report)?;
        writeln!(out)?;
    } else {
        write!(out, "{}", text(&report))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A bar of milliseconds on the error output.
pub fn progress_bar(length: Nanos, what: impl Into<String>) -> indicatif::ProgressBar {
    let style = indicatif::ProgressStyle::with_template("{prefix} {wide_bar} {eta}").expect("constant template");
    indicatif::ProgressBar::new(length.0 / 1_000_000).with_style(style).with_prefix(what.into())
}

/// The report for people.
fn text(report: &Report) -> String {
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
            workload.request.name.clone(),
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
    let mut text = format!("{}\n", table(head, rows));
    let mut line = |words: String| {
        text.push_str(&words);
        text.push('\n');
    };
    line(format!(
        "requested, demanded and got in CPUs, the others in CPU-seconds, over {}; this machine has {} CPUs",
        report.window, report.cpus
    ));
    match &report.inexact {
        Some(reason) => line(format!("estimated: {reason}")),
        None if report.losses.events + report.losses.members > 0 => line(format!(
            "NOT exact: {} events and {} new threads were lost in tracing",
            report.losses.events, report.losses.members
        )),
        None => line(format!("exact: {} scheduling events, none lost", report.events)),
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
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workloads_are_read_and_mistakes_name_the_mend() {
        let request = workload("web=cgroup:/a.slice/b,pid:7,cpus=1.5").unwrap();
        assert_eq!((request.name.as_str(), request.cpus), ("web", CpuCount(1500)));
        assert_eq!(request.selectors, [Selector::Cgroup("/a.slice/b".into()), Selector::Pid(7)]);
        for (text, mend) in [
            ("web", "NAME=WHERE"),
            ("=pid:1,cpus=1", "name"),
            ("web=cpus=1", "add pid:N"),
            ("web=pid:1", "add cpus=N"),
            ("web=pid:x,cpus=1", "process number"),
            ("web=pid:1,cpus=-1", "CPUs"),
            ("web=uid:1,cpus=1", "none of pid:N"),
        ] {
            let error = workload(text).unwrap_err();
            assert!(error.contains(mend), "{text}: {error}");
        }
    }
}

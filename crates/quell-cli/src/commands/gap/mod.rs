//! `quell gap`: what workloads get of the CPUs that they requested, and what takes the rest.

mod all;
pub mod managed;
mod pods;
mod report;
pub mod services;

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use quell_gap::{GapError, Machine, Method, Report, Request, Session, Window};
use quell_model::{CpuCount, Nanos, Selector};
use quell_report::screen::Screen;
use serde::Serialize;

use super::agent_socket::AgentSocket;
use quell_command::{output, progress, signals, units};

/// Which services wait for CPUs, and what runs on them meanwhile.
///
/// Watches and changes nothing. Without --workload: the ten services (units, containers, else a command and what it started)
/// that lost most CPU time, and what took it. With --workload: what workloads get of the CPUs that they requested, and what
/// takes the rest: forced runqueue sharing (FRS: it waited while another workload's thread ran on its CPU) and phantom CPU
/// time (PCT: CPUs idled that its threads could not use). docs/operate/gap.md defines every column.
#[derive(Args)]
pub struct Arguments {
    /// These services alone: each a workload's name, a unit, a container, a cgroup, a pid or a program's name
    #[arg(value_name = "TARGET", conflicts_with = "workloads")]
    targets: Vec<String>,
    /// The node's pods, by the account of the running agent
    #[arg(long, conflicts_with_all = ["targets", "workloads", "length", "method", "watch"])]
    pods: bool,
    /// How long to watch [default: 5s; with --workload 10s]
    #[arg(long = "for", value_name = "TIME", value_parser = units::positive_duration, allow_negative_numbers = true)]
    length: Option<Nanos>,
    /// A workload: its name, where its threads are (pid:N, cgroup:PATH, unit:NAME, command:TEXT,
    /// container:ID, label:KEY=VALUE, pod:UID; several are allowed), and
    /// the CPUs that it requested
    #[arg(long = "workload", value_name = "NAME=WHERE,cpus=N", value_parser = workload)]
    workloads: Vec<Request>,
    /// Account by periods of this length; the kernel's quota period is 100 ms
    #[arg(long, default_value = "100ms", value_name = "TIME", value_parser = units::positive_duration, allow_negative_numbers = true, requires = "workloads")]
    period: Nanos,
    /// How to measure
    #[arg(long, value_enum, default_value = "auto")]
    method: MethodName,
    /// Repeat until Ctrl-C
    #[arg(long)]
    watch: bool,
    /// Report what tracing costs
    #[arg(long, requires = "workloads")]
    overhead: bool,
    /// Print the report as one line of JSON (with --watch, a line for each time)
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    agent: AgentSocket,
}

/// [`Method`], with its help.
#[derive(Clone, Copy, ValueEnum)]
enum MethodName {
    /// Exact if the kernel allows tracing, else the estimate
    Auto,
    /// Exact by tracing the scheduler, or fail
    Exact,
    /// Estimated from /proc/PID/schedstat
    Estimate,
    /// Both at once, to compare them
    Both,
}

/// How long workloads are watched, if nothing else is said.
const LENGTH: Nanos = Nanos::from_secs(10);

/// How a workload's threads are named.
const SELECTORS: &str = "pid:N, cgroup:PATH, unit:NAME, command:TEXT, container:ID, label:KEY=VALUE, pod:UID";

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
            Some(("pid", pid)) => Selector::Pid(pid.parse().map_err(|_| format!("'{pid}' is not a pid"))?),
            Some(("cgroup", path)) => Selector::Cgroup(path.into()),
            Some(("unit", unit)) => Selector::Unit(unit.to_owned()),
            Some(("command", command)) => Selector::Command(command.into()),
            Some(("container", id)) => Selector::Container(id.to_owned()),
            Some(("label", label)) => Selector::Label(label.to_owned()),
            Some(("pod", uid)) => Selector::Pod(uid.to_owned()),
            _ => return Err(format!("'{part}' is not one of {SELECTORS}, cpus=N")),
        };
        request.selectors.push(selector);
    }
    match (request.selectors.is_empty(), requested) {
        (true, _) => Err(format!("it has no selector; add one of {SELECTORS}")),
        (_, false) => Err("it requests no CPUs; add cpus=N (cpus=0 for a neighbour without a request)".into()),
        _ => Ok(request),
    }
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    if arguments.pods {
        return pods::run(&arguments.agent, arguments.json);
    }
    let method = match arguments.method {
        MethodName::Auto => Method::Auto,
        MethodName::Exact => Method::Exact,
        MethodName::Estimate => Method::Estimate,
        MethodName::Both => Method::Both,
    };
    if arguments.workloads.is_empty() {
        let stop = Arc::new(AtomicBool::new(false));
        signals::set_on_interrupt(&stop)?;
        let length = arguments.length.unwrap_or(all::LENGTH);
        let Arguments { targets, watch, json, agent, .. } = arguments;
        return all::run(&all::Question { targets, length, method, watch: *watch, json: *json, agent }, &stop);
    }
    let length = arguments.length.unwrap_or(LENGTH);
    let window = Window { length, period: arguments.period, method, cost: arguments.overhead };
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
                "two workloads have the name '{}'; give each a different name, or give one workload both selectors",
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
        write!(out, "{}", report::text(report, &Screen::here()))?;
        if arguments.watch && !out.is_terminal() {
            writeln!(out)?;
        }
    }
    out.flush()?;
    Ok(())
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
            ("web=pid:x,cpus=1", "is not a pid"),
            ("web=pid:1,cpus=-1", "CPUs"),
            ("web=uid:1,cpus=1", "not one of pid:N"),
        ] {
            let error = workload(text).unwrap_err();
            assert!(error.contains(fix), "{text}: {error}");
        }
    }
}

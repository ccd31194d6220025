//! `quell sim`: a scenario on the simulated machine, under one policy or several.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, bail};
use clap::Args;
use quell_bench::human;
use quell_bench::table::table;
use quell_model::{Nanos, Policy};
use quell_policy::AnyPolicy;
use quell_sim::host::capabilities;
use quell_sim::scenario::{Observed, PolicySpec, Report, SHIPPED, Scenario, WorkloadReport, run as simulate};
use rayon::prelude::*;

use super::cells::NOTHING;

/// Run a scenario on a simulated machine, under one policy or several.
///
/// The same scenario, policies and seed give the same output, byte for byte, on every machine.
#[derive(Args)]
pub struct Arguments {
    /// A scenario's file, or the name of one that comes with Quell (see --list)
    #[arg(required_unless_present_any = ["list", "example"])]
    scenario: Option<PathBuf>,
    /// The policies to compare [default: those of the scenario, else none]
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    policies: Vec<String>,
    /// Change the scenario: a dotted key and its value, such as workload.server.weight=300
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Print the results as JSON, one line a policy
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print the results as CSV, one line for each workload under each policy
    #[arg(long)]
    csv: bool,
    /// Name the scenarios that come with Quell
    #[arg(long)]
    list: bool,
    /// Print an annotated scenario, to begin one's own with
    #[arg(long)]
    example: bool,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let mut out = io::stdout().lock();
    if arguments.example {
        write!(out, "{}", SHIPPED[0].text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let Some(path) = arguments.scenario.as_ref().filter(|_| !arguments.list) else {
        let title = |text: &str| Scenario::parse(Path::new("shipped"), text, &[]).map(|scenario| scenario.title);
        let rows = SHIPPED.iter().map(|shipped| Ok([shipped.name.to_owned(), title(shipped.text)?]));
        writeln!(out, "{}", table(["scenario", "what it is"], rows.collect::<Result<Vec<_>>>()?))?;
        return Ok(ExitCode::SUCCESS);
    };
    let scenario = read(path, &arguments.set)?;
    let policies = policies(&scenario, &arguments.policies)?;
    let reports = compare(&scenario, &policies)?;
    if arguments.json {
        for report in &reports {
            serde_json::to_writer(&mut out, report)?;
            writeln!(out)?;
        }
    } else if arguments.csv {
        write!(out, "{}", csv(&reports))?;
    } else {
        writeln!(out, "{}", text(&scenario, &reports))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn read(path: &Path, changes: &[String]) -> Result<Scenario> {
    let shipped = SHIPPED.iter().find(|shipped| Path::new(shipped.name) == path);
    Ok(match shipped {
        Some(shipped) if !path.exists() => Scenario::parse(path, shipped.text, changes)?,
        _ => Scenario::read(path, changes).with_context(|| {
            let names: Vec<&str> = SHIPPED.iter().map(|shipped| shipped.name).collect();
            format!("scenario (a file, or one of {})", names.join(", "))
        })?,
    })
}

/// The policies by name, each refused if it cannot work on the simulated machine.
fn policies(scenario: &Scenario, only: &[String]) -> Result<Vec<(String, AnyPolicy)>> {
    let plain = |name: &str| PolicySpec { name: name.to_owned(), parameters: Default::default() };
    let named = |name: &String| scenario.policies.iter().find(|spec| spec.name == *name).cloned();
    let wanted: Vec<PolicySpec> = match (only, &scenario.policies[..]) {
        ([], []) => vec![plain("none")],
        ([], all) => all.to_vec(),
        (only, _) => only.iter().map(|name| named(name).unwrap_or_else(|| plain(name))).collect(),
    };
    let mut built = Vec::new();
    for spec in wanted {
        let policy = AnyPolicy::build(&spec.name, spec.deserializer())?;
        let fidelity = capabilities(policy.describe().grants).fidelity(policy.describe());
        if !fidelity.missing.is_empty() {
            bail!("'{}' cannot work on the simulated machine: {}", spec.name, fidelity.missing.join("; "));
        }
        for limit in fidelity.limits {
            eprintln!("quell: {}: {limit}", spec.name);
        }
        built.push((spec.name, policy));
    }
    Ok(built)
}

/// Runs every repetition under every policy, side by side.
fn compare(scenario: &Scenario, policies: &[(String, AnyPolicy)]) -> Result<Vec<Report>> {
    let jobs: Vec<(usize, u32)> =
        (0..policies.len()).flat_map(|at| (0..scenario.repetitions).map(move |repetition| (at, repetition))).collect();
    let each = (scenario.warm_up + scenario.duration).0;
    let bar = indicatif::ProgressBar::new(each / 1_000_000 * jobs.len() as u64).with_style(
        indicatif::ProgressStyle::with_template("{wide_bar} {percent} % of {msg} simulated, {eta} to go")
            .expect("constant template"),
    );
    bar.set_message(human::nanoseconds(each * jobs.len() as u64));
    let observed: Result<Vec<Observed>, _> = jobs
        .par_iter()
        .map(|&(at, repetition)| {
            let shown = AtomicU64::new(0);
            let seen = |now: Nanos| {
                let (now, before) = (now.0 / 1_000_000, shown.load(Ordering::Relaxed));
                if now >= before + 10 {
                    shown.store(now, Ordering::Relaxed);
                    bar.inc(now - before);
                }
            };
            simulate(scenario, &mut policies[at].1.clone(), repetition, seen)
        })
        .collect();
    bar.finish_and_clear();
    let mut observed = observed?;
    let mut reports = Vec::new();
    for (name, _) in policies {
        let rest = observed.split_off(scenario.repetitions as usize);
        reports.push(scenario.report(name, &observed));
        observed = rest;
    }
    Ok(reports)
}

const HEAD: [&str; 13] = [
    "policy", "workload", "class", "done/s", "mean", "p50", "p99", "p99.9", "max", "over SLO", "CPUs got", "asked",
    "waiting",
];

fn text(scenario: &Scenario, reports: &[Report]) -> String {
    let rows = reports.iter().flat_map(|report| report.workloads.iter().map(|workload| row(&report.policy, workload)));
    let mut text = format!("{}\n\n", table(HEAD, rows));
    let machine = reports.iter().map(|report| {
        let per_second = |count: u64| human::rate(count as f64 / report.measured.as_secs_f64());
        [
            report.policy.clone(),
            human::percent(report.utilisation),
            per_second(report.switches),
            per_second(report.migrations),
            report.commands.to_string(),
            report.refused.to_string(),
            human::nanoseconds(report.decision_time.0),
        ]
    });
    let head = ["policy", "CPUs busy", "switches", "migrations", "commands", "refused", "decision time"];
    text += &table(head, machine).to_string();
    let missed = |report: &Report| report.workloads.iter().map(|workload| workload.missed_deadlines).sum::<u64>();
    for report in reports.iter().filter(|report| missed(report) > 0) {
        text += &format!("\n{}: {} deadlines missed", report.policy, missed(report));
    }
    let runs = scenario.repetitions;
    text += &format!(
        "\n\n{}{}{} simulated after {}, {runs} run{} a policy, seed {}",
        scenario.title,
        if scenario.title.is_empty() { "" } else { ": " },
        scenario.duration,
        scenario.warm_up,
        if runs == 1 { "" } else { "s" },
        scenario.seed
    );
    text
}

fn row(policy: &str, workload: &WorkloadReport) -> [String; 13] {
    let time = |time: Option<Nanos>| time.map_or(NOTHING.to_owned(), |time| human::nanoseconds(time.0));
    let p99 = match workload.p99_range {
        Some((low, high)) if low != high => format!("{} ({})", time(workload.p99), human::range(low.0, high.0)),
        _ => time(workload.p99),
    };
    [
        policy.to_owned(),
        workload.name.clone(),
        workload.class.to_string(),
        if workload.completed > 0 { human::rate(workload.throughput) } else { NOTHING.to_owned() },
        time(workload.mean),
        time(workload.p50),
        p99,
        time(workload.p999),
        time(workload.max),
        workload.slo_violations.map_or(NOTHING.to_owned(), human::percent),
        format!("{:.2}", workload.cpus_got),
        format!("{:.2}", workload.cpus_requested),
        format!("{:.2}", workload.threads_waiting),
    ]
}

fn csv(reports: &[Report]) -> String {
    let mut text = String::from(
        "policy,workload,class,completed,throughput_per_s,mean_ns,p50_ns,p90_ns,p99_ns,p999_ns,p9999_ns,max_ns,\
         slo_violations,missed_deadlines,cpus_got,cpus_requested,threads_waiting\n",
    );
    for report in reports {
        for workload in &report.workloads {
            let latencies =
                [workload.mean, workload.p50, workload.p90, workload.p99, workload.p999, workload.p9999, workload.max];
            let latencies = latencies.map(|time| time.map_or(String::new(), |time| time.0.to_string())).join(",");
            let violations = workload.slo_violations.map_or(String::new(), |share| share.to_string());
            let name = workload.name.replace('"', "\"\"");
            text += &format!(
                "{},\"{name}\",{},{},{},{latencies},{violations},{},{},{},{}\n",
                report.policy,
                workload.class,
                workload.completed,
                workload.throughput,
                workload.missed_deadlines,
                workload.cpus_got,
                workload.cpus_requested,
                workload.threads_waiting
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(changes: &[&str]) -> Scenario {
        let changes: Vec<String> = changes.iter().map(|&change| change.to_owned()).collect();
        let memcached = SHIPPED.iter().find(|shipped| shipped.name == "memcached-2cpus").unwrap();
        Scenario::parse(Path::new("s"), memcached.text, &changes).unwrap()
    }

    #[test]
    fn policies_are_those_named_with_the_scenarios_parameters() {
        let scenario = scenario(&["policy.guard.parameters.priority=7"]);
        let names = |only: &[&str]| -> Vec<String> {
            let only: Vec<String> = only.iter().map(|&name| name.to_owned()).collect();
            policies(&scenario, &only).unwrap().into_iter().map(|(name, _)| name).collect()
        };
        assert_eq!(names(&[]), ["none", "guard"]);
        assert_eq!(names(&["caladan"]), ["caladan"]);
        let guard = &policies(&scenario, &["guard".into()]).unwrap()[0].1;
        assert!(serde_json::to_string(guard).unwrap().contains("\"priority\":7"));
        assert!(policies(&scenario, &["nobody".into()]).unwrap_err().to_string().contains("nobody"));
    }

    #[test]
    fn every_workload_has_its_row_under_every_policy() {
        let scenario = scenario(&["duration=100ms", "warm_up=10ms", "repetitions=2"]);
        let reports = compare(&scenario, &policies(&scenario, &[]).unwrap()).unwrap();
        let shown = text(&scenario, &reports);
        assert_eq!(shown.matches("memcached").count(), 2);
        assert_eq!(csv(&reports).lines().count(), 5);
        assert_eq!(reports, compare(&scenario, &policies(&scenario, &[]).unwrap()).unwrap());
        assert!(read(Path::new("nothing.toml"), &[]).unwrap_err().to_string().contains("colocation"));
    }
}

//! `quell demo`: the server beside antagonists, phase by phase.

use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use anyhow::Result;
use quell_bench::load::Monitor;
use quell_command::progress;
use quell_model::amount;
use quell_report::screen::Screen;
use rustix::system::uname;

use super::measure::{self, Setup};
use super::others::Others;
use super::output::{Output, print};
use super::result::{DemoReport, PhaseResult};
use super::scene::{self, Phase};
use super::{Arguments, awake, interruptible};

/// The last line: what comes next.
const YOURS: &str =
    "your own service: `quell protect NAME` (a unit, container, cgroup, pid or program); Ctrl-C puts everything back";

/// Measures, and shows the results, also after a failed phase or Ctrl-C.
pub fn show(arguments: &Arguments, setup: &Setup, cpus: u32) -> Result<ExitCode> {
    let phases = arguments.phases(setup)?;
    let output = Output::look(arguments.out.as_deref())?;
    let monitor = interruptible()?;
    let others = Others::look(cpus).and_then(|others| others.line(cpus));
    let mut report = plan(&phases, scene::may_be_real_time(), setup, cpus);
    report.machine = machine(arguments, setup, cpus);
    let awake = awake::hold(Path::new(awake::DEVICE));
    report.machine.push(awake::line(awake.is_some()).to_owned());
    report.awake = awake.is_some();
    for line in report.machine.iter().cloned().chain(others.clone()).chain(skipped(&report)) {
        eprintln!("{}", Screen::of_errors().wrap(&line));
    }
    report.busy = others;
    let failed = measure_all(&mut report, &phases, arguments.repeat, setup, &monitor);
    drop(awake);
    let interrupted = monitor.stop.load(Relaxed);
    if interrupted && report.measured().next().is_none() {
        eprintln!("quell: interrupted; everything is put back, nothing was measured");
        return Ok(ExitCode::from(130));
    }
    report.skipped = skipped(&report);
    report.no_ratios = report.baseline().err();
    report.result = report.in_words();
    if arguments.json {
        print(&[serde_json::to_string(&report)?])?;
        eprintln!("{}", output.write(&report)?);
    } else {
        let screen = Screen::here();
        let mut lines = vec![report.bars(&screen), report.table(&screen)];
        lines.extend(report.meanings());
        lines.extend(report.findings());
        lines.extend(report.skipped.iter().chain(&report.caveats()).map(|line| format!("! {line}")));
        print(&lines)?;
        print(&[output.write(&report)?, report.result.clone(), YOURS.to_owned()])?;
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The phases, and which of them are left out for want of a right.
pub fn plan(phases: &[Phase], real_time: bool, setup: &Setup, cpus: u32) -> DemoReport {
    let left_out = |phase: &Phase| (phase.is_real_time() && !real_time).then(|| scene::NO_REAL_TIME.to_owned());
    let result = |phase: &Phase| PhaseResult::new(phase, left_out(phase));
    DemoReport {
        version: env!("CARGO_PKG_VERSION").into(),
        machine: Vec::new(),
        cpus,
        awake: false,
        busy: None,
        no_ratios: None,
        neighbours: setup.neighbours(),
        phases: phases.iter().map(result).collect(),
        skipped: Vec::new(),
        result: String::new(),
    }
}

/// A line for each phase that did not run.
fn skipped(report: &DemoReport) -> Vec<String> {
    let line = |phase: &PhaseResult| Some(format!("skipped '{}': {}", phase.title, phase.left_out.as_ref()?));
    report.phases.iter().filter(|phase| phase.runs.is_empty()).filter_map(line).collect()
}

/// Runs the selected phases repeatedly; returns true if one failed. A failed phase is not tried again.
fn measure_all(report: &mut DemoReport, phases: &[Phase], repeat: u32, setup: &Setup, monitor: &Monitor) -> bool {
    let to_run: Vec<usize> = (0..phases.len()).filter(|index| report.phases[*index].left_out.is_none()).collect();
    let phases_to_run = to_run.len() as u64 * u64::from(repeat);
    let bar = progress::bar(phases_to_run, "{spinner} {msg} {wide_bar} phase {pos} of {len}, {elapsed}");
    bar.enable_steady_tick(Duration::from_millis(250));
    let mut failed = false;
    for round in 0..repeat as usize {
        // Each round begins with another phase, so that a drift of the machine does not hit the same one always.
        for turn in 0..to_run.len() {
            let index = to_run[(turn + round) % to_run.len()];
            if report.phases[index].left_out.is_some() {
                continue;
            }
            bar.set_message(phases[index].title);
            let run = measure::run(&phases[index], setup, setup.antagonist.kind, monitor);
            // An interrupted run is no measurement.
            if monitor.stop.load(Relaxed) {
                let unmeasured = report.phases.iter_mut().filter(|phase| phase.runs.is_empty());
                unmeasured.for_each(|phase| _ = phase.left_out.get_or_insert("interrupted".into()));
                bar.finish_and_clear();
                return failed;
            }
            match run {
                Ok(run) => report.phases[index].runs.push(run),
                Err(error) => {
                    report.phases[index].left_out = Some(format!("it failed: {error:#}"));
                    failed = true;
                }
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    failed
}

fn machine(arguments: &Arguments, setup: &Setup, cpus: u32) -> Vec<String> {
    vec![
        format!("{cpus} CPUs, Linux {}", uname().release().to_string_lossy()),
        format!(
            "memcached with {}, {:.0} requests/s (Poisson, seed {}); {} {} antagonist {}; {} s a phase, {}",
            amount(setup.server_threads, "thread", "threads"),
            setup.load.rate,
            arguments.seed,
            setup.antagonist.threads,
            setup.antagonist.kind.name(),
            if setup.antagonist.threads == 1 { "thread" } else { "threads" },
            arguments.seconds,
            amount(arguments.repeat, "time", "times")
        ),
    ]
}

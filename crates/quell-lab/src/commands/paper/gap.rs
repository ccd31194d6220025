//! `quell-lab paper gap`: rKube's cases with real threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use quell_evidence::{Found, Measure, topic};
use quell_gap::constructed::{Case, Outcome};
use quell_gap::{Account, Machine, Report};
use quell_model::Nanos;
use quell_report::human;

use super::trial::{self, Figure, Kept};
use quell_command::{progress, signals};

/// A part of an account.
type PartOf = fn(&Account) -> Nanos;

/// A case and the names of its claims: the target's CPU time, a part of its account, and the error of the estimate.
struct Drawn {
    case: Case,
    what: &'static str,
    got: Option<&'static str>,
    part: Option<(&'static str, PartOf)>,
    estimate: Option<&'static str>,
}

const fn case(cpus: u32, capped: bool, pinned: bool) -> Case {
    Case { cpus, capped, pinned }
}

const DRAWN: [Drawn; 5] = [
    Drawn {
        case: case(3, false, true),
        what: "3 CPUs, burstable",
        got: Some("burstable3"),
        part: None,
        estimate: None,
    },
    Drawn { case: case(3, true, true), what: "3 CPUs, capped", got: Some("capped3"), part: None, estimate: None },
    Drawn {
        case: case(2, false, true),
        what: "2 CPUs, burstable",
        got: Some("burstable"),
        part: Some(("burstable.frs", |account| account.frs)),
        estimate: Some("burstable.estimate"),
    },
    Drawn {
        case: case(2, true, true),
        what: "2 CPUs, capped",
        got: Some("capped"),
        part: Some(("capped.pct", |account| account.pct)),
        estimate: Some("capped.estimate"),
    },
    Drawn {
        case: case(2, false, false),
        what: "2 CPUs, unpinned",
        got: None,
        part: Some(("unpinned", |account| account.gap)),
        estimate: None,
    },
];

/// The cases assume CPUs that no other program uses. A run in which other programs used more of them than this is
/// another case, whether its values look right or not: it is repeated, and if that does not help, it was not run.
const UNDISTURBED: f64 = 0.03;
const ATTEMPTS: u32 = 3;

/// Runs all cases that this machine can, each several times, one after the other.
pub fn run(quick: bool, kept: &Kept) -> Result<Figure> {
    let length = Nanos::from_secs(3);
    let machine = Machine::here()?;
    let stop = Arc::new(AtomicBool::new(false));
    signals::set_on_interrupt(&stop)?;
    kept.one_by_one("gap", quick, |_| {
        let mut measures = Vec::new();
        for drawn in DRAWN {
            let bar = progress::of_time(length, drawn.what);
            let mut progress = |over: Nanos| {
                bar.set_position(over.0 / 1_000_000);
                !stop.load(Ordering::Relaxed)
            };
            let mut outcome = drawn.case.run(length, &machine, &mut progress)?;
            for _ in 1..ATTEMPTS {
                match &outcome {
                    Outcome::Measured(report) if disturbance(report) > UNDISTURBED => {
                        outcome = drawn.case.run(length, &machine, &mut progress)?;
                    }
                    _ => break,
                }
            }
            bar.finish_and_clear();
            measures.extend(match outcome {
                Outcome::Impossible(missing) => not_run(&drawn, &missing)?,
                Outcome::Measured(report) => measured(&drawn, &report)?,
            });
        }
        Ok(Figure { measures, ..Figure::default() })
    })
}

fn found(name: &str, found: Found, note: String) -> Result<Measure> {
    trial::found(topic("gap").context("there are no claims of the gap")?, name, found, note)
}

/// The share of the case's CPUs that other programs used.
fn disturbance(report: &Report) -> f64 {
    let all = report.window.0 as f64 * f64::from(report.cpus);
    let ours: u64 = report.workloads.iter().map(|workload| workload.account().got.0).sum();
    // The target always has something to run, so that all idle time is phantom time for it.
    let idle = report.workloads.first().map_or(0, |target| target.account().phantom.0);
    (all - (ours + idle) as f64) / all
}

fn not_run(drawn: &Drawn, missing: &str) -> Result<Vec<Measure>> {
    let names = [drawn.got, drawn.part.map(|part| part.0), drawn.estimate].into_iter().flatten();
    names.map(|name| found(name, Found::Missing(missing.to_owned()), String::new())).collect()
}

fn measured(drawn: &Drawn, report: &Report) -> Result<Vec<Measure>> {
    let [target, neighbour] = &report.workloads[..] else { return not_run(drawn, "the measurement lost a workload") };
    let account = target.account();
    let of_request = |time: Nanos| time.0 as f64 / account.requested.0 as f64;
    let how = match &report.inexact {
        Some(reason) => format!("estimated ({reason})"),
        None => format!("{} events, {} lost", report.events, report.losses.events),
    };
    let disturbance = disturbance(report);
    let seen = format!(
        "{how}; got {}, FRS {}, PCT {}, rest {} of the request; neighbour got {:.2} CPUs; other programs used {} of the CPUs",
        human::percent(of_request(account.got)),
        human::percent(of_request(account.frs)),
        human::percent(of_request(account.pct)),
        human::percent(of_request(account.rest)),
        neighbour.account().got.0 as f64 / report.window.0 as f64,
        human::percent(disturbance),
    );
    let mut measures = Vec::new();
    let values = [drawn.got.map(|name| (name, account.got)), drawn.part.map(|(name, of)| (name, of(&account)))];
    for (name, time) in values.into_iter().flatten() {
        let note = if measures.is_empty() { seen.clone() } else { "see above".to_owned() };
        measures.push(if disturbance > UNDISTURBED {
            let missing = format!("disturbed, run it again on a quiet machine: {note}");
            found(name, Found::Missing(missing), String::new())?
        } else {
            found(name, Found::Seeds(vec![of_request(time)]), note)?
        });
    }
    match (drawn.estimate, target.apart(), target.exact.zip(target.estimate)) {
        (Some(name), Some(worst), Some((exact, estimate))) if report.losses.events == 0 => {
            let note = format!(
                "gap {} exactly, ± {} not reported by the kernel; {} ± {} estimated; causes ± {}, all of the request",
                human::percent(of_request(exact.gap)),
                human::percent(of_request(target.doubt.unwrap_or_default())),
                human::percent(of_request(estimate.account.gap)),
                human::percent(of_request(estimate.gap_error)),
                human::percent(of_request(estimate.cause_error)),
            );
            measures.push(found(name, Found::Seeds(vec![worst]), note)?);
        }
        (Some(name), _, _) => {
            measures.push(found(name, Found::Missing(format!("nothing to compare with: {how}")), String::new())?);
        }
        (None, _, _) => {}
    }
    Ok(measures)
}

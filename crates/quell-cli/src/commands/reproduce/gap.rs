//! `quell reproduce gap`: rKube's cases with real threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use quell_evidence::{Claim, Row, gap};
use quell_gap::constructed::{Case, Outcome};
use quell_gap::{Account, Machine, Report};
use quell_model::Nanos;
use quell_report::human;

use crate::commands::gap::progress_bar;
use crate::commands::signals;

/// A part of an account.
type PartOf = fn(&Account) -> Nanos;

/// A case and its claims: what the target gets, a part of its account, and how far off the estimate is.
struct Drawn {
    case: Case,
    what: &'static str,
    got: Option<&'static Claim>,
    part: Option<(&'static Claim, PartOf)>,
    estimate: Option<&'static Claim>,
}

const fn case(cpus: u32, capped: bool, pinned: bool) -> Case {
    Case { cpus, capped, pinned }
}

const DRAWN: [Drawn; 5] = [
    Drawn {
        case: case(3, false, true),
        what: "3 CPUs, burstable",
        got: Some(&gap::BURSTABLE3),
        part: None,
        estimate: None,
    },
    Drawn { case: case(3, true, true), what: "3 CPUs, capped", got: Some(&gap::CAPPED3), part: None, estimate: None },
    Drawn {
        case: case(2, false, true),
        what: "2 CPUs, burstable",
        got: Some(&gap::BURSTABLE),
        part: Some((&gap::BURSTABLE_CAUSE, |account| account.frs)),
        estimate: Some(&gap::BURSTABLE_ESTIMATE),
    },
    Drawn {
        case: case(2, true, true),
        what: "2 CPUs, capped",
        got: Some(&gap::CAPPED),
        part: Some((&gap::CAPPED_CAUSE, |account| account.pct)),
        estimate: Some(&gap::CAPPED_ESTIMATE),
    },
    Drawn {
        case: case(2, false, false),
        what: "2 CPUs, unpinned",
        got: None,
        part: Some((&gap::UNPINNED, |account| account.gap)),
        estimate: None,
    },
];

/// The cases are drawn on CPUs that nobody else uses. A run in which other programs used more of them than this shows
/// another case, whether its values look right or not: it is made again, and if that does not help, it was not run.
const UNDISTURBED: f64 = 0.03;
const ATTEMPTS: u32 = 3;

/// Runs all cases that this machine can.
pub fn run(quick: bool) -> Result<Vec<Row>> {
    let length = if quick { Nanos::from_secs(3) } else { Nanos::from_secs(10) };
    let machine = Machine::here()?;
    let stop = Arc::new(AtomicBool::new(false));
    signals::set_on_interrupt(&stop)?;
    let mut rows = Vec::new();
    for drawn in DRAWN {
        let bar = progress_bar(length, drawn.what);
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
        rows.extend(match outcome {
            Outcome::Impossible(missing) => not_run(&drawn, &missing),
            Outcome::Measured(report) => measured(&drawn, &report),
        });
    }
    Ok(rows)
}

/// The share of the case's CPUs that other programs used.
fn disturbance(report: &Report) -> f64 {
    let all = report.window.0 as f64 * f64::from(report.cpus);
    let ours: u64 = report.workloads.iter().map(|workload| workload.account().got.0).sum();
    // The target always has something to run, so that all idle time is phantom time for it.
    let idle = report.workloads.first().map_or(0, |target| target.account().phantom.0);
    (all - (ours + idle) as f64) / all
}

fn not_run(drawn: &Drawn, missing: &str) -> Vec<Row> {
    let claims = [drawn.got, drawn.part.map(|part| part.0), drawn.estimate];
    claims.into_iter().flatten().map(|claim| Row::not_run(claim, missing)).collect()
}

fn measured(drawn: &Drawn, report: &Report) -> Vec<Row> {
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
    let mut rows = Vec::new();
    let mut judge = |claim: &'static Claim, value: f64| {
        let note = if rows.is_empty() { seen.clone() } else { "see above".to_owned() };
        rows.push(if disturbance > UNDISTURBED {
            Row::not_run(claim, format!("disturbed, run it again on a quiet machine: {note}"))
        } else {
            Row::measured(claim, value, note)
        });
    };
    if let Some(claim) = drawn.got {
        judge(claim, of_request(account.got));
    }
    if let Some((claim, part)) = drawn.part {
        judge(claim, of_request(part(&account)));
    }
    match (drawn.estimate, target.exact, target.estimate) {
        (Some(claim), Some(exact), Some(estimate)) => {
            let ratio = |a: Nanos, b: Nanos, error: Nanos| a.0.abs_diff(b.0) as f64 / error.0 as f64;
            let guess = estimate.account;
            let causes = [(exact.frs, guess.frs), (exact.pct, guess.pct), (exact.rest, guess.rest)];
            let worst = causes
                .into_iter()
                .map(|(exact, guess)| ratio(exact, guess, estimate.cause_error))
                .fold(ratio(exact.gap, guess.gap, estimate.gap_error), f64::max);
            let note = format!(
                "gap {} exactly, {} ± {} estimated; causes ± {}, all of the request",
                human::percent(of_request(exact.gap)),
                human::percent(of_request(guess.gap)),
                human::percent(of_request(estimate.gap_error)),
                human::percent(of_request(estimate.cause_error)),
            );
            rows.push(Row::measured(claim, worst, note));
        }
        (Some(claim), _, _) => rows.push(Row::not_run(claim, format!("nothing to compare with: {how}"))),
        (None, _, _) => {}
    }
    rows
}

//! Results as plain data, with their reliability.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use quell_model::Nanos;
use quell_trace::{Cost, Losses};
use serde::Serialize;

use crate::{Account, Estimate, Request};

/// Results.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Length of the window, in nanoseconds.
    pub window: Nanos,
    /// The period that accounts were settled by, in nanoseconds.
    pub period: Nanos,
    /// CPUs of the machine.
    pub cpus: u32,
    /// By workload, in the order of the requests.
    pub workloads: Vec<WorkloadGap>,
    /// The reason for the lack of exact accounts, if there are none.
    pub inexact: Option<String>,
    /// Losses of tracing.
    pub losses: Losses,
    /// Events that were accounted for.
    pub events: u64,
    /// Events that came after a younger one, and were taken as if they were as young.
    pub late: u64,
    /// Steal time, in nanoseconds of CPU time; accounts count it as run time.
    pub steal: Nanos,
    /// The window was ended before its time.
    pub interrupted: bool,
    /// Cost of tracing, if requested.
    #[serde(skip)]
    pub cost: Option<Cost>,
}

/// One workload's accounts.
#[derive(Clone, Debug, Serialize)]
pub struct WorkloadGap {
    /// The request.
    #[serde(flatten)]
    pub request: Request,
    /// Threads that the last look found.
    pub threads: usize,
    /// The exact account, in nanoseconds of CPU time.
    pub exact: Option<Account>,
    /// The exact account is at most this far from the truth, since the kernel did not report every switch.
    pub doubt: Option<Nanos>,
    /// The estimate.
    pub estimate: Option<Estimate>,
    /// Times its threads lost the CPU while they could have gone on; with exact accounts only.
    pub preemptions: Option<u64>,
    /// Threads that ran while its threads waited, the largest first: together [`Account::shared`]. With exact accounts
    /// only.
    pub taken_by: Option<Vec<Taker>>,
    /// Reasons to distrust its accounts; empty if there are none.
    pub caveats: Vec<String>,
}

/// Threads of processes of one name, and the time that they took.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Taker {
    /// The processes' name (`/proc/PID/comm`), of the kernel's workers without number.
    pub name: String,
    /// Number of threads.
    pub threads: usize,
    /// The time that they took, in nanoseconds of CPU time.
    pub time: Nanos,
}

/// The exact account of a workload that waited or ran is marked if more than this part of the time is in doubt.
const DOUBT_SHOWN: f64 = 0.01;

impl WorkloadGap {
    /// The account: exact if there is one.
    #[must_use]
    pub fn account(&self) -> Account {
        self.exact.or(self.estimate.map(|estimate| estimate.account)).unwrap_or_default()
    }

    /// How far account and estimate are apart, as a share of the errors that both state: the most of gap, FRS, PCT and
    /// rest. `None` without both.
    #[must_use]
    pub fn apart(&self) -> Option<f64> {
        let (exact, estimate, doubt) = (self.exact?, self.estimate?, self.doubt.unwrap_or_default());
        let guess = estimate.account;
        let share = |a: Nanos, b: Nanos, error: Nanos| a.0.abs_diff(b.0) as f64 / (error + doubt).0.max(1) as f64;
        let causes = [(exact.frs, guess.frs), (exact.pct, guess.pct), (exact.rest, guess.rest)];
        let causes = causes.into_iter().map(|(exact, guess)| share(exact, guess, estimate.cause_error));
        Some(causes.fold(share(exact.gap, guess.gap, estimate.gap_error), f64::max))
    }

    /// Reasons to distrust the accounts of a window.
    pub(crate) fn doubts(&self, window: Nanos, cpus: u32) -> Vec<String> {
        let mut doubts = Vec::new();
        let account = self.account();
        let there_are = Nanos(window.0 * u64::from(cpus));
        if account.got > there_are {
            doubts.push(format!("it got {} in {window} on {cpus} CPUs, more than there is", account.got));
        }
        let doubt = self.doubt.unwrap_or_default();
        if doubt.0 as f64 > DOUBT_SHOWN * account.demanded.0 as f64 {
            doubts.push(format!("off by at most {doubt}: the kernel did not report which thread ran"));
        }
        if let (Some(exact), Some(estimate)) = (self.exact, self.estimate) {
            let (gap, error) = (estimate.account.gap, estimate.gap_error);
            if exact.gap.0.abs_diff(gap.0) > (error + doubt).0 {
                doubts.push(format!(
                    "tracing and estimate disagree: a gap of {} against {gap} ± {error}; measure again, and longer",
                    exact.gap
                ));
            }
        }
        doubts
    }
}

/// The name of a thread's process, while it lives.
pub(crate) fn name_of(proc: &Path, tid: i32) -> Option<String> {
    let status = std::fs::read_to_string(proc.join(tid.to_string()).join("status")).ok()?;
    let pid = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim();
    Some(quell_linux::comm(&proc.join(pid).join("comm"))).filter(|name| !name.is_empty())
}

/// Adds up the time taken by threads of one name.
pub(crate) fn takers(by_thread: &HashMap<i32, Nanos>, name: impl Fn(i32) -> Option<String>) -> Vec<Taker> {
    let mut by_name: BTreeMap<String, (usize, Nanos)> = BTreeMap::new();
    for (&tid, &time) in by_thread.iter().filter(|(_, time)| **time > Nanos::ZERO) {
        let name = name(tid).map_or_else(|| "(ended)".to_owned(), |name| without_number(&name).to_owned());
        let sum = by_name.entry(name).or_default();
        *sum = (sum.0 + 1, sum.1 + time);
    }
    let taker = |(name, (threads, time))| Taker { name, threads, time };
    let mut takers: Vec<Taker> = by_name.into_iter().map(taker).collect();
    takers.sort_by_key(|taker| std::cmp::Reverse(taker.time));
    takers
}

/// The kernel's workers without their CPU: `kworker/0:1-events`, `kworker/u8:2`, `ksoftirqd/1`.
pub(crate) fn without_number(name: &str) -> &str {
    match name.split_once('/') {
        Some((kind, number)) if number.trim_start_matches(['u', 'R']).starts_with(|c: char| c.is_ascii_digit()) => kind,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_model::CpuCount;

    fn workload() -> WorkloadGap {
        WorkloadGap {
            request: Request { name: "web".into(), cpus: CpuCount::whole(1), selectors: Vec::new() },
            threads: 1,
            exact: None,
            doubt: None,
            estimate: None,
            preemptions: None,
            taken_by: None,
            caveats: Vec::new(),
        }
    }

    #[test]
    fn threads_of_one_name_are_added_up_and_the_kernels_workers_lose_their_number() {
        let names = [(1, "antagonist"), (2, "antagonist"), (3, "kworker/0:1-events"), (4, "kworker/u8:2"), (5, "a/b")];
        let name = |tid: i32| names.iter().find(|(of, _)| *of == tid).map(|(_, name)| (*name).to_owned());
        let times = [(1, 100), (2, 140), (3, 20), (4, 30), (5, 7), (6, 3), (7, 0)];
        let takers = takers(&times.map(|(tid, millis)| (tid, Nanos::from_millis(millis))).into(), name);
        let text: Vec<String> =
            takers.iter().map(|taker| format!("{} {}[{}]", taker.time, taker.name, taker.threads)).collect();
        assert_eq!(text, ["240 ms antagonist[2]", "50 ms kworker[2]", "7 ms a/b[1]", "3 ms (ended)[1]"]);
    }

    #[test]
    fn methods_that_disagree_beyond_their_errors_and_cpus_that_are_not_there_are_said() {
        let millis = Nanos::from_millis;
        let second = Nanos::from_secs(1);
        let mut gap = workload();
        gap.exact = Some(Account { gap: millis(14), demanded: second, got: second, ..Account::default() });
        gap.doubt = Some(Nanos::ZERO);
        let of = |gap: u64| Estimate {
            account: Account { gap: millis(gap), ..Account::default() },
            gap_error: millis(40),
            cause_error: millis(50),
        };
        gap.estimate = Some(of(54));
        assert_eq!(gap.doubts(second, 2), Vec::<String>::new());
        gap.estimate = Some(of(1190));
        let doubts = gap.doubts(second, 2);
        assert!(doubts.len() == 1 && doubts[0].contains("14 ms") && doubts[0].contains("1.19 s"), "{doubts:?}");
        // What the kernel did not report is part of the error.
        assert!((gap.apart().unwrap() - 1176.0 / 40.0).abs() < 1e-9);
        gap.doubt = Some(millis(1960));
        assert!((gap.apart().unwrap() - 1176.0 / 2000.0).abs() < 1e-9);
        gap.estimate = None;
        gap.doubt = Some(millis(11));
        assert!(gap.doubts(second, 2)[0].contains("11 ms"));
        gap.doubt = None;
        gap.exact = Some(Account { got: millis(2001), ..Account::default() });
        assert!(gap.doubts(second, 2)[0].contains("more than there is"));
    }
}

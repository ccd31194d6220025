//! A measured run: watches workloads for a window and reports their accounts.

use std::time::Duration;

use quell_model::Nanos;
use quell_thread::clock::now;
use serde::{Deserialize, Serialize};

use crate::crew::Crew;
use crate::machine::Machine;
use crate::report::{self, Report, WorkloadGap};
use crate::sample::{MachineTimes, Sample};
use crate::tracer::Tracer;
use crate::{Accounting, GapError, Request, Settled, estimate};

/// Interval of reading the ring and of scanning processes.
const DRAIN_EVERY: Nanos = Nanos::from_millis(20);
const SCAN_EVERY: Nanos = Nanos::from_secs(1);
/// A workload that just starts has new processes, which need not be children of watched ones: the first look again is
/// after this time, and each further one after twice as long, up to the usual.
const FIRST_SCAN: Nanos = Nanos::from_millis(50);

/// Length and method of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Duration.
    pub length: Nanos,
    /// The period that accounts are settled by.
    pub period: Nanos,
    /// How to measure.
    pub method: Method,
    /// Have the kernel measure the cost of tracing.
    pub cost: bool,
}

/// How to measure to measure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Exactly if the kernel allows it, else an estimate that says why.
    #[default]
    Auto,
    /// Exactly, or not at all.
    Exact,
    /// By samples of procfs.
    Estimate,
    /// Both at the same time, to compare them.
    Both,
}

/// Measures these workloads over a window. `progress` gets the elapsed part; if it returns `false`, the window ends
/// there and the report is of the time so far.
///
/// # Errors
/// [`GapError::Interrupted`] if less than a period was over then; if a workload has no threads, procfs cannot be read,
/// or exact accounts are demanded and the kernel does not allow tracing.
pub fn measure(
    requests: &[Request],
    window: &Window,
    machine: &Machine,
    progress: &mut dyn FnMut(Nanos) -> bool,
) -> Result<Report, GapError> {
    Session::open(requests, window, machine)?.measure(progress)
}

/// Workloads that are watched, for one window after the other.
pub struct Session {
    requests: Vec<Request>,
    window: Window,
    machine: Machine,
    crew: Crew,
    tracer: Option<Tracer>,
    inexact: Option<String>,
    sampled: bool,
    /// From the first window on.
    accounts: Option<Accounting>,
    /// End of the last window.
    ended: Option<Nanos>,
}

impl Session {
    /// Finds the workloads' threads and begins to watch them.
    ///
    /// # Errors
    /// If a workload has no threads, procfs cannot be read, or exact accounts are demanded and the kernel does not allow
    /// tracing.
    pub fn open(requests: &[Request], window: &Window, machine: &Machine) -> Result<Session, GapError> {
        let selectors = requests.iter().map(|request| request.selectors.clone()).collect();
        let mut crew = Crew::open(machine, selectors)?;
        crew.find()?;
        for (slot, request) in requests.iter().enumerate() {
            if crew.threads_of(slot) == 0 {
                let selectors: Vec<String> = request.selectors.iter().map(ToString::to_string).collect();
                return Err(GapError::NoThread { workload: request.name.clone(), selectors: selectors.join(" or ") });
            }
        }
        let (tracer, inexact) = match window.method {
            Method::Estimate => (None, Some("an estimate was asked for".to_owned())),
            Method::Exact | Method::Both => (Some(Tracer::begin(window.cost, &mut crew)?), None),
            Method::Auto => match Tracer::begin(window.cost, &mut crew) {
                Ok(tracer) => (Some(tracer), None),
                Err(error) => (None, Some(error.to_string())),
            },
        };
        Ok(Session {
            requests: requests.to_vec(),
            window: *window,
            machine: machine.clone(),
            crew,
            sampled: tracer.is_none() || window.method == Method::Both,
            tracer,
            inexact,
            accounts: None,
            ended: None,
        })
    }

    /// Measures the next window, which begins where the last one ended. `progress` as in [`measure`].
    ///
    /// # Errors
    /// As [`measure`].
    pub fn measure(&mut self, progress: &mut dyn FnMut(Nanos) -> bool) -> Result<Report, GapError> {
        let (length, period) = (self.window.length, self.window.period);
        // A window that was requested too late begins now; events meanwhile belong to no window.
        let begin = self.ended.filter(|ended| now().since(*ended) < DRAIN_EVERY).unwrap_or_else(now);
        let mut end = begin + length;
        let cpus_requested: Vec<_> = self.requests.iter().map(|request| request.cpus).collect();
        if let Some(tracer) = &mut self.tracer {
            let accounts =
                self.accounts.get_or_insert_with(|| Accounting::new(&cpus_requested, self.machine.cpus, begin, period));
            tracer.feed(accounts, begin)?;
            accounts.close(begin);
            tracer.begin_window(self.requests.len())?;
        }
        let before = MachineTimes::read(&self.machine.proc, &self.machine.cpus)?;
        let mut samples = Vec::new();
        self.sample(&mut samples, true)?;
        let (mut next_sample, mut scan_after) = (begin + period, FIRST_SCAN);
        let mut next_scan = begin + scan_after;
        while now() < end {
            let wake = (now() + DRAIN_EVERY).min(end).min(next_sample);
            std::thread::sleep(Duration::from(wake.since(now())));
            self.feed(end)?;
            if now() >= next_sample {
                next_sample += period;
                if now() < end {
                    self.sample(&mut samples, false)?;
                }
            }
            if now() >= next_scan {
                scan_after = (scan_after + scan_after).min(SCAN_EVERY);
                next_scan = now() + scan_after;
                self.crew.find()?;
            }
            self.watch_newcomers()?;
            if !progress(now().since(begin).min(length)) {
                end = end.min(now());
                if end.since(begin) < period {
                    return Err(GapError::Interrupted);
                }
                self.feed(end)?;
            }
        }
        self.sample(&mut samples, true)?;
        self.ended = Some(end);
        let steal = MachineTimes::read(&self.machine.proc, &self.machine.cpus)?.steal - before.steal;
        self.report(&samples, (begin, end), steal)
    }

    fn report(&mut self, samples: &[Sample], span: (Nanos, Nanos), steal: Nanos) -> Result<Report, GapError> {
        let (end, length) = (span.1, span.1.since(span.0));
        let late = self.accounts.as_ref().map_or(0, Accounting::late);
        let settled = self.accounts.as_mut().map(|accounts| accounts.close(end));
        let cpus = self.machine.cpus.len() as u32;
        let tracer = self.tracer.as_ref();
        let workload = |(slot, request): (usize, &Request)| -> Result<WorkloadGap, GapError> {
            let settled: Option<&Settled> = settled.as_ref().map(|settled| &settled[slot]);
            let name = |tid: i32| report::name_of(&self.machine.proc, tid).or_else(|| tracer?.name_of_ended(tid));
            let mut gap = WorkloadGap {
                request: request.clone(),
                threads: self.crew.threads_of(slot),
                exact: settled.map(|settled| settled.account),
                doubt: settled.map(|settled| settled.doubt),
                estimate: self.sampled.then(|| estimate(samples, span, slot as u16, request.cpus, cpus)),
                preemptions: tracer.map(|tracer| tracer.preemptions(slot as u16)).transpose()?,
                taken_by: settled.map(|settled| report::takers(&settled.takers, name)),
                caveats: Vec::new(),
            };
            gap.caveats = gap.doubts(length, cpus);
            Ok(gap)
        };
        Ok(Report {
            window: length,
            period: self.window.period,
            cpus,
            workloads: self.requests.iter().enumerate().map(workload).collect::<Result<_, _>>()?,
            inexact: self.inexact.clone(),
            losses: tracer.map(Tracer::losses).unwrap_or_default(),
            events: tracer.map_or(0, Tracer::events),
            late,
            steal,
            interrupted: length < self.window.length,
            cost: tracer.and_then(Tracer::cost),
        })
    }

    fn feed(&mut self, end: Nanos) -> Result<(), GapError> {
        match (&mut self.tracer, &mut self.accounts) {
            (Some(tracer), Some(accounts)) => tracer.feed(accounts, end),
            _ => Ok(()),
        }
    }

    fn sample(&mut self, samples: &mut Vec<Sample>, with_state: bool) -> Result<(), GapError> {
        if self.sampled {
            samples.push(self.crew.sample(&self.machine, with_state)?);
        }
        Ok(())
    }

    fn watch_newcomers(&mut self) -> Result<(), GapError> {
        let newcomers = self.crew.newcomers();
        match &mut self.tracer {
            Some(tracer) if !newcomers.is_empty() => tracer.watch(&newcomers),
            _ => Ok(()),
        }
    }
}

//! `guard`: the expert's trick made safe on any kernel.
//!
//! Latency-critical threads run as SCHED_FIFO, which gives them the latency that they have alone; no fair scheduler
//! comes close (see the documentation's table of alternatives). The trick is unsafe by itself: as many spinning threads
//! as CPUs take the machine, and no workload's share is kept. So every thread and every workload has a run budget:
//!
//! * a *thread* that runs for [`GuardConfig::run_budget`] without a pause is a runaway and is demoted;
//! * a *workload* that uses more than its guaranteed CPUs, [`GuardConfig::run_budget`] of each ahead, is demoted with
//!   all its threads.
//!
//! A demoted thread is an ordinary one (SCHED_OTHER, nice 0). It is promoted again after a probation: a thread if it
//! has paused at every scan for a run budget's time, a workload if its demand (run time and waiting time) is within its
//! guaranteed CPUs; a demoted workload may get little and still demand much. Each demotion doubles the next probation.
//! Where a workload's cgroup has no budget for real-time classes (RT group scheduling), the kernel refuses SCHED_FIFO: its
//! threads get the highest weight and the shortest slice of the fair class instead, under the same budgets.
//! Best-effort workloads run as SCHED_IDLE, so that a demoted thread and all unmanaged threads still come before them.
//!
//! A thread that its service made real-time itself keeps its priority and is not demoted: its time counts against its
//! workload's budget, which the workload's other threads then lack. One that its service made SCHED_IDLE or SCHED_BATCH stays
//! that and counts against no budget. The host keeps both classes ([`SchedClass::beside`]). Processes that live for less than
//! [`GuardConfig::interval`] are in no list: the time that its cgroup counted beyond its listed threads counts, too, whatever
//! the class of those processes was.
//!
//! Real-time threads escape a quota (`cpu.max`). A workload whose quota is no more than its guaranteed CPUs has the quota for its
//! share. So that it exceeds it by little in any second, it may run half as far ahead, and is looked at twice as often, and once
//! more when its budget will be used up.

mod budget;
mod invariants;

use quell_model::{
    CpuCount, Description, Event, Key, Knob, KnobKind, KnobSetting, Nanos, Need, NoteKind, Part, Plan, Policy, Sample,
    SchedClass, Signal, Target, ThreadId, Uses, Verdict, View, Wake, WorkloadId,
};
use serde::{Deserialize, Serialize};

use self::budget::WorkloadRecord;
use crate::kit::met::Met;
use crate::kit::retry::{self, Retry};
use crate::parameter::parameters;

/// Ending of a note about a demotion.
pub const DEMOTED: &str = ": demoted";

parameters! {
    /// The parameters of `guard`.
    pub struct GuardConfig {
        /// How often run times are looked at.
        interval: Nanos = Nanos::from_millis(20), in Nanos::from_millis(1)..=Nanos::from_secs(1);
        /// How long a thread may run without a pause, and how far a workload may run ahead of its guaranteed CPUs.
        run_budget: Nanos = Nanos::from_millis(50), in Nanos::from_millis(1)..=Nanos::from_secs(10);
        /// A thread that ran or waited for a CPU for this share of an interval made no pause.
        no_pause: f64 = 0.9, in 0.1..=1.0;
        /// How long the first demotion lasts; each further one twice as long, up to 16 times.
        probation: Nanos = Nanos::from_secs(1), in Nanos::from_millis(10)..=Nanos::from_secs(3600);
        /// SCHED_FIFO priority of latency-critical threads; Quell's own threads run above it.
        priority: u8 = 1, in 1..=HIGHEST_PRIORITY;
        /// Do best-effort workloads run as SCHED_IDLE?
        idle_best_effort: bool = true;
    }
    check(config) {
        if config.run_budget < config.interval {
            let GuardConfig { run_budget, interval, .. } = config;
            return Err(format!(
                "a run_budget of {run_budget} is used up before the first look, after {interval}: give an interval of \
                 at most the budget"
            ));
        }
        Ok(())
    }
}

/// Above it are Quell's loop, its guardian and their sentries.
const HIGHEST_PRIORITY: u8 = 95;

/// The substitute of SCHED_FIFO where the kernel refuses that: the highest weight, and the shortest slice that EEVDF takes
/// (sched(7)), with which a thread that wakes up preempts one whose slice is longer.
const SUBSTITUTE: SchedClass = SchedClass::Fair { nice: -20, slice: Some(Nanos::from_micros(100)) };

/// A thread's or workload's way through demotions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Conduct {
    demoted_until: Option<Nanos>,
    demotions: u32,
}

impl Conduct {
    fn demote(&mut self, now: Nanos, probation: Nanos) {
        self.demoted_until = Some(now + Nanos(probation.0 << self.demotions.min(4)));
        self.demotions += 1;
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct ThreadRecord {
    id: ThreadId,
    workload: WorkloadId,
    run_time: Nanos,
    run_delay: Nanos,
    /// Both when it was judged last: did it pause?
    #[serde(default)]
    judged: (Nanos, Nanos),
    /// Run time since its last pause.
    streak: Nanos,
    /// Time for which it has been pausing at every scan.
    calm: Nanos,
    conduct: Conduct,
    seen: bool,
}

/// The policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Guard {
    config: GuardConfig,
    /// By id.
    threads: Vec<ThreadRecord>,
    /// By id.
    workloads: Vec<WorkloadRecord>,
    #[serde(skip)]
    met: Met,
    looked_at: Option<Nanos>,
    /// When threads were judged last.
    #[serde(default)]
    judged_at: Option<Nanos>,
    /// After a refused plan nothing is tried before its time.
    retry: Retry,
}

impl Guard {
    /// The policy.
    #[must_use]
    pub fn new(config: GuardConfig) -> Guard {
        // Runaways are demoted late while it waits: always the shortest time.
        Guard {
            config,
            threads: Vec::new(),
            workloads: Vec::new(),
            met: Met::default(),
            looked_at: None,
            judged_at: None,
            retry: Retry::up_to(retry::FIRST),
        }
    }

    /// The SCHED_FIFO priority that it gives to others.
    #[must_use]
    pub fn priority(&self) -> u8 {
        self.config.priority
    }

    /// How long it lets a thread run without a pause.
    #[must_use]
    pub fn run_budget(&self) -> Nanos {
        self.config.run_budget
    }

    /// Its name and its needs.
    pub const DESCRIPTION: Description = Description {
        name: "guard",
        summary: "latency-critical threads run as SCHED_FIFO under run budgets; runaways are demoted",
        source: "Quell's own; the idea and its danger are described in sched(7), \"Limiting the CPU usage of \
                 real-time and deadline processes\"",
        interval: Nanos::from_millis(20),
        signals: &[
            Need::must(Signal::CriticalThreads),
            Need::or(Signal::CriticalRunTime, "processes that live for less than the interval use up no budget"),
        ],
        knobs: &[
            Need::must(KnobKind::Class),
            Need::or(KnobKind::IdleOnly, "best-effort work competes with demoted threads on equal terms"),
        ],
        rules: &[],
        keys: &[Uses::critical(Key::Cpus)],
        grants: false,
    };

    /// A class that the service gave its thread: not the ordinary one and not the one that is given here.
    fn own(&self, class: Option<SchedClass>) -> Option<SchedClass> {
        let ours = SchedClass::Fifo { priority: self.config.priority };
        class.filter(|class| !matches!(class, SchedClass::Fair { .. }) && *class != ours)
    }

    /// Brings the workload records up to date; a guarantee beyond the pool counts as none.
    fn meet_workloads(&mut self, view: &View, plan: &mut Plan) {
        if self.met.is_same(view) {
            return;
        }
        self.met.meet(view);
        self.workloads.iter_mut().for_each(|record| record.seen = false);
        let pool = CpuCount::whole(view.pool().len() as u32);
        let mut promised = CpuCount::ZERO;
        // Both are in the order of their numbers: the next record is almost always the one looked for.
        let mut next = 0;
        for (id, spec) in view.owned() {
            let fits = promised + spec.guaranteed() <= pool;
            let guaranteed = if fits { spec.guaranteed() } else { CpuCount::ZERO };
            promised = promised + guaranteed;
            let allowance = view.allowance(id);
            let no_realtime = allowance.is_some_and(|allowance| allowance.no_realtime);
            // Of fair threads the kernel keeps it by itself.
            let quota = allowance.and_then(|allowance| allowance.quota).filter(|_| !no_realtime);
            let is_next = self.workloads.get(next).is_some_and(|record| record.id == id);
            let place = if is_next { Ok(next) } else { self.workloads.binary_search_by_key(&id, |record| record.id) };
            next = place.unwrap_or_else(|place| place) + 1;
            let known = place.is_ok_and(|index| {
                let record = &self.workloads[index];
                record.lc == spec.is_lc() && record.guaranteed == guaranteed && record.no_realtime == no_realtime
            });
            if let (true, Ok(index)) = (known, place) {
                self.workloads[index].seen = true;
                self.workloads[index].quota = quota;
                continue;
            }
            let (lc, run_budget) = (spec.is_lc(), self.config.run_budget);
            let record = WorkloadRecord::new(id, lc, guaranteed, no_realtime, quota, run_budget);
            match place {
                Ok(index) => self.workloads[index] = record,
                Err(index) => self.workloads.insert(index, record),
            }
            if !fits {
                let text = format!(
                    "it asks for {} guaranteed CPUs; others were promised {promised} of {pool}; it stays an ordinary \
                     workload: lower a request",
                    spec.cpus
                );
                plan.note(NoteKind::Refused, Some(id), text);
            } else if spec.is_lc() && guaranteed == CpuCount::ZERO {
                let text = "it is latency-critical but requests no CPUs, so nothing is guaranteed to it; it stays an \
                            ordinary workload: request CPUs";
                plan.note(NoteKind::Warning, Some(id), text);
            } else if spec.is_lc() && no_realtime {
                let text = format!(
                    "its cgroup has no real-time budget (RT group scheduling), so it is {SUBSTITUTE} instead of SCHED_FIFO, \
                     which protects it less: write a budget to cpu.rt_runtime_us there"
                );
                plan.note(NoteKind::Warning, Some(id), text);
            }
        }
        self.workloads.retain(|record| record.seen);
    }

    /// For how long are threads judged now? At looks that come early for a quota's sake they are not: the kernel adds up the
    /// time of a thread that runs at ticks alone, some milliseconds apart.
    fn judges(&mut self, at: Nanos) -> Option<Nanos> {
        let span = self.judged_at.map_or(Nanos::ZERO, |last| at - last);
        let is_early = span < self.config.interval && self.workloads.iter().any(WorkloadRecord::is_capped);
        if self.judged_at.is_some() && is_early {
            return None;
        }
        self.judged_at = Some(at);
        Some(span)
    }

    /// Accounts the time that every latency-critical thread used since the last scan, and demotes and promotes threads.
    fn watch_threads(&mut self, view: &View, plan: &mut Plan) {
        let span = self.judges(view.threads.at);
        self.threads.iter_mut().for_each(|record| record.seen = false);
        let columns = &view.threads;
        // Hosts list threads in the same order each time, so the next record is almost always the one looked for.
        let (mut next, mut owner) = (0, 0);
        for index in 0..columns.len() {
            let (id, workload) = (columns.id[index], columns.workload[index]);
            let (run_time, run_delay) = (columns.run_time[index], columns.run_delay[index]);
            if self.workloads.get(owner).is_none_or(|record| record.id != workload) {
                let Ok(found) = self.workloads.binary_search_by_key(&workload, |record| record.id) else { continue };
                owner = found;
            }
            if !self.workloads[owner].lc {
                continue;
            }
            let expected = self.threads.get(next).is_some_and(|record| record.id == id);
            let found = if expected { Ok(next) } else { self.threads.binary_search_by_key(&id, |record| record.id) };
            let place = match found {
                Ok(place) => place,
                Err(place) => {
                    let conduct = Conduct::default();
                    let (streak, calm) = (Nanos::ZERO, Nanos::ZERO);
                    let judged = (run_time, run_delay);
                    let record =
                        ThreadRecord { id, workload, run_time, run_delay, judged, streak, calm, conduct, seen: true };
                    self.threads.insert(place, record);
                    place
                }
            };
            next = place + 1;
            let own = self.own(columns.class.get(index).copied());
            let record = &mut self.threads[place];
            let used = run_time - record.run_time;
            let wanted = used + (run_delay - record.run_delay);
            record.seen = true;
            (record.run_time, record.run_delay) = (run_time, run_delay);
            if let Some(span) = span {
                let before = std::mem::replace(&mut record.judged, (run_time, run_delay));
                let ran = run_time - before.0;
                let no_pause = span > Nanos::ZERO && ran + (run_delay - before.1) >= span.scaled(self.config.no_pause);
                (record.streak, record.calm) =
                    if no_pause { (record.streak + ran, Nanos::ZERO) } else { (Nanos::ZERO, record.calm + span) };
            }
            self.workloads[owner].listed += used;
            if own.is_none_or(SchedClass::is_real_time) {
                self.workloads[owner].used += used;
                self.workloads[owner].wanted += wanted;
            }
            if own.is_some() {
                continue;
            }
            let target = Target::Thread(id);
            match record.conduct.demoted_until {
                None if record.streak >= self.config.run_budget && self.workloads[owner].is_promoted() => {
                    record.conduct.demote(view.now, self.config.probation);
                    plan.knobs.push(KnobSetting { target, knob: Knob::Class(SchedClass::NORMAL) });
                    let text = format!("thread {} ran {} without a pause{DEMOTED}", id.tid, record.streak);
                    plan.note(NoteKind::Because, Some(workload), text);
                }
                Some(until) if view.now >= until && record.calm >= self.config.run_budget => {
                    record.conduct.demoted_until = None;
                    if self.workloads[owner].is_promoted() {
                        let knob = self.workloads[owner].class(self.config.priority);
                        plan.knobs.push(KnobSetting { target, knob });
                        let text = format!("thread {} pauses again: promoted", id.tid);
                        plan.note(NoteKind::Because, Some(workload), text);
                    }
                }
                _ => {}
            }
        }
        self.threads.retain(|record| record.seen);
    }

    /// Settles each workload's budget and class.
    fn watch_workloads(&mut self, view: &View, elapsed: Nanos, plan: &mut Plan) {
        for record in &mut self.workloads {
            let target = Target::Workload(record.id);
            if !record.lc {
                if !record.set && self.config.idle_best_effort {
                    plan.knobs.push(KnobSetting { target, knob: Knob::IdleOnly(true) });
                    record.set = true;
                }
                continue;
            }
            let counted = view.workloads.critical_run_time.get(record.id.index()).and_then(Sample::usable);
            let (full, income) = (record.most_ahead(self.config.run_budget), record.share().of(elapsed));
            let unlisted = record.unlisted(counted, full);
            record.used += unlisted;
            record.wanted += unlisted;
            let seen = std::mem::take(&mut record.used);
            let overdrawn = record.spend(seen, elapsed, full);
            record.predict(view.now, seen, elapsed, self.config.interval);
            let within = std::mem::take(&mut record.wanted) <= income;
            match record.conduct.demoted_until {
                None if overdrawn && record.guaranteed > CpuCount::ZERO => {
                    record.conduct.demote(view.now, self.config.probation);
                    plan.knobs.push(KnobSetting { target, knob: Knob::Class(SchedClass::NORMAL) });
                    let text = format!(
                        "used {:.2} CPUs of {} guaranteed for longer than its budget allows{DEMOTED}",
                        seen.0 as f64 / elapsed.0.max(1) as f64,
                        record.share()
                    );
                    plan.note(NoteKind::Because, Some(record.id), text);
                    record.set = true;
                }
                Some(until) if view.now >= until && record.budget >= full && within => {
                    record.conduct.demoted_until = None;
                    record.set = false;
                    plan.note(
                        NoteKind::Because,
                        Some(record.id),
                        "wants no more than its guaranteed CPUs again: promoted",
                    );
                }
                _ => {}
            }
            if !record.set && record.is_promoted() {
                plan.knobs.push(KnobSetting { target, knob: record.class(self.config.priority) });
                record.set = true;
                // A workload's class is set for all its threads; those on probation of their own stay demoted.
                for thread in self.threads.iter().filter(|thread| thread.workload == record.id) {
                    if thread.conduct.demoted_until.is_some() {
                        let target = Target::Thread(thread.id);
                        // If it is demoted by this very plan: after the workload, not before it.
                        plan.knobs.retain(|setting| setting.target != target);
                        plan.knobs.push(KnobSetting { target, knob: Knob::Class(SchedClass::NORMAL) });
                    }
                }
            }
        }
    }

    fn next_look(&self, now: Nanos) -> Nanos {
        let interval = self.config.interval;
        let looks = self.workloads.iter().filter_map(|record| record.next_look(now, interval));
        looks.fold(now + interval, Nanos::min)
    }

    fn handle(&mut self, now: Nanos, events: &[Event], plan: &mut Plan) {
        for event in events {
            if let Event::ThreadLeft(_, id) = event
                && let Ok(at) = self.threads.binary_search_by_key(id, |record| record.id)
            {
                // What comes back comes as a thread that is new.
                self.threads.remove(at);
            }
            if let Event::Outcome(outcome) = event
                && outcome.part == Part::Knobs
                && let Verdict::Refused(why) = &outcome.verdict
            {
                self.retry.refused(now, why, plan);
                self.workloads.iter_mut().for_each(|record| record.set = false);
            }
        }
    }
}

impl Policy for Guard {
    fn describe(&self) -> &'static Description {
        &Self::DESCRIPTION
    }

    fn step(&mut self, view: &View, events: &[Event], plan: &mut Plan) -> Wake {
        self.handle(view.now, events, plan);
        if self.retry.is_ahead(view.now) {
            return self.retry.wake();
        }
        self.meet_workloads(view, plan);
        let elapsed = self.looked_at.map_or(Nanos::ZERO, |last| view.threads.at - last);
        self.watch_threads(view, plan);
        self.watch_workloads(view, elapsed, plan);
        self.looked_at = Some(view.threads.at);
        Wake::At(self.next_look(view.now))
    }
}

#[cfg(test)]
mod tests;

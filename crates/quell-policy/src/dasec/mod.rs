//! `dasec`: interference is moved off the critical path (dasec-socc22 §3–5; lines L… of the text in `papers`).
//!
//! Once a period: the task monitor (`tm`) takes in what each thread did, the rescheduling latency adjuster (`rla`) and the
//! time-slice allocator (`tsa`) set each thread's wake-up latency and weight by that, and the resource conflict resolver
//! (`rcr`) swaps threads between cores. A thread that uses up what it has, or is still ready when the period ends, holds its
//! workload's progress up: it gets more, and the others of the same workload wait instead.

mod config;
mod invariants;
mod rcr;
mod rla;
mod tm;
mod together;
mod tsa;

use std::fmt::Write;

use quell_model::{
    CpuSet, Description, Event, Key, Knob, KnobKind, KnobSetting, Nanos, Need, NoteKind, Part, Plan, Policy, RuleKind,
    Signal, Target, ThreadId, Uses, Verdict, View, Wake,
};
use serde::{Deserialize, Serialize};

pub use config::{Bound, DasecConfig, Order, Unsaid};

use config::MOMENT;

use crate::kit::once::Once;
use crate::kit::periodic::Periodic;
use crate::kit::retry::{self, Retry};
use rcr::Resolver;
use tm::{Monitor, START_WEIGHT, Setting, Task};
use together::{Places, Together};
use tsa::Allocator;

/// A thread is critical from this many times the mean weight of its workload's threads on (ours, for people alone).
const CRITICAL: f64 = 1.5;
/// After a refused plan with latencies they are left alone for this long (kernels before 6.12 have none).
const WITHOUT_LATENCIES: Nanos = Nanos::from_secs(60);

/// The policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Dasec {
    config: DasecConfig,
    monitor: Monitor,
    allocator: Allocator,
    resolver: Resolver,
    together: Together,
    places: Places,
    pool: CpuSet,
    next: Periodic,
    /// Until then swapped threads are bound.
    bound_until: Option<Nanos>,
    /// The plan whose outcome is not known yet, and whether it had latencies.
    under_way: Option<(u64, bool)>,
    no_latencies_until: Nanos,
    retry: Retry,
    nothing_to_do: Once,
}

impl Dasec {
    /// The policy.
    #[must_use]
    pub fn new(config: DasecConfig) -> Dasec {
        Dasec {
            config,
            monitor: Monitor::default(),
            allocator: Allocator::default(),
            resolver: Resolver::default(),
            together: Together::default(),
            places: Places::default(),
            pool: CpuSet::EMPTY,
            next: Periodic::default(),
            bound_until: None,
            under_way: None,
            no_latencies_until: Nanos::ZERO,
            retry: Retry::up_to(retry::FIRST),
            nothing_to_do: Once::default(),
        }
    }

    /// Its name and its needs.
    pub const DESCRIPTION: Description = Description {
        name: "dasec",
        summary: "threads that hold their service up get larger slices and shorter wake-up latencies; the others wait",
        source: "Jia et al., Achieving Low Latency in Public Edges by Hiding Workloads Mutual Interference (SoCC 2022), §3–5",
        interval: Nanos::from_millis(80),
        signals: &[
            Need::must(Signal::Threads),
            Need::or(Signal::Preemptions, "conflicts between threads with low latencies are seen by late starts alone"),
            Need::or(Signal::LateStarts, "conflicts between threads with low latencies are seen by preemptions alone"),
            Need::or(Signal::WakeUps, "a thread that waits for others does not get their latencies shortened"),
        ],
        knobs: &[
            Need::must(KnobKind::Weight),
            Need::or(
                KnobKind::WakeUpLatency,
                "wake-up latencies stay the kernel's: slices and cores alone are adjusted",
            ),
            Need::or(KnobKind::Cpus, "conflicts are not resolved by changing cores: set rcr = false"),
        ],
        rules: &[Need::or(
            RuleKind::Together,
            "weights are nice values or cgroup weights, wake-up latencies the kernel's slices, and each service has its share alone",
        )],
        keys: &[Uses::all(Key::Cpus)],
        grants: false,
    };

    /// Swaps between cores so far.
    #[must_use]
    pub fn swaps(&self) -> u64 {
        self.resolver.swaps
    }

    /// A thread's time slice of the present period; None: there is no such thread.
    #[must_use]
    pub fn slice_of(&self, thread: ThreadId) -> Option<Nanos> {
        self.monitor.find(thread).map(|at| self.monitor.tasks[at].slice)
    }

    fn handle(&mut self, now: Nanos, events: &[Event], plan: &mut Plan) {
        for event in events {
            let Event::Outcome(outcome) = event else { continue };
            if outcome.part != Part::Knobs {
                continue;
            }
            let Some((_, latencies)) = self.under_way.take_if(|(number, _)| *number == outcome.plan) else { continue };
            let tasks = &mut self.monitor.tasks;
            match &outcome.verdict {
                Verdict::Applied(_) | Verdict::Pending(_) => {
                    tasks.iter_mut().for_each(|task| task.sent = task.asked);
                    self.retry.worked();
                }
                // A thread is gone, and with it the plan: the rest follows with the next one.
                Verdict::Vanished => tasks.iter_mut().for_each(|task| task.asked = task.sent),
                Verdict::Refused(why) => {
                    tasks.iter_mut().for_each(|task| task.asked = task.sent);
                    self.retry.refused(now, why, plan);
                    if latencies {
                        self.no_latencies_until = now + WITHOUT_LATENCIES;
                    }
                }
            }
        }
    }

    /// Are swapped threads to be freed now? Where nothing can be written now they are later.
    fn is_over(&mut self, now: Nanos) -> bool {
        let is_over = self.bound_until.take_if(|until| *until <= now).is_some();
        let waits = self.under_way.is_some() || self.retry.is_ahead(now);
        if is_over && waits {
            self.bound_until = Some(now + MOMENT);
        }
        is_over && !waits
    }

    /// The host orders the threads by itself: those that are still bound from before are freed, and nothing else is done.
    fn leave_to_the_host(&mut self, view: &View, plan: &mut Plan) -> Wake {
        if self.under_way.is_some() || !self.monitor.tasks.iter().any(|task| task.asked.cpu.is_some()) {
            return Wake::OnEvent;
        }
        if self.retry.is_ahead(view.now) {
            return Wake::At(view.now + MOMENT);
        }
        self.retry.begun();
        self.pool = view.pool();
        rcr::free(&mut self.monitor.tasks);
        self.write(view, plan);
        Wake::OnEvent
    }

    fn wake(&self) -> Wake {
        self.next.wake().sooner(self.bound_until.map_or(Wake::OnEvent, Wake::At))
    }

    fn wanted(&self, task: &Task, now: Nanos) -> Setting {
        let own = (task.latency != self.config.start_latency).then_some(task.latency);
        let sets_latencies = self.config.rla && now >= self.no_latencies_until;
        Setting {
            weight: (task.weight.round() as u32).clamp(1, 10_000),
            latency: if sets_latencies { own.or(task.asked.latency.map(|_| task.latency)) } else { task.asked.latency },
            cpu: task.bound,
        }
    }

    fn write(&mut self, view: &View, plan: &mut Plan) {
        let mut latencies = false;
        // Each thread's three knobs: later plans are no longer.
        plan.knobs.reserve(3 * self.monitor.tasks.len());
        for at in 0..self.monitor.tasks.len() {
            let task = &self.monitor.tasks[at];
            let (wanted, asked, target) = (self.wanted(task, view.now), task.asked, Target::Thread(task.id));
            let mut set = |knob| plan.knobs.push(KnobSetting { target, knob });
            if wanted.weight != asked.weight {
                set(Knob::Weight(wanted.weight));
            }
            if wanted.latency != asked.latency {
                latencies = true;
                set(Knob::WakeUpLatency(wanted.latency));
            }
            if wanted.cpu != asked.cpu {
                let cpus = wanted.cpu.map_or(self.pool, |cpu| self.places.cpus(cpu));
                set(Knob::Cpus(view.within_or_any(task.workload, &cpus)));
            }
            self.monitor.tasks[at].asked = wanted;
        }
        if !plan.knobs.is_empty() {
            self.under_way = Some((plan.number, latencies));
        }
    }

    /// Names the threads that have become critical since the last period, and those that are no longer.
    fn note_critical(&mut self, now: Nanos, plan: &mut Plan) {
        for at in 0..self.monitor.tasks.len() {
            let task = &self.monitor.tasks[at];
            let is_critical = task.weight >= CRITICAL * START_WEIGHT;
            let (id, workload) = (task.id.tid, task.workload);
            match (is_critical, task.critical_since) {
                (true, None) => {
                    let text = self.describe_critical(task);
                    plan.note(NoteKind::Because, Some(workload), text);
                    self.monitor.tasks[at].critical_since = Some(now);
                }
                (false, Some(since)) if task.weight < START_WEIGHT => {
                    let text = format!("thread {id} is no longer critical, after {}", now - since);
                    plan.note(NoteKind::Because, Some(workload), text);
                    self.monitor.tasks[at].critical_since = None;
                }
                _ => {}
            }
        }
    }

    fn describe_critical(&self, task: &Task) -> String {
        let mut text = format!(
            "thread {} is critical: it ran {} in the last period; its slice is {} now, its weight {:.0}, its wake-up latency {}",
            task.id.tid, task.used, task.slice, task.weight, task.latency
        );
        let edges = || self.monitor.edges[task.edges()].iter().filter(|edge| edge.times > 0);
        let mut below = u64::MAX;
        for place in 0..3 {
            let Some(edge) = edges().filter(|edge| edge.times < below).max_by_key(|edge| edge.times) else { break };
            below = edge.times;
            let _ = write!(text, "{} {}", if place == 0 { "; woken by" } else { "," }, edge.waker.tid);
        }
        text
    }
}

impl Policy for Dasec {
    fn describe(&self) -> &'static Description {
        &Self::DESCRIPTION
    }

    fn step(&mut self, view: &View, events: &[Event], plan: &mut Plan) -> Wake {
        self.handle(view.now, events, plan);
        if let Some(why) = self.together.handle(events) {
            let text = format!("the services do not hold their CPUs as one: {why}");
            plan.note(NoteKind::Warning, None, text);
        }
        self.together.ask(self.config.order, view, plan);
        if self.config.order == Order::Progress && self.together.is() {
            return self.leave_to_the_host(view, plan);
        }
        let pool = view.pool();
        let shrank = !self.pool.is_subset(&pool);
        self.pool = pool;
        let is_due = self.next.is_due(view.now, self.config.period);
        let is_over = self.is_over(view.now);
        if !is_due && !shrank && !is_over {
            return self.wake();
        }
        if is_over {
            rcr::free(&mut self.monitor.tasks);
        }
        if is_due {
            self.monitor.look(view, &self.config);
            if self.config.rla {
                rla::adjust(&mut self.monitor, &self.config);
            }
            self.allocator.allot(view, &mut self.monitor.tasks, &self.config);
            self.places.note(view, &pool, self.together.is());
            let swaps = self.resolver.swaps;
            self.resolver.resolve(&self.places, &mut self.monitor.tasks, &self.config);
            if self.config.bound == Bound::Moment && self.resolver.swaps > swaps {
                self.bound_until = Some(view.now + MOMENT);
            }
            self.note_critical(view.now, plan);
            let threads = self.monitor.tasks.len();
            if threads > 1 && pool.len() > 1 {
                self.nothing_to_do.forget();
            } else if threads > 0 && self.nothing_to_do.first() {
                let text = "nothing to do: dasec needs several threads and several CPUs; give it more, or take it out";
                plan.note(NoteKind::Warning, None, text);
            }
        }
        self.monitor.free_from(&pool);
        // What a refused plan had is tried again after a pause; a plan whose outcome is open is not overtaken.
        if !self.retry.is_ahead(view.now) && self.under_way.is_none() {
            self.retry.begun();
            self.write(view, plan);
        }
        self.wake()
    }
}

#[cfg(test)]
mod tests;

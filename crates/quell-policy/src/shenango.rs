//! `shenango`: cores follow queueing delay alone, every 5 µs (Ousterhout et al., "Shenango: Achieving High CPU
//! Efficiency for Latency-sensitive Datacenter Workloads", NSDI 2019, §4; compared with in caladan-osdi20 §5.1, §7.1).
//!
//! Two checks, one interval apart, that find the same item waiting mean *congestion*: the task gets one more core. A
//! task is *guaranteed* some cores; one that holds more is *bursting*. A task below its guarantee gets an idle core, or
//! that of a bursting task; one that bursts gets idle cores only. There is no other class: best-effort work is a task
//! without guarantee, which bursts. Memory bandwidth and hyperthreads are ignored; Caladan adds those.
//!
//! Which core, and which task, is as in the authors' published allocator (github.com/shenango/shenango,
//! `iokernel/cores.c`): `pick_core_for_proc` tries the siblings of a task's own cores, then the core that it left last, then the
//! lowest idle one, and only where no core is idle does each of these mean a bursting task's; `pick_thread_for_core` gives a
//! yielded core to the task that had it, then to that on its sibling, then to the one before. A core that has just been granted
//! has "a pass this round": what waits then may wait for its thread to wake up.

use std::cmp::Reverse;

use quell_model::{
    CpuId, CpuSet, Description, Event, Nanos, Need, NoteKind, Plan, Policy, Quality, Signal, View, Wake, WorkloadId,
};
use serde::{Deserialize, Serialize};

use crate::cores::{self, Cores, Task, Tasks, Thresholds, queueing_delay};
use crate::invariant::{Calm, Invariants};
use crate::kit::once::Once;
use crate::parameter::parameters;

mod history;
#[cfg(test)]
mod tests;

use history::History;

/// Interval of congestion detection (NSDI 2019 §1, §4: "every 5 µs").
pub const INTERVAL: Nanos = Nanos::from_micros(5);

parameters! {
    /// The parameters of `shenango`.
    #[derive(Eq)]
    pub struct ShenangoConfig {
        /// How often congestion is looked for; what has waited for this long was there at two checks (NSDI 2019 §4: 5 µs).
        interval: Nanos = INTERVAL, in Nanos::from_micros(1)..=Nanos::from_secs(10);
    }
    check(config) { Ok(()) }
}

/// The policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shenango {
    config: ShenangoConfig,
    tasks: Tasks,
    cores: Cores,
    history: History,
    /// Cores granted since the last check.
    woken: CpuSet,
    next_check: Nanos,
    /// Congested tasks that hold their guaranteed cores; empty between steps.
    bursting: Vec<WorkloadId>,
    /// Has it been said that a queueing delay is not measured?
    said_absent: Once,
}

impl Shenango {
    /// The policy.
    #[must_use]
    pub fn new(config: ShenangoConfig) -> Shenango {
        Shenango {
            config,
            tasks: Tasks::default(),
            cores: Cores::default(),
            history: History::default(),
            woken: CpuSet::EMPTY,
            next_check: Nanos::ZERO,
            bursting: Vec::new(),
            said_absent: Once::default(),
        }
    }

    /// Its name and its needs.
    pub const DESCRIPTION: Description = Description {
        name: "shenango",
        summary: "cores follow queueing delay every 5 µs; interference is not looked at",
        source: "Ousterhout et al., NSDI 2019, §4; caladan-osdi20 §7.1",
        interval: INTERVAL,
        signals: &[Need::must(Signal::Holder), Need::must(Signal::QueueingDelay)],
        knobs: &[],
        rules: &[],
        keys: cores::KEYS,
        grants: true,
    };

    /// One core more for each congested task: first those below their guarantee, then those that burst.
    fn check(&mut self, view: &View, plan: &mut Plan) {
        let passed = std::mem::take(&mut self.woken);
        for slot in 0..self.tasks.slots() {
            let id = WorkloadId(slot as u32);
            let Some(task) = self.tasks.get(id).filter(|task| self.is_congested(view, id, task)) else { continue };
            if self.is_waking(id, &passed) {
                continue;
            }
            if self.cores.held(id) >= task.guaranteed {
                self.bursting.push(id);
            } else if let Some(core) = self.pick_core(id, true) {
                self.grant(core, id, plan);
            }
        }
        for at in 0..self.bursting.len() {
            let id = self.bursting[at];
            match self.pick_core(id, false) {
                Some(core) => self.grant(core, id, plan),
                None => break,
            }
        }
        self.bursting.clear();
    }

    fn grant(&mut self, core: CpuId, task: WorkloadId, plan: &mut Plan) {
        self.woken.insert(core);
        self.cores.grant(core, task, plan);
    }

    /// Has the task cores, all of which it was granted since the check before? ("if the thread just woke up, give it a pass this
    /// round".)
    fn is_waking(&self, id: WorkloadId, granted: &CpuSet) -> bool {
        let held = self.cores.held(id) as usize;
        held > 0 && granted.iter().filter(|&core| self.cores.task_on(core) == Some(id)).count() == held
    }

    fn note_absent(&mut self, view: &View, plan: &mut Plan) {
        let blind = self.tasks.iter().find(|(id, _)| {
            quell_model::view::at(&view.workloads.queueing_delay, id.index()).quality == Quality::Absent
        });
        if let Some((id, _)) = blind
            && self.said_absent.first()
        {
            plan.note(NoteKind::Refused, Some(id), "its queueing delay is not measured: it is granted no core");
        }
    }

    fn is_congested(&self, view: &View, id: WorkloadId, task: &Task) -> bool {
        let held = self.cores.held(id);
        // With no core the arrival of work is enough (`rx_send_to_runtime`).
        let longest = if held == 0 { Nanos(1) } else { task.thresh_qd };
        held < task.limit && queueing_delay(view, id).is_some_and(|delay| delay >= longest)
    }

    /// The next core of a task (`pick_core_for_proc`).
    fn pick_core(&self, id: WorkloadId, may_preempt: bool) -> Option<CpuId> {
        let mut allowed = self.cores.allowed();
        if let Some(own) = self.tasks.get(id).and_then(|task| task.cores) {
            allowed = allowed.intersection(&own);
        }
        let has_idle = allowed.iter().any(|core| self.cores.task_on(core).is_none());
        let can_be_had = |core: &CpuId| {
            allowed.contains(*core)
                && match self.cores.task_on(*core) {
                    None => true,
                    Some(other) => may_preempt && !has_idle && other != id && self.is_bursting(other),
                }
        };
        let own = allowed.iter().filter(|&core| self.cores.task_on(core) == Some(id));
        let mut siblings = own.flat_map(|core| self.cores.siblings(core).iter().copied());
        let last = || self.history.left(id).filter(can_be_had);
        siblings.find(can_be_had).or_else(last).or_else(|| allowed.iter().find(can_be_had))
    }

    fn is_bursting(&self, id: WorkloadId) -> bool {
        self.tasks.get(id).is_some_and(|task| self.cores.held(id) > task.guaranteed)
    }

    /// A yielded core goes at once to a congested task (`pick_thread_for_core`).
    fn hand_on(&mut self, core: CpuId, view: &View, plan: &mut Plan) {
        if !self.cores.allowed().contains(core) || self.cores.task_on(core).is_some() {
            return;
        }
        let [had, before] = self.history.of(core);
        let on_sibling = |id| self.cores.siblings(core).iter().any(|&sibling| self.cores.task_on(sibling) == Some(id));
        let congested =
            self.tasks.iter().filter(|(id, task)| task.may_run_on(core) && self.is_congested(view, *id, task));
        let next_holder = congested
            .max_by_key(|&(id, _)| (had == Some(id), on_sibling(id), before == Some(id), Reverse(id)))
            .map(|(id, _)| id);
        if let Some(next_holder) = next_holder {
            self.grant(core, next_holder, plan);
        }
    }
}

impl Policy for Shenango {
    fn describe(&self) -> &'static Description {
        &Self::DESCRIPTION
    }

    fn step(&mut self, view: &View, events: &[Event], plan: &mut Plan) -> Wake {
        let found_twice = Thresholds { qd: self.config.interval, ht: Nanos::MAX };
        self.tasks.meet(view, events, |_| found_twice);
        self.cores.look(view, events, self.tasks.slots());
        self.history.look(&self.cores, view.topology.columns(), self.tasks.slots());
        self.note_absent(view, plan);
        if view.now >= self.next_check {
            self.next_check = view.now + self.config.interval;
            self.check(view, plan);
        }
        for event in events {
            if let Event::Yielded(core, _) = event {
                self.hand_on(*core, view, plan);
            }
        }
        if self.tasks.is_empty() { Wake::OnEvent } else { Wake::At(self.next_check) }
    }
}

impl Invariants for Shenango {
    fn check(&self, calm: &Calm<'_>) {
        calm.check_limits();
    }
}

//! `shenango`: cores follow queueing delay alone, every 5 µs (Ousterhout et al., "Shenango: Achieving High CPU
//! Efficiency for Latency-sensitive Datacenter Workloads", NSDI 2019, §4; compared with in caladan-osdi20 §5.1, §7.1).
//!
//! Two checks, one interval apart, that find the same item waiting mean *congestion*: the task gets one more core. A
//! task is *guaranteed* some cores; one that holds more is *bursting*. A task below its guarantee gets an idle core, or
//! that of a bursting task; one that bursts gets idle cores only. There is no other class: best-effort work is a task
//! without guarantee, which bursts. Memory bandwidth and hyperthreads are ignored; Caladan adds those.

use std::cmp::Reverse;

use quell_model::{
    CpuId, Description, Event, Nanos, Need, NoteKind, Plan, Policy, Quality, Signal, View, Wake, WorkloadId,
};
use serde::{Deserialize, Serialize};

use crate::cores::{self, Cores, Task, Tasks, Thresholds, queueing_delay};
use crate::invariant::{Calm, Invariants};
use crate::kit::once::Once;
use crate::parameter::parameters;

/// Interval of congestion detection (NSDI 2019 §1, §4: "every 5 µs").
pub const INTERVAL: Nanos = Nanos::from_micros(5);

parameters! {
    /// The parameters of `shenango`.
    #[derive(Eq)]
    pub struct ShenangoConfig {
        /// How often congestion is looked for; what has waited for so long was there at two checks (NSDI 2019 §4: 5 µs).
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
        for slot in 0..self.tasks.slots() {
            let id = WorkloadId(slot as u32);
            let Some(task) = self.tasks.get(id).filter(|task| self.is_congested(view, id, task)) else { continue };
            if self.cores.held(id) >= task.guaranteed {
                self.bursting.push(id);
            } else if let Some(core) = self.pick_core(id, true) {
                self.cores.grant(core, id, plan);
            }
        }
        for at in 0..self.bursting.len() {
            let id = self.bursting[at];
            match self.pick_core(id, false) {
                Some(core) => self.cores.grant(core, id, plan),
                None => break,
            }
        }
        self.bursting.clear();
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
        self.cores.held(id) < task.limit && queueing_delay(view, id).is_some_and(|delay| delay >= task.thresh_qd)
    }

    /// The core that suits a task best: an idle one before a bursting task's; then one whose sibling runs the task
    /// already, then the one that it used last, then the lowest.
    fn pick_core(&self, id: WorkloadId, may_preempt: bool) -> Option<CpuId> {
        let allowed = self.cores.allowed();
        let candidates = allowed.iter().filter_map(|core| {
            let on = self.cores.task_on(core);
            let can_be_had = match on {
                None => true,
                Some(other) => may_preempt && other != id && self.is_bursting(other),
            };
            let pairs = self.cores.siblings(core).iter().any(|&sibling| self.cores.task_on(sibling) == Some(id));
            can_be_had.then(|| ((on.is_none(), pairs, self.cores.last_used(id, core), Reverse(core)), core))
        });
        candidates.max_by_key(|(fitness, _)| *fitness).map(|(_, core)| core)
    }

    fn is_bursting(&self, id: WorkloadId) -> bool {
        self.tasks.get(id).is_some_and(|task| self.cores.held(id) > task.guaranteed)
    }

    /// A yielded core goes at once to a congested task: that on the sibling before the one that used it last.
    fn hand_on(&mut self, core: CpuId, view: &View, plan: &mut Plan) {
        if !self.cores.allowed().contains(core) || self.cores.task_on(core).is_some() {
            return;
        }
        let cores = &self.cores;
        let on_sibling = |id| cores.siblings(core).iter().any(|&sibling| cores.task_on(sibling) == Some(id));
        let congested = self.tasks.iter().filter(|(id, task)| self.is_congested(view, *id, task));
        let below = |id: WorkloadId, task: &Task| cores.held(id) < task.guaranteed;
        let heir = congested
            .max_by_key(|(id, task)| (below(*id, task), on_sibling(*id), cores.last_used(*id, core), Reverse(*id)));
        if let Some((heir, _)) = heir {
            self.cores.grant(core, heir, plan);
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

#[cfg(test)]
mod tests {
    use quell_model::{CpuCount, CpuSet, Stack, Topology};
    use quell_sim::host::drive;
    use quell_sim::workload::Arrivals;
    use quell_sim::{Costs, KernelConfig, SimHost, WorkloadSpec};

    use super::*;

    fn micros(micros: u64) -> Nanos {
        Nanos::from_micros(micros)
    }

    /// A host with a task that is guaranteed this many cores, and one that is guaranteed none and always has work.
    fn machine(topology: Topology, guaranteed: u32) -> (SimHost, WorkloadId, WorkloadId) {
        let workloads = [
            WorkloadSpec::lc("lc", CpuCount::whole(guaranteed)).serving(8, Arrivals::none(), micros(1000)),
            WorkloadSpec::be("be").busy(8),
        ];
        let config = KernelConfig { costs: Costs::FREE, ..KernelConfig::default() };
        (SimHost::new(topology, config, &workloads, 1, true).unwrap(), WorkloadId(0), WorkloadId(1))
    }

    fn run(host: &mut SimHost, policy: &mut Shenango, span: Nanos, mut seen: impl FnMut(&SimHost, &Plan)) {
        let mut stack = Stack::of_one(policy, host.view());
        let until = host.now() + span;
        drive(host, &mut stack, until, |host, stack| seen(host, &stack.first().plan));
    }

    #[test]
    fn a_congested_task_gets_its_guarantee_a_core_a_check_and_not_more_from_others() {
        let (mut host, lc, be) = machine(Topology::synthetic(1, 1, 8, 1), 3);
        let mut policy = Shenango::new(ShenangoConfig::default());
        run(&mut host, &mut policy, micros(100), |_, _| {});
        assert_eq!(host.held(be).len(), 8, "what nobody else uses it bursts into");
        host.send(lc, 8);
        let before = host.now();
        run(&mut host, &mut policy, micros(100), |host, _| {
            let checks = (host.now() - before).0.div_ceil(INTERVAL.0) as usize;
            assert!(host.held(lc).len() <= checks.max(1), "one core a check");
        });
        assert_eq!(host.held(lc).len(), 3, "bursting, it gets idle cores only, and there is none");
        run(&mut host, &mut policy, micros(4000), |_, _| {});
        assert_eq!(
            (host.sim().stats()[lc.index()].latencies.count(), host.held(be).len()),
            (8, 8),
            "yielded cores go back at once"
        );
    }

    #[test]
    fn a_bursting_task_takes_idle_cores_beside_its_own() {
        let (mut host, lc, be) = machine(Topology::synthetic(1, 1, 4, 2), 1);
        host.detach(be);
        let mut policy = Shenango::new(ShenangoConfig::default());
        host.send(lc, 2);
        run(&mut host, &mut policy, micros(50), |_, _| {});
        let held = host.held(lc);
        let topology = Topology::synthetic(1, 1, 4, 2);
        let first = held.iter().next().unwrap();
        assert_eq!(held, topology.core_of(first), "the sibling of its own core first");
        assert_ne!(held, CpuSet::EMPTY);
    }

    #[test]
    fn a_short_wait_is_no_congestion() {
        let (mut host, lc, _) = machine(Topology::synthetic(1, 1, 2, 1), 2);
        let mut policy = Shenango::new(ShenangoConfig { interval: micros(100) });
        run(&mut host, &mut policy, micros(1000), |_, _| {});
        host.send(lc, 1);
        run(&mut host, &mut policy, micros(90), |_, _| {});
        assert!(host.held(lc).is_empty());
        run(&mut host, &mut policy, micros(120), |_, _| {});
        assert_eq!(host.held(lc).len(), 1);
    }
}

//! `elfen`: best-effort work borrows the second hyperthread of cores whose first one serves requests (Yang, Blackburn
//! and McKinley, "Elfen Scheduling: Fine-Grain Principled Borrowing from Latency-Critical Workloads using Simultaneous
//! Multithreading", USENIX ATC 2016, §4; as caladan-osdi20 §4, §7.3 and Figure 9 compare with it).
//!
//! Each pair of hyperthreads has a *request lane*, for latency-critical tasks alone, and a *batch lane*, for
//! best-effort tasks alone. The mode says what a batch lane may do while the request lane is busy: *borrow idle*,
//! nothing; *refresh budget*, run on for a budget, which only time beside a request uses up and which is refilled
//! whenever the request lane becomes idle. In Elfen batch threads poll the request lane and step aside by themselves;
//! here, as in Caladan's comparison, the scheduler does it once an interval. Request lanes follow queueing delay as in
//! Caladan. A lane whose runtime polls for work serves no request: if the host reports when requests begin, the budget
//! runs from then on. A lane can idle between two looks: it did if another request began since the last one and none of
//! the task's requests waits, for then the lane found none when the one before had ended.

use quell_model::view::at;
use quell_model::{
    CpuId, Description, Event, Key, Nanos, Need, NoteKind, Plan, Policy, Signal, Uses, View, Wake, WorkloadId,
};
use serde::{Deserialize, Serialize};

use crate::caladan::{INTERVAL, THRESH_QD};
use crate::cores::{Cores, Right, Tasks, Thresholds, queueing_delay};
use crate::invariant::{Calm, Invariants};
use crate::kit::once::Once;
use crate::parameter::{choices, parameters};

/// The budget of *refresh budget* as long as nothing else is set. Elfen derives it from the latency that may be lost;
/// ours is an assumption: THRESH_HT as caladan-osdi20 App. A chooses it for services of some tens of microseconds.
pub const BUDGET: Nanos = Nanos::from_micros(20);

/// Permission of batch lanes beside busy request lanes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Nothing.
    BorrowIdle,
    /// Run until the budget is used up; it is full again when the request lane falls idle.
    #[default]
    RefreshBudget,
}

choices! {
    Mode {
        Mode::BorrowIdle = "borrow-idle",
        Mode::RefreshBudget = "refresh-budget",
    }
}

parameters! {
    /// The parameters of `elfen`.
    #[derive(Eq)]
    pub struct ElfenConfig {
        /// How often lanes are looked at.
        interval: Nanos = INTERVAL, in Nanos::from_micros(1)..=Nanos::from_secs(10);
        /// The queueing delay from which on a latency-critical task gets another request lane.
        thresh_qd: Nanos = THRESH_QD, in Nanos::from_micros(1)..=Nanos::from_secs(10);
        /// What batch lanes may do beside busy request lanes: nothing, or run until the budget is used up (§4).
        mode: Mode = Mode::RefreshBudget;
        /// The budget of *refresh budget*, full again when the request lane falls idle (§4).
        budget: Nanos = BUDGET, in Nanos::from_micros(1)..=Nanos::from_secs(10);
    }
    check(config) { Ok(()) }
}

/// A request lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Lane {
    /// Does it serve a request?
    is_busy: bool,
    /// The time for which its batch lane has been borrowed since the lane was idle last.
    used: Nanos,
}

/// The policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Elfen {
    config: ElfenConfig,
    tasks: Tasks,
    cores: Cores,
    /// By request lane.
    lanes: Vec<Lane>,
    last_look: Nanos,
    next_look: Nanos,
    said_no_lanes: Once,
}

impl Elfen {
    /// The policy.
    #[must_use]
    pub fn new(config: ElfenConfig) -> Elfen {
        Elfen {
            config,
            tasks: Tasks::default(),
            cores: Cores::default(),
            lanes: Vec::new(),
            last_look: Nanos::ZERO,
            next_look: Nanos::ZERO,
            said_no_lanes: Once::default(),
        }
    }

    /// Its name and its needs.
    pub const DESCRIPTION: Description = Description {
        name: "elfen",
        summary: "best-effort work borrows the second hyperthread of cores that serve requests on the first",
        source: "Yang et al., USENIX ATC 2016, §4; caladan-osdi20 §7.3",
        interval: INTERVAL,
        signals: &[
            Need::must(Signal::Holder),
            Need::must(Signal::QueueingDelay),
            Need::or(Signal::RequestStart, "the budget runs while a request lane is held, request or not"),
        ],
        knobs: &[],
        rules: &[],
        keys: &[Uses::all(Key::Limit), Uses::all(Key::Grace)],
        grants: true,
    };

    /// The first hyperthread of its pair.
    fn is_request_lane(&self, core: CpuId) -> bool {
        self.cores.siblings(core).iter().all(|&sibling| core < sibling)
    }

    fn request_lane_of(&self, core: CpuId) -> CpuId {
        self.cores.siblings(core).iter().copied().fold(core, CpuId::min)
    }

    /// Notes which request lanes serve requests, and how much of the budgets was used up since the last look.
    fn look_at_lanes(&mut self, view: &View) {
        self.lanes.resize(view.topology.columns(), Lane::default());
        for core in view.topology.all().iter() {
            if !self.is_request_lane(core) {
                continue;
            }
            let begun = match view.cpus.request_start.is_empty() {
                true => Some(self.last_look),
                false => at(&view.cpus.request_start, core.index()).usable(),
            };
            let request = self.cores.task_on(core).zip(begun);
            let Some((task, begun)) = request else {
                self.lanes[core.index()] = Lane::default();
                continue;
            };
            let lane = self.lanes[core.index()];
            let waits = queueing_delay(view, task).is_some_and(|delay| delay > Nanos::ZERO);
            let was_idle = !lane.is_busy || (begun > self.last_look && !waits);
            let is_borrowed = self.cores.siblings(core).iter().any(|&sibling| self.cores.task_on(sibling).is_some());
            let together = if is_borrowed { view.now - begun.max(self.last_look) } else { Nanos::ZERO };
            let used = if was_idle { Nanos::ZERO } else { lane.used };
            self.lanes[core.index()] = Lane { is_busy: true, used: used + together };
        }
        self.last_look = view.now;
    }

    /// May best-effort work run on this batch lane now?
    fn may_borrow(&self, core: CpuId) -> bool {
        let request_lane = self.request_lane_of(core);
        match (self.cores.task_on(request_lane), self.config.mode) {
            (None, _) => true,
            (Some(_), Mode::BorrowIdle) => false,
            (Some(_), Mode::RefreshBudget) => self.lanes[request_lane.index()].used < self.config.budget,
        }
    }

    /// Best-effort work steps aside where it may not borrow, and off request lanes.
    fn step_aside(&mut self, plan: &mut Plan) {
        for core in self.cores.pool().iter() {
            let its = self.cores.task_on(core).and_then(|task| self.tasks.get(task));
            let Some(task) = its else { continue };
            let request_lane = self.is_request_lane(core);
            if task.lc != request_lane || (!request_lane && !self.may_borrow(core)) {
                self.cores.revoke(core, plan);
            }
        }
    }

    /// One lane more for each task that waits for too long: latency-critical ones first, which may take a request lane
    /// from one that holds more than its guarantee.
    fn allocate(&mut self, view: &View, plan: &mut Plan) {
        for lc in [true, false] {
            for slot in 0..self.tasks.slots() {
                let id = WorkloadId(slot as u32);
                let Some(task) = self.tasks.get(id).filter(|task| task.lc == lc) else { continue };
                let held = self.cores.held(id);
                let waits = queueing_delay(view, id).is_some_and(|delay| delay >= task.thresh_qd);
                if !waits || held >= task.limit {
                    continue;
                }
                if let Some(core) = self.best_lane(id, lc, task.right_to_next(held)) {
                    self.cores.grant(core, id, plan);
                    if lc {
                        self.clear_batch_lane(core, plan);
                    }
                }
            }
        }
    }

    fn best_lane(&self, id: WorkloadId, lc: bool, right: Right) -> Option<CpuId> {
        let yields = |on: WorkloadId| {
            on != id && self.tasks.get(on).is_some_and(|task| task.right_to_keep(self.cores.held(on)) < right)
        };
        let own = self.tasks.get(id);
        let fits = |&core: &CpuId| {
            own.is_none_or(|own| own.may_run_on(core))
                && self.is_request_lane(core) == lc
                && (lc || self.may_borrow(core))
                && self.cores.task_on(core).is_none_or(yields)
        };
        let allowed = self.cores.allowed();
        let lanes = allowed.iter().filter(fits);
        lanes.max_by_key(|&core| {
            (self.cores.task_on(core).is_none(), self.cores.last_used(id, core), std::cmp::Reverse(core))
        })
    }

    /// A request lane is held from now on: if no batch lane may borrow then, best-effort work is preempted at once.
    fn clear_batch_lane(&mut self, lane: CpuId, plan: &mut Plan) {
        for index in 0..self.cores.siblings(lane).len() {
            let sibling = self.cores.siblings(lane)[index];
            let borrows = self.cores.task_on(sibling).is_some_and(|task| self.tasks.get(task).is_some());
            if borrows && self.cores.pool().contains(sibling) && !self.may_borrow(sibling) {
                self.cores.revoke(sibling, plan);
            }
        }
    }
}

impl Policy for Elfen {
    fn describe(&self) -> &'static Description {
        &Self::DESCRIPTION
    }

    fn step(&mut self, view: &View, events: &[Event], plan: &mut Plan) -> Wake {
        let thresholds = Thresholds { qd: self.config.thresh_qd, ht: Nanos::MAX };
        self.tasks.meet(view, events, |_| thresholds);
        self.cores.look(view, events, self.tasks.slots());
        self.look_at_lanes(view);
        let batch_lanes = self.cores.pool().iter().filter(|&core| !self.is_request_lane(core)).count();
        if batch_lanes == 0 && !self.tasks.is_empty() && self.said_no_lanes.first() {
            let text = "no core has a second hyperthread: there are no batch lanes, and best-effort work does not run";
            plan.note(NoteKind::Warning, None, text);
        }
        if view.now >= self.next_look {
            self.next_look = view.now + self.config.interval;
            self.step_aside(plan);
            self.allocate(view, plan);
        }
        if self.tasks.is_empty() { Wake::OnEvent } else { Wake::At(self.next_look) }
    }
}

impl Invariants for Elfen {
    const VARIANTS: &'static [&'static str] = &[r#"{"mode": "borrow-idle"}"#];

    fn check(&self, calm: &Calm<'_>) {
        for (id, spec) in calm.view.owned() {
            for cpu in calm.of(id).held.iter() {
                let is_first = calm.view.topology.siblings_of(cpu).iter().all(|sibling| cpu < sibling);
                assert_eq!(is_first, spec.is_lc(), "{} on {cpu}: request lanes are first", spec.name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use quell_model::{Class, CpuCount, CpuSet, Sample, Stack, Topology, Workload};
    use quell_sim::host::drive;
    use quell_sim::workload::Arrivals;
    use quell_sim::{Costs, KernelConfig, SimHost, WorkloadSpec};

    use super::*;

    fn micros(micros: u64) -> Nanos {
        Nanos::from_micros(micros)
    }

    fn host(topology: Topology, workloads: &[WorkloadSpec]) -> SimHost {
        let config = KernelConfig { costs: Costs::FREE, ..KernelConfig::default() };
        SimHost::new(topology, config, workloads, 1, true).unwrap()
    }

    /// Four cores of two hyperthreads, a server, and best-effort work without end. Runs, and returns the run times of
    /// both.
    fn scene(mode: Mode, budget: Nanos, mut seen: impl FnMut(&SimHost, WorkloadId, WorkloadId)) -> SimHost {
        let lc = WorkloadSpec::lc("lc", CpuCount::whole(4)).serving(8, Arrivals::none(), micros(200));
        let mut host = host(Topology::synthetic(1, 1, 4, 2), &[lc, WorkloadSpec::be("be").busy(8)]);
        let [lc, be] = [0, 1].map(WorkloadId);
        let policy = Elfen::new(ElfenConfig { mode, budget, ..ElfenConfig::default() });
        let mut stack = Stack::of_one(policy, host.view());
        for part in 0..3u64 {
            if part == 1 {
                host.send(lc, 2);
            }
            let until = micros(1000 * (part + 1));
            drive(&mut host, &mut stack, until, |host, _| seen(host, lc, be));
        }
        assert_eq!(host.sim().stats()[lc.index()].latencies.count(), 2);
        assert_eq!(host.held(be), batch_lanes(), "every batch lane is borrowed while no one serves a request");
        host
    }

    fn batch_lanes() -> CpuSet {
        let topology = Topology::synthetic(1, 1, 4, 2);
        topology.all().iter().filter(|&core| topology.siblings_of(core).iter().any(|sibling| sibling < core)).collect()
    }

    /// Number of cores with both lanes held at once, and the longest time of it.
    fn together(mode: Mode, budget: Nanos) -> (usize, Nanos) {
        let topology = Topology::synthetic(1, 1, 4, 2);
        let (mut most, mut since, mut longest) = (0, None::<Nanos>, Nanos::ZERO);
        scene(mode, budget, |host, lc, be| {
            assert!(host.held(be).is_subset(&batch_lanes()) && host.held(lc).intersection(&batch_lanes()).is_empty());
            let serving = host.held(lc);
            let shared = serving
                .iter()
                .filter(|&core| topology.siblings_of(core).iter().any(|sibling| host.held(be).contains(sibling)));
            let shared = shared.count();
            most = most.max(shared);
            since = (shared > 0).then(|| since.unwrap_or(host.now()));
            longest = longest.max(since.map_or(Nanos::ZERO, |since| host.now() - since));
        });
        (most, longest)
    }

    #[test]
    fn borrow_idle_never_shares_a_core() {
        assert_eq!(together(Mode::BorrowIdle, Nanos::ZERO).0, 0);
    }

    #[test]
    fn refresh_budget_shares_a_core_for_the_budget() {
        let (most, longest) = together(Mode::RefreshBudget, micros(50));
        assert_eq!(most, 2);
        // The request's clock runs from when it comes to its thread, up to two looks before that has a core.
        assert!(longest >= micros(20) && longest <= micros(70), "{longest}");
        let (_, longest) = together(Mode::RefreshBudget, micros(10_000));
        assert!(longest >= micros(180), "a budget longer than the request: {longest}");
    }

    /// The budget that is used up of a lane on one core, after looks at these beginnings of its request (µs; none: it is
    /// idle) with the batch lane borrowed or not and requests waiting or not.
    fn used(looks: &[(Option<u64>, bool, bool)]) -> Nanos {
        let mut view = View::new(Topology::synthetic(1, 1, 1, 2).into());
        for class in [Class::LatencyCritical, Class::BestEffort] {
            view.workloads.spec.push(Some(Workload::new(format!("{class:?}"), class, CpuCount::whole(1)).into()));
        }
        let mut policy = Elfen::new(ElfenConfig::default());
        for &(begun, borrowed, waits) in looks {
            view.now += INTERVAL;
            view.cpus.holder = vec![Some(WorkloadId(0)), borrowed.then_some(WorkloadId(1))];
            let start = begun.map_or(Sample::default(), |begun| Sample::exact(micros(begun), view.now));
            view.cpus.request_start = vec![start, Sample::default()];
            let delay = Sample::exact(Nanos(u64::from(waits)), view.now);
            view.workloads.queueing_delay = vec![delay, Sample::exact(Nanos::ZERO, view.now)];
            let mut plan = Plan::default();
            plan.begin(view.now.0);
            policy.step(&view, &[], &mut plan);
        }
        policy.lanes[0].used
    }

    #[test]
    fn time_beside_a_request_uses_the_budget_up_and_an_idle_moment_refills_it() {
        assert_eq!(used(&[(Some(4), true, false)]), micros(6), "from the request's beginning");
        assert_eq!(used(&[(Some(4), true, false), (Some(4), true, false)]), micros(16));
        assert_eq!(used(&[(Some(4), true, false), (Some(4), false, false)]), micros(6), "not while it is not borrowed");
        assert_eq!(used(&[(Some(4), true, false), (None, true, false)]), Nanos::ZERO);
        assert_eq!(used(&[(Some(4), true, false), (Some(13), true, false)]), micros(7), "it idled in between");
        let queue = [(Some(4), true, true), (Some(13), true, true)];
        assert_eq!(used(&queue), micros(13), "with requests waiting it did not");
    }

    #[test]
    fn without_hyperthreads_it_says_so() {
        let mut host = host(Topology::synthetic(1, 1, 2, 1), &[WorkloadSpec::be("be").busy(2)]);
        let mut stack = Stack::of_one(Elfen::new(ElfenConfig::default()), host.view());
        let mut notes = Vec::new();
        drive(&mut host, &mut stack, micros(100), |_, stack| {
            let said = stack.stepped().flat_map(|layer| &layer.plan.notes);
            notes.extend(said.map(|note| note.text.to_string()));
        });
        assert_eq!(notes.len(), 1);
        assert!(notes[0].contains("no batch lanes"));
    }
}

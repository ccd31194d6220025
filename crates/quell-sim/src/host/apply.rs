//! Carrying a plan out: knobs and rules as a whole or not at all, then grants, samples and leases.

use quell_model::{
    Bounds, Capabilities, Event, KnobKind, KnobSetting, LeaseRequest, Nanos, NodeSet, Outcome, Part, Plan, Refusal,
    SampleRequest, SoloEnd, Support, Target, Verdict, WorkloadId,
};

use super::actuators::On;
use super::{SimHost, actuators, capabilities};

/// What checking a setting found.
enum Check {
    Fine,
    Gone,
    Bad(Refusal),
}

impl SimHost {
    pub(super) fn obey(&mut self, plan: &Plan, events: &mut Vec<Event>) {
        self.charge(plan);
        let before = events.len();
        let mut report = |part, verdict| events.push(Event::Outcome(Outcome { plan: plan.number, part, verdict }));
        let mut sunk = None;
        if !plan.knobs.is_empty() {
            let verdict = self.turn_knobs(&plan.knobs);
            sunk = matches!(verdict, Verdict::Refused(_)).then(|| verdict.clone());
            report(Part::Knobs, verdict);
        }
        // Of rules this host refuses only kinds that it declared impossible.
        for (at, rule) in plan.rules.iter().enumerate() {
            report(Part::Rule(at as u32), sunk.clone().unwrap_or_else(|| self.rule(*rule)));
        }
        for (at, grant) in plan.grants.iter().enumerate() {
            report(Part::Grant(at as u32), self.grant(*grant));
        }
        if !plan.grants.is_empty() {
            self.charge_binding();
        }
        for (at, sample) in plan.samples.iter().enumerate() {
            report(Part::Sample(at as u32), self.take(sample));
        }
        for (at, lease) in plan.leases.iter().enumerate() {
            report(Part::Lease(at as u32), self.lease(*lease));
        }
        self.sim.settle();
        if let Some(mut watch) = self.watch.take() {
            watch.grants_changed(self);
            self.watch = Some(watch);
        }
        let is_refused = |event: &&Event| matches!(event, Event::Outcome(Outcome { verdict: Verdict::Refused(_), .. }));
        self.costs.refused += events[before..].iter().filter(is_refused).count() as u64;
    }

    /// Deciding and acting take time, in which the machine goes on.
    fn charge(&mut self, plan: &Plan) {
        let costs = self.sim.kernel.config.costs;
        let mut time = costs.decision.0 + costs.knob.0 * plan.knobs.len() as u64;
        if !plan.grants.is_empty() || !plan.rules.is_empty() {
            time += costs.grant.0 + costs.grant_each.0 * plan.grants.len() as u64;
        }
        self.costs.charged += Nanos(time);
        if !plan.is_idle() {
            self.costs.plans += 1;
            let lists =
                plan.knobs.len() + plan.grants.len() + plan.rules.len() + plan.samples.len() + plan.leases.len();
            self.costs.commands += lists as u64;
        }
        let until = self.sim.now() + Nanos(time);
        self.let_pass(until);
    }

    /// What was lent by affinity is made true, each binding at the cost of a knob.
    fn charge_binding(&mut self) {
        let bound = self.bind_lent();
        let time = Nanos(self.sim.kernel.config.costs.knob.0 * bound);
        self.costs.charged += time;
        let until = self.sim.now() + time;
        self.let_pass(until);
    }

    fn turn_knobs(&mut self, settings: &[KnobSetting]) -> Verdict {
        let mut gone = 0;
        let can = capabilities(self.lending(), self.sim.measured_of_memory());
        for setting in settings {
            match self.check(setting, &can) {
                Check::Fine => {}
                Check::Gone => gone += 1,
                Check::Bad(refusal) => return Verdict::Refused(refusal),
            }
        }
        if gone == settings.len() {
            return Verdict::Vanished;
        }
        settings.iter().for_each(|setting| actuators::set(setting, &mut self.on()));
        Verdict::Applied(self.sim.now())
    }

    fn check(&self, setting: &KnobSetting, can: &Capabilities) -> Check {
        let bad = |why: &str| Check::Bad(Refusal::System(format!("{setting:?}: {why}")));
        let kernel = &self.sim.kernel;
        let exists = match setting.target {
            Target::Workload(id) => self.members.has(id),
            Target::Thread(id) => actuators::task(id, kernel).is_some(),
            Target::Cpu(cpu) => kernel.topology.cpu(cpu).is_some(),
            Target::Machine => true,
        };
        if !exists {
            return Check::Gone;
        }
        let kind = setting.knob.kind();
        if let Support::No { why, .. } = can.can_set(kind, setting.target.kind()) {
            return Check::Bad(Refusal::Unsupported(format!("{}: {why}", kind.name())));
        }
        let machine = &self.sim.machine;
        let gpu = machine.gpu.map(|gpu| gpu.frequencies);
        if kind == KnobKind::GpuFrequencyKhz && gpu.is_none() {
            return Check::Bad(Refusal::Unsupported(format!("{}: this machine has no GPU", kind.name())));
        }
        let bounds = Bounds {
            online: kernel.masks.online,
            cache_ways: machine.llc.ways,
            least_ways: 1,
            llcs: machine.topology.llcs().len() as u32,
            khz: machine.frequencies.min_khz..=machine.frequencies.max_khz,
            gpu_khz: gpu.map_or(0..=u32::MAX, |gpu| gpu.min_khz..=gpu.max_khz),
            throttle: 10..=100,
            nodes: Some(NodeSet(self.controls.nodes.iter().fold(0, |all, node| all | 1 << node))),
        };
        setting.knob.check(&bounds).map_or_else(|error| bad(&error.to_string()), |()| Check::Fine)
    }

    /// What knobs are set on.
    pub(super) fn on(&mut self) -> On<'_> {
        let leases = self.leases.leases().copied().collect();
        On { members: &mut self.members, sim: &mut self.sim, leases }
    }

    /// What was set holds for who there is now, on the CPUs that there are.
    pub(super) fn refit(&mut self) {
        actuators::fit(&mut self.on());
    }

    fn take(&mut self, request: &SampleRequest) -> Verdict {
        let verdict = self.sensors.counters.ask(request, &self.sim);
        self.take_samples();
        verdict
    }

    fn lease(&mut self, request: LeaseRequest) -> Verdict {
        let now = self.sim.now();
        match request {
            LeaseRequest::Begin(lease) if !self.members.has(lease.solo) => Verdict::Vanished,
            LeaseRequest::Begin(lease) => match self.leases.begin(lease, now) {
                Ok(lease) => {
                    self.refit();
                    self.happened.push(Event::SoloBegan(lease.solo));
                    Verdict::Applied(now)
                }
                Err(refusal) => Verdict::Refused(refusal),
            },
            LeaseRequest::End(solo) if self.leases.of(solo).is_some() => {
                self.end_lease(solo, SoloEnd::Released);
                Verdict::Applied(now)
            }
            LeaseRequest::End(_) => Verdict::Vanished,
            LeaseRequest::Pass { to, .. } if !self.members.has(to) => Verdict::Vanished,
            LeaseRequest::Pass { from, to } => match self.leases.pass(from, to, now) {
                Ok(Some(_)) => {
                    self.refit();
                    self.happened.extend([Event::SoloEnded(from, SoloEnd::Passed), Event::SoloBegan(to)]);
                    Verdict::Applied(now)
                }
                Ok(None) => Verdict::Vanished,
                Err(refusal) => Verdict::Refused(refusal),
            },
        }
    }

    /// Ends a workload's solo run, if it has one.
    pub(super) fn end_lease(&mut self, solo: WorkloadId, why: SoloEnd) {
        if self.leases.end(solo, self.sim.now()).is_some() {
            self.lease_ended(solo, why);
        }
    }

    pub(super) fn lease_ended(&mut self, solo: WorkloadId, why: SoloEnd) {
        self.refit();
        self.sim.settle();
        self.happened.push(Event::SoloEnded(solo, why));
    }
}

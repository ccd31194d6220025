//! Grants of CPUs on kernels without sched_ext: the stock host, by affinity, once a millisecond at most.
//!
//! A best-effort workload is bound to the CPUs that it holds. A latency-critical one is bound to nothing: its threads are
//! to run before all others (policy `guard`), so that they have a CPU at the wake-up, whoever holds that; and what a grant
//! adds is that nobody else is on its CPUs for as long as it holds them. Queueing delays are the tracepoints'.

use std::collections::BTreeSet;

use quell_model::{
    Capabilities, CpuSet, Event, GrantCommand, Holders, Host, Knob, KnobSetting, Nanos, Outcome, Part, Plan, Refusal,
    Signal, SignalSet, Support, Target, Verdict, View, Wake, Workload, WorkloadId,
};

use crate::write::RestoreReport;
use crate::{LinuxError, LinuxHost, Manager};

/// It looks, and moves anybody, at most so often: a change of affinity costs microseconds, and more where cgroups do it.
const LOOK: Nanos = Nanos::from_millis(1);
/// Where no CPU changed hands since the last look the next one is twice as far away, but no further than this: a look reads
/// what every policy beside wants, and `guard` wants it so often.
const LONGEST: Nanos = Nanos::from_millis(20);

const HOLDER: SignalSet = SignalSet::of(&[Signal::Holder]);
const QUEUES: SignalSet = SignalSet::of(&[Signal::QueueingDelay]);

/// The stock host for policies that grant CPUs.
#[derive(Debug)]
pub struct AffinityHost {
    linux: LinuxHost,
    /// The CPUs that are handed out.
    pool: CpuSet,
    /// The names of the workloads that CPUs are granted to; None: all.
    granted: Option<BTreeSet<String>>,
    holders: Holders,
    /// Where each workload is bound, by slot; None: nowhere.
    bound: Vec<Option<CpuSet>>,
    online: CpuSet,
    looked_at: Nanos,
    /// The time from one look to the next.
    patience: Nanos,
    /// What the stock host is told to do: kept for its memory.
    rest: Plan,
    /// What became of that: kept for its memory.
    told: Vec<Event>,
}

impl AffinityHost {
    /// Hands out the CPUs of the pool.
    #[must_use]
    pub fn new(linux: LinuxHost, pool: CpuSet, granted: Option<BTreeSet<String>>) -> AffinityHost {
        let topology = linux.topology();
        AffinityHost {
            holders: Holders::of(topology.columns()),
            online: topology.all(),
            linux,
            pool,
            granted,
            bound: Vec::new(),
            looked_at: Nanos::ZERO,
            patience: LOOK,
            rest: Plan::default(),
            told: Vec::new(),
        }
    }

    fn is_granted(&self, workload: &Workload) -> bool {
        self.granted.as_ref().is_none_or(|names| names.contains(&workload.name))
    }

    fn pool_now(&self) -> CpuSet {
        self.pool.intersection(&self.online)
    }

    fn command(&mut self, command: &GrantCommand, now: Nanos) -> Verdict {
        let (cpu, to) = match *command {
            GrantCommand::Grant(cpu, id) if self.linux.workloads().all(|(known, _)| known != id) => {
                tracing::debug!(%cpu, "a CPU was granted to a workload that is gone");
                return Verdict::Vanished;
            }
            GrantCommand::Grant(cpu, id) => (cpu, Some(id)),
            GrantCommand::Revoke(cpu) => (cpu, None),
        };
        if !self.pool_now().contains(cpu) {
            let why = format!("CPU {cpu} is not among those that this host hands out, or is offline");
            return Verdict::Refused(Refusal::Forbidden(why));
        }
        self.holders.hand(cpu, to);
        Verdict::Applied(now)
    }

    /// Where every best-effort workload belongs now: what has changed goes into the plan for the stock host.
    fn bind(&mut self) {
        let pool = self.pool_now();
        for (id, workload) in self.linux.workloads() {
            if workload.is_lc() || !self.is_granted(workload) {
                continue;
            }
            self.bound.resize(self.bound.len().max(id.index() + 1), None);
            let before = self.bound[id.index()];
            let room = self.holders.room_for(id, &before.unwrap_or(CpuSet::EMPTY), &pool);
            if before != Some(room) && !room.is_empty() {
                self.rest.knobs.push(KnobSetting { target: Target::Workload(id), knob: Knob::Cpus(room) });
            }
        }
    }

    /// What the stock host made true.
    fn note_bound(&mut self) {
        for setting in &self.rest.knobs {
            if let (Target::Workload(id), Knob::Cpus(cpus)) = (setting.target, setting.knob) {
                self.bound[id.index()] = Some(cpus);
            }
        }
    }

    /// Carries out the grants of a plan: all that can be, or none where the kernel refuses the affinities.
    fn carry_out(&mut self, plan: &Plan, events: &mut Vec<Event>) -> Result<(), LinuxError> {
        let before = self.holders.clone();
        let now = self.linux.now();
        let first = events.len();
        for (at, command) in plan.grants.iter().enumerate() {
            let verdict = self.command(command, now);
            events.push(Event::Outcome(Outcome { plan: plan.number, part: Part::Grant(at as u32), verdict }));
        }
        self.rest.begin(plan.number);
        self.bind();
        if self.rest.knobs.is_empty() {
            return Ok(());
        }
        self.linux.apply(&self.rest, &mut self.told)?;
        let mut refused = None;
        for event in self.told.drain(..) {
            match event {
                // Nobody asked for the binding by that name: it is what becomes of the grants.
                Event::Outcome(Outcome { part: Part::Knobs, verdict, .. }) => {
                    refused = Some(verdict).filter(|verdict| matches!(verdict, Verdict::Refused(_)));
                }
                event => events.push(event),
            }
        }
        match refused {
            None => self.note_bound(),
            Some(refused) => {
                self.holders = before;
                let commands = &mut events[first..first + plan.grants.len()];
                for event in commands {
                    if let Event::Outcome(outcome) = event {
                        outcome.verdict = refused.clone();
                    }
                }
            }
        }
        Ok(())
    }

    /// Everything of a plan but its grants is the stock host's.
    fn leave_to_linux(&mut self, plan: &Plan, events: &mut Vec<Event>) -> Result<(), LinuxError> {
        self.rest.begin(plan.number);
        self.rest.knobs.extend_from_slice(&plan.knobs);
        self.rest.rules.extend_from_slice(&plan.rules);
        self.rest.leases.extend_from_slice(&plan.leases);
        self.rest.samples.extend_from_slice(&plan.samples);
        self.linux.apply(&self.rest, events)
    }
}

impl Host for AffinityHost {
    type Error = LinuxError;

    fn capabilities(&self) -> Capabilities {
        capabilities(self.linux.capabilities())
    }

    fn observe(&mut self, wanted: SignalSet, view: &mut View, events: &mut Vec<Event>) -> Result<(), LinuxError> {
        let theirs = wanted.difference(HOLDER).union(QUEUES);
        self.linux.observe(theirs, view, events)?;
        self.looked_at = view.now;
        for gone in self.online.difference(&view.cpus.online).iter() {
            self.holders.hand(gone, None);
        }
        self.online = view.cpus.online;
        let runnable = self.linux.activities().iter().map(|activity| activity.runnable);
        self.holders.yield_unused(runnable, |cpu, id| events.push(Event::Yielded(cpu, id)));
        view.cpus.holder.clear();
        view.cpus.holder.extend_from_slice(self.holders.all());
        Ok(())
    }

    fn apply(&mut self, plan: &Plan, events: &mut Vec<Event>) -> Result<(), LinuxError> {
        if plan.is_idle() {
            return Ok(());
        }
        self.leave_to_linux(plan, events)?;
        if plan.grants.is_empty() {
            return Ok(());
        }
        self.patience = LOOK;
        self.carry_out(plan, events)
    }

    fn wait(&mut self, until: Wake) -> Result<(), LinuxError> {
        let soonest = self.looked_at + self.patience;
        self.patience = (self.patience + self.patience).min(LONGEST);
        self.linux.wait(match until {
            Wake::At(at) => Wake::At(at.max(soonest)),
            Wake::OnEvent => Wake::OnEvent,
        })
    }
}

impl Manager for AffinityHost {
    fn linux(&mut self) -> &mut LinuxHost {
        &mut self.linux
    }

    fn attach(&mut self, workload: Workload) -> Result<WorkloadId, LinuxError> {
        self.linux.attach(workload)
    }

    fn update(&mut self, id: WorkloadId, workload: Workload) -> Result<(), LinuxError> {
        self.linux.update(id, workload)
    }

    fn detach(&mut self, id: WorkloadId) -> Result<RestoreReport, LinuxError> {
        self.holders.forget(id);
        if let Some(bound) = self.bound.get_mut(id.index()) {
            *bound = None;
        }
        self.linux.detach(id)
    }

    fn is_absence(error: &LinuxError) -> bool {
        LinuxHost::is_absence(error)
    }
}

/// What the stock host can, with grants by affinity.
#[must_use]
pub fn capabilities(stock: Capabilities) -> Capabilities {
    let mut can = stock;
    can.host = "affinity".to_owned();
    can.signals.insert(Signal::Holder, Support::Yes);
    let how = "by affinity, once a millisecond at most: best-effort threads keep to the CPUs that they hold, or to one where they \
               hold none; nothing keeps threads of no workload off a CPU";
    can.grants = Support::Partly(how.to_owned());
    can
}

//! Lending of CPUs on kernels without sched_ext: by affinity, once a millisecond at most.
//!
//! A best-effort workload is bound to the CPUs that it holds. A latency-critical one is not bound: its threads are to
//! run before all others (policy `guard`), so that they have a CPU at the wake-up, whatever its holder. A grant keeps
//! other workloads off its CPUs for as long as it holds them. Queueing delays are the tracepoints'.

use std::collections::BTreeSet;
use std::sync::Arc;

use quell_model::{
    Allowance, Capabilities, CpuSet, Event, GrantCommand, Holders, Knob, KnobSetting, Nanos, Outcome, Part, Plan,
    Refusal, Signal, SignalSet, Support, Target, Topology, Verdict, View, Wake, Workload, WorkloadId,
};

use super::{Activity, Scheduler, refuse_rules};
use crate::{LinuxError, clock};

/// Shortest interval between scans and moves: a change of affinity costs microseconds, and more where cgroups do it.
const LOOK: Nanos = Nanos::from_millis(1);
/// While no CPU changes hands the interval doubles from look to look, up to this: a look reads all signals that the
/// other policies want, and `guard` wants them this often.
const LONGEST: Nanos = Nanos::from_millis(20);

const HOLDER: SignalSet = SignalSet::of(&[Signal::Holder]);
const QUEUES: SignalSet = SignalSet::of(&[Signal::QueueingDelay]);

/// Linux's scheduler, with workloads bound to CPUs by affinity.
#[derive(Debug)]
pub struct Affinity {
    /// The CPUs that are handed out.
    pool: CpuSet,
    /// The names of the workloads that CPUs are granted to; None: all.
    granted: Option<BTreeSet<String>>,
    holders: Holders,
    /// By slot.
    slots: Vec<Option<Slot>>,
    online: CpuSet,
    looked_at: Nanos,
    /// The time from one look to the next.
    patience: Nanos,
    /// The holders before the plan that is being carried out, and the CPUs that follow from them.
    before: Holders,
    rooms: Vec<(WorkloadId, CpuSet)>,
    allowances: Arc<Vec<Allowance>>,
}

/// A workload.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// Is it bound to the CPUs that it holds?
    is_bound: bool,
    /// The CPUs that it is bound to now; None: it is not bound.
    room: Option<CpuSet>,
}

impl Affinity {
    /// Hands out the CPUs of the pool.
    #[must_use]
    pub fn new(topology: &Topology, pool: CpuSet, granted: Option<BTreeSet<String>>) -> Affinity {
        Affinity {
            pool,
            granted,
            holders: Holders::of(topology.columns()),
            slots: Vec::new(),
            online: topology.all(),
            looked_at: Nanos::ZERO,
            patience: LOOK,
            before: Holders::default(),
            rooms: Vec::new(),
            allowances: Arc::default(),
        }
    }

    fn is_bound(&self, workload: &Workload) -> bool {
        !workload.is_lc() && self.granted.as_ref().is_none_or(|names| names.contains(&workload.name))
    }

    fn pool_now(&self) -> CpuSet {
        self.pool.intersection(&self.online)
    }

    fn command(&mut self, command: &GrantCommand, now: Nanos) -> Verdict {
        let (cpu, to) = match *command {
            GrantCommand::Grant(cpu, id) if !matches!(self.slots.get(id.index()), Some(Some(_))) => {
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

    /// Binds every best-effort workload to its present CPUs, where they changed.
    fn bind(&mut self) {
        let pool = self.pool_now();
        self.rooms.clear();
        for (at, slot) in self.slots.iter().enumerate() {
            let (id, Some(Slot { is_bound: true, room: before })) = (WorkloadId(at as u32), slot) else { continue };
            let allowed = self.allowances.iter().find(|one| one.workload == id).and_then(|one| one.cpus);
            let own = allowed.map_or(pool, |allowed| pool.intersection(&allowed));
            let room = self.holders.room_for(id, &before.unwrap_or(CpuSet::EMPTY), &own);
            if *before != Some(room) && !room.is_empty() {
                self.rooms.push((id, room));
            }
        }
    }
}

impl Scheduler for Affinity {
    fn report(&self, found: &mut Capabilities) {
        *found = capabilities(std::mem::take(found));
    }

    fn attach(&mut self, id: WorkloadId, workload: &Workload) -> Result<(), LinuxError> {
        if self.slots.len() <= id.index() {
            self.slots.resize(id.index() + 1, None);
        }
        self.slots[id.index()] = Some(Slot { is_bound: self.is_bound(workload), room: None });
        Ok(())
    }

    fn update(&mut self, id: WorkloadId, workload: &Workload) -> Result<(), LinuxError> {
        let is_bound = self.is_bound(workload);
        if let Some(Some(slot)) = self.slots.get_mut(id.index()) {
            slot.is_bound = is_bound;
        }
        Ok(())
    }

    fn detach(&mut self, id: WorkloadId) -> Result<(), LinuxError> {
        self.holders.forget(id);
        if let Some(slot) = self.slots.get_mut(id.index()) {
            *slot = None;
        }
        Ok(())
    }

    fn prepare(&mut self, wanted: SignalSet) -> Result<SignalSet, LinuxError> {
        Ok(wanted.difference(HOLDER).union(QUEUES))
    }

    fn observe(&mut self, _: SignalSet, activities: &[Activity], view: &mut View, events: &mut Vec<Event>) {
        self.looked_at = view.now;
        self.holders.grow(view.topology.columns());
        if !Arc::ptr_eq(&self.allowances, &view.allowances) {
            self.allowances = Arc::clone(&view.allowances);
        }
        for gone in self.online.difference(&view.cpus.online).iter() {
            self.holders.hand(gone, None);
        }
        self.online = view.cpus.online;
        let runnable = activities.iter().map(|activity| activity.runnable);
        self.holders.yield_unused(runnable, |cpu, id| events.push(Event::Yielded(cpu, id)));
        view.cpus.holder.clear();
        view.cpus.holder.extend_from_slice(self.holders.all());
    }

    fn carry_out(
        &mut self,
        plan: &Plan,
        settings: &mut Vec<KnobSetting>,
        events: &mut Vec<Event>,
    ) -> Result<(), LinuxError> {
        refuse_rules(plan, events);
        if plan.grants.is_empty() {
            return Ok(());
        }
        self.patience = LOOK;
        self.before.clone_from(&self.holders);
        let now = clock::now();
        for (at, command) in plan.grants.iter().enumerate() {
            let verdict = self.command(command, now);
            events.push(Event::Outcome(Outcome { plan: plan.number, part: Part::Grant(at as u32), verdict }));
        }
        self.bind();
        let bound = |&(id, room)| KnobSetting { target: Target::Workload(id), knob: Knob::Cpus(room) };
        settings.extend(self.rooms.iter().map(bound));
        Ok(())
    }

    fn settled(&mut self, done: bool) {
        if !done {
            self.holders.clone_from(&self.before);
            return;
        }
        for (id, room) in self.rooms.drain(..) {
            if let Some(Some(slot)) = self.slots.get_mut(id.index()) {
                slot.room = Some(room);
            }
        }
    }

    fn wait(&mut self, until: Wake) -> Result<Option<Wake>, LinuxError> {
        let soonest = self.looked_at + self.patience;
        self.patience = (self.patience + self.patience).min(LONGEST);
        Ok(Some(match until {
            Wake::At(at) => Wake::At(at.max(soonest)),
            Wake::OnEvent => Wake::OnEvent,
        }))
    }
}

/// Capabilities of the stock host, with lending by affinity.
#[must_use]
pub fn capabilities(stock: Capabilities) -> Capabilities {
    let mut can = stock;
    can.host = "affinity".to_owned();
    can.signals.insert(Signal::Holder, Support::Yes);
    let how = "by affinity, once a millisecond at most: best-effort threads are kept on the CPUs that they hold, or on one if \
               they hold none; unmanaged threads may run on any CPU";
    can.grants = Support::Partly(how.to_owned());
    can
}

//! How the simulated host lends CPUs to workloads: by Quell's own scheduler, or by affinity on the kernel's.
//!
//! By affinity it does what the stock Linux host does: a best-effort workload is bound to the CPUs that it holds; a
//! latency-critical one is bound to nothing, and runs before all others by the policy `guard`. It looks once a millisecond
//! at most, as that host does.

use quell_model::{
    Capabilities, CpuId, CpuSet, Event, GrantCommand, Holders, Knob, KnobSetting, Layer, Nanos, Policy, QueueOrder,
    Refusal, Rule, RuleKind, Support, Target, Verdict, Wake, WorkloadId,
};

use super::{SimHost, actuators};
use crate::SimError;
use crate::kernel::ServerSpec;

/// It looks, and binds, at most this often.
const LOOK: Nanos = Nanos::from_millis(1);
/// Where no CPU changed hands since the last look the next one is twice as far away, but no further than this.
const LONGEST: Nanos = Nanos::from_millis(20);

/// What lends CPUs to workloads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lending {
    /// Nothing: no policy grants CPUs, the kernel's own scheduler runs.
    #[default]
    Nothing,
    /// Quell's own scheduler: every ordinary thread runs where its workload holds a CPU.
    Scheduler,
    /// The kernel's own scheduler runs, and best-effort threads are bound to the CPUs that their workload holds.
    Affinity,
}

impl From<bool> for Lending {
    /// With grants by Quell's own scheduler, or without any.
    fn from(grants: bool) -> Lending {
        if grants { Lending::Scheduler } else { Lending::Nothing }
    }
}

impl Lending {
    /// Says what can be granted, and which rules stand.
    pub(super) fn report(self, found: &mut Capabilities) {
        let no_grants = || Support::No {
            why: "the kernel's own scheduler runs".into(),
            fix: "run a policy that grants CPUs".into(),
        };
        for rule in [RuleKind::Guaranteed, RuleKind::Burst, RuleKind::Limit, RuleKind::Rank, RuleKind::SiblingBan] {
            found.rules.insert(rule, if self == Lending::Scheduler { Support::Yes } else { no_grants() });
        }
        found.rules.insert(RuleKind::Server, Support::Yes);
        let why = "the simulated kernel divides CPUs by cgroup and thread".to_owned();
        let fix = "use Quell's scheduler: scheduler = \"quell\"".to_owned();
        let in_order = Support::Partly("first come, first served; by weight on a real kernel alone".to_owned());
        found
            .rules
            .insert(RuleKind::Together, if self == Lending::Scheduler { in_order } else { Support::No { why, fix } });
        found.grants = match self {
            Lending::Scheduler => Support::Yes,
            Lending::Affinity => Support::Partly(
                "by affinity, once a millisecond at most: best-effort threads keep to the CPUs that they hold, or to one \
                 where they hold none"
                    .into(),
            ),
            Lending::Nothing => no_grants(),
        };
    }
}

/// Lending by affinity.
#[derive(Clone, Debug)]
pub(super) struct Affinity {
    holders: Holders,
    /// The workloads that CPUs are granted to; None: all.
    granted: Option<Vec<WorkloadId>>,
    /// Where each workload is bound, by slot; None: nowhere.
    bound: Vec<Option<CpuSet>>,
    looked_at: Nanos,
    patience: Nanos,
}

impl Affinity {
    pub fn new(cpus: usize, workloads: usize, granted: Option<Vec<WorkloadId>>) -> Affinity {
        Affinity {
            holders: Holders::of(cpus),
            granted,
            bound: vec![None; workloads],
            looked_at: Nanos::ZERO,
            patience: LOOK,
        }
    }

    /// By CPU: the workload that holds it.
    pub fn all(&self) -> &[Option<WorkloadId>] {
        self.holders.all()
    }

    fn is_granted(&self, id: WorkloadId) -> bool {
        self.granted.as_ref().is_none_or(|granted| granted.contains(&id))
    }

    /// A workload comes into this slot.
    pub fn admit(&mut self, id: WorkloadId) {
        self.bound.resize(self.bound.len().max(id.index() + 1), None);
    }

    /// A workload is gone, and holds nothing.
    pub fn dismiss(&mut self, id: WorkloadId) {
        self.bound[id.index()] = None;
        for cpu in (0..self.holders.all().len() as u32).map(CpuId) {
            if self.holders.all()[cpu.index()] == Some(id) {
                self.holders.hand(cpu, None);
            }
        }
    }

    /// A CPU is lent to none.
    pub fn take(&mut self, cpu: CpuId) {
        self.holders.hand(cpu, None);
    }

    /// When a loop that wants to turn then may.
    pub fn not_before(&mut self, until: Wake) -> Wake {
        let soonest = self.looked_at + self.patience;
        self.patience = (self.patience + self.patience).min(LONGEST);
        match until {
            Wake::At(at) => Wake::At(at.max(soonest)),
            Wake::OnEvent => Wake::OnEvent,
        }
    }
}

impl SimHost {
    /// What lends CPUs here.
    pub(super) fn lending(&self) -> Lending {
        match &self.affinity {
            Some(_) => Lending::Affinity,
            None => self.sim.kernel.grants_cpus().into(),
        }
    }

    /// By CPU: the workload that holds it, where CPUs are lent.
    fn holders(&self) -> Option<&[Option<WorkloadId>]> {
        match &self.affinity {
            Some(affinity) => Some(affinity.all()),
            None if self.sim.kernel.grants_cpus() => Some(&self.sim.kernel.grants.holder),
            None => None,
        }
    }

    /// From now on CPUs are lent by affinity, to these workloads (None: to all).
    pub(crate) fn lend_by_affinity(&mut self, granted: Option<Vec<WorkloadId>>) {
        self.affinity = Some(Affinity::new(self.sim.kernel.cpus.len(), self.members.slots(), granted));
    }

    /// Does every workload run where only those do that hold CPUs: by grants, or latency-critical ones as one?
    pub(crate) fn check_all_hold<P: Policy>(&self, layers: &[Layer<P>]) -> Result<(), SimError> {
        let may_hold = |id: &WorkloadId, is_lc: bool| {
            layers.iter().any(|layer| {
                let described = layer.policy.describe();
                let holds = described.grants || (is_lc && described.has_rule(RuleKind::Together));
                holds && layer.workloads.as_ref().is_none_or(|own| own.contains(id))
            })
        };
        let left_out = self.members.each().find(|(id, member)| !may_hold(id, member.spec.is_lc()));
        left_out.map_or(Ok(()), |(_, member)| {
            Err(SimError::Scenario(format!(
                "workload '{}' is granted no CPUs, and on Quell's own scheduler the simulator runs only what is: give it to \
                 the policy that grants CPUs, or set scheduler = \"kernel\"",
                member.spec.name
            )))
        })
    }

    /// A rule stands from now on.
    pub(super) fn rule(&mut self, rule: Rule) -> Verdict {
        let mut has = Capabilities::default();
        self.lending().report(&mut has);
        if let Some(Support::No { why, .. }) = has.rules.get(&rule.kind()) {
            return Verdict::Refused(Refusal::Unsupported(format!("{}: {why}", rule.kind().name())));
        }
        if matches!(rule.key(), (_, Some(id), _) if !self.members.has(id)) {
            return Verdict::Vanished;
        }
        let kernel = &mut self.sim.kernel;
        match rule {
            Rule::Together { order: QueueOrder::Weight, leader: Some(_), .. } => {
                return Verdict::Refused(Refusal::Unsupported(
                    "the simulator has no queue of several workloads by weight".into(),
                ));
            }
            Rule::Server { cpu, .. } if kernel.topology.cpu(cpu).is_none() => return Verdict::Vanished,
            Rule::Server { workload, cpu, budget, period, priority } => {
                let in_turns = self.members.get(workload).is_some_and(|member| !member.spec.is_lc());
                kernel.set_server(workload.0, cpu, ServerSpec { budget, period, priority, in_turns });
            }
            rule => kernel.enact(rule),
        }
        Verdict::Applied(self.sim.now())
    }

    /// A CPU changes hands.
    pub(super) fn grant(&mut self, command: GrantCommand) -> Verdict {
        let kernel = &mut self.sim.kernel;
        let (cpu, to) = match command {
            GrantCommand::Grant(cpu, to) => (cpu, Some(to)),
            GrantCommand::Revoke(cpu) => (cpu, None),
        };
        if !kernel.grants_cpus() {
            return self.lend(command);
        }
        if !kernel.masks.online.contains(cpu) {
            return Verdict::Refused(Refusal::System(format!("CPU {cpu} is offline")));
        }
        match to {
            Some(id) if !self.members.has(id) => return Verdict::Vanished,
            Some(_) if kernel.grants.banned.contains(cpu) => {
                return Verdict::Refused(Refusal::System(format!("CPU {cpu} is parked by a sibling ban")));
            }
            _ => {}
        }
        kernel.hand(cpu, to);
        if let Some(id) = to {
            self.sim.granted(id.index(), cpu);
        }
        Verdict::Applied(self.sim.now())
    }

    /// A workload with fewer runnable threads than CPUs yields the rest.
    pub(super) fn look_at_lent(&mut self, events: &mut Vec<Event>) {
        let Some(affinity) = &mut self.affinity else { return };
        affinity.looked_at = self.sim.now();
        let kernel = &self.sim.kernel;
        let is_runnable = |&&task: &&crate::TaskId| kernel.is_runnable(task);
        let runnable = self.sim.tenants.iter().map(|tenant| tenant.tasks.iter().filter(is_runnable).count() as u32);
        affinity.holders.yield_unused(runnable, |cpu, id| events.push(Event::Yielded(cpu, id)));
    }

    /// Hands a CPU on; [`SimHost::bind_lent`] makes it true.
    pub(super) fn lend(&mut self, command: GrantCommand) -> Verdict {
        let (cpu, to) = match command {
            GrantCommand::Grant(_, id) if !self.members.has(id) => return Verdict::Vanished,
            GrantCommand::Grant(cpu, id) => (cpu, Some(id)),
            GrantCommand::Revoke(cpu) => (cpu, None),
        };
        if !self.sim.kernel.masks.online.contains(cpu) {
            return Verdict::Refused(Refusal::System(format!("CPU {cpu} is offline")));
        }
        let Some(affinity) = &mut self.affinity else {
            return Verdict::Refused(Refusal::Unsupported("granting CPUs: no policy of this stack does".into()));
        };
        affinity.holders.hand(cpu, to);
        affinity.patience = LOOK;
        Verdict::Applied(self.sim.now())
    }

    /// Binds every best-effort workload to what it holds now; returns how many were bound anew.
    pub(super) fn bind_lent(&mut self) -> u64 {
        let Some(mut affinity) = self.affinity.take() else { return 0 };
        let (pool, mut bound) = (self.sim.kernel.masks.online, 0);
        for slot in 0..self.members.slots() {
            let id = WorkloadId(slot as u32);
            let Some(member) = self.members.get(id) else { continue };
            if member.spec.is_lc() || !affinity.is_granted(id) {
                continue;
            }
            let before = affinity.bound[slot];
            let room = affinity.holders.room_for(id, &before.unwrap_or(CpuSet::EMPTY), &pool);
            if before != Some(room) && !room.is_empty() {
                affinity.bound[slot] = Some(room);
                let setting = KnobSetting { target: Target::Workload(id), knob: Knob::Cpus(room) };
                actuators::set(&setting, &mut self.on());
                bound += 1;
            }
        }
        self.affinity = Some(affinity);
        bound
    }

    /// CPUs that a workload holds, where CPUs are lent.
    #[must_use]
    pub fn held(&self, id: WorkloadId) -> CpuSet {
        let holders = self.holders().unwrap_or_default();
        let cpus = (0..holders.len() as u32).map(CpuId);
        cpus.filter(|cpu| self.sim.kernel.masks.online.contains(*cpu) && holders[cpu.index()] == Some(id)).collect()
    }

    /// CPUs that each workload holds, where CPUs are lent.
    pub(crate) fn counts_held(&self) -> Vec<u32> {
        let mut counts = vec![0; self.members.slots()];
        for id in self.holders().unwrap_or_default().iter().flatten() {
            counts[id.0 as usize] += 1;
        }
        counts
    }
}

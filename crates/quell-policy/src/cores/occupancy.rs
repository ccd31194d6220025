//! `task_on_core[]`: the present and the last task of each core.

use quell_model::{CpuId, CpuSet, Event, GrantCommand, Nanos, Outcome, Part, Plan, Verdict, View, WorkloadId};
use serde::{Deserialize, Serialize};

/// A command that the view may not show yet.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct UnderWay {
    core: CpuId,
    to: Option<WorkloadId>,
    /// The plan that it belongs to, and its place there.
    command: (u64, u32),
    /// Settled by this time; None: the host has not answered yet.
    until: Option<Nanos>,
}

/// The cores of the pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cores {
    pool: CpuSet,
    banned: CpuSet,
    /// By core.
    task_on_core: Vec<Option<WorkloadId>>,
    /// Cores that each task holds, by slot.
    held: Vec<u32>,
    /// Cores that changed hands, or were yielded, since [`Cores::watch`].
    changed: CpuSet,
    under_way: Vec<UnderWay>,
    /// The CPUs of the machine as it was learned.
    known: CpuSet,
    /// The siblings of each core.
    siblings: Vec<Vec<CpuId>>,
    /// The speed of each core, 0 for the fastest.
    #[serde(default)]
    slowness: Vec<u32>,
    /// Last use of each core by each task, slot by slot. Siblings share the entry of the lowest among them, "reflecting
    /// their shared cache resources" (§5.2.1).
    last_used: Vec<Nanos>,
}

impl Cores {
    /// Takes the holders over from the view.
    pub fn look(&mut self, view: &View, events: &[Event], tasks: usize) {
        self.learn_machine(view, tasks);
        self.settle(view.now, events);
        self.pool = view.pool();
        self.banned = view.cpus.banned.union(&view.cpus.away);
        self.held.fill(0);
        for core in 0..self.task_on_core.len() {
            let id = CpuId(core as u32);
            let commanded = self.under_way.iter().find(|command| command.core == id);
            let holder = view.cpus.holder.get(core).copied().flatten();
            let holder = commanded.map_or(holder, |command| command.to);
            if std::mem::replace(&mut self.task_on_core[core], holder) != holder {
                self.changed.insert(id);
            }
            if let Some(task) = holder.filter(|_| self.pool.contains(id)) {
                self.count(task, 1);
                self.touch(task, id, view.now);
            }
        }
        for event in events {
            match event {
                Event::Yielded(core, _) => self.changed.insert(*core),
                Event::Detached(task) => self.forget(*task),
                _ => {}
            }
        }
    }

    fn learn_machine(&mut self, view: &View, tasks: usize) {
        let columns = view.topology.columns();
        if self.known != view.topology.all() {
            self.known = view.topology.all();
            let siblings = |core| view.topology.siblings_of(CpuId(core as u32)).iter().collect();
            self.siblings = (0..columns).map(siblings).collect();
            let slowness = |core| view.topology.speeds().iter().position(|speed| speed.contains(CpuId(core as u32)));
            self.slowness = (0..columns).map(|core| slowness(core).unwrap_or(0) as u32).collect();
            self.task_on_core.resize(columns, None);
            self.last_used.clear();
        }
        self.held.resize(tasks, 0);
        self.last_used.resize(tasks * columns, Nanos::ZERO);
    }

    /// A command is under way until the host has answered, and as long as the answer says.
    fn settle(&mut self, now: Nanos, events: &[Event]) {
        let Cores { under_way, .. } = self;
        under_way.retain_mut(|command| match command.until {
            Some(until) => now < until,
            None => {
                command.until = pending_until(events, command.command);
                command.until.is_some_and(|until| now < until)
            }
        });
    }

    fn forget(&mut self, task: WorkloadId) {
        let columns = self.siblings.len();
        if let Some(row) = self.last_used.get_mut(task.index() * columns..(task.index() + 1) * columns) {
            row.fill(Nanos::ZERO);
        }
    }

    /// The cores that may be handed out.
    pub fn pool(&self) -> CpuSet {
        self.pool
    }

    /// The cores of the pool that can be granted now.
    pub fn allowed(&self) -> CpuSet {
        self.pool.difference(&self.banned)
    }

    /// Cores that cannot be granted now: sibling bans park them, or a higher scheduling class has them.
    pub fn banned(&self) -> CpuSet {
        self.banned
    }

    /// From now on it is noted which cores change hands.
    pub fn watch(&mut self) {
        self.changed = CpuSet::EMPTY;
    }

    /// Cores that changed hands, or were yielded, since [`Cores::watch`].
    pub fn changed(&self) -> CpuSet {
        self.changed
    }

    /// The task on a core.
    pub fn task_on(&self, core: CpuId) -> Option<WorkloadId> {
        self.task_on_core.get(core.index()).copied().flatten()
    }

    /// Number of cores that a task holds.
    pub fn held(&self, task: WorkloadId) -> u32 {
        self.held.get(task.index()).copied().unwrap_or(0)
    }

    /// The other hyperthreads of a core's pair.
    pub fn siblings(&self, core: CpuId) -> &[CpuId] {
        self.siblings.get(core.index()).map_or(&[], Vec::as_slice)
    }

    /// How slow a core is beside others: 0 for the fastest.
    pub fn slowness(&self, core: CpuId) -> u32 {
        self.slowness.get(core.index()).copied().unwrap_or(0)
    }

    /// Last use of the core or a sibling of it by the task.
    pub fn last_used(&self, task: WorkloadId, core: CpuId) -> Nanos {
        self.last_used.get(self.pair_entry(task, core)).copied().unwrap_or_default()
    }

    fn touch(&mut self, task: WorkloadId, core: CpuId, now: Nanos) {
        let entry = self.pair_entry(task, core);
        if let Some(entry) = self.last_used.get_mut(entry) {
            *entry = now;
        }
    }

    fn pair_entry(&self, task: WorkloadId, core: CpuId) -> usize {
        let lowest = self.siblings(core).first().map_or(core, |&sibling| sibling.min(core));
        task.index() * self.siblings.len() + lowest.index()
    }

    fn count(&mut self, task: WorkloadId, change: i32) {
        if let Some(held) = self.held.get_mut(task.index()) {
            *held = held.saturating_add_signed(change);
        }
    }

    /// Allocates a core to a task; the task that runs there is preempted.
    pub fn grant(&mut self, core: CpuId, task: WorkloadId, plan: &mut Plan) {
        self.hand(core, Some(task), plan);
    }

    /// Takes a core from its task.
    pub fn revoke(&mut self, core: CpuId, plan: &mut Plan) {
        self.hand(core, None, plan);
    }

    fn hand(&mut self, core: CpuId, to: Option<WorkloadId>, plan: &mut Plan) {
        let Some(holder) = self.task_on_core.get_mut(core.index()) else { return };
        if let Some(loser) = std::mem::replace(holder, to) {
            self.count(loser, -1);
        }
        if let Some(winner) = to {
            self.count(winner, 1);
        }
        self.changed.insert(core);
        let command = to.map_or(GrantCommand::Revoke(core), |task| GrantCommand::Grant(core, task));
        // The last command for a core is the only one: a core revoked and granted in one step is just granted.
        let place = match plan.grants.iter().position(|earlier| core_of(earlier) == core) {
            Some(place) => {
                plan.grants[place] = command;
                place
            }
            None => {
                plan.grants.push(command);
                plan.grants.len() - 1
            }
        };
        self.under_way.retain(|command| command.core != core);
        self.under_way.push(UnderWay { core, to, command: (plan.number, place as u32), until: None });
    }

    /// Parks a core: it is not handed out until its ban ends.
    pub fn park(&mut self, core: CpuId) {
        self.banned.insert(core);
    }

    /// Its ban ended.
    pub fn unpark(&mut self, core: CpuId) {
        self.banned.remove(core);
    }
}

/// End of this command's pending state, if the host names one.
fn pending_until(events: &[Event], command: (u64, u32)) -> Option<Nanos> {
    events.iter().find_map(|event| match event {
        Event::Outcome(Outcome { plan, part: Part::Grant(place), verdict: Verdict::Pending(until) })
            if (*plan, *place) == command =>
        {
            Some(*until)
        }
        _ => None,
    })
}

fn core_of(command: &GrantCommand) -> CpuId {
    match *command {
        GrantCommand::Grant(core, _) | GrantCommand::Revoke(core) => core,
    }
}

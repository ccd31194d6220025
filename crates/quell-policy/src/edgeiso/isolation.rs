//! Enforcing isolation, one configuration step at a time (snu2020 §4.3.2).

use quell_model::{CpuCount, CpuSet, Knob, KnobSetting, Plan, Target, View, WorkloadId};
use serde::{Deserialize, Serialize};

use super::technique::Technique;

/// More isolation, or less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// "strengthen": more to the victim.
    Strengthen,
    /// "weaken": some is given back.
    Weaken,
}

/// What one task has.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Share {
    /// The task.
    pub id: WorkloadId,
    /// Its CPUs of the even division.
    pub initial: CpuSet,
    /// Its CPUs.
    pub cpus: CpuSet,
    /// Steps of the quota below no quota.
    pub throttled: u32,
    /// Was a quota of it ever set?
    pub had_quota: bool,
}

/// The isolation of all tasks.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Isolation {
    /// The tasks, latency-critical ones first, each by its slot.
    pub shares: Vec<Share>,
    /// Have the tasks cores of their own? With fewer CPUs than tasks they share all.
    pub is_divided: bool,
    /// Highest frequency of the GPU, kHz; None: its highest.
    pub gpu_khz: Option<u32>,
    /// The task with ways of its own, and their number; None: all share all.
    pub ways: Option<(WorkloadId, u32)>,
    /// A step of the quota, as part of the task's CPUs.
    pub quota_step: f64,
}

/// A step of the isolation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Step {
    pub technique: Technique,
    pub direction: Direction,
    pub victim: WorkloadId,
    /// The most contentious task.
    pub target: Option<WorkloadId>,
}

impl Clone for Isolation {
    fn clone(&self) -> Isolation {
        Isolation { shares: self.shares.clone(), ..*self }
    }

    /// Keeps its memory.
    fn clone_from(&mut self, other: &Isolation) {
        self.shares.clear();
        self.shares.extend_from_slice(&other.shares);
        (self.is_divided, self.gpu_khz, self.ways) = (other.is_divided, other.gpu_khz, other.ways);
        self.quota_step = other.quota_step;
    }
}

impl Isolation {
    /// "Initially, EdgeIso evenly allocates the resources to tasks." Latency-critical tasks have what cannot be divided. With
    /// fewer CPUs than tasks best-effort tasks share theirs; with fewer than those need, too, all share all.
    pub fn divide(&mut self, view: &View) {
        let pool = view.pool();
        self.begin(view);
        let critical = self.shares.iter().filter(|share| is_critical(view, share.id)).count();
        let others = self.shares.len() - critical;
        let each = |seats: usize| (pool.len() / seats.max(1), pool.len() % seats.max(1));
        let together = self.shares.len() > pool.len();
        let seats = if together { critical + usize::from(others > 0) } else { self.shares.len() };
        self.is_divided = seats > 1 && seats <= pool.len();
        if !self.is_divided {
            return;
        }
        let (least, more) = each(seats);
        let mut free =
            view.topology.cores().iter().flat_map(|core| core.intersection(&pool).iter().collect::<Vec<_>>());
        let mut seat = CpuSet::EMPTY;
        for (at, share) in self.shares.iter_mut().enumerate() {
            if at < seats {
                seat = free.by_ref().take(least + usize::from(at < more)).collect();
            }
            (share.initial, share.cpus) = (seat, seat);
        }
    }

    /// All tasks have all CPUs, nothing is isolated.
    pub fn lift(&mut self, view: &View) {
        self.begin(view);
        self.is_divided = false;
    }

    fn begin(&mut self, view: &View) {
        let pool = view.pool();
        (self.gpu_khz, self.ways) = (None, None);
        self.shares.clear();
        for critical in [true, false] {
            let these = view.owned().filter(|(_, spec)| spec.is_lc() == critical);
            self.shares.extend(these.map(|(id, _)| Share {
                id,
                initial: pool,
                cpus: pool,
                throttled: 0,
                had_quota: false,
            }));
        }
    }

    /// A task's share.
    pub fn of(&self, id: WorkloadId) -> Option<&Share> {
        self.shares.iter().find(|share| share.id == id)
    }

    fn of_mut(&mut self, id: WorkloadId) -> Option<&mut Share> {
        self.shares.iter_mut().find(|share| share.id == id)
    }

    /// CPUs that no task has.
    pub fn idle(&self, view: &View) -> CpuSet {
        self.shares.iter().fold(view.pool(), |idle, share| idle.difference(&share.cpus))
    }

    /// Is this technique in force?
    pub fn uses(&self, technique: Technique) -> bool {
        match technique {
            Technique::CacheWays => self.ways.is_some(),
            Technique::GpuFrequency => self.gpu_khz.is_some(),
            Technique::Quota => self.shares.iter().any(|share| share.throttled > 0),
            Technique::Cores => self.shares.iter().any(|share| share.cpus.len() < share.initial.len()),
            Technique::VictimCores => self.shares.iter().any(|share| share.cpus.len() > share.initial.len()),
        }
    }

    /// A technique that is in force more strongly than in the other.
    #[must_use]
    pub fn stronger_than(&self, other: &Isolation) -> Option<Technique> {
        let any = |is: fn(&Share, &Share) -> bool| {
            self.shares.iter().any(|share| other.of(share.id).is_some_and(|before| is(share, before)))
        };
        Technique::ALL.into_iter().find(|technique| match technique {
            Technique::CacheWays => self.ways.map_or(0, |(_, own)| own) > other.ways.map_or(0, |(_, own)| own),
            Technique::GpuFrequency => self.gpu_khz.unwrap_or(u32::MAX) < other.gpu_khz.unwrap_or(u32::MAX),
            Technique::Quota => any(|share, before| share.throttled > before.throttled),
            Technique::Cores => any(|share, before| share.cpus.len() < before.cpus.len().min(share.initial.len())),
            Technique::VictimCores => {
                any(|share, before| share.cpus.len() > before.cpus.len().max(share.initial.len()))
            }
        })
    }

    /// The task on which a technique is in force most.
    pub fn most(&self, technique: Technique) -> Option<WorkloadId> {
        let strength = |share: &Share| match technique {
            Technique::Quota => i64::from(share.throttled),
            _ => share.initial.len() as i64 - share.cpus.len() as i64,
        };
        let most = self.shares.iter().max_by_key(|share| strength(share))?;
        (strength(most) > 0).then_some(most.id)
    }

    /// Makes a step; false where there is none.
    pub(super) fn step(&mut self, step: &Step, view: &View) -> bool {
        let strengthen = step.direction == Direction::Strengthen;
        match step.technique {
            Technique::CacheWays => self.step_ways(step.victim, strengthen, view),
            Technique::GpuFrequency => {
                let Some(gpu) = view.controls.gpu else { return false };
                let now = self.gpu_khz.unwrap_or(gpu.max_khz);
                let by = if gpu.step_khz > 0 { gpu.step_khz } else { (gpu.max_khz - gpu.min_khz) / 13 }.max(1);
                let then = if strengthen { now.saturating_sub(by).max(gpu.min_khz) } else { now.saturating_add(by) };
                self.gpu_khz = (then < gpu.max_khz).then_some(then);
                now != self.gpu_khz.unwrap_or(gpu.max_khz)
            }
            Technique::Quota => {
                let most = most_throttled(self.quota_step);
                let target = if strengthen { step.target } else { self.most(Technique::Quota) };
                let Some(share) = target.and_then(|id| self.of_mut(id)) else { return false };
                let now = share.throttled;
                share.had_quota = true;
                share.throttled = if strengthen { (now + 1).min(most) } else { now.saturating_sub(1) };
                share.throttled != now
            }
            Technique::Cores if !self.is_divided => false,
            Technique::Cores if strengthen => {
                let Some(share) = step.target.and_then(|id| self.of_mut(id)) else { return false };
                let Some(last) = share.cpus.iter().max().filter(|_| share.cpus.len() > 1) else { return false };
                share.cpus.remove(last);
                true
            }
            Technique::Cores => {
                let idle = self.idle(view);
                let Some(share) = self.most(Technique::Cores).and_then(|id| self.of_mut(id)) else { return false };
                let back = share.initial.intersection(&idle).iter().next();
                back.into_iter().for_each(|cpu| share.cpus.insert(cpu));
                back.is_some()
            }
            Technique::VictimCores if !self.is_divided => false,
            Technique::VictimCores if strengthen => self.give_core(step.victim, view),
            Technique::VictimCores => self.return_core(step.victim, view),
        }
    }

    /// The first step divides the ways evenly; every further one moves one way.
    fn step_ways(&mut self, victim: WorkloadId, strengthen: bool, view: &View) -> bool {
        let Some((ways, least)) = view.controls.ways() else { return false };
        let half = ways / 2;
        let own = self.ways.filter(|(owner, _)| *owner == victim).map(|(_, own)| own);
        let next = match (own, strengthen) {
            (None, true) => Some(half),
            (Some(own), true) => Some((own + 1).min(ways - least)),
            (Some(own), false) if own > half => Some(own - 1),
            (_, false) => None,
        };
        let before = self.ways;
        self.ways = next.map(|own| (victim, own));
        self.ways != before
    }

    /// A core more for the victim: an idle one, else one of the task that has the most, and more than one.
    fn give_core(&mut self, victim: WorkloadId, view: &View) -> bool {
        let mut given = self.idle(view).iter().next();
        if given.is_none() {
            let others = self.shares.iter().filter(|share| share.id != victim && share.cpus.len() > 1);
            let Some(donor) = others.max_by_key(|share| share.cpus.len()) else { return self.share_core(victim, view) };
            // Tasks that share their cores all leave this one; each keeps another.
            let is_last = |cpu| self.shares.iter().any(|share| share.cpus == CpuSet::one(cpu));
            given = donor.cpus.iter().filter(|cpu| !is_last(*cpu)).max();
        }
        given.into_iter().for_each(|cpu| self.shares.iter_mut().for_each(|share| share.cpus.remove(cpu)));
        let (Some(cpu), Some(share)) = (given, self.of_mut(victim)) else { return false };
        share.cpus.insert(cpu);
        true
    }

    /// The victim's last core beyond its even part goes back to a task whose it was.
    fn return_core(&mut self, victim: WorkloadId, view: &View) -> bool {
        let pool = view.pool();
        let Some(share) = self.of_mut(victim) else { return false };
        let Some(cpu) = share.cpus.difference(&share.initial).iter().max() else { return false };
        share.cpus.remove(cpu);
        for owner in self.shares.iter_mut().filter(|share| share.initial.contains(cpu) && pool.contains(cpu)) {
            owner.cpus.insert(cpu);
            if !is_critical(view, owner.id) {
                owner.cpus = owner.cpus.intersection(&owner.initial);
            }
        }
        true
    }

    /// Every task has one core: a best-effort one moves to another's ("to change the mapping between threads to CPU cores"),
    /// and its own is the victim's.
    fn share_core(&mut self, victim: WorkloadId, view: &View) -> bool {
        let others = || self.shares.iter().filter(|share| share.id != victim && !is_critical(view, share.id));
        let Some(donor) = others().next_back().copied() else { return false };
        let Some(host) = others().find(|share| share.cpus.is_disjoint(&donor.cpus)).copied() else { return false };
        // Others that share the donor's core move with it.
        for share in self.shares.iter_mut().filter(|share| share.cpus == donor.cpus) {
            share.cpus = host.cpus;
        }
        let Some(share) = self.of_mut(victim) else { return false };
        share.cpus = share.cpus.union(&donor.cpus);
        true
    }

    /// The quota of a task: its steps below its CPUs.
    pub(super) fn quota(&self, share: &Share) -> Option<CpuCount> {
        let part = (1.0 - f64::from(share.throttled) * self.quota_step).max(self.quota_step);
        let cpus = CpuCount((share.cpus.len() as f64 * part * 1000.0) as u32);
        (share.throttled > 0).then(|| cpus.max(Knob::LEAST_QUOTA))
    }

    /// Writes the knobs of one technique.
    pub fn write(&self, technique: Technique, view: &View, plan: &mut Plan) {
        let here = || self.shares.iter().filter(|share| view.workload(share.id).is_some());
        let mut set = |target, knob| plan.knobs.push(KnobSetting { target, knob });
        match technique {
            Technique::Cores | Technique::VictimCores => {
                for share in here().filter(|share| !share.cpus.is_empty()) {
                    set(Target::Workload(share.id), Knob::Cpus(view.within_or_any(share.id, &share.cpus)));
                }
            }
            Technique::Quota => {
                for share in here().filter(|share| share.had_quota) {
                    set(Target::Workload(share.id), Knob::Quota(self.quota(share)));
                }
            }
            Technique::GpuFrequency => {
                if let Some(gpu) = view.controls.gpu {
                    let khz = self.gpu_khz.unwrap_or(gpu.max_khz).clamp(gpu.min_khz, gpu.max_khz);
                    set(Target::Machine, Knob::GpuFrequencyKhz(khz));
                }
            }
            Technique::CacheWays => {
                let Some((ways, _)) = view.controls.ways() else { return };
                let all = u32::MAX >> (32 - ways.clamp(1, 32));
                let others = self.ways.map_or(all, |(_, own)| all >> own);
                let apart = self.ways.map_or(all, |_| all & !others);
                for share in here() {
                    let is_apart = self.ways.is_some_and(|(owner, _)| owner == share.id);
                    set(Target::Workload(share.id), Knob::CacheWays(if is_apart { apart } else { others }));
                }
            }
        }
    }
}

fn is_critical(view: &View, id: WorkloadId) -> bool {
    view.workload(id).is_some_and(|spec| spec.is_lc())
}

/// Steps of the quota from none to the least.
fn most_throttled(step: f64) -> u32 {
    ((1.0 / step + 1e-9) as u32).saturating_sub(1)
}

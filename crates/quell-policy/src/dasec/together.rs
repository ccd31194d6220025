//! Where the host can, the services hold their CPUs as one (§5: weights and latencies are the scheduler's own there). Then
//! threads are not on cores of their own until they are moved: conflicts on one core do not arise, and `rcr` balances caches.

use quell_model::{
    CpuCount, CpuId, CpuSet, Event, Outcome, Part, Plan, QueueOrder, Refusal, Rule, Verdict, View, WorkloadId,
};
use serde::{Deserialize, Serialize};

use super::config::Order;

/// What is asked of the host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Together {
    members: Vec<WorkloadId>,
    leader: Option<WorkloadId>,
    cpus: u32,
    /// The plan whose outcome is not known yet, and how many rules it has for members.
    under_way: Option<(u64, u32)>,
    /// The host keeps these rules.
    is: bool,
    /// The host does not, whatever is asked.
    never: bool,
}

impl Together {
    /// Do they hold CPUs as one?
    pub fn is(&self) -> bool {
        self.is
    }

    /// Takes outcomes in. Returns why the host refused, if it may take another one.
    pub fn handle(&mut self, events: &[Event]) -> Option<String> {
        let (number, rules) = self.under_way?;
        let mut refused = None;
        for event in events {
            let Event::Outcome(Outcome { plan, part: Part::Rule(at), verdict }) = event else { continue };
            if *plan != number {
                continue;
            }
            self.under_way = None;
            match verdict {
                Verdict::Applied(_) | Verdict::Pending(_) => self.is |= *at < rules,
                Verdict::Vanished => {}
                Verdict::Refused(Refusal::Unsupported(_)) => (self.never, self.is) = (true, false),
                Verdict::Refused(why) => refused = Some(why.to_string()),
            }
        }
        refused
    }

    /// Asks for it when services or CPUs have changed.
    pub fn ask(&mut self, order: Order, view: &View, plan: &mut Plan) {
        let (services, cpus) = (|| view.owned().filter(|(_, spec)| spec.is_lc()), view.pool().len() as u32);
        let is_known = services().map(|(id, _)| id).eq(self.members.iter().copied()) && cpus == self.cpus;
        if self.never || self.under_way.is_some() || is_known {
            return;
        }
        self.members.clear();
        self.members.extend(services().map(|(id, _)| id));
        self.cpus = cpus;
        // Who leads goes on while it is there.
        self.leader = self.leader.filter(|id| self.members.contains(id)).or(self.members.first().copied());
        let Some(leader) = self.leader else { return };
        for &workload in &self.members {
            plan.rules.push(Rule::Together { workload, leader: Some(leader), order: order.of_queue() });
        }
        self.under_way = Some((plan.number, self.members.len() as u32));
        plan.rules
            .push(Rule::Guaranteed { workload: leader, cpus: requested(services().map(|(_, spec)| spec.cpus), cpus) });
        plan.rules.push(Rule::Rank { workload: leader, rank: 0 });
        if order == Order::Progress {
            // With all CPUs it has no use for the agent, which a queue that forms need not wake.
            plan.rules.push(Rule::Limit { workload: leader, cpus });
        }
    }
}

impl Order {
    fn of_queue(self) -> QueueOrder {
        match self {
            Order::Printed => QueueOrder::Weight,
            Order::Progress => QueueOrder::Progress,
        }
    }
}

/// The CPUs that all services request together, at most those that there are; all, if one requests none.
fn requested(mut each: impl Iterator<Item = CpuCount>, all: u32) -> u32 {
    let sum = each.try_fold(0, |sum: u32, cpus| (cpus > CpuCount::ZERO).then(|| sum.saturating_add(cpus.0)));
    sum.map_or(all, |sum| CpuCount(sum).ceil().min(all))
}

/// What `rcr` balances: each CPU's place, a core or a cache, by its first CPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Places {
    /// By CPU.
    first: Vec<CpuId>,
    /// The first of each place.
    pub all: CpuSet,
}

impl Places {
    /// Cores, or caches where services hold CPUs as one.
    pub fn note(&mut self, view: &View, pool: &CpuSet, caches: bool) {
        self.first.clear();
        self.all = if caches { CpuSet::EMPTY } else { *pool };
        if !caches {
            return;
        }
        for cpus in view.topology.llcs() {
            let own = cpus.intersection(pool);
            let Some(first) = own.lowest() else { continue };
            self.all.insert(first);
            for cpu in own.iter() {
                let least = cpu.index() + 1;
                if self.first.len() < least {
                    self.first.resize(least, first);
                }
                self.first[cpu.index()] = first;
            }
        }
    }

    /// The place of this CPU.
    pub fn of(&self, cpu: CpuId) -> CpuId {
        self.first.get(cpu.index()).copied().unwrap_or(cpu)
    }

    /// The CPUs of the place that begins with this one.
    pub fn cpus(&self, first: CpuId) -> CpuSet {
        if self.first.is_empty() {
            return CpuSet::one(first);
        }
        let own = |(_, place): &(usize, &CpuId)| **place == first;
        self.first.iter().enumerate().filter(own).map(|(cpu, _)| CpuId(cpu as u32)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_guaranteed_what_they_request_or_all() {
        let of = |thousandths: &[u32], all| requested(thousandths.iter().copied().map(CpuCount), all);
        assert_eq!((of(&[1_000, 1_500], 4), of(&[3_000, 3_000], 4), of(&[1_000, 0], 4)), (3, 4, 4));
    }
}

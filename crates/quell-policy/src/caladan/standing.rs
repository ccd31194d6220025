//! What the host does by itself, at the event, between two rounds (design: "rules").
//!
//! The paper's scheduler polls every 10 µs on a core of its own. Where that is too slow or too dear, a task takes its
//! guaranteed and, from BE tasks, its burstable cores when it wakes up, and a core that is yielded goes on at once; the
//! limits are the allocator's own.
//! Rules bind whoever acts first, so that a host may execute them or leave them to the next round.

use quell_model::{Event, Plan, Rule, WorkloadId};
use serde::{Deserialize, Serialize};

use super::bandwidth::Bandwidth;
use crate::cores::{Cores, Tasks};

/// One task's standing orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Order {
    guaranteed: u32,
    burst: u32,
    limit: u32,
    rank: u32,
}

/// The orders that stand, by slot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct StandingOrders {
    given: Vec<Option<Order>>,
    /// BE tasks, those that hold the fewest cores first.
    line: Vec<(u32, WorkloadId)>,
}

impl StandingOrders {
    /// The host has forgotten what it was told about a task that came or went.
    pub fn hear(&mut self, events: &[Event]) {
        for event in events {
            if let Event::Attached(id) | Event::Detached(id) = event
                && let Some(given) = self.given.get_mut(id.index())
            {
                *given = None;
            }
        }
    }

    /// Gives the orders that changed.
    pub fn update(&mut self, tasks: &Tasks, cores: &Cores, bandwidth: &Bandwidth, plan: &mut Plan) {
        let StandingOrders { given, line } = self;
        given.resize(tasks.slots(), None);
        line.clear();
        line.extend(tasks.iter().filter(|(_, task)| !task.lc).map(|(id, _)| (cores.held(id), id)));
        line.sort_unstable();
        // LC tasks go before BE tasks whatever their rank.
        let lc = tasks.iter().filter(|(_, task)| task.lc).map(|(id, _)| (id, 0));
        let be = line.iter().enumerate().map(|(rank, &(_, id))| (id, rank as u32));
        for (workload, rank) in lc.chain(be) {
            let Some(task) = tasks.get(workload) else { continue };
            let limit = task.limit.min(bandwidth.limit_of(workload).unwrap_or(u32::MAX));
            let burst = if task.lc { limit } else { 0 };
            let order = Order { guaranteed: task.guaranteed, burst, limit, rank };
            let before = given[workload.index()].replace(order);
            let is_new = |part: fn(&Order) -> u32| before.as_ref().map(part) != Some(part(&order));
            if is_new(|order| order.guaranteed) {
                plan.rules.push(Rule::Guaranteed { workload, cpus: order.guaranteed });
            }
            if is_new(|order| order.burst) {
                plan.rules.push(Rule::Burst { workload, cpus: order.burst });
            }
            if is_new(|order| order.limit) {
                plan.rules.push(Rule::Limit { workload, cpus: order.limit });
            }
            if is_new(|order| order.rank) {
                plan.rules.push(Rule::Rank { workload, rank: order.rank });
            }
        }
    }
}

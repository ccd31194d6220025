//! Rules: actions that the host takes by itself, at the event, between two rounds.
//!
//! The paper's scheduler polls every 10 µs on a core of its own. Where that is too slow or too expensive, a task takes
//! its guaranteed and, from BE tasks, its burstable cores when it wakes up, and a yielded core goes to the next task at
//! once; the limits are the allocator's own.
//! Rules bind host and rounds alike: a host may execute them or leave them to the next round.

use quell_model::{Event, Plan, Rule};
use serde::{Deserialize, Serialize};

use super::bandwidth::Bandwidth;
use crate::cores::Tasks;

/// One task's standing orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Order {
    guaranteed: u32,
    burst: u32,
    limit: u32,
}

/// The same for all: LC tasks go before BE tasks whatever their rank, and of equals the one that holds the fewest cores
/// is first.
const RANK: u32 = 0;

/// The orders that stand, by slot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct StandingOrders {
    given: Vec<Option<Order>>,
}

impl StandingOrders {
    /// The host has forgotten the rules of a task that was attached or detached.
    pub fn handle(&mut self, events: &[Event]) {
        for event in events {
            if let Event::Attached(id) | Event::Detached(id) = event
                && let Some(given) = self.given.get_mut(id.index())
            {
                *given = None;
            }
        }
    }

    /// Gives the orders that changed.
    pub fn update(&mut self, tasks: &Tasks, bandwidth: &Bandwidth, plan: &mut Plan) {
        self.given.resize(tasks.slots(), None);
        for (workload, task) in tasks.iter() {
            let limit = task.limit.min(bandwidth.limit_of(workload).unwrap_or(u32::MAX));
            let order = Order { guaranteed: task.guaranteed, burst: if task.lc { limit } else { 0 }, limit };
            let before = self.given[workload.index()].replace(order);
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
            if before.is_none() {
                plan.rules.push(Rule::Rank { workload, rank: RANK });
            }
        }
    }
}

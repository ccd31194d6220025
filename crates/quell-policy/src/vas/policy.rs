//! The policy: servers for every workload with a demand.

use quell_model::{
    CpuCount, CpuId, CpuSet, Description, Event, Key, Knob, KnobKind, KnobSetting, Nanos, Need, NoteKind, Plan, Policy,
    Rule, RuleKind, Target, Uses, Verdict, View, Wake, WorkloadId,
};
use serde::{Deserialize, Serialize};

use super::interface::{Interface, Margin};
use super::place::place;
use super::wanted::interface;
use crate::kit::retry::Retry;
use crate::kit::wanted::Wanted;
use crate::parameter::parameters;

parameters! {
    /// The parameters of `vas`.
    pub struct VasConfig {
        /// What tasks and random requests get on top, hundredths of a CPU (§5: 5 makes 81 of 76).
        margin: f64 = 5.0, in 0.0..=100.0, unit "points of a CPU";
    }
    check(config) { Ok(()) }
}

/// Only one server is on a CPU, so that each comes before all others there.
const PRIORITY: u32 = 1;

/// A workload that uses its budgets up is named this often at most.
const WARN_EVERY: Nanos = Nanos::from_secs(60);

/// A server that the host was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Server {
    workload: WorkloadId,
    cpu: CpuId,
    budget: Nanos,
    period: Nanos,
}

impl Server {
    fn rule(self) -> Rule {
        let Server { workload, cpu, budget, period } = self;
        Rule::Server { workload, cpu, budget, period, priority: PRIORITY }
    }
}

/// CPU sets by workload.
type Bound = Vec<(WorkloadId, CpuSet)>;

/// The policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Vas {
    config: VasConfig,
    servers: Vec<Server>,
    /// CPU sets of workloads: those with servers on their CPUs, others off CPUs that a server has as a whole.
    bound: Bound,
    /// Servers and CPU sets before the plan that is under way, and its number: a refused plan leaves nothing behind.
    before: Option<(u64, Vec<Server>, Bound)>,
    /// The pool that this was arranged in; None: nothing was arranged yet, or all is to be asked for again.
    arranged: Option<CpuSet>,
    retry: Retry,
    /// Time of the last note about each workload's exhausted budget.
    warned: Vec<(WorkloadId, Nanos)>,
}

impl Vas {
    /// The policy.
    #[must_use]
    pub fn new(config: VasConfig) -> Vas {
        Vas {
            config,
            servers: Vec::new(),
            bound: Vec::new(),
            before: None,
            arranged: None,
            retry: Retry::up_to(Wanted::LAST_RETRY),
            warned: Vec::new(),
        }
    }

    /// Its name and its needs.
    pub const DESCRIPTION: Description = Description {
        name: "vas",
        summary: "a service with a known demand gets a budget every period that keeps a whole CPU's latency; others get \
                  the rest",
        source: "vas-rtns21 §3–5",
        interval: Nanos::ZERO,
        signals: &[],
        knobs: &[Need::must(KnobKind::Cpus)],
        rules: &[Need::must(RuleKind::Server)],
        keys: &[Uses::critical(Key::Demand), Uses::critical(Key::Slo)],
        grants: false,
    };

    /// Takes in events; returns the new workloads, or None if nothing is to be arranged.
    fn handle(&mut self, view: &View, events: &[Event], plan: &mut Plan) -> Option<Vec<WorkloadId>> {
        let (mut fresh, mut changed) = (Vec::new(), false);
        let (mut refused, mut worked) = (None, false);
        for event in events {
            match event {
                Event::Attached(id) => {
                    fresh.push(*id);
                    changed = true;
                }
                Event::Detached(id) => {
                    self.servers.retain(|server| server.workload != *id);
                    self.bound.retain(|(other, _)| other != id);
                    if let Some((_, servers, bound)) = &mut self.before {
                        servers.retain(|server| server.workload != *id);
                        bound.retain(|(other, _)| other != id);
                    }
                    self.warned.retain(|(other, _)| other != id);
                    changed = true;
                }
                Event::Online(_) | Event::Offline(_) | Event::Allowed(_) => changed = true,
                Event::BudgetExhausted(id, cpu, _) => self.name(view.now, *id, *cpu, plan),
                Event::Outcome(outcome) => match &outcome.verdict {
                    Verdict::Refused(why) => {
                        refused = refused.or(Some(why));
                        if let Some((_, servers, bound)) = self.before.take_if(|(number, ..)| *number == outcome.plan) {
                            (self.servers, self.bound) = (servers, bound);
                        }
                    }
                    Verdict::Applied(_) => worked = true,
                    Verdict::Pending(_) | Verdict::Vanished => {}
                },
                _ => {}
            }
        }
        if let Some(why) = refused {
            self.retry.refused(view.now, why, plan);
        } else if self.retry.is_due(view.now) {
            self.retry.begun();
            self.arranged = None;
        } else if worked && !self.retry.is_ahead(view.now) {
            self.retry.worked();
        }
        self.before = None;
        (changed || self.arranged != Some(view.pool())).then_some(fresh)
    }

    /// Theorem 4.1 no longer holds: names the workload that exceeds its demand.
    fn name(&mut self, now: Nanos, id: WorkloadId, cpu: CpuId, plan: &mut Plan) {
        if !self.servers.iter().any(|server| server.workload == id && server.cpu == cpu) {
            return;
        }
        match self.warned.iter_mut().find(|(other, _)| *other == id) {
            Some((_, at)) if now < *at + WARN_EVERY => return,
            Some((_, at)) => *at = now,
            None => self.warned.push((id, now)),
        }
        let text = format!(
            "its budget on CPU {cpu} was used up before the period's end, and it waits: it needs more than its demand declares; \
             give it a larger one"
        );
        plan.note(NoteKind::Warning, Some(id), text);
    }

    /// The servers of every workload with a demand, as far as CPUs suffice.
    fn wanted(&self, view: &View, plan: &mut Plan) -> Vec<Server> {
        let margin = Margin::points(self.config.margin).unwrap_or(Margin::USUAL);
        let pool = view.pool();
        let (mut wanted, mut taken) = (Vec::new(), CpuSet::EMPTY);
        for (id, spec) in view.owned() {
            let Some(demand) = &spec.demand else { continue };
            if !spec.is_lc() {
                let text = "its demand has no effect: best-effort work has no latency to keep; make it class \"lc\", or take \
                            the demand out";
                plan.note(NoteKind::Warning, Some(id), text);
                continue;
            }
            let Interface { budget, period } = match interface(spec, margin) {
                Ok(Some(interface)) => interface,
                Ok(None) => continue,
                Err(why) => {
                    plan.note(NoteKind::Refused, Some(id), format!("it gets no server: {why}"));
                    continue;
                }
            };
            // Rounded up: a quota that is a little too tight is too tight.
            let parts = (u64::from(demand.servers) * budget.0 * 1000).div_ceil(period.0.max(1));
            let asked = CpuCount(u32::try_from(parts).unwrap_or(u32::MAX));
            if let Some(quota) = view.allowance(id).and_then(|allowance| allowance.quota).filter(|quota| *quota < asked)
            {
                let text = format!(
                    "it gets no server: it asks for {asked} CPUs of time, and its cgroups allow it {quota} (cpu.max), so that it \
                     would wait within its budget; raise CPUQuota= there, or ask for less"
                );
                plan.note(NoteKind::Refused, Some(id), text);
                continue;
            }
            let before = self.cpus_of(id);
            let pool = view.within(id, &pool);
            let Some(cpus) = place(&view.topology, &pool, &taken, &before, demand.servers as usize) else {
                let text = format!(
                    "it gets no server: it asks for {} of {} every {}, each before all others on a CPU of its own, and {} of \
                     {} CPUs have none yet; ask for fewer, or give it more CPUs",
                    demand.servers,
                    budget.exact(),
                    period.exact(),
                    pool.difference(&taken).len(),
                    pool.len(),
                );
                plan.note(NoteKind::Refused, Some(id), text);
                continue;
            };
            taken = taken.union(&cpus);
            wanted.extend(cpus.iter().map(|cpu| Server { workload: id, cpu, budget, period }));
        }
        wanted
    }

    /// The CPUs of a workload's servers.
    #[must_use]
    pub fn cpus_of(&self, id: WorkloadId) -> CpuSet {
        self.servers.iter().filter(|server| server.workload == id).map(|server| server.cpu).collect()
    }

    /// Requests the settings that differ from the wanted ones.
    fn arrange(&mut self, view: &View, fresh: &[WorkloadId], plan: &mut Plan) {
        let wanted = self.wanted(view, plan);
        self.before = Some((plan.number, self.servers.clone(), self.bound.clone()));
        let again = self.arranged.is_none();
        let is_known = |id: WorkloadId| !again && !fresh.contains(&id);
        let same = |server: &Server, other: &Server| (server.workload, server.cpu) == (other.workload, other.cpu);
        for server in &self.servers {
            if !wanted.iter().any(|other| same(server, other)) {
                plan.rules.push(Server { budget: Nanos::ZERO, ..*server }.rule());
            }
        }
        for server in &wanted {
            if !(is_known(server.workload) && self.servers.contains(server)) {
                plan.rules.push(server.rule());
                plan.note(
                    NoteKind::Because,
                    Some(server.workload),
                    format!(
                        "its demand is {} every {} ({:.2} % of CPU {})",
                        server.budget.exact(),
                        server.period.exact(),
                        server.budget.0 as f64 / server.period.0 as f64 * 100.0,
                        server.cpu
                    ),
                );
            }
        }
        self.servers = wanted;
        self.bind(view, is_known, plan);
        self.arranged = Some(view.pool());
    }

    /// Threads with servers run there and nowhere else, where they would have no budget; others run where something is left.
    fn bind(&mut self, view: &View, is_known: impl Fn(WorkloadId) -> bool, plan: &mut Plan) {
        let pool = view.pool();
        let whole: CpuSet =
            self.servers.iter().filter(|server| server.budget >= server.period).map(|server| server.cpu).collect();
        let mut room = pool.difference(&whole);
        if room.is_empty() && !whole.is_empty() {
            let text = "every CPU is a server's as a whole: nothing is left to others; ask for less";
            plan.note(NoteKind::Warning, None, text);
            room = pool;
        }
        let before = std::mem::take(&mut self.bound);
        for (id, _) in view.owned() {
            let own = self.cpus_of(id);
            let cpus = if own.is_empty() { view.within(id, &room) } else { own };
            let known = before.iter().find(|(other, _)| *other == id).map(|(_, cpus)| *cpus);
            if known.is_none() && cpus == view.within(id, &pool) || cpus.is_empty() {
                continue;
            }
            self.bound.push((id, cpus));
            if known != Some(cpus) || !is_known(id) {
                plan.knobs.push(KnobSetting { target: Target::Workload(id), knob: Knob::Cpus(cpus) });
            }
        }
    }
}

impl Policy for Vas {
    fn describe(&self) -> &'static Description {
        &Self::DESCRIPTION
    }

    fn step(&mut self, view: &View, events: &[Event], plan: &mut Plan) -> Wake {
        if let Some(fresh) = self.handle(view, events, plan) {
            self.arrange(view, &fresh, plan);
        }
        let mut left = view.pool();
        self.servers.iter().for_each(|server| left.remove(server.cpu));
        plan.leaves = (!self.servers.is_empty()).then_some(left);
        self.retry.wake()
    }
}

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;

//! A simulated cluster: hosts in balance over their phases, services as queues, moves as rounds of copying.
//!
//! In the coarse grain a host's threads run at a time as many as its cores carry on average, and their speeds are those of the
//! contention model in balance ([`balance`]). It carries thousands of hosts. In the exact one a host is a simulated machine
//! (`exact`). The same input gives the same bytes on every machine.

pub mod balance;
mod clock;
mod driver;
mod exact;
mod machine;
mod migrate;
mod outside;
mod population;
pub mod queue;
mod report;
mod solo;
mod work;

use std::collections::BTreeMap;

use quell_model::cluster::{Budget, BudgetBook, ClusterEvent, HostId, HostState};
use quell_model::{Nanos, WorkloadId};
use quell_sim::Stream;
use quell_sim::contention::Profile;

use crate::ClusterError;
use crate::scenario::{Grain, Group, Local, Scenario};
use balance::Balances;
use clock::{Clock, Tick, seconds};
use exact::{Exact, Reading};
use machine::Machine;
use migrate::Move;
use work::{Kinds, Work};

pub use report::{Count, Outcome, Summary};

/// Interrupts nearer to each other than this are merged by the network card (assumed, of the order of usual coalescing).
const MERGED: f64 = 20e-6;

/// A driver reports events at the next multiple of this time, and not each by itself (assumed).
const LOOK: Nanos = Nanos::from_secs(5);
/// Hosts report the means over this time (snu2020 §5.3.1: "30 seconds (for the global scheduler)").
pub const WINDOW: Nanos = Nanos::from_secs(30);

/// The cluster.
#[derive(Clone, Debug)]
pub struct Cluster {
    clock: Clock,
    end: Nanos,
    local: Local,
    hosts: Vec<Machine>,
    works: Vec<Work>,
    kinds: Kinds,
    groups: Vec<(Group, usize)>,
    profiles: Vec<Profile>,
    grains: Grains,
    traffic: Traffic,
    draws: Draws,
    news: News,
    count: Count,
    /// Places of workloads that ended.
    free: Vec<WorkloadId>,
    /// Hosts whose balance is out of date.
    stale: Vec<HostId>,
}

/// How hosts are simulated.
#[derive(Clone, Debug, Default)]
struct Grains {
    /// The balances of each kind of machine: all of the coarse grain, and the first report of the exact one.
    balances: Vec<Balances>,
    /// The hosts' machines, in the exact grain.
    exact: Option<Exact>,
}

/// Moves, and the rule that bounds them.
#[derive(Clone, Debug, Default)]
struct Traffic {
    moves: BTreeMap<WorkloadId, Move>,
    budget: Budget,
    book: BudgetBook,
    /// Part of all moves that fails.
    fails: f64,
}

/// What the next observation reports.
#[derive(Clone, Debug, Default)]
struct News {
    fresh: Vec<ClusterEvent>,
    /// Workloads and hosts that changed since the last look.
    changed: (Vec<WorkloadId>, Vec<HostId>),
    /// Time of the last reports.
    reported: Option<Nanos>,
}

/// Random numbers, one stream a purpose.
#[derive(Clone, Debug)]
struct Draws {
    arrivals: Stream,
    stays: Stream,
    moves: Stream,
    places: Stream,
}

impl Draws {
    fn new(seed: u64) -> Draws {
        let stream = |number| Stream::new(seed, number);
        Draws { arrivals: stream(1), stays: stream(2), moves: stream(3), places: stream(4) }
    }
}

impl Cluster {
    /// The scenario at its beginning, with this seed.
    ///
    /// # Errors
    /// If a machine of the exact grain cannot be had.
    pub fn new(scenario: &Scenario, seed: u64) -> Result<Cluster, ClusterError> {
        let (kinds, profiles) = solo::kinds(scenario);
        let mut cluster = Cluster {
            clock: Clock::default(),
            end: scenario.lasts,
            local: scenario.local,
            hosts: Vec::new(),
            works: Vec::new(),
            kinds,
            groups: Vec::new(),
            profiles,
            grains: Grains::default(),
            traffic: Traffic { budget: scenario.budget, fails: scenario.fails.moves, ..Traffic::default() },
            draws: Draws::new(seed),
            news: News::default(),
            count: Count::default(),
            free: Vec::new(),
            stale: Vec::new(),
        };
        if scenario.grain == Grain::Exact {
            cluster.grains.exact = Some(Exact::new(scenario, seed)?);
        }
        cluster.build(scenario);
        cluster.populate(scenario, seed);
        Ok(cluster)
    }

    /// Time.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.clock.now()
    }

    /// Is the scenario over?
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.clock.now() >= self.end
    }

    /// Is there something to report now? Time stands still until it is observed, or passed over.
    pub(crate) fn tells_now(&self) -> bool {
        !self.news.fresh.is_empty() && self.clock.now().0.is_multiple_of(LOOK.0)
    }

    /// What is new is reported to no one: there is no controller.
    pub(crate) fn pass_over(&mut self) {
        self.news.fresh.clear();
    }

    /// The name of a workload's kind.
    #[must_use]
    pub fn kind(&self, id: WorkloadId) -> &str {
        self.works.get(id.index()).map_or("", |work| &self.kinds.of(work).name)
    }

    /// Number of places for workloads, the empty ones included.
    pub(crate) fn workloads(&self) -> usize {
        self.works.len()
    }

    /// CPU time of a workload over the CPU time that the same would have taken alone; None: it has not run.
    pub(crate) fn slowdown(&self, id: WorkloadId) -> Option<f64> {
        let totals = self.works.get(id.index())?.totals;
        (totals.work > 0.0).then(|| totals.cpu / totals.work)
    }

    /// Lets time pass until then, or until the next look after something happened.
    fn run(&mut self, until: Nanos) {
        let mut until = until.min(self.end);
        loop {
            if !self.news.fresh.is_empty() {
                until = until.min(Nanos(self.clock.now().0.next_multiple_of(LOOK.0)));
            }
            let Some(tick) = self.clock.next(until) else { break };
            self.happens(tick);
            // What has the same time belongs together.
            while self.clock.soonest() == Some(self.clock.now()) {
                if let Some(tick) = self.clock.next(self.clock.now()) {
                    self.happens(tick);
                }
            }
            self.rebalance();
        }
    }

    fn happens(&mut self, tick: Tick) {
        match tick {
            Tick::Arrival(group) => self.arrival(group),
            Tick::Departure(id, life) => self.departure(id, life),
            Tick::Phase(id, life) => self.phase(id, life),
            Tick::Death(host) => self.death(host),
            Tick::Silence(host) => self.silence(host),
            Tick::Round(id, number) => self.round(id, number),
            Tick::Landing(id, number) => self.landing(id, number),
            Tick::Failure(id, number) => self.failure(id, number),
            Tick::Deadline(id, number) => self.too_late(id, number),
        }
    }

    /// The host's sums are kept up to now, before anything changes on it; its balance is found anew afterwards.
    fn touch(&mut self, host: HostId) {
        self.settle(host);
        self.stale.push(host);
    }

    /// Keeps the sums of a host's workloads up to now.
    fn settle(&mut self, host: HostId) {
        let now = self.clock.now();
        let machine = &mut self.hosts[host.index()];
        let time = seconds(now) - seconds(machine.settled);
        if time <= 0.0 {
            return;
        }
        machine.settled = now;
        if let Some(exact) = &mut self.grains.exact {
            let readings = exact.pass(host.index(), now);
            return self.read(&readings);
        }
        for id in &machine.workloads {
            self.works[id.index()].pass(&self.kinds, time, MERGED);
        }
    }

    /// What machines of the exact grain say of their workloads.
    fn read(&mut self, readings: &[(WorkloadId, Reading)]) {
        for (id, reading) in readings {
            self.works[id.index()].read(&self.kinds, reading);
        }
    }

    /// Finds the balance of each host on which something changed.
    fn rebalance(&mut self) {
        let mut stale = std::mem::take(&mut self.stale);
        stale.sort_unstable();
        stale.dedup();
        if let Some(exact) = &mut self.grains.exact {
            for host in &stale {
                exact.leave(host.index(), &self.hosts[host.index()].workloads, &mut self.works);
            }
        }
        for host in stale.drain(..) {
            let machine = &mut self.hosts[host.index()];
            if machine.state == HostState::Gone {
                continue;
            }
            let balances = &mut self.grains.balances[machine.balances];
            machine.balance(&mut self.works, &self.kinds, &self.profiles, balances, self.local);
            if let Some(exact) = &mut self.grains.exact {
                exact.come(host.index(), &machine.workloads, &mut self.works, &self.kinds, &self.profiles);
            }
        }
        self.stale = stale;
    }

    /// Sums and totals of everything up to now.
    fn settle_all(&mut self) {
        if let Some(exact) = &mut self.grains.exact {
            let readings = exact.pass_all(self.clock.now());
            readings.iter().for_each(|of_host| self.read(of_host));
        }
        for at in 0..self.hosts.len() {
            self.settle(machine::host(at));
        }
    }

    /// What must hold at every moment; tests ask after every turn.
    ///
    /// # Errors
    /// What does not.
    pub fn check(&self) -> Result<(), String> {
        let mut places = vec![0; self.works.len()];
        for (at, machine) in self.hosts.iter().enumerate() {
            let (mut cpus, mut memory) = (0, 0);
            for id in &machine.workloads {
                places[id.index()] += 1;
                let work = &self.works[id.index()];
                if !work.present || work.host != Some(machine::host(at)) {
                    return Err(format!("host {at} has {id:?}, which is elsewhere: {work:?}"));
                }
                cpus += self.kinds.of(work).vcpus * 1000;
                memory += self.kinds.of(work).memory;
            }
            let coming = self.traffic.moves.iter().filter(|(_, moving)| moving.to == machine::host(at));
            for (id, _) in coming {
                cpus += self.kinds.of(&self.works[id.index()]).vcpus * 1000;
                memory += self.kinds.of(&self.works[id.index()]).memory;
            }
            if let Some(exact) = &self.grains.exact {
                exact.check(at, &machine.workloads)?;
                let unsent = |id: &&WorkloadId| self.works[id.index()].backlog > 0.0;
                if let Some(id) = machine.workloads.iter().find(unsent) {
                    return Err(format!("requests of {id:?} wait outside of host {at}"));
                }
            }
            if machine.state == HostState::Gone {
                continue;
            }
            if (cpus, memory) != (machine.claimed_cpus, machine.claimed_memory) {
                return Err(format!("host {at} counts {} of {cpus}", machine.claimed_cpus));
            }
            if cpus > machine.claimable || memory > machine.memory {
                return Err(format!("host {at} has no room for what it has"));
            }
        }
        for (at, work) in self.works.iter().enumerate() {
            let waits = u32::from(work.present && work.pending.is_some());
            if places[at] + waits != u32::from(work.present) {
                return Err(format!("workload {at} is in {} places, waits: {}", places[at], work.pending.is_some()));
            }
        }
        let most = |host: &Machine| host.moves > self.traffic.budget.per_host;
        if self.traffic.moves.len() > self.traffic.budget.at_once as usize || self.hosts.iter().any(most) {
            return Err(format!("{} moves at once exceed the budget", self.traffic.moves.len()));
        }
        Ok(())
    }
}

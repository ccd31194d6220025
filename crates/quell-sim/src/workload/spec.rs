//! A workload as a scenario describes it: what its owner asks for, how it is set up, what its threads do.

use std::collections::BTreeMap;

use quell_model::{Class, CpuCount, CpuSet, Demand, Knob, Nanos, Reservation, SchedClass, Slo, Workload};
use serde::{Deserialize, Serialize};

use super::body::{BatchSpec, ClosedSpec, Dispatch, ForksSpec, JobsSpec, ParallelSpec, PeriodicSpec, ServerSpec};
use crate::contention::ProfileName;
use crate::kernel::Partition;

/// One workload. Exactly one of `server`, `closed`, `batch`, `parallel`, `periodic`, `jobs`, `forks` and `pool` says what its
/// threads do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkloadSpec {
    /// Unique name.
    pub name: String,
    /// This many of them, named name-1, name-2 and so on.
    #[serde(default = "one")]
    pub copies: u32,
    /// Latency-critical or best-effort.
    pub class: Class,
    /// The VM that it runs in; None: on the host. Its CPUs, weight, quota and class are then the guest's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vm: Option<String>,
    /// The latency to keep.
    #[serde(default)]
    pub slo: Option<Slo>,
    /// CPUs requested.
    #[serde(default)]
    pub cpus: CpuCount,
    /// At most this many CPUs.
    #[serde(default)]
    pub limit: Option<CpuCount>,
    /// How the request is meant.
    #[serde(default)]
    pub reservation: Reservation,
    /// May solo runs of others pause it, although it is latency-critical?
    #[serde(default)]
    pub pausable: bool,
    /// What it asks its CPUs for, for policies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub demand: Option<Demand>,
    /// Number of threads.
    #[serde(default = "one")]
    pub threads: u32,
    /// `cpu.weight` of its group.
    #[serde(default = "hundred")]
    pub weight: u32,
    /// The groups around its own, the outermost first; workloads that name the same ones share them.
    #[serde(default)]
    pub within: Vec<GroupSpec>,
    /// `cpu.max` of its group, in CPUs.
    #[serde(default)]
    pub quota: Option<CpuCount>,
    /// The quota's period, 1 ms to 1 s.
    #[serde(default = "quota_period", skip_serializing_if = "is_quota_period")]
    pub quota_period: Nanos,
    /// `cpu.idle` of its group.
    #[serde(default)]
    pub idle: bool,
    /// `cpuset.cpus` of its group.
    #[serde(default)]
    pub cpuset: Option<CpuList>,
    /// `cpuset.cpus.partition` of its group, which then needs a `cpuset`.
    #[serde(default)]
    pub partition: Partition,
    /// Each thread's own affinity, in the order of threads, beginning again where it ends.
    #[serde(default)]
    pub affinity: Vec<CpuList>,
    /// Each ordinary thread's own nice value, in the order of threads, beginning again where it ends.
    #[serde(default)]
    pub nice: Vec<i8>,
    /// The threads' scheduling class.
    #[serde(default)]
    pub scheduling: SchedClass,
    /// What its work asks of caches and memory; None: nothing, and nothing slows it down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<ProfileName>,
    /// The ways of the last-level caches that its data may fill, one bit each (resctrl's L3 mask); None: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_ways: Option<u32>,
    /// The part of what a core can draw from memory that each of its CPUs may, 0.1–1 (resctrl's MB); None: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_throttle: Option<f64>,
    /// What plays it as a program (`quell-lab run --on programs`); None: memcached, or `quell antagonist cpu`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// An open loop.
    #[serde(default)]
    pub server: Option<ServerSpec>,
    /// A closed loop.
    #[serde(default)]
    pub closed: Option<ClosedSpec>,
    /// Work without end.
    #[serde(default)]
    pub batch: Option<BatchSpec>,
    /// Threads that meet at barriers.
    #[serde(default)]
    pub parallel: Option<ParallelSpec>,
    /// Periodic tasks, one a thread.
    #[serde(default)]
    pub periodic: Option<PeriodicSpec>,
    /// One thread that does the jobs of several sources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobs: Option<JobsSpec>,
    /// Threads that start short-lived ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forks: Option<ForksSpec>,
    /// Threads for the stages of requests: how many for each role, in the order of the roles' names. Without roles
    /// any thread does any stage.
    #[serde(default)]
    pub pool: Option<BTreeMap<String, u32>>,
}

/// A group around groups of workloads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupSpec {
    /// Its name, unique where it is.
    pub name: String,
    /// Its `cpu.weight`.
    #[serde(default = "hundred")]
    pub weight: u32,
}

fn one() -> u32 {
    1
}

fn hundred() -> u32 {
    100
}

/// The kernel's period of cpu.max.
pub(crate) const QUOTA_PERIOD: Nanos = Nanos::from_millis(100);

fn quota_period() -> Nanos {
    QUOTA_PERIOD
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_quota_period(period: &Nanos) -> bool {
    *period == QUOTA_PERIOD
}

/// CPUs in the kernel's list format, `"0-3,8"`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CpuList(pub CpuSet);

impl TryFrom<String> for CpuList {
    type Error = quell_model::ModelError;
    fn try_from(text: String) -> Result<CpuList, Self::Error> {
        text.parse().map(CpuList)
    }
}

impl From<CpuList> for String {
    fn from(list: CpuList) -> String {
        list.0.to_string()
    }
}

impl WorkloadSpec {
    /// A workload of one thread that does nothing yet.
    #[must_use]
    pub fn new(name: impl Into<String>, class: Class) -> WorkloadSpec {
        WorkloadSpec {
            name: name.into(),
            copies: 1,
            class,
            vm: None,
            slo: None,
            cpus: CpuCount::ZERO,
            limit: None,
            reservation: Reservation::Standard,
            pausable: false,
            demand: None,
            threads: 1,
            weight: 100,
            within: Vec::new(),
            quota: None,
            quota_period: QUOTA_PERIOD,
            idle: false,
            cpuset: None,
            partition: Partition::Member,
            affinity: Vec::new(),
            nice: Vec::new(),
            scheduling: SchedClass::NORMAL,
            profile: None,
            cache_ways: None,
            memory_throttle: None,
            program: None,
            server: None,
            closed: None,
            batch: None,
            parallel: None,
            periodic: None,
            jobs: None,
            forks: None,
            pool: None,
        }
    }

    /// A thread's scheduling class, with its own nice value.
    #[must_use]
    pub fn class_of(&self, thread: u32) -> SchedClass {
        let own = self.nice.get(thread as usize % self.nice.len().max(1)).copied();
        match (self.scheduling, own) {
            (SchedClass::Fair { slice, .. }, Some(nice)) => SchedClass::Fair { nice, slice },
            (SchedClass::Batch { .. }, Some(nice)) => SchedClass::Batch { nice },
            (class, _) => class,
        }
    }

    /// Its threads in the simulator: those that start short-lived ones, and then a place for each of these. Each with the thread
    /// whose class and affinity it has.
    pub(crate) fn simulated_threads(&self) -> impl Iterator<Item = u32> {
        let each = self.forks.as_ref().map_or(0, |forks| forks.most);
        let (threads, places) = (self.threads, self.threads * each);
        (0..threads).chain((0..places).map(move |place| place / each))
    }

    /// What its owner configures in Quell.
    #[must_use]
    pub fn description(&self) -> Workload {
        Workload {
            slo: self.slo,
            limit: self.limit,
            reservation: self.reservation,
            pausable: self.pausable,
            demand: self.demand.clone(),
            ..Workload::new(self.name.clone(), self.class, self.cpus)
        }
    }

    /// What cannot be simulated on this machine, and the fix.
    ///
    /// # Errors
    /// A sentence that names the workload.
    pub fn check(&self, online: &CpuSet) -> Result<(), String> {
        self.description().check().map_err(|error| error.to_string())?;
        let bad = |why: &str| Err(format!("workload '{}': {why}", self.name));
        let bodies = [
            self.server.is_some(),
            self.closed.is_some(),
            self.batch.is_some(),
            self.parallel.is_some(),
            self.periodic.is_some(),
            self.jobs.is_some(),
            self.forks.is_some(),
            self.pool.is_some(),
        ];
        if bodies.iter().filter(|&&is| is).count() != 1 {
            return bad("give it exactly one of server, closed, batch, parallel, periodic, jobs, forks and pool");
        }
        if self.copies != 1 {
            return bad("its copies are not written out: read the scenario as a text");
        }
        if self.jobs.is_some() && self.threads != 1 {
            return bad("a job server has one thread: leave its threads out");
        }
        if !(1..=100_000).contains(&self.threads) {
            return bad("give it 1 to 100000 threads");
        }
        let mut weights = self.within.iter().map(|group| group.weight).chain([self.weight]);
        if !weights.all(|weight| Knob::WEIGHTS.contains(&weight)) {
            return bad("a weight is from 1 to 10000");
        }
        let in_roles = self.pool.iter().flat_map(BTreeMap::values).fold(0u64, |sum, &threads| sum + u64::from(threads));
        let has_roles = self.pool.as_ref().is_some_and(|roles| !roles.is_empty());
        if has_roles && in_roles != u64::from(self.threads) {
            return bad(&format!(
                "its roles have {in_roles} threads together and it has {}: make them equal",
                self.threads
            ));
        }
        if self.pool.iter().flat_map(BTreeMap::values).any(|&threads| threads == 0) {
            return bad("a role without threads: give it at least one");
        }
        if !(Nanos::from_millis(1)..=Nanos::from_secs(1)).contains(&self.quota_period) {
            return bad("the kernel takes periods of cpu.max from 1 ms to 1 s; give quota_period one of these");
        }
        if self.quota == Some(CpuCount::ZERO) {
            return bad("a quota of nothing would stop it for ever; leave the quota out or raise it");
        }
        for list in self.cpuset.iter().chain(&self.affinity) {
            if list.0.is_empty() || !list.0.is_subset(online) {
                return bad(&format!("the CPUs \"{}\" are not all on this machine: it has {online}", list.0));
            }
        }
        if self.nice.iter().any(|nice| !Knob::NICES.contains(nice)) {
            return bad("a nice value is from -20 to 19");
        }
        if self.partition != Partition::Member && self.cpuset.is_none() {
            return bad("a partition is made of CPUs: give it a cpuset");
        }
        self.check_times().and_then(|()| self.check_profiles()).or_else(|why| bad(&why))
    }

    fn check_profiles(&self) -> Result<(), String> {
        if let Some(batch) = &self.batch {
            batch.check()?;
        }
        if self.vm.is_some() && (self.cache_ways.is_some() || self.memory_throttle.is_some()) {
            return Err(
                "cache ways or a memory throttle in a VM: the host's controls do not know what runs in it".into()
            );
        }
        if self.cache_ways.is_some_and(|ways| !quell_model::is_way_mask(ways, 32)) {
            return Err("cache_ways are a row of bits, such as 0b1100: set at least one".into());
        }
        if self.memory_throttle.is_some_and(|part| !(0.1..=1.0).contains(&part)) {
            return Err("a memory_throttle is from 0.1 to 1".into());
        }
        self.profile.iter().try_for_each(|name| name.profile().map(|_| ()))
    }

    fn check_times(&self) -> Result<(), String> {
        if let Some(server) = &self.server {
            server.arrivals.check()?;
            server.service.check()?;
            server.dispatch.check()?;
        }
        if let Some(closed) = &self.closed {
            closed.think.check()?;
            closed.service.check()?;
            closed.dispatch.check()?;
            if !(1..=1_000_000).contains(&closed.clients) {
                return Err("give it 1 to 1000000 clients".into());
            }
            if closed.pace.is_some_and(|pace| !(pace > 0.0 && pace < 1e12)) {
                return Err("a pace is more than nothing: leave it out for as fast as they can".into());
            }
        }
        if let Some(parallel) = &self.parallel {
            parallel.check()?;
        }
        if let Some(jobs) = &self.jobs {
            jobs.check()?;
        }
        if let Some(forks) = &self.forks {
            forks.check()?;
        }
        if let Some(periodic) = &self.periodic {
            periodic.work.check()?;
            if periodic.period.0 < 1_000 {
                return Err("a period shorter than a microsecond: make it longer".into());
            }
        }
        Ok(())
    }

    /// Does it say what some of its work asks of caches and memory?
    pub(crate) fn has_profile(&self) -> bool {
        self.profile.is_some() || self.batch.as_ref().is_some_and(|batch| !batch.cycle.is_empty())
    }

    /// Do its threads spin when they have nothing to do?
    pub(crate) fn spins(&self) -> bool {
        let server = self.server.as_ref().map(|server| server.dispatch);
        let dispatch = server.or(self.closed.as_ref().map(|closed| closed.dispatch));
        matches!(dispatch, Some(Dispatch::WorkStealing(_)))
    }

    /// Every copy as a workload of its own.
    #[must_use]
    pub fn expand(self) -> Vec<WorkloadSpec> {
        super::copies(self.copies, &self.name.clone(), |name| WorkloadSpec { name, copies: 1, ..self.clone() })
    }

    /// CPUs' worth of time that it asks for, as far as that does not depend on what it gets.
    #[must_use]
    pub fn load(&self) -> Option<f64> {
        if let Some(server) = &self.server {
            return Some(server.arrivals.rate() * server.service.mean() / 1e9);
        }
        if let Some(jobs) = &self.jobs {
            return Some(jobs.load());
        }
        if let Some(forks) = &self.forks {
            return forks.load().map(|load| load * f64::from(self.threads));
        }
        let periodic = self.periodic.as_ref()?;
        Some(f64::from(self.threads) * periodic.work.mean() / periodic.period.0 as f64)
    }
}

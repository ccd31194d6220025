//! A workload as a scenario describes it: what its owner asks for, how it is set up, what its threads do.

use quell_model::{Class, CpuCount, CpuSet, Nanos, Reservation, SchedClass, Slo, Workload};
use serde::{Deserialize, Serialize};

use super::arrivals::Arrivals;
use super::service::Service;

/// One workload. Exactly one of `server`, `closed`, `batch`, `parallel` and `periodic` says what its threads do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkloadSpec {
    /// Unique name.
    pub name: String,
    /// Latency-critical or best-effort.
    pub class: Class,
    /// The latency to keep.
    #[serde(default)]
    pub slo: Option<Slo>,
    /// CPUs requested.
    #[serde(default)]
    pub cpus: CpuCount,
    /// At most so many CPUs.
    #[serde(default)]
    pub limit: Option<CpuCount>,
    /// How the request is meant.
    #[serde(default)]
    pub reservation: Reservation,
    /// May solo runs of others pause it, although it is latency-critical?
    #[serde(default)]
    pub pausable: bool,
    /// Number of threads.
    #[serde(default = "one")]
    pub threads: u32,
    /// `cpu.weight` of its group.
    #[serde(default = "hundred")]
    pub weight: u32,
    /// The groups around its own, the outermost first; workloads that name the same ones share them.
    #[serde(default)]
    pub within: Vec<GroupSpec>,
    /// `cpu.max` of its group, in CPUs, with a period of 100 ms.
    #[serde(default)]
    pub quota: Option<CpuCount>,
    /// `cpu.idle` of its group.
    #[serde(default)]
    pub idle: bool,
    /// `cpuset.cpus` of its group.
    #[serde(default)]
    pub cpuset: Option<CpuList>,
    /// Each thread's own affinity, in the order of threads, beginning again where it ends.
    #[serde(default)]
    pub affinity: Vec<CpuList>,
    /// The threads' scheduling class.
    #[serde(default)]
    pub scheduling: SchedClass,
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

/// How requests find a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dispatch {
    /// One queue for all threads: the last one that became idle takes the next request.
    #[default]
    Pool,
    /// Each thread has its own connections, and so its own queue; requests are spread at random.
    PerThread,
}

/// An open loop: requests arrive whether or not earlier ones are done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerSpec {
    /// When requests arrive.
    pub arrivals: Arrivals,
    /// CPU time of a request.
    pub service: Service,
    /// How requests find a thread.
    #[serde(default)]
    pub dispatch: Dispatch,
}

/// A closed loop: every client waits for its answer, thinks, and asks again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClosedSpec {
    /// Number of clients.
    pub clients: u32,
    /// Time between an answer and the next request.
    pub think: Service,
    /// CPU time of a request.
    pub service: Service,
    /// How requests find a thread.
    #[serde(default)]
    pub dispatch: Dispatch,
}

/// Every thread has work without end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BatchSpec {
    /// Busy and quiet in turn, all threads together, as a collector is.
    pub phases: Option<Phases>,
}

/// Busy for a while, then quiet for a while.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phases {
    /// Length of the busy part.
    pub busy: Nanos,
    /// Length of the quiet part; it comes first.
    pub quiet: Nanos,
}

/// A job of several rounds: in each, every thread does a piece of work and waits for the others. Job follows job; a
/// job's time is its latency.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParallelSpec {
    /// Rounds of a job.
    pub rounds: u32,
    /// CPU time of one thread's piece.
    pub work: Service,
}

/// A periodic task in every thread. Its latency is its response time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeriodicSpec {
    /// Distance of the releases.
    pub period: Nanos,
    /// CPU time of a job.
    pub work: Service,
    /// First release; that of thread n is n times `stagger` later.
    #[serde(default)]
    pub offset: Nanos,
    /// See `offset`.
    #[serde(default)]
    pub stagger: Nanos,
    /// Relative deadline; the period if it is left out.
    #[serde(default)]
    pub deadline: Option<Nanos>,
}

impl WorkloadSpec {
    /// A workload of one thread that does nothing yet.
    #[must_use]
    pub fn new(name: impl Into<String>, class: Class) -> WorkloadSpec {
        WorkloadSpec {
            name: name.into(),
            class,
            slo: None,
            cpus: CpuCount::ZERO,
            limit: None,
            reservation: Reservation::Standard,
            pausable: false,
            threads: 1,
            weight: 100,
            within: Vec::new(),
            quota: None,
            idle: false,
            cpuset: None,
            affinity: Vec::new(),
            scheduling: SchedClass::NORMAL,
            server: None,
            closed: None,
            batch: None,
            parallel: None,
            periodic: None,
        }
    }

    /// What its owner tells Quell.
    #[must_use]
    pub fn description(&self) -> Workload {
        Workload {
            slo: self.slo,
            limit: self.limit,
            reservation: self.reservation,
            pausable: self.pausable,
            ..Workload::new(self.name.clone(), self.class, self.cpus)
        }
    }

    /// What cannot be simulated on this machine, and the mend.
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
        ];
        if bodies.iter().filter(|&&is| is).count() != 1 {
            return bad("give it exactly one of server, closed, batch, parallel and periodic");
        }
        if !(1..=100_000).contains(&self.threads) {
            return bad("give it 1 to 100000 threads");
        }
        let mut weights = self.within.iter().map(|group| group.weight).chain([self.weight]);
        if !weights.all(|weight| (1..=10_000).contains(&weight)) {
            return bad("a weight is from 1 to 10000");
        }
        if self.quota == Some(CpuCount::ZERO) {
            return bad("a quota of nothing would stop it for ever; leave the quota out or raise it");
        }
        for list in self.cpuset.iter().chain(&self.affinity) {
            if list.0.is_empty() || !list.0.is_subset(online) {
                return bad(&format!("the CPUs \"{}\" are not all on this machine: it has {online}", list.0));
            }
        }
        self.check_times().or_else(|why| bad(&why))
    }

    fn check_times(&self) -> Result<(), String> {
        if let Some(server) = &self.server {
            server.arrivals.check()?;
            server.service.check()?;
        }
        if let Some(closed) = &self.closed {
            closed.think.check()?;
            closed.service.check()?;
            if !(1..=1_000_000).contains(&closed.clients) {
                return Err("give it 1 to 1000000 clients".into());
            }
        }
        if let Some(phases) = self.batch.and_then(|batch| batch.phases)
            && (phases.busy.0 < 1_000 || phases.quiet.0 < 1_000)
        {
            return Err("phases shorter than a microsecond: make them longer".into());
        }
        if let Some(parallel) = &self.parallel {
            parallel.work.check()?;
            if parallel.rounds == 0 {
                return Err("a job of no rounds: give it at least one".into());
            }
        }
        if let Some(periodic) = &self.periodic {
            periodic.work.check()?;
            if periodic.period.0 < 1_000 {
                return Err("a period shorter than a microsecond: make it longer".into());
            }
        }
        Ok(())
    }

    /// CPUs' worth of time that it asks for, as far as that does not depend on what it gets.
    #[must_use]
    pub fn demand(&self) -> Option<f64> {
        if let Some(server) = &self.server {
            return Some(server.arrivals.rate() * server.service.mean() / 1e9);
        }
        let periodic = self.periodic.as_ref()?;
        Some(f64::from(self.threads) * periodic.work.mean() / periodic.period.0 as f64)
    }
}

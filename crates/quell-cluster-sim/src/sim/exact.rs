//! The exact grain: each host is a simulated machine with its own kernel and its own policy.
//!
//! Cluster time and host time meet when something happens to a host, and at reports: until then hosts do not know of each
//! other and run side by side. A workload that moves is detached from one machine and attached to the other; the requests
//! that it had not answered go with it. Not in it, unlike the coarse grain: what copying takes of both hosts' memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use quell_model::{Nanos, Stack, Topology, WorkloadId};
use quell_policy::AnyPolicy;
use quell_sim::contention::{Profile, ProfileName, solve};
use quell_sim::host::drive;
use quell_sim::machine::Machine;
use quell_sim::workload::{Arrivals, BatchSpec, Dispatch, ServerSpec, Service};
use quell_sim::{KernelConfig, SimHost, WorkloadSpec};
use rayon::prelude::*;

use super::MERGED;
use super::clock::seconds;
use super::work::{Kinds, Work};
use crate::ClusterError;
use crate::scenario::{Local, Scenario};

/// All hosts.
#[derive(Clone, Debug)]
pub struct Exact(Vec<ExactHost>);

/// A host: a machine, its policy, and who is on it.
#[derive(Clone, Debug)]
struct ExactHost {
    host: SimHost,
    stack: Stack<AnyPolicy>,
    socket: solve::Socket,
    tenants: BTreeMap<WorkloadId, Tenant>,
    /// Number of workloads that were ever here.
    came: usize,
}

/// A workload on a machine.
#[derive(Clone, Copy, Debug)]
struct Tenant {
    /// Its slot there, and its place among all that were ever there.
    slot: WorkloadId,
    number: usize,
    life: u32,
    phase: usize,
    /// Requests that came and are not answered.
    waiting: i64,
    /// Nanoseconds of an instruction alone.
    ns_alone: f64,
}

/// What a workload did since the last reading.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reading {
    /// Seconds.
    pub time: f64,
    /// CPU seconds.
    pub cpu: f64,
    /// CPU seconds that the same would have taken alone.
    pub alone: f64,
    /// Memory-buffer-full events.
    pub mbf: f64,
    /// Requests that came.
    pub arrived: f64,
    /// The 99th percentile of the latency of those that were answered, seconds; None: none was.
    pub p99: Option<f64>,
}

impl Exact {
    /// The hosts of a scenario, empty.
    ///
    /// # Errors
    /// If a machine or a policy cannot be had.
    pub fn new(scenario: &Scenario, seed: u64) -> Result<Exact, ClusterError> {
        let mut hosts = Vec::new();
        for spec in &scenario.host {
            let Some(simulated) = spec.simulated() else { continue };
            for _ in 0..spec.count {
                let topology = Arc::new(Topology::synthetic(1, 1, spec.cores, 1));
                let machine = Machine { topology, ..simulated.clone() };
                let own = seed.wrapping_mul(1 << 20) + hosts.len() as u64;
                hosts.push(ExactHost::new(machine, scenario.local, own)?);
            }
        }
        Ok(Exact(hosts))
    }

    /// Lets time pass on one host, and reads what its workloads did.
    pub fn pass(&mut self, host: usize, now: Nanos) -> Vec<(WorkloadId, Reading)> {
        self.0[host].pass(now)
    }

    /// The same on all hosts, on as many cores as there are.
    pub fn pass_all(&mut self, now: Nanos) -> Vec<Vec<(WorkloadId, Reading)>> {
        self.0.par_iter_mut().map(|host| host.pass(now)).collect()
    }

    /// What must hold at every moment: a host's machine has the host's workloads and no others.
    ///
    /// # Errors
    /// What does not.
    pub fn check(&self, host: usize, ids: &[WorkloadId]) -> Result<(), String> {
        let there: Vec<WorkloadId> = self.0[host].tenants.keys().copied().collect();
        if there == ids { Ok(()) } else { Err(format!("host {host}'s machine has {there:?} for {ids:?}")) }
    }

    /// A host has these workloads now, and others leave it: first of all hosts, so that the requests that wait for one that moves
    /// are there when it comes.
    pub fn leave(&mut self, host: usize, ids: &[WorkloadId], works: &mut [Work]) {
        let host = &mut self.0[host];
        let stays = |id: &WorkloadId, tenant: &Tenant, work: &Work| {
            ids.contains(id) && (tenant.life, tenant.phase) == (work.life, work.phase)
        };
        let leaves = |(id, tenant): &(&WorkloadId, &Tenant)| !stays(id, tenant, &works[id.index()]);
        let gone: Vec<_> = host.tenants.iter().filter(leaves).map(|(id, tenant)| (*id, *tenant)).collect();
        for (id, tenant) in gone {
            host.tenants.remove(&id);
            host.host.detach(tenant.slot);
            let work = &mut works[id.index()];
            if work.present && work.life == tenant.life && work.host.is_some() {
                work.backlog += tenant.waiting.max(0) as f64;
            }
        }
    }

    /// Those of a host's workloads come that are not there yet.
    pub fn come(&mut self, host: usize, ids: &[WorkloadId], works: &mut [Work], kinds: &Kinds, profiles: &[Profile]) {
        let host = &mut self.0[host];
        for id in ids {
            if !host.tenants.contains_key(id) {
                host.come(*id, &mut works[id.index()], kinds, profiles);
            }
        }
    }
}

impl ExactHost {
    fn new(machine: Machine, local: Local, seed: u64) -> Result<ExactHost, ClusterError> {
        let failed = |why: String| ClusterError::Scenario {
            what: "a host in the exact grain".into(),
            why,
            fix: "take the coarse grain".into(),
        };
        let socket = machine.socket();
        let nothing: &[WorkloadSpec] = &[];
        let host = SimHost::new(machine, KernelConfig::default(), nothing, seed, false)
            .map_err(|error| failed(error.to_string()))?;
        let policy = match local {
            Local::Even => "none",
            Local::Sdc => "sdc-local",
        };
        let policy = AnyPolicy::named(policy).ok_or_else(|| failed(format!("there is no policy {policy}")))?;
        let stack = Stack::of_one(policy, host.view());
        Ok(ExactHost { host, stack, socket, tenants: BTreeMap::new(), came: 0 })
    }

    fn pass(&mut self, now: Nanos) -> Vec<(WorkloadId, Reading)> {
        let time = seconds(now) - seconds(self.host.now());
        if time <= 0.0 {
            return Vec::new();
        }
        drive(&mut self.host, &mut self.stack, now, |_, _| {});
        let stats = self.host.sim().stats();
        let mut readings = Vec::with_capacity(self.tenants.len());
        for (id, tenant) in &mut self.tenants {
            let of = &stats[tenant.number];
            tenant.waiting += of.arrived as i64 - of.latencies.count() as i64;
            let p99 = (of.latencies.count() > 0).then(|| seconds(of.latencies.quantile(0.99)));
            let reading = Reading {
                time,
                cpu: of.run_time as f64 / 1e9,
                alone: of.counted.instructions * tenant.ns_alone / 1e9,
                mbf: of.counted.buffer_full,
                arrived: of.arrived as f64,
                p99,
            };
            readings.push((*id, reading));
        }
        self.host.end_warm_up();
        readings
    }

    /// A workload comes, with its phase of now and the requests that wait for it.
    fn come(&mut self, id: WorkloadId, work: &mut Work, kinds: &Kinds, profiles: &[Profile]) {
        let spec = spec(id, work, kinds, profiles);
        let Ok(slot) = self.host.attach(&spec) else {
            unreachable!("a checked kind of workload makes sense on its host")
        };
        let waiting = work.backlog as usize;
        if waiting > 0 {
            self.host.send(slot, waiting);
        }
        work.backlog = 0.0;
        let ns_alone = solve::ns_alone(&self.socket, &profiles[kinds.profile(work)]);
        let tenant = Tenant { slot, number: self.came, life: work.life, phase: work.phase, waiting: 0, ns_alone };
        self.came += 1;
        self.tenants.insert(id, tenant);
    }
}

/// A workload as the machine's simulator has it: an open loop of random arrivals with service times spread exponentially,
/// as the coarse grain's queue has them, or work without end.
fn spec(id: WorkloadId, work: &Work, kinds: &Kinds, profiles: &[Profile]) -> WorkloadSpec {
    let kind = kinds.of(work);
    let profile = Some(ProfileName::Own(profiles[kinds.profile(work)].clone()));
    let (mut server, mut batch) = (None, None);
    match kind.service {
        Some(service) => {
            let service = Service::Exponential(super::clock::nanos(service));
            server =
                Some(ServerSpec { arrivals: Arrivals::Poisson(kinds.rate(work)), service, dispatch: Dispatch::Pool });
        }
        None => batch = Some(BatchSpec::default()),
    }
    WorkloadSpec {
        cpus: quell_model::CpuCount::whole(kind.vcpus),
        threads: kind.vcpus,
        slo: kind.slo,
        weight: 100 * kind.vcpus,
        profile,
        server,
        batch,
        ..WorkloadSpec::new(format!("{}-{}", kind.name, id.0), kind.class)
    }
}

impl Work {
    /// What a machine of the exact grain says of it.
    pub fn read(&mut self, kinds: &Kinds, reading: &Reading) {
        let kind = kinds.of(self);
        self.sums.time += reading.time;
        self.sums.mbf += reading.mbf;
        self.sums.cpu += reading.cpu;
        self.totals.cpu += reading.cpu;
        self.totals.work += reading.alone;
        self.running = reading.cpu / reading.time;
        if reading.cpu > 0.0 {
            self.pace.speed = reading.alone / reading.cpu;
            self.pace.mbf = reading.mbf / reading.cpu;
        }
        if kind.service.is_none() {
            return;
        }
        let rate = reading.arrived / reading.time;
        self.sums.irqs += rate / (1.0 + rate * MERGED) * reading.time;
        // Nothing was answered although something came: it stood still for all of that time.
        let latency = reading.p99.unwrap_or(if reading.arrived > 0.0 { reading.time } else { 0.0 });
        self.sums.latency += latency * reading.time;
        if let Some(slo) = kind.slo {
            self.totals.served += reading.time;
            self.totals.violated += if latency > seconds(slo.bound) { reading.time } else { 0.0 };
        }
    }
}

#[cfg(test)]
mod tests {
    use quell_model::cluster::HostId;

    use super::super::solo;
    use super::*;

    const SCENARIO: &str = r#"
about = "a service that cannot answer what it is asked moves"
lasts = "1min"
host = [{ count = 2, machine = "sdc", cores = 2, memory-gib = 8, link-gbit = 10 }]
workloads = [{ kind = "serves", count = 1, hosts = [0] }]
kind = [{ name = "serves", class = "lc", vcpus = 1, memory-gib = 1, phases = [{ profile = "memcached" }], rate = 6000, service = "200us" }]
"#;

    /// Seconds 1, 2, 3 and 4, the last two after a move: what came, and what still waits.
    fn moved(from: usize, to: usize) -> (Vec<f64>, i64) {
        let scenario = Scenario::parse(SCENARIO).unwrap();
        let (kinds, profiles) = solo::kinds(&scenario);
        let mut exact = Exact::new(&scenario, 7).unwrap();
        let id = WorkloadId(0);
        let mut works = vec![Work::new(0, 0)];
        works[0].host = Some(HostId(from as u32));
        exact.come(from, &[id], &mut works, &kinds, &profiles);
        let mut arrived = Vec::new();
        for second in 1..=4 {
            let host = if second > 2 { to } else { from };
            let read = exact.pass_all(Nanos::from_secs(second));
            let (_, reading) = read[host][0];
            assert!(read[1 - host].is_empty() && reading.time == 1.0);
            arrived.push(reading.arrived);
            if second == 2 {
                works[0].host = Some(HostId(to as u32));
                exact.leave(from, &[], &mut works);
                assert!(works[0].backlog > 1_000.0, "{}", works[0].backlog);
                exact.come(to, &[id], &mut works, &kinds, &profiles);
            }
        }
        (arrived, exact.0[to].tenants[&id].waiting)
    }

    #[test]
    fn more_threads_than_cores_are_a_workload_too() {
        let scenario = Scenario::parse(
            &SCENARIO.replace("vcpus = 1", "vcpus = 4").replace("link-gbit = 10", "link-gbit = 10, overcommit = 2"),
        );
        let scenario = scenario.unwrap();
        let (kinds, profiles) = solo::kinds(&scenario);
        let mut exact = Exact::new(&scenario, 7).unwrap();
        let mut works = vec![Work::new(0, 0)];
        exact.come(0, &[WorkloadId(0)], &mut works, &kinds, &profiles);
        let read = exact.pass(0, Nanos::from_secs(1));
        assert!((1.0..2.01).contains(&read[0].1.cpu), "two cores: {read:?}");
    }

    #[test]
    fn requests_that_wait_go_with_a_service_and_runs_repeat() {
        let (arrived, waiting) = moved(0, 1);
        // 6,000 a second come and 5,000 can be answered; what waited after two seconds comes again in the third.
        let waited = arrived.iter().sum::<f64>() - 24_000.0;
        assert!((1_500.0..2_500.0).contains(&waited), "{arrived:?}");
        assert!((3_200..4_800).contains(&waiting), "a thousand a second have to wait: {waiting}");
        assert_eq!(moved(0, 1), (arrived, waiting));
    }
}

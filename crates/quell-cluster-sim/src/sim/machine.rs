//! One host: its cores divided among its workloads, and its memory in balance.

use quell_model::Nanos;
use quell_model::WorkloadId;
use quell_model::cluster::{Contended, HostId, HostState};
use quell_sim::contention::Profile;

use super::balance::{Balances, Part};
use super::queue;
use super::work::{Kinds, Work};
use crate::scenario::Local;

/// A host.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Number of its machine's balances.
    pub balances: usize,
    /// Cores.
    pub cores: f64,
    /// Thousandths of CPUs that may be claimed.
    pub claimable: u32,
    /// Bytes of memory.
    pub memory: u64,
    /// Bytes a second of its link.
    pub link: f64,
    /// Fitness.
    pub state: HostState,
    /// Its mark.
    pub mark: Contended,
    /// Its workloads, by number.
    pub workloads: Vec<WorkloadId>,
    /// Thousandths of CPUs claimed, workloads under way to it included.
    pub claimed_cpus: u32,
    /// Bytes claimed, workloads under way to it included.
    pub claimed_memory: u64,
    /// Moves from and to it under way.
    pub moves: u32,
    /// Bytes a second that they copy.
    pub copies: f64,
    /// Up to this time its workloads' sums are kept.
    pub settled: Nanos,
}

/// A vCPU with more memory-buffer-full events a second alone counts as memory-intensive (the text leaves it open; ours).
pub const INTENSIVE: f64 = 1e5;

impl Machine {
    /// Divides the cores anew, and finds the balance.
    pub fn balance(
        &mut self,
        of: &mut [Work],
        kinds: &Kinds,
        profiles: &[Profile],
        balances: &mut Balances,
        local: Local,
    ) {
        // A service's running threads depend on their speed, and the speed on what runs: two rounds are near enough.
        for _ in 0..2 {
            self.divide(of, kinds, local);
            let mut parts: Vec<Part> = Vec::with_capacity(4);
            for id in &self.workloads {
                let work = &of[id.index()];
                let profile = kinds.profile(work);
                let copies = if profiles[profile].shared { 1.0 } else { f64::from(kinds.of(work).vcpus) };
                match parts.iter_mut().find(|part| part.profile == profile) {
                    Some(part) => (part.running, part.copies) = (part.running + work.running, part.copies + copies),
                    None => parts.push(Part { profile, running: work.running, copies }),
                }
            }
            parts.sort_unstable_by_key(|part| part.profile);
            let paces = balances.of(profiles, &parts, self.copies / 1e9);
            for id in &self.workloads {
                let work = &mut of[id.index()];
                let profile = kinds.profile(work);
                if let Ok(at) = parts.binary_search_by_key(&profile, |part| part.profile) {
                    work.pace = paces[at];
                }
            }
        }
        for id in &self.workloads {
            serve(&mut of[id.index()], kinds);
        }
    }

    /// Gives each workload the CPUs on which it runs, on average.
    fn divide(&self, of: &mut [Work], kinds: &Kinds, local: Local) {
        let kind_of = |work: &Work| match local {
            Local::Even => Pool::All,
            Local::Sdc if kinds.of(work).class.is_lc() => Pool::Dedicated,
            Local::Sdc if kinds.alone(work).mbf > INTENSIVE => Pool::Memory,
            Local::Sdc => Pool::Others,
        };
        let vcpus = |pool: Pool, of: &[Work]| -> f64 {
            let own = self.workloads.iter().map(|id| &of[id.index()]).filter(|work| kind_of(work) == pool);
            own.map(|work| f64::from(kinds.of(work).vcpus)).sum()
        };
        let [dedicated, memory, others] = [Pool::Dedicated, Pool::Memory, Pool::Others].map(|pool| vcpus(pool, of));
        // One core stays for the others where dedicated cores run out (ours).
        let dedicated_cores = dedicated.min((self.cores - f64::from(u8::from(memory + others > 0.0))).max(0.0));
        let rest = self.cores - dedicated_cores;
        let memory_cores = match (memory > 0.0, others > 0.0) {
            (false, _) => 0.0,
            (true, true) => libm::ceil(memory / 2.0).min((rest - 1.0).max(rest / 2.0)),
            (true, false) => libm::ceil(memory / 2.0).min(rest),
        };
        for (pool, cores) in [
            (Pool::All, self.cores),
            (Pool::Dedicated, dedicated_cores),
            (Pool::Memory, memory_cores),
            (Pool::Others, rest - memory_cores),
        ] {
            self.share(of, kinds, cores, |work| kind_of(work) == pool);
        }
    }

    /// Cores to workloads by the number of their threads; what one cannot use goes to the others.
    fn share(&self, of: &mut [Work], kinds: &Kinds, cores: f64, is_of: impl Fn(&Work) -> bool) {
        let wants = |work: &Work| {
            let kind = kinds.of(work);
            let threads = f64::from(kind.vcpus);
            match kind.service {
                Some(_) if work.backlog > 0.0 => 1.0,
                Some(service) => (kinds.rate(work) * service / work.pace.speed.max(0.01) / threads).min(1.0),
                None => 1.0,
            }
        };
        let own = |of: &[Work]| -> Vec<(f64, f64)> {
            let own = self.workloads.iter().map(|id| &of[id.index()]).filter(|work| is_of(work));
            own.map(|work| (wants(work), f64::from(kinds.of(work).vcpus))).collect()
        };
        let mut threads = own(of);
        threads.sort_by(|a, b| a.0.total_cmp(&b.0));
        // The level at which all cores are used: a thread gets what it wants, or the level.
        let (mut left, mut number) = (cores, threads.iter().map(|(_, threads)| threads).sum::<f64>());
        let mut level = 1.0;
        for (want, threads) in threads {
            if want * number > left {
                level = left / number;
                break;
            }
            (left, number) = (left - want * threads, number - threads);
        }
        for id in &self.workloads {
            let work = &mut of[id.index()];
            if is_of(work) {
                let threads = f64::from(kinds.of(work).vcpus);
                work.running = wants(work).min(level) * threads;
                // A service has what it does not use when it needs it, up to the level that all threads could have.
                work.capacity = threads * level.max(wants(work).min(level));
            }
        }
    }

    /// Its place among the hosts has the workload.
    pub fn add(&mut self, id: WorkloadId) {
        let at = self.workloads.partition_point(|other| *other < id);
        self.workloads.insert(at, id);
    }

    /// It no longer has the workload.
    pub fn remove(&mut self, id: WorkloadId) {
        self.workloads.retain(|other| *other != id);
    }
}

/// The cores on which a workload may run.
#[derive(Clone, Copy, PartialEq)]
enum Pool {
    All,
    Dedicated,
    Memory,
    Others,
}

/// A service's latency at its present speed.
fn serve(work: &mut Work, kinds: &Kinds) {
    let Some(service) = kinds.of(work).service else { return };
    work.times = queue::times(kinds.rate(work), service / work.pace.speed.max(1e-6), work.capacity.max(1e-3));
}

/// Number of a host.
#[must_use]
pub fn host(at: usize) -> HostId {
    HostId(at as u32)
}

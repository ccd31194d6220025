//! Threads that run for ever on one socket, once the cache has settled: the model without time, for calibration and
//! tests.

use super::llc::{Occupancy, Sharer};
use super::memory;
use super::profile::Profile;
use super::solve::{Load, Rates, Running, Socket, load, ns_alone};

/// Rounds in which speeds and parts of the cache follow each other; each closes half of the gap.
const ROUNDS: usize = 60;

/// A thread for ever on its CPU.
#[derive(Clone, Copy, Debug)]
pub struct Thread<'a> {
    /// What it does.
    pub profile: &'a Profile,
    /// Its core; threads on the same one are siblings.
    pub core: u32,
    /// Its workload: those that share data share it with the threads of the same number.
    pub workload: u32,
    /// Its frequency as part of the highest, 0–1.
    pub frequency: f64,
    /// The ways of the cache that it may fill; those of a workload's first thread count.
    pub ways: u32,
    /// What memory bandwidth allocation leaves it, 0–1.
    pub throttle: f64,
}

impl<'a> Thread<'a> {
    /// A thread of a workload on a core, without limits.
    #[must_use]
    pub fn new(profile: &'a Profile, workload: u32, core: u32) -> Thread<'a> {
        Thread { profile, core, workload, frequency: 1.0, ways: u32::MAX, throttle: 1.0 }
    }
}

/// How one of them fares.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Its speed as part of that alone, 0–1.
    pub speed: f64,
    /// What it does in a nanosecond.
    pub rates: Rates,
    /// Bytes of the cache that its workload has.
    pub llc_bytes: f64,
}

/// How all fare.
#[derive(Clone, Debug, PartialEq)]
pub struct Settled {
    /// The part of memory's bandwidth in use, 0–1.
    pub load: f64,
    /// In the order of the threads.
    pub threads: Vec<Pace>,
}

/// The threads of a socket, settled; others move this many bytes a nanosecond.
#[must_use]
pub fn settled(socket: &Socket, threads: &[Thread<'_>], others: f64) -> Settled {
    let mut workloads: Vec<u32> = threads.iter().map(|thread| thread.workload).collect();
    workloads.sort_unstable();
    workloads.dedup();
    let place = |thread: &Thread<'_>| workloads.binary_search(&thread.workload).unwrap_or(0);
    let copies = |at: usize| threads.iter().filter(|thread| place(thread) == at && !thread.profile.shared).count();
    let copies: Vec<f64> = (0..workloads.len()).map(|at| copies(at).max(1) as f64).collect();
    let mut bytes = vec![socket.llc_bytes / workloads.len().max(1) as f64; workloads.len()];
    let mut found = Settled { load: 0.0, threads: Vec::new() };
    for _ in 0..ROUNDS {
        found = balanced(socket, threads, others, |thread| (bytes[place(thread)], copies[place(thread)]));
        let cache = Occupancy::new(socket.ways, socket.llc_bytes);
        let sharers: Vec<Sharer<'_>> = (0..workloads.len())
            .filter_map(|at| {
                let own = || threads.iter().zip(&found.threads).filter(|(thread, _)| place(thread) == at);
                let first = own().next()?.0;
                let references = own().map(|(_, pace)| pace.rates.references).sum();
                Some(Sharer { references, copies: copies[at], misses: &first.profile.misses, ways: first.ways })
            })
            .collect();
        let natural = cache.natural(&sharers);
        bytes.iter_mut().enumerate().for_each(|(at, bytes)| *bytes = (*bytes + natural.of(at)) / 2.0);
    }
    found
}

/// The same with given parts of the cache: a workload's bytes, and how many have data of their own there.
fn balanced(socket: &Socket, threads: &[Thread<'_>], others: f64, part: impl Fn(&Thread<'_>) -> (f64, f64)) -> Settled {
    let loads: Vec<Load> = threads
        .iter()
        .enumerate()
        .map(|(at, thread)| {
            let siblings: Vec<&Profile> = threads
                .iter()
                .enumerate()
                .filter(|(other, sibling)| *other != at && sibling.core == thread.core)
                .map(|(_, sibling)| sibling.profile)
                .collect();
            let (bytes, copies) = part(thread);
            let Thread { profile, frequency, throttle, .. } = *thread;
            let (siblings, llc_bytes) = (&siblings[..], bytes / copies);
            Load::new(socket, &Running { profile, siblings, frequency, llc_bytes, remote_ns: 0.0, throttle })
        })
        .collect();
    let load = load(socket, &loads, others);
    let slowdown = memory::slowdown(load);
    let pace = |(thread, load): (&Thread<'_>, &Load)| Pace {
        speed: (ns_alone(socket, thread.profile) / load.ns(slowdown)).min(1.0),
        rates: load.rates(slowdown),
        llc_bytes: part(thread).0,
    };
    Settled { load, threads: threads.iter().zip(&loads).map(pace).collect() }
}

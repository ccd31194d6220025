//! A host in balance: how fast its threads are while all of them run, on average over time.

use std::collections::BTreeMap;

use quell_sim::contention::Profile;
use quell_sim::contention::llc::{Occupancy, Sharer};
use quell_sim::contention::memory;
use quell_sim::contention::solve::{Load, Running, Socket, load, ns_alone};

/// Threads of one profile on a host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    /// Number of the profile.
    pub profile: usize,
    /// Threads that run at a time, on average.
    pub running: f64,
    /// Parts of the cache that they fill with data of their own.
    pub copies: f64,
}

/// One profile's threads in balance.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pace {
    /// Speed as part of that alone, 0–1.
    pub speed: f64,
    /// Memory-buffer-full events a second of a running thread.
    pub mbf: f64,
    /// Bytes a second of a running thread.
    pub bytes: f64,
}

/// Rounds in which speeds and parts of the cache follow each other; each closes half of the gap.
const ROUNDS: usize = 12;
/// Threads are counted in these parts, so that balances that hardly differ are found only once.
const GRAIN: f64 = 4.0;
/// Bytes a nanosecond of moves are counted in these.
const MOVES_GRAIN: f64 = 4.0;

/// A balance's parts in grains, and what others move.
type Key = (Vec<(u16, u16, u16)>, u16);

/// A machine's balances, each found once.
#[derive(Clone, Debug)]
pub struct Balances {
    socket: Socket,
    known: BTreeMap<Key, Vec<Pace>>,
}

/// Balances that are kept; beyond it all are forgotten.
const KEPT: usize = 200_000;

impl Balances {
    /// Those of a machine.
    #[must_use]
    pub fn new(socket: Socket) -> Balances {
        Balances { socket, known: BTreeMap::new() }
    }

    /// The parts in balance, in their order, while moves take this many bytes a nanosecond of memory's bandwidth.
    pub fn of(&mut self, profiles: &[Profile], parts: &[Part], moves: f64) -> &[Pace] {
        let grain = |value: f64| libm::round(value * GRAIN) as u16;
        let key: Vec<_> = parts
            .iter()
            .map(|part| (part.profile as u16, grain(part.running), libm::round(part.copies) as u16))
            .collect();
        let key = (key, libm::round(moves * MOVES_GRAIN) as u16);
        if self.known.len() > KEPT {
            self.known.clear();
        }
        let socket = &self.socket;
        self.known.entry(key).or_insert_with_key(|(parts, moves)| {
            let part = |&(profile, running, copies): &(u16, u16, u16)| Part {
                profile: usize::from(profile),
                running: f64::from(running) / GRAIN,
                copies: f64::from(copies),
            };
            let parts: Vec<Part> = parts.iter().map(part).collect();
            settle(socket, profiles, &parts, f64::from(*moves) / MOVES_GRAIN)
        })
    }
}

/// Speeds and parts of the cache, once they have settled: `quell_sim`'s model without time, with threads on average.
fn settle(socket: &Socket, profiles: &[Profile], parts: &[Part], moves: f64) -> Vec<Pace> {
    let mut bytes = vec![socket.llc_bytes / parts.len().max(1) as f64; parts.len()];
    let cache = Occupancy::new(1, socket.llc_bytes);
    let mut paces = Vec::new();
    for _ in 0..ROUNDS {
        let loads: Vec<Load> = parts
            .iter()
            .zip(&bytes)
            .map(|(part, bytes)| {
                let profile = &profiles[part.profile];
                let llc_bytes = bytes / part.copies.max(1.0);
                let running =
                    Running { profile, siblings: &[], frequency: 1.0, llc_bytes, remote_ns: 0.0, throttle: 1.0 };
                Load::new(socket, &running).on_average(part.running)
            })
            .collect();
        let slowdown = memory::slowdown(load(socket, &loads, moves));
        let rates: Vec<_> = loads.iter().map(|load| load.rates(slowdown)).collect();
        paces = parts
            .iter()
            .zip(&loads)
            .zip(&rates)
            .map(|((part, load), rates)| Pace {
                speed: (ns_alone(socket, &profiles[part.profile]) / load.ns(slowdown)).min(1.0),
                mbf: rates.buffer_full * 1e9,
                bytes: rates.bytes * 1e9,
            })
            .collect();
        let sharers: Vec<Sharer<'_>> = parts
            .iter()
            .zip(&rates)
            .map(|(part, rates)| Sharer {
                references: rates.references * part.running,
                copies: part.copies.max(1.0),
                misses: &profiles[part.profile].misses,
                ways: u32::MAX,
            })
            .collect();
        let natural = cache.natural(&sharers);
        bytes.iter_mut().enumerate().for_each(|(at, bytes)| *bytes = (*bytes + natural.of(at)) / 2.0);
    }
    paces
}

#[cfg(test)]
mod tests {
    use quell_sim::contention::library;
    use quell_sim::contention::settled::{Thread, settled};
    use quell_sim::machine::Preset;

    use super::*;

    #[test]
    fn whole_threads_are_as_fast_as_in_the_simulators_model() {
        let socket = Preset::named("sdc").unwrap().machine().socket();
        let profiles = ["lbm", "sjeng"].map(|name| library::named(name).unwrap().clone());
        let parts = [Part { profile: 0, running: 5.0, copies: 5.0 }, Part { profile: 1, running: 3.0, copies: 3.0 }];
        let paces = settle(&socket, &profiles, &parts, 0.0);
        let threads: Vec<Thread<'_>> =
            (0..8).map(|core| Thread::new(&profiles[usize::from(core >= 5)], core, core)).collect();
        let exact = settled(&socket, &threads, 0.0);
        for (pace, thread) in paces.iter().zip([0, 5]) {
            let pair = (pace.speed, exact.threads[thread].speed);
            assert!((pair.0 / pair.1 - 1.0).abs() < 0.02, "{pair:?}");
        }
        assert!(paces[0].speed < 0.95 && paces[1].speed > paces[0].speed, "{paces:?}");
    }
}

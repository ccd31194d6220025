//! One socket in balance: how fast its threads are while they all wait for the same memory.
//!
//! An instruction takes
//!
//! ```text
//! cpi · sibling slowdown / frequency + references · (LLC latency + miss ratio · memory latency(load)) / parallelism
//! ```
//!
//! and the load is what all of them move in that time. The more memory is loaded the slower they are and the less they
//! move, so that there is exactly one load at which both agree.

use super::profile::Profile;
use super::{memory, sibling};

/// What a socket has. Bandwidth is bytes a nanosecond, which are GB/s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Socket {
    /// Bytes of each last-level cache.
    pub llc_bytes: f64,
    /// Its ways.
    pub ways: u32,
    /// Time of a reference that hits it.
    pub llc_ns: f64,
    /// Time that a miss takes longer, while no one else uses memory.
    pub memory_ns: f64,
    /// What memory moves at most.
    pub bytes_per_ns: f64,
    /// Highest frequency.
    pub ghz: f64,
    /// References find a core's super queue full in proportion to this power of its mean filling.
    pub full_power: f64,
}

/// A thread where it runs.
#[derive(Clone, Copy, Debug)]
pub struct Running<'a> {
    /// What it does.
    pub profile: &'a Profile,
    /// What runs on its core's other CPUs.
    pub siblings: &'a [&'a Profile],
    /// Its CPU's frequency as part of the highest, 0–1.
    pub frequency: f64,
    /// Bytes of the cache that its data has.
    pub llc_bytes: f64,
    /// What a miss takes longer, because the memory is another socket's, ns.
    pub remote_ns: f64,
    /// What memory bandwidth allocation leaves it of what a core can draw, 0–1; 1 is no throttling.
    pub throttle: f64,
}

/// Threads that are alike, in the terms of the balance.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(test, derive(Default))]
pub struct Load {
    /// How many.
    threads: f64,
    /// Time of an instruction within its core, …
    core_ns: f64,
    /// … for the last-level cache, …
    llc_ns: f64,
    /// … and for memory while that is idle.
    memory_ns: f64,
    /// It is throttled to this time at least.
    least_ns: f64,
    /// Bytes that it moves.
    bytes: f64,
    references: f64,
    misses: f64,
    ghz: f64,
    /// Part of its core's super queue that it has while it waits.
    queue: f64,
    /// As in [`Socket`].
    full_power: f64,
}

impl Load {
    /// One thread.
    #[must_use]
    pub fn new(socket: &Socket, thread: &Running<'_>) -> Load {
        let profile = thread.profile;
        let siblings = || thread.siblings.iter().copied();
        let parallelism = sibling::parallelism(profile, siblings());
        let references = profile.llc_references / 1_000.0;
        let misses = references * profile.misses.ratio(thread.llc_bytes);
        let bytes = misses * profile.bytes_per_miss;
        let ghz = socket.ghz * thread.frequency;
        let cycles = profile.cpi * sibling::slowdown(profile, siblings());
        let core = sibling::OUTSTANDING * profile.bytes_per_miss / socket.memory_ns;
        Load {
            threads: 1.0,
            core_ns: cycles / ghz,
            llc_ns: references * socket.llc_ns / parallelism + misses * thread.remote_ns / parallelism,
            memory_ns: misses * socket.memory_ns / parallelism,
            least_ns: if thread.throttle < 1.0 { bytes / (core * thread.throttle) } else { 0.0 },
            bytes,
            references,
            misses,
            ghz,
            queue: sibling::part_of_queue(profile, siblings()),
            full_power: socket.full_power,
        }
    }

    /// The thread alone on the idle machine at its highest frequency: this is speed 1.
    #[must_use]
    pub fn alone(socket: &Socket, profile: &Profile) -> Load {
        let llc_bytes = socket.llc_bytes;
        let alone = Running { profile, siblings: &[], frequency: 1.0, llc_bytes, remote_ns: 0.0, throttle: 1.0 };
        Load::new(socket, &alone)
    }

    /// A GPU's work that moves this many bytes a nanosecond alone at the highest frequency, at this part of it. What counts
    /// as an instruction is a nanosecond of that time. The part of it that waits for memory is the time that the bytes
    /// take at the memory's full bandwidth (assumed); the rest scales with the frequency.
    #[must_use]
    pub fn gpu(socket: &Socket, bytes_per_ns: f64, frequency: f64) -> Load {
        let bytes = moved_by_others(socket, bytes_per_ns);
        let waits = bytes / socket.bytes_per_ns;
        Load {
            threads: 1.0,
            core_ns: (1.0 - waits) / frequency,
            llc_ns: 0.0,
            memory_ns: waits / memory::slowdown(waits),
            least_ns: 0.0,
            bytes,
            references: 0.0,
            misses: 0.0,
            ghz: 0.0,
            queue: 0.0,
            full_power: socket.full_power,
        }
    }

    /// This many of them.
    #[must_use]
    pub fn times(self, threads: u32) -> Load {
        self.on_average(f64::from(threads))
    }

    /// This many of them, on average over time.
    #[must_use]
    pub fn on_average(self, threads: f64) -> Load {
        Load { threads: self.threads * threads, ..self }
    }

    /// Time of an instruction where memory is this many times slower than idle.
    #[must_use]
    pub fn ns(&self, slowdown: f64) -> f64 {
        (self.core_ns + self.llc_ns + self.memory_ns * slowdown).max(self.least_ns)
    }

    /// What each of these threads does in a nanosecond.
    #[must_use]
    pub fn rates(&self, slowdown: f64) -> Rates {
        let instructions = 1.0 / self.ns(slowdown);
        let full = self.queue * (self.llc_ns + self.memory_ns * slowdown) * instructions;
        let references = self.references * instructions;
        Rates {
            instructions,
            cycles: self.ghz,
            references,
            misses: self.misses * instructions,
            bytes: self.bytes * instructions,
            buffer_full: times_power(references, full, self.full_power),
        }
    }
}

/// A number times a power of another. Whole powers are products.
fn times_power(number: f64, of: f64, exponent: f64) -> f64 {
    let whole = exponent as u32;
    let product = (0..whole).fold(number, |product, _| product * of);
    if exponent > f64::from(whole) { product * libm::pow(of, exponent - f64::from(whole)) } else { product }
}

/// What happens in a nanosecond, or in any other time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// Instructions retired.
    pub instructions: f64,
    /// Cycles.
    pub cycles: f64,
    /// References to the last-level cache.
    pub references: f64,
    /// Those that missed.
    pub misses: f64,
    /// Bytes between cache and memory.
    pub bytes: f64,
    /// References that found the core's super queue full: the memory buffer full events of his-edgeiso-sdc-snu2020 §5.3.
    /// Which part of them do is assumed: a power of the queue's mean filling.
    pub buffer_full: f64,
}

impl Rates {
    /// What happened since it was so much.
    #[must_use]
    pub fn since(&self, before: &Rates) -> Rates {
        let mut rest = *self;
        rest.add(before, -1.0);
        rest
    }

    /// Adds what happened at these rates in this many nanoseconds.
    pub fn add(&mut self, rates: &Rates, ns: f64) {
        self.instructions += rates.instructions * ns;
        self.cycles += rates.cycles * ns;
        self.references += rates.references * ns;
        self.misses += rates.misses * ns;
        self.bytes += rates.bytes * ns;
        self.buffer_full += rates.buffer_full * ns;
    }
}

/// Halvings of the interval in which the load lies: to within 10⁻⁸ of the bandwidth.
const HALVINGS: u32 = 27;
/// So far from where the load was found to lie, the halving knows on which side it is; what is lost in rounding is a thousandth.
const SURE: f64 = 1e-9;
/// Positions that are tried at most to find it.
const POSITIONS: u32 = 12;
/// Others than the threads, such as a GPU, never get more of the bandwidth than this part (assumed).
const MOST_OF_OTHERS: f64 = 0.9;

/// What others really move that would move this many bytes a nanosecond.
#[must_use]
pub fn moved_by_others(socket: &Socket, wanted: f64) -> f64 {
    wanted.min(MOST_OF_OTHERS * socket.bytes_per_ns)
}

/// The load of memory, 0–1, at which all threads and others, who move `others` bytes a nanosecond whatever happens, are
/// in balance.
#[must_use]
pub fn load(socket: &Socket, threads: &[Load], others: f64) -> f64 {
    let most = socket.bytes_per_ns;
    let others = moved_by_others(socket, others);
    let moved = |load: f64| {
        let slowdown = memory::slowdown(load);
        others + threads.iter().map(|load| load.threads * load.bytes / load.ns(slowdown)).sum::<f64>()
    };
    if threads.iter().all(|load| load.bytes == 0.0) {
        return others / most;
    }
    halved(most, |load| moved(load) - load * most)
}

/// The lower end of the interval in which the load lies after this many halvings. `excess`: what would be moved at this load beyond
/// the load, which falls by `most` or more for each 1 of load.
fn halved(most: f64, excess: impl Fn(f64) -> f64) -> f64 {
    let (below, above) = around(most, &excess);
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..HALVINGS {
        let middle = (low + high) / 2.0;
        let is_below = match middle {
            sure if sure < below - SURE => true,
            sure if sure > above + SURE => false,
            near => excess(near) > 0.0,
        };
        if is_below { low = middle } else { high = middle }
    }
    low
}

/// Ends of an interval in which excess ends, close together after a few false positions by the Illinois rule: the end that stays
/// when the other one has moved twice counts half.
fn around(most: f64, excess: impl Fn(f64) -> f64) -> (f64, f64) {
    let (mut below, mut above) = ((0.0, excess(0.0)), (1.0, -most));
    let (mut low, mut high, mut was_below) = (0.0f64, 1.0f64, None);
    for _ in 0..POSITIONS {
        if high - low < 4.0 * SURE || below.1 <= 0.0 {
            break;
        }
        let place = below.0 + (above.0 - below.0) * below.1 / (below.1 - above.1);
        let found = excess(place);
        // Excess falls at least so fast: its end is no further away than that.
        let reach = found.abs() / most + SURE;
        (low, high) = (low.max(place - reach), high.min(place + reach));
        let is_below = found > 0.0;
        let half = if was_below == Some(is_below) { 0.5 } else { 1.0 };
        if is_below {
            (below, above.1, low) = ((place, found), above.1 * half, low.max(place));
        } else {
            (above, below.1, high) = ((place, found), below.1 * half, high.min(place));
        }
        was_below = Some(is_below);
    }
    (low, high)
}

/// The time of an instruction of this profile alone on the idle machine.
#[must_use]
pub fn ns_alone(socket: &Socket, profile: &Profile) -> f64 {
    let alone = Load::alone(socket, profile);
    alone.ns(memory::slowdown(load(socket, &[alone], 0.0)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As the definition says it: every half is looked at.
    fn halved_plainly(excess: impl Fn(f64) -> f64) -> f64 {
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..HALVINGS {
            let middle = (low + high) / 2.0;
            if excess(middle) > 0.0 { low = middle } else { high = middle }
        }
        low
    }

    fn loads() -> impl Strategy<Value = Vec<Load>> {
        let load =
            (1u32..80, 0.05f64..2.0, 0.0f64..1.0, 0.001f64..20.0, prop_oneof![Just(0.0), 0.0f64..20.0], 0.01f64..64.0)
                .prop_map(|(threads, core_ns, llc_ns, memory_ns, least_ns, bytes)| {
                    let own = Load { core_ns, llc_ns, memory_ns, least_ns, bytes, ..Load::default() };
                    Load { threads: f64::from(threads), ..own }
                });
        proptest::collection::vec(load, 1..6)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        /// To the last bit, with far fewer looks.
        #[test]
        fn the_load_is_found_where_halving_finds_it(loads in loads(), most in 1.0f64..200.0, others in 0.0f64..0.9) {
            let excess = |load: f64| {
                let slowdown = memory::slowdown(load);
                others * most + loads.iter().map(|l| l.threads * l.bytes / l.ns(slowdown)).sum::<f64>() - load * most
            };
            let found = halved(most, excess);
            prop_assert_eq!(found.to_bits(), halved_plainly(excess).to_bits());
        }
    }
}

//! The schedule: each request with its time and its connection. It follows from the seed alone and is complete before
//! the first byte is sent, so that the server cannot change it (open loop).

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Exp1};

use super::spec::{Arrivals, LoadSpec};

/// Operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Read the key.
    Get,
    /// Write the key.
    Set,
}

/// One request of the schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Intended send time, ns after the start of the schedule (the warm-up's start).
    pub at_ns: u64,
    /// Key number; the topmost bit says whether it is a set.
    coded_key: u32,
}

const SET: u32 = 1 << 31;

impl Slot {
    /// A request at a time.
    #[must_use]
    pub fn new(at_ns: u64, operation: Operation, key: u32) -> Self {
        debug_assert!(key < SET);
        let bit = match operation {
            Operation::Get => 0,
            Operation::Set => SET,
        };
        Self { at_ns, coded_key: key | bit }
    }

    /// Operation of the request.
    #[must_use]
    pub fn operation(self) -> Operation {
        if self.coded_key & SET == 0 { Operation::Get } else { Operation::Set }
    }

    /// The key's number, below the spec's number of keys.
    #[must_use]
    pub fn key(self) -> u32 {
        self.coded_key & !SET
    }
}

/// Everything that will be sent, in the order of intended send times. Request `i` goes over connection
/// `i mod connections`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// The requests, warm-up first.
    pub slots: Vec<Slot>,
    /// Number of those that belong to the warm-up.
    pub warmup: usize,
}

impl Schedule {
    /// The schedule of a (checked) spec.
    #[must_use]
    pub fn new(spec: &LoadSpec) -> Self {
        let mut kinds = ChaCha8Rng::seed_from_u64(spec.seed);
        // A second stream: changing the mix does not move a single request in time.
        let mut gaps = ChaCha8Rng::seed_from_u64(spec.seed);
        gaps.set_stream(1);
        let end = spec.warmup_ns + spec.duration_ns;
        let mut slots = Vec::with_capacity((spec.rate * end as f64 / 1e9 * 1.05) as usize + 64);
        let mut clock = ArrivalClock::new(spec.rate, spec.arrivals, &mut gaps);
        loop {
            let at = clock.next(&mut gaps);
            if at >= end as f64 {
                break;
            }
            let operation = if kinds.random_bool(spec.set_ratio) { Operation::Set } else { Operation::Get };
            let key = kinds.random_range(0..spec.keys);
            slots.push(Slot::new(at as u64, operation, key));
        }
        let warmup = slots.partition_point(|slot| slot.at_ns < spec.warmup_ns);
        Self { slots, warmup }
    }
}

/// Draws one arrival after the other.
struct ArrivalClock {
    now_ns: f64,
    arrivals: Arrivals,
    mean_gap_ns: f64,
    in_burst: bool,
    phase_ends_ns: f64,
}

impl ArrivalClock {
    fn new(rate: f64, arrivals: Arrivals, rng: &mut ChaCha8Rng) -> Self {
        let mut clock = Self { now_ns: 0.0, arrivals, mean_gap_ns: 1e9 / rate, in_burst: false, phase_ends_ns: 0.0 };
        if let Arrivals::Bursty { fraction, .. } = arrivals {
            clock.in_burst = rng.random_bool(fraction);
            clock.phase_ends_ns = clock.draw_phase(rng);
        }
        clock
    }

    fn next(&mut self, rng: &mut ChaCha8Rng) -> f64 {
        match self.arrivals {
            Arrivals::Fixed => self.now_ns += self.mean_gap_ns,
            Arrivals::Poisson => self.now_ns += self.mean_gap_ns * exponential(rng),
            Arrivals::Bursty { .. } => self.next_bursty(rng),
        }
        self.now_ns
    }

    /// Within a phase the process is Poisson; a gap that crosses a phase's end starts anew there (it has no memory).
    fn next_bursty(&mut self, rng: &mut ChaCha8Rng) {
        loop {
            let gap = self.mean_gap_ns * exponential(rng) / self.relative_rate();
            if self.now_ns + gap <= self.phase_ends_ns {
                self.now_ns += gap;
                return;
            }
            self.now_ns = self.phase_ends_ns;
            self.in_burst = !self.in_burst;
            self.phase_ends_ns = self.now_ns + self.draw_phase(rng);
        }
    }

    /// The present phase's rate over the mean rate; 0 between the bursts of an on/off process (the gap is then
    /// infinite, and the phase's end comes first).
    fn relative_rate(&self) -> f64 {
        match self.arrivals {
            Arrivals::Bursty { factor, .. } if self.in_burst => factor,
            Arrivals::Bursty { factor, fraction, .. } => ((1.0 - factor * fraction) / (1.0 - fraction)).max(0.0),
            _ => 1.0,
        }
    }

    fn draw_phase(&self, rng: &mut ChaCha8Rng) -> f64 {
        let Arrivals::Bursty { fraction, burst_ns, .. } = self.arrivals else {
            return f64::INFINITY;
        };
        let burst = burst_ns as f64;
        let mean = if self.in_burst { burst } else { burst * (1.0 - fraction) / fraction };
        mean * exponential(rng)
    }
}

fn exponential(rng: &mut ChaCha8Rng) -> f64 {
    Exp1.sample(rng)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(arrivals: Arrivals, rate: f64, seconds: u64) -> LoadSpec {
        LoadSpec { arrivals, rate, duration_ns: seconds * 1_000_000_000, warmup_ns: 500_000_000, ..LoadSpec::default() }
    }

    fn gaps(schedule: &Schedule) -> Vec<f64> {
        schedule.slots.windows(2).map(|w| (w[1].at_ns - w[0].at_ns) as f64).collect()
    }

    /// Variance over squared mean of the number of arrivals per 10 ms, times the mean: 1 for Poisson.
    fn dispersion(schedule: &Schedule, window_ns: u64) -> f64 {
        let windows = schedule.slots.last().unwrap().at_ns / window_ns;
        let mut counts = vec![0f64; windows as usize + 1];
        for slot in &schedule.slots {
            counts[(slot.at_ns / window_ns) as usize] += 1.0;
        }
        counts.pop();
        let mean = counts.iter().sum::<f64>() / counts.len() as f64;
        counts.iter().map(|c| (c - mean).powi(2)).sum::<f64>() / counts.len() as f64 / mean
    }

    const ON_OFF: Arrivals = Arrivals::Bursty { factor: 4.0, fraction: 0.25, burst_ns: 20_000_000 };

    #[test]
    fn every_process_keeps_the_mean_rate_and_the_order() {
        let mmpp = Arrivals::Bursty { factor: 3.0, fraction: 0.2, burst_ns: 5_000_000 };
        for arrivals in [Arrivals::Poisson, Arrivals::Fixed, ON_OFF, mmpp] {
            let schedule = Schedule::new(&spec(arrivals, 5_000.0, 60));
            let rate = schedule.slots.len() as f64 / 60.5;
            assert!((rate / 5_000.0 - 1.0).abs() < 0.05, "{arrivals:?}: {rate}");
            assert!(schedule.slots.is_sorted_by_key(|slot| slot.at_ns));
            assert!(schedule.slots.last().unwrap().at_ns < 60_500_000_000);
        }
    }

    #[test]
    fn poisson_gaps_are_exponential() {
        let gaps = gaps(&Schedule::new(&spec(Arrivals::Poisson, 10_000.0, 20)));
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let beyond = |x: f64| gaps.iter().filter(|gap| **gap > x * mean).count() as f64 / gaps.len() as f64;
        for x in [0.5, 1.0, 2.0, 4.0] {
            assert!((beyond(x) - (-x).exp()).abs() < 0.01, "P(gap > {x} mean) = {}", beyond(x));
        }
    }

    #[test]
    fn fixed_gaps_are_equal_and_bursts_are_burstier_than_poisson() {
        let fixed = Schedule::new(&spec(Arrivals::Fixed, 10_000.0, 2));
        assert!(gaps(&fixed).iter().all(|gap| (gap - 100_000.0).abs() <= 1.0));
        let poisson = dispersion(&Schedule::new(&spec(Arrivals::Poisson, 10_000.0, 20)), 10_000_000);
        let bursty = dispersion(&Schedule::new(&spec(ON_OFF, 10_000.0, 20)), 10_000_000);
        assert!((0.9..1.1).contains(&poisson), "{poisson}");
        assert!(bursty > 20.0 * poisson, "{bursty}");
    }

    #[test]
    fn on_off_sends_nothing_between_bursts() {
        let schedule = Schedule::new(&spec(ON_OFF, 10_000.0, 20));
        let silent: f64 = gaps(&schedule).iter().filter(|gap| **gap > 2e6).sum();
        // 75 % of the time is off; a gap above 2 ms is 80 mean gaps within a burst and hence silence.
        assert!((0.6..0.85).contains(&(silent / 20.5e9)), "{silent}");
    }

    #[test]
    fn seed_and_mix_do_what_they_say() {
        let base = spec(Arrivals::Poisson, 20_000.0, 5);
        let schedule = Schedule::new(&base);
        assert_eq!(schedule, Schedule::new(&base));
        let other_seed = Schedule::new(&LoadSpec { seed: 2, ..base.clone() });
        assert_ne!(schedule, other_seed);
        let times = |s: &Schedule| s.slots.iter().map(|slot| slot.at_ns).collect::<Vec<_>>();
        let all_sets = Schedule::new(&LoadSpec { set_ratio: 1.0, ..base.clone() });
        assert_eq!(times(&schedule), times(&all_sets));
        assert!(all_sets.slots.iter().all(|s| s.operation() == Operation::Set));
        let sets = schedule.slots.iter().filter(|s| s.operation() == Operation::Set).count();
        assert!((0.08..0.12).contains(&(sets as f64 / schedule.slots.len() as f64)));
        assert!(schedule.slots.iter().all(|s| s.key() < base.keys));
        assert_eq!(schedule.slots.iter().filter(|s| s.at_ns < base.warmup_ns).count(), schedule.warmup);
    }
}

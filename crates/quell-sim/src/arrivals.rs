//! When requests arrive.

use quell_model::Nanos;
use serde::{Deserialize, Serialize};

use crate::Stream;
use crate::math;

/// An open loop's arrivals. Rates are requests per second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Arrivals {
    /// Exponential gaps.
    Poisson(f64),
    /// Equal gaps.
    Uniform(f64),
    /// A two-state Markov-modulated Poisson process: bursts, and the time between them, both of exponential length.
    Bursty {
        /// Mean rate.
        rate: f64,
        /// Rate within a burst over the mean rate, above 1.
        factor: f64,
        /// Share of the time that is in bursts, between 0 and 1.
        fraction: f64,
        /// Mean length of a burst.
        burst: Nanos,
    },
    /// Poisson arrivals whose rate changes at certain times.
    Steps(Vec<Step>),
    /// At these times, and again after the last of them, counted from it.
    Recorded(Vec<Nanos>),
}

/// From this time on, this rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Since the start.
    pub at: Nanos,
    /// Requests per second.
    pub rate: f64,
}

/// Arrivals under way.
#[derive(Clone, Debug)]
pub(crate) struct ArrivalProcess {
    arrivals: Arrivals,
    stream: Stream,
    /// The last arrival, with the part of a nanosecond that times do not have.
    at: f64,
    /// What recorded times are counted from.
    began: u64,
    in_burst: bool,
    burst_ends: f64,
    next_recorded: usize,
    round: u64,
}

impl ArrivalProcess {
    /// Arrivals from this time on, ns.
    pub fn new(arrivals: Arrivals, stream: Stream, began: u64) -> ArrivalProcess {
        let (at, in_burst, burst_ends) = (began as f64, true, 0.0);
        ArrivalProcess { arrivals, stream, at, began, in_burst, burst_ends, next_recorded: 0, round: 0 }
    }

    /// This many requests per second from now on, ns, exponentially distributed; none if that is nothing.
    pub fn change_rate(&mut self, rate: f64, now: u64) {
        self.arrivals = Arrivals::Steps(vec![Step { at: Nanos::ZERO, rate }]);
        self.at = now as f64;
    }

    /// The time of the next arrival, ns; None: there is none.
    pub fn next(&mut self) -> Option<u64> {
        match &self.arrivals {
            Arrivals::Poisson(rate) => self.at += self.stream.exponential(1e9 / rate),
            Arrivals::Uniform(rate) => self.at += 1e9 / rate,
            &Arrivals::Bursty { rate, factor, fraction, burst } => self.next_in_bursts(rate, factor, fraction, burst),
            Arrivals::Steps(steps) => {
                let Some(at) = next_in_steps(steps, self.at, &mut self.stream) else {
                    self.at = f64::INFINITY;
                    return None;
                };
                self.at = at;
            }
            Arrivals::Recorded(times) => {
                let last = times.last()?.0.max(1);
                let at = self.began + self.round * last + times[self.next_recorded].0;
                self.next_recorded += 1;
                if self.next_recorded == times.len() {
                    (self.next_recorded, self.round) = (0, self.round + 1);
                }
                return Some(at);
            }
        }
        self.at.is_finite().then(|| math::nanos(self.at))
    }

    fn next_in_bursts(&mut self, rate: f64, factor: f64, fraction: f64, burst: Nanos) {
        let quiet_rate = rate * (1.0 - factor * fraction).max(0.0) / (1.0 - fraction);
        loop {
            if self.at >= self.burst_ends {
                self.in_burst = !self.in_burst;
                let burst = burst.0 as f64;
                let mean = if self.in_burst { burst } else { burst * (1.0 - fraction) / fraction };
                self.burst_ends = self.at + self.stream.exponential(mean);
            }
            let now = if self.in_burst { rate * factor } else { quiet_rate };
            let next = if now > 0.0 { self.at + self.stream.exponential(1e9 / now) } else { f64::INFINITY };
            if next <= self.burst_ends {
                self.at = next;
                return;
            }
            // Without memory: beyond the state's end the next arrival is drawn anew.
            self.at = self.burst_ends;
        }
    }

    /// The mean rate, requests per second; of steps the highest.
    pub fn rate(arrivals: &Arrivals) -> f64 {
        match arrivals {
            Arrivals::Poisson(rate) | Arrivals::Uniform(rate) | Arrivals::Bursty { rate, .. } => *rate,
            Arrivals::Steps(steps) => steps.iter().map(|step| step.rate).fold(0.0, f64::max),
            Arrivals::Recorded(times) => times.len() as f64 / times.last().map_or(1.0, |last| last.as_secs_f64()),
        }
    }
}

fn next_in_steps(steps: &[Step], mut at: f64, stream: &mut Stream) -> Option<f64> {
    loop {
        let here = steps.iter().rposition(|step| step.at.0 as f64 <= at);
        let rate = here.map_or(0.0, |here| steps[here].rate);
        let ends = steps.get(here.map_or(0, |here| here + 1)).map(|step| step.at.0 as f64);
        let next = if rate > 0.0 { at + stream.exponential(1e9 / rate) } else { f64::INFINITY };
        match ends {
            Some(end) if next > end => at = end,
            None if !next.is_finite() => return None,
            _ => return Some(next),
        }
    }
}

impl Arrivals {
    /// The mean rate, requests per second; of steps the highest.
    #[must_use]
    pub fn rate(&self) -> f64 {
        ArrivalProcess::rate(self)
    }

    /// What cannot be, and the fix.
    ///
    /// # Errors
    /// A sentence.
    pub fn check(&self) -> Result<(), String> {
        let rates: Vec<f64> = match self {
            Arrivals::Poisson(rate) | Arrivals::Uniform(rate) | Arrivals::Bursty { rate, .. } => vec![*rate],
            Arrivals::Steps(steps) => steps.iter().map(|step| step.rate).collect(),
            Arrivals::Recorded(_) => vec![],
        };
        let least = if matches!(self, Arrivals::Steps(_)) { 0.0 } else { f64::MIN_POSITIVE };
        if let Some(rate) = rates.iter().find(|&&rate| !(rate >= least && rate <= 1e9)) {
            return Err(format!("{rate} requests/s: give a rate above 0, at most 1e9"));
        }
        match self {
            Arrivals::Bursty { factor, fraction, burst, .. } => {
                let fits = *factor > 1.0 && *fraction > 0.0 && *fraction < 1.0 && factor * fraction <= 1.0 + 1e-9;
                if !fits || burst.0 == 0 {
                    return Err(
                        "give a factor above 1, a fraction between 0 and 1, their product at most 1, and a burst \
                                length"
                            .into(),
                    );
                }
            }
            Arrivals::Steps(steps) if steps.is_empty() || !steps.is_sorted_by(|a, b| a.at < b.at) => {
                return Err("give at least one step, the times ascending".into());
            }
            Arrivals::Recorded(times) if times.is_empty() || !times.is_sorted() => {
                return Err("give at least one time, all ascending".into());
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(arrivals: Arrivals, until: u64) -> usize {
        let mut process = ArrivalProcess::new(arrivals, Stream::new(5, 1), 0);
        std::iter::from_fn(|| process.next()).take_while(|&at| at < until).count()
    }

    #[test]
    fn rates_are_what_was_asked_for() {
        let bursty = Arrivals::Bursty { rate: 1e5, factor: 4.0, fraction: 0.25, burst: Nanos::from_micros(50) };
        for arrivals in [Arrivals::Poisson(1e5), Arrivals::Uniform(1e5), bursty] {
            assert!(arrivals.check().is_ok());
            let seen = count(arrivals.clone(), 10_000_000_000) as f64;
            assert!((seen / 1e6 - 1.0).abs() < 0.03, "{arrivals:?}: {seen}");
        }
    }

    #[test]
    fn steps_and_recordings_keep_their_times() {
        let second = Nanos::from_secs(1);
        let steps = vec![Step { at: Nanos(0), rate: 1e4 }, Step { at: second, rate: 0.0 }];
        let seen = count(Arrivals::Steps(steps), u64::MAX);
        assert!((9_500..10_500).contains(&seen), "{seen}");
        let mut process = ArrivalProcess::new(Arrivals::Recorded(vec![Nanos(3), Nanos(10)]), Stream::new(1, 1), 0);
        let times: Vec<u64> = std::iter::from_fn(|| process.next()).take(5).collect();
        assert_eq!(times, [3, 10, 13, 20, 23]);
    }

    #[test]
    fn impossible_ones_are_refused() {
        for bad in [
            Arrivals::Poisson(0.0),
            Arrivals::Uniform(f64::NAN),
            Arrivals::Bursty { rate: 1.0, factor: 5.0, fraction: 0.5, burst: Nanos(1) },
            Arrivals::Steps(vec![]),
            Arrivals::Recorded(vec![Nanos(2), Nanos(1)]),
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
    }
}

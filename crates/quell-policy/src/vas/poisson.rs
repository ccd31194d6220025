//! Requests that come at random: the least budget that keeps a quantile of the latency (beyond vas-rtns21, whose §7
//! leaves aperiodic services to others).
//!
//! Requests of a Poisson stream are served first come, first served by a server at its CPU's highest priority. No closed
//! form of the latency is known: the queue is worked out request by request, from random numbers that are always the
//! same. A larger budget finishes every one of these requests no later, so that the least budget is found by halving.

use quell_model::Nanos;
use quell_model::demand::Poisson;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use super::error::VasError;
use super::interface::Interface;
use super::service::{draw, exponential};

/// Requests that are worked out: the rarer those beyond the quantile, the more.
const BEYOND: f64 = 20_000.0;
const REQUESTS: (f64, f64) = (1_000_000.0, 4_000_000.0);
/// The first of them come while the queue is still filling.
const FILLING: usize = 50;
/// Parts of the run that are compared for the interval.
const PARTS: usize = 16;
/// Two-sided 95 % of Student's distribution with PARTS − 1 degrees of freedom.
const STUDENT: f64 = 2.131;
const SEED: u64 = 1;

/// A quantile of the latency under an interface.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reached {
    /// The interface.
    pub interface: Interface,
    /// The latency at the quantile.
    pub latency: Nanos,
    /// Half of its 95 % interval, a share of the latency.
    pub uncertainty: f64,
}

/// Requests: arrival and service time of each; ns.
struct Requests(Vec<(u64, u64)>);

/// The least budget (to a ten-thousandth of the period) with which this quantile of the latencies stays within the
/// bound. It takes about half a second, and 110 MB for the 0.999 quantile.
///
/// # Errors
/// [`VasError::Impossible`] with the quantile on a whole CPU, if that is beyond the bound; if the stream asks for a
/// CPU or more; for a quantile that is not between 0 and 1.
pub fn least_budget(stream: &Poisson, period: Nanos, quantile: f64, bound: Nanos) -> Result<Reached, VasError> {
    let requests = requests(stream, quantile)?;
    let counted = requests.0.len() - requests.0.len() / FILLING;
    let may_be_late = ((1.0 - quantile) * counted as f64) as usize;
    let fits = |budget: u64| {
        let interface = Interface { budget: Nanos(budget), period };
        requests.latencies(interface).filter(|&latency| latency > bound.0).take(may_be_late + 1).count() <= may_be_late
    };
    let step = (period.0 / 10_000).max(1);
    if !fits(period.0) {
        let whole = requests.reached(Interface { budget: period, period }, quantile);
        let why = "that is its latency on a whole CPU";
        return Err(VasError::Impossible { least: whole.latency, why });
    }
    // A server that cannot do the work falls behind without end.
    let mut low = (stream.utilisation() * period.0 as f64) as u64;
    let mut high = period.0;
    while high - low > step {
        let middle = low + (high - low) / 2;
        if fits(middle) { high = middle } else { low = middle }
    }
    Ok(requests.reached(Interface { budget: Nanos(high), period }, quantile))
}

/// This quantile of the latencies under an interface.
///
/// # Errors
/// If the stream asks for more than the interface has; for a quantile that is not between 0 and 1.
pub fn latency(stream: &Poisson, interface: Interface, quantile: f64) -> Result<Reached, VasError> {
    if stream.utilisation() >= interface.share() {
        let what = format!(
            "{:.2} % of a CPU are asked for, and {:.2} % given",
            stream.utilisation() * 100.0,
            interface.share() * 100.0
        );
        return Err(VasError::Value { what });
    }
    Ok(requests(stream, quantile)?.reached(interface, quantile))
}

fn requests(stream: &Poisson, quantile: f64) -> Result<Requests, VasError> {
    if !(quantile > 0.0 && quantile < 1.0) {
        return Err(VasError::Value {
            what: format!("a quantile of {quantile}: give one between 0 and 1, such as 0.99"),
        });
    }
    if stream.utilisation() >= 1.0 {
        let percent = stream.utilisation() * 100.0;
        return Err(VasError::Stream { rate: stream.rate, mean: stream.service.mean(), percent });
    }
    let count = (BEYOND / (1.0 - quantile)).clamp(REQUESTS.0, REQUESTS.1) as usize;
    let mut random = ChaCha8Rng::seed_from_u64(SEED);
    let (gap, mut now) = (1e9 / stream.rate, 0.0);
    let request = |_| {
        now += exponential(&mut random, gap);
        (now as u64, draw(&stream.service, &mut random))
    };
    Ok(Requests((0..count).map(request).collect()))
}

impl Requests {
    /// The latencies, one by one; the first ones are left out.
    fn latencies(&self, interface: Interface) -> impl Iterator<Item = u64> {
        let mut server = Server { budget: interface.budget.0, period: interface.period.0, free: 0, ends: 0, left: 0 };
        let latencies = self.0.iter().map(move |&(at, work)| server.serve(at, work) - at);
        latencies.skip(self.0.len() / FILLING)
    }

    fn reached(&self, interface: Interface, quantile: f64) -> Reached {
        let mut all: Vec<u64> = self.latencies(interface).collect();
        let part = all.len() / PARTS;
        let parts: Vec<f64> = all.chunks_exact_mut(part).take(PARTS).map(|part| nth(part, quantile) as f64).collect();
        let mean = parts.iter().sum::<f64>() / PARTS as f64;
        let variance = parts.iter().map(|part| (part - mean).powi(2)).sum::<f64>() / (PARTS - 1) as f64;
        let latency = nth(&mut all, quantile);
        let uncertainty = STUDENT * libm::sqrt(variance / PARTS as f64) / latency as f64;
        Reached { interface, latency: Nanos(latency), uncertainty }
    }
}

/// The quantile: the smallest latency that this many latencies do not exceed.
fn nth(latencies: &mut [u64], quantile: f64) -> u64 {
    let at = ((latencies.len() as f64 * quantile).ceil() as usize).clamp(1, latencies.len()) - 1;
    *latencies.select_nth_unstable(at).1
}

/// A deferrable server that works through a queue.
struct Server {
    budget: u64,
    period: u64,
    /// All that came before is done.
    free: u64,
    /// The end of the period of `free`, and the budget that it then has left.
    ends: u64,
    left: u64,
}

impl Server {
    /// Completion time of a request that arrives at `at`.
    fn serve(&mut self, at: u64, mut work: u64) -> u64 {
        let start = at.max(self.free);
        if start >= self.ends {
            self.ends = (start / self.period + 1) * self.period;
            self.left = self.budget;
        }
        let here = self.left.min(self.ends - start);
        if work <= here {
            self.left -= work;
            self.free = start + work;
            return self.free;
        }
        work -= here;
        // Whole budgets, and then the remaining work, at most one budget.
        let periods = (work - 1) / self.budget;
        work -= periods * self.budget;
        let begins = self.ends + periods * self.period;
        (self.ends, self.left, self.free) = (begins + self.period, self.budget - work, begins + work);
        self.free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(rate: f64, service: &str) -> Poisson {
        Poisson { rate, service: service.parse().unwrap() }
    }

    fn interface(budget: u64, period: u64) -> Interface {
        Interface { budget: Nanos::from_micros(budget), period: Nanos::from_micros(period) }
    }

    #[test]
    fn on_a_whole_cpu_an_exponential_service_has_the_latencies_of_theory() {
        // M/M/1: exponential with mean 1 / (µ − λ).
        let reached = latency(&stream(7_000.0, "exponential:100us"), interface(1_000, 1_000), 0.99).unwrap();
        let theory = -(0.01f64.ln()) / 3_000.0 * 1e9;
        assert!((reached.latency.0 as f64 / theory - 1.0).abs() < 0.02, "{reached:?}, {theory}");
        assert!(reached.uncertainty < 0.03, "{reached:?}");
    }

    #[test]
    fn a_request_waits_for_budgets_as_often_as_it_needs_more() {
        let mut server = Server { budget: 3, period: 10, free: 0, ends: 0, left: 0 };
        assert_eq!(server.serve(8, 2), 10, "at a period's end");
        assert_eq!(server.serve(9, 4), 21, "3 of the second period, 1 of the third");
        assert_eq!(server.serve(21, 8), 43, "2 of the third, 3 of the fourth, 3 of the fifth");
        assert_eq!(server.serve(95, 1), 96, "a new period's budget is full");
    }

    #[test]
    fn the_least_budget_keeps_the_bound_and_one_a_little_less_does_not() {
        let stream = stream(2_000.0, "exponential:100us");
        let (period, bound) = (Nanos::from_millis(10), Nanos::from_millis(3));
        let least = least_budget(&stream, period, 0.99, bound).unwrap();
        assert!(least.latency <= bound && least.interface.share() > 0.2, "{least:?}");
        let less = Interface { budget: Nanos(least.interface.budget.0 * 97 / 100), period };
        assert!(latency(&stream, less, 0.99).unwrap().latency > bound);
    }

    #[test]
    fn a_bound_below_that_of_a_whole_cpu_is_impossible_with_the_least() {
        let stream = stream(2_000.0, "constant:100us");
        match least_budget(&stream, Nanos::from_millis(10), 0.99, Nanos::from_micros(90)) {
            Err(VasError::Impossible { least, .. }) => assert!(least > Nanos::from_micros(100), "{least:?}"),
            other => panic!("{other:?}"),
        }
        assert!(least_budget(&self::stream(10_000.0, "constant:100us"), Nanos(10), 0.5, Nanos(1)).is_err());
    }
}

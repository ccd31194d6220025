//! VAS: the smallest share of a CPU that leaves a service's latency as on a whole CPU (Li et al., RTNS 2021, §4).
//!
//! A service is a set of periodic or sporadic tasks ([`TaskSet`]), or a Poisson stream of requests ([`Poisson`]). It gets
//! a server at the highest priority of its CPU: a *budget* every *period* ([`Interface`]). As long as the budget is never
//! exhausted the schedule is that of a whole CPU (Theorem 4.1). [`Busy`] has the stretches in which the service would
//! keep a whole CPU busy, B(P) is the most of them in any window of one period, and [`Analysis`] chooses.
//!
//! Times are whole nanoseconds, products 128 bits wide. The paper's W(P) lacks its division: here W = B(P) / P.

mod analysis;
mod busy;
mod curve;
mod error;
mod harmonic;
mod interface;
mod poisson;
mod service;
mod task;

pub use analysis::{Analysis, Bounds};
pub use busy::Busy;
pub use curve::{Curve, Flat};
pub use error::VasError;
pub use interface::{Interface, Margin};
pub use poisson::{Poisson, Reached};
pub use service::Service;
pub use task::{Releases, Task, TaskSet};

use quell_model::Nanos;

/// A time without rounding: `1.52 s`, `860 ms`. It reads back as the same time.
#[must_use]
pub fn exact(time: Nanos) -> String {
    let (unit, name) = match time.0 {
        1_000_000_000.. => (1_000_000_000, "s"),
        1_000_000.. => (1_000_000, "ms"),
        1_000.. => (1_000, "us"),
        _ => (1, "ns"),
    };
    let digits = format!("{unit}").len() - 1;
    let whole = format!("{}.{:0digits$}", time.0 / unit, time.0 % unit);
    format!("{} {name}", if unit == 1 { time.0.to_string() } else { trimmed(&whole) })
}

fn trimmed(number: &str) -> String {
    number.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_times_read_back_as_they_were() {
        for (ns, text) in
            [(0, "0 ns"), (999, "999 ns"), (1_500, "1.5 us"), (860_000_000, "860 ms"), (2_000_000_000, "2 s")]
        {
            assert_eq!(exact(Nanos(ns)), text);
        }
        for ns in [1, 1_001, 123_456_789, 1_000_000_001, 98_765_432_101] {
            assert_eq!(exact(Nanos(ns)).parse::<Nanos>().unwrap(), Nanos(ns));
        }
    }
}

//! What queueing theory says about sojourn times (from arrival to completion). The unit of time is the mean service
//! time; loads are per server.

use crate::math;

/// The part of time in which all of `servers` are busy in M/M/k, and so the part of requests that wait (Erlang's C).
#[must_use]
pub fn erlang_c(servers: u32, load: f64) -> f64 {
    let offered = load * f64::from(servers);
    let (mut term, mut sum) = (1.0, 1.0);
    for busy in 1..servers {
        term *= offered / f64::from(busy);
        sum += term;
    }
    let all_busy = term * offered / f64::from(servers) / (1.0 - load);
    all_busy / (sum + all_busy)
}

/// Mean sojourn time in M/M/k.
#[must_use]
pub fn mmk_mean(servers: u32, load: f64) -> f64 {
    1.0 + erlang_c(servers, load) / drain(servers, load)
}

/// The sojourn time that a share (0–1) of all requests in M/M/k does not exceed: a service time, and for those that
/// wait an exponential time with the rate `servers` × (1 − `load`) before it.
#[must_use]
pub fn mmk_quantile(servers: u32, load: f64, share: f64) -> f64 {
    let (waits, rate) = (erlang_c(servers, load), drain(servers, load));
    let longer = |time: f64| {
        let alone = math::exp(-time);
        let after_waiting = if (rate - 1.0).abs() < 1e-9 {
            (1.0 + time) * alone
        } else {
            (rate * alone - math::exp(-rate * time)) / (rate - 1.0)
        };
        (1.0 - waits) * alone + waits * after_waiting
    };
    reached(|time| 1.0 - longer(time), share)
}

/// The rate at which those who wait in M/M/k come nearer to a server.
fn drain(servers: u32, load: f64) -> f64 {
    f64::from(servers) * (1.0 - load)
}

/// Mean sojourn time in M/G/1, first come, first served (Pollaczek and Khinchine); `second_moment` is that of the
/// service time.
#[must_use]
pub fn mg1_mean(load: f64, second_moment: f64) -> f64 {
    1.0 + load * second_moment / (2.0 * (1.0 - load))
}

/// Mean sojourn time under processor sharing, whatever the distribution of service times.
#[must_use]
pub fn processor_sharing_mean(load: f64) -> f64 {
    1.0 / (1.0 - load)
}

/// The sojourn time that a share (0–1) of all requests in M/D/1 does not exceed.
#[must_use]
pub fn md1_quantile(load: f64, share: f64) -> f64 {
    let queue = Md1::new(load);
    1.0 + reached(|time| queue.waits_at_most(time), share)
}

/// M/D/1's distribution of waiting times, by a series of positive terms only (Franx 2001, "A simple solution for the
/// M/D/c waiting time distribution"); Erlang's own alternates, and loses all digits where waits are long.
struct Md1 {
    load: f64,
    /// The probability that at most this many requests wait; the one in service does not.
    at_most_wait: Vec<f64>,
}

/// Waits up to this many service times can be asked for.
const LONGEST: usize = 2_000;

impl Md1 {
    fn new(load: f64) -> Md1 {
        // The number of arrivals in a service time is Poisson: `more[n]` is the probability of more than n.
        let none = math::exp(-load);
        let (mut term, mut sum) = (none, none);
        let mut more = vec![1.0 - none];
        for count in 1..=LONGEST {
            term *= load / count as f64;
            sum += term;
            more.push((1.0 - sum).max(0.0));
        }
        // As often as the number in the system rises above a level it falls below it again.
        let mut present = vec![1.0 - load];
        for level in 0..LONGEST {
            let later = (1..=level).map(|count| present[count] * more[level + 1 - count]);
            let rises = present[0] * more[level] + later.sum::<f64>();
            present.push(rises / none);
            if present[level + 1] < 1e-18 {
                break;
            }
        }
        let mut sum = present[0];
        let at_most_wait = present[1..].iter().map(|probability| {
            sum += probability;
            sum
        });
        Md1 { load, at_most_wait: at_most_wait.collect() }
    }

    fn waits_at_most(&self, time: f64) -> f64 {
        let whole = time as usize + 1;
        let rest = self.load * (whole as f64 - time);
        let (mut term, mut sum) = (math::exp(-rest), 0.0);
        for count in 0..whole {
            let waiting = whole - count - 1;
            sum += term * self.at_most_wait.get(waiting).copied().unwrap_or(1.0);
            term *= rest / (count + 1) as f64;
        }
        sum
    }
}

/// Where a distribution reaches this share, by halving.
fn reached(distribution: impl Fn(f64) -> f64, share: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while distribution(high) < share && high < LONGEST as f64 {
        (low, high) = (high, 2.0 * high);
    }
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if distribution(middle) < share { low = middle } else { high = middle }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_near(got: f64, wanted: f64) {
        assert!((got / wanted - 1.0).abs() < 1e-6, "{got}, not {wanted}");
    }

    #[test]
    fn one_server_has_the_simple_formulas() {
        for load in [0.3, 0.7, 0.9, 0.95] {
            let mean = 1.0 / (1.0 - load);
            assert_near(erlang_c(1, load), load);
            assert_near(mmk_mean(1, load), mean);
            assert_near(mmk_quantile(1, load, 0.99), -math::ln(0.01) * mean);
            assert_near(mg1_mean(load, 2.0), mean);
        }
        // The rate at which M/M/2 drains at half load is that of a service.
        assert_near(
            mmk_quantile(2, 0.5, 0.99),
            mmk_quantile(2, 0.500_001, 0.99).midpoint(mmk_quantile(2, 0.499_999, 0.99)),
        );
    }

    /// 10 servers, 8 Erlang: by the definition, term by term.
    #[test]
    fn erlangs_c_is_what_its_definition_says() {
        let factorial = |n: u32| (1..=n).map(f64::from).product::<f64>();
        let term = |n: u32| (0..n).map(|_| 8.0).product::<f64>() / factorial(n);
        let all_busy = term(10) / (1.0 - 0.8);
        assert_near(erlang_c(10, 0.8), all_busy / ((0..10).map(term).sum::<f64>() + all_busy));
    }

    /// The distribution begins with the part that does not wait, and its mean is Pollaczek and Khinchine's.
    #[test]
    fn waits_in_m_d_1_have_the_known_mean() {
        for load in [0.3, 0.7, 0.9, 0.95] {
            let queue = Md1::new(load);
            assert_near(queue.waits_at_most(0.0), 1.0 - load);
            let step = 1e-3;
            let mut mean = 0.0;
            let mut at = step / 2.0;
            while at < 400.0 {
                mean += (1.0 - queue.waits_at_most(at)) * step;
                at += step;
            }
            assert!((mean - (mg1_mean(load, 1.0) - 1.0)).abs() < 1e-4, "{load}: {mean}");
            let p99 = md1_quantile(load, 0.99) - 1.0;
            assert!((queue.waits_at_most(p99) - 0.99).abs() < 1e-9);
        }
        // Erlang's series at a wait of 1.5 service times, where it still is exact enough.
        let load: f64 = 0.7;
        let erlang: f64 = (0..2)
            .map(|k| {
                let x = load * (f64::from(k) - 1.5);
                (if k == 0 { 1.0 } else { x }) * math::exp(-x)
            })
            .sum();
        assert_near(Md1::new(load).waits_at_most(1.5), (1.0 - load) * erlang);
    }
}

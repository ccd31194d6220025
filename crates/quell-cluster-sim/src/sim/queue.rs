//! A service's queue: M/M/c, as Equation 5.2's derivation has M/M/1.

/// Mean time in the system and its 99th percentile, seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    /// Mean.
    pub mean: f64,
    /// 99th percentile: of the service alone, or of the wait and a mean service, whichever is more. Exact where all wait.
    pub p99: f64,
}

const LN_100: f64 = 4.605_170_185_988_092;

/// The times of requests that arrive `rate` a second, each of which takes one of `servers` for `service` seconds on average.
/// None: saturated.
#[must_use]
pub fn times(rate: f64, service: f64, servers: f64) -> Option<Times> {
    let offered = rate * service;
    let spare = servers / service - rate;
    if offered >= servers || !spare.is_finite() {
        return None;
    }
    // Erlang's C for whole servers; a fraction of a server is one that is so much slower.
    let whole = libm::ceil(servers).max(1.0);
    let service = service * whole / servers;
    let offered = rate * service;
    let mut blocked = 1.0;
    for server in 1..=whole as u32 {
        blocked = offered * blocked / (f64::from(server) + offered * blocked);
    }
    let busy = offered / whole;
    let waits = blocked / (1.0 - busy * (1.0 - blocked));
    let wait_p99 = libm::log((100.0 * waits).max(1.0)) / spare;
    Some(Times { mean: service + waits / spare, p99: (service * LN_100).max(service + wait_p99) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_server_is_the_textbooks() {
        let found = times(800.0, 1e-3, 1.0).unwrap();
        assert!((found.mean - 5e-3).abs() < 1e-9, "{found:?}");
        // Exactly ln(100) / (μ − λ) = 23.03 ms.
        assert!((found.p99 / 23.03e-3 - 1.0).abs() < 0.03, "{found:?}");
        assert_eq!(times(1000.0, 1e-3, 1.0), None);
    }

    #[test]
    fn two_servers_wait_less_than_one_of_the_same_capacity_is_busy() {
        // Erlang C for 2 servers at a load of 1.6: 0.7111; mean wait 0.7111 / 400 s.
        let found = times(1600.0, 1e-3, 2.0).unwrap();
        assert!((found.mean - (1e-3 + 0.7111 / 400.0)).abs() < 1e-6, "{found:?}");
        let idle = times(1.0, 1e-3, 2.0).unwrap();
        assert!((idle.p99 / (1e-3 * LN_100) - 1.0).abs() < 1e-3);
    }
}

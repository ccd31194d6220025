//! The watchdog of a systemd unit, as its processes are told of it (systemd.exec(5), sd_watchdog_enabled(3)).

use quell_model::Nanos;

use super::stat::number;

/// `WATCHDOG_USEC` and `WATCHDOG_PID` of a process's environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watchdog {
    /// WatchdogSec: after this time without a sign of life systemd ends the unit.
    pub every: Nanos,
    /// The process that gives the sign, by its number in its own namespace; None: any process of the unit.
    pub pid: Option<i32>,
}

impl Watchdog {
    /// Reads an environment, variables ended by zero bytes; None: no watchdog.
    #[must_use]
    pub fn of(environment: &[u8]) -> Option<Watchdog> {
        let value = |name: &[u8]| {
            let line = environment.split(|&byte| byte == 0).find_map(|line| line.strip_prefix(name));
            line.and_then(number)
        };
        let usec = value(b"WATCHDOG_USEC=").and_then(|usec| u64::try_from(usec).ok()).filter(|usec| *usec > 0)?;
        let pid = value(b"WATCHDOG_PID=").and_then(|pid| i32::try_from(pid).ok());
        Some(Watchdog { every: Nanos(usec.saturating_mul(1000)), pid })
    }

    /// The longest pause of its unit: less than half of WatchdogSec, because a unit gives a sign of life every half of it.
    #[must_use]
    pub fn longest_pause(&self) -> Nanos {
        Nanos(self.every.0 / 16 * 7)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_environment_says_if_there_is_a_watchdog() {
        let of = |text: &str| Watchdog::of(text.as_bytes());
        let told = of("PATH=/bin\0WATCHDOG_PID=42\0WATCHDOG_USEC=3000000\0").unwrap();
        assert_eq!(told, Watchdog { every: Nanos::from_secs(3), pid: Some(42) });
        assert!(told.longest_pause() < Nanos::from_millis(1500) && told.longest_pause() > Nanos::from_secs(1));
        assert_eq!(of("WATCHDOG_USEC=5\0").unwrap().pid, None);
        for none in ["", "PATH=/bin\0", "WATCHDOG_USEC=0\0", "WATCHDOG_USEC=x\0", "MY_WATCHDOG_USEC=5\0"] {
            assert_eq!(of(none), None, "{none:?}");
        }
        let most = of("WATCHDOG_USEC=18446744073709551615\0");
        assert!(most.is_none_or(|told| told.longest_pause() > Nanos::from_secs(1)), "none, as infinity is");
    }
}

//! Work that comes in phases: quiet, then busy, over and over.

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// A duty cycle. Every period begins quiet and ends busy; all threads change at the same instants.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// Length of a period, ns.
    pub period_ns: u64,
    /// Share of the period that is busy, above 0 and below 1.
    pub duty: f64,
}

impl Phase {
    /// # Errors
    /// [`Error::Spec`] for a period without length or a duty that leaves one of the two phases out.
    pub fn check(self) -> Result<()> {
        if self.period_ns == 0 {
            return Err(Error::Spec { field: "period", problem: "has no length".into(), fix: "give for example 1s" });
        }
        if !(self.duty > 0.0 && self.duty < 1.0) {
            return Err(Error::Spec {
                field: "duty",
                problem: self.duty.to_string(),
                fix: "give a share between 0 and 1",
            });
        }
        Ok(())
    }

    /// End of the present quiet phase, ns on the scale of `since_start_ns`; `None` while busy.
    #[must_use]
    pub fn quiet_until(self, since_start_ns: u64) -> Option<u64> {
        let quiet = (self.period_ns as f64 * (1.0 - self.duty)) as u64;
        let begin = since_start_ns - since_start_ns % self.period_ns;
        (since_start_ns < begin + quiet).then_some(begin + quiet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quiet_first_then_busy() {
        let phase = Phase { period_ns: 1_000, duty: 0.25 };
        assert_eq!(phase.quiet_until(0), Some(750));
        assert_eq!(phase.quiet_until(749), Some(750));
        assert_eq!(phase.quiet_until(750), None);
        assert_eq!(phase.quiet_until(999), None);
        assert_eq!(phase.quiet_until(3_100), Some(3_750));
        let busy = (0..10_000).filter(|ns| phase.quiet_until(*ns).is_none()).count();
        assert_eq!(busy, 2_500);
    }

    #[test]
    fn half_a_cycle_is_none() {
        for (period_ns, duty) in [(0, 0.5), (1, 0.0), (1, 1.0), (1, f64::NAN)] {
            assert!(Phase { period_ns, duty }.check().is_err());
        }
    }
}

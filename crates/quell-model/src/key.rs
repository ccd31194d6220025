//! Keys by which an owner asks for an effect on a workload, and the policies that act on them.

use serde::{Deserialize, Serialize};

use crate::{Class, CpuCount, Reservation, Workload};

/// A key of a workload's description that changes its treatment. (Name, class and selectors always count.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Key {
    /// [`Workload::cpus`].
    Cpus,
    /// [`Workload::limit`].
    Limit,
    /// [`Workload::reservation`].
    Reservation,
    /// [`Workload::slo`].
    Slo,
    /// [`Workload::grace`].
    Grace,
    /// [`Workload::pausable`].
    Pausable,
    /// [`Workload::demand`].
    Demand,
}

impl Key {
    /// Every key.
    pub const ALL: &'static [Key] =
        &[Key::Cpus, Key::Limit, Key::Reservation, Key::Slo, Key::Grace, Key::Pausable, Key::Demand];

    /// Its name in a configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Key::Cpus => "cpus",
            Key::Limit => "limit",
            Key::Reservation => "reservation",
            Key::Slo => "slo",
            Key::Grace => "grace",
            Key::Pausable => "pausable",
            Key::Demand => "demand",
        }
    }

    /// The owner's setting of this key, in the configuration's form; None: not set.
    #[must_use]
    pub fn asked(self, workload: &Workload) -> Option<String> {
        match self {
            Key::Cpus => (workload.cpus > CpuCount::ZERO).then(|| format!("cpus = {}", workload.cpus)),
            Key::Limit => workload.limit.map(|limit| format!("limit = {limit}")),
            Key::Reservation => {
                (workload.reservation == Reservation::Strict).then(|| "reservation = \"strict\"".to_owned())
            }
            Key::Slo => workload.slo.map(|slo| format!("slo = p{} below {}", slo.quantile * 100.0, slo.bound)),
            Key::Grace => workload.grace.map(|grace| format!("grace = {}", grace.time)),
            // Best-effort work may always be paused.
            Key::Pausable => (workload.pausable && workload.is_lc()).then(|| "pausable = true".to_owned()),
            Key::Demand => workload.demand.as_ref().map(|demand| format!("demand = {demand}")),
        }
    }
}

/// A key that a policy acts on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uses {
    /// The key.
    pub key: Key,
    /// On workloads of this class alone; None: of both.
    pub of: Option<Class>,
}

impl Uses {
    /// It acts on the key of every workload.
    #[must_use]
    pub const fn all(key: Key) -> Uses {
        Uses { key, of: None }
    }

    /// It acts on the key of latency-critical workloads alone.
    #[must_use]
    pub const fn critical(key: Key) -> Uses {
        Uses { key, of: Some(Class::LatencyCritical) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_at_its_default_is_not_asked_for() {
        let mut plain = Workload::new("a", Class::BestEffort, CpuCount::ZERO);
        assert!(Key::ALL.iter().all(|key| key.asked(&plain).is_none()));
        plain.limit = Some(CpuCount(500));
        assert_eq!(Key::Limit.asked(&plain).unwrap(), "limit = 0.5");
    }
}

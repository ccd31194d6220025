//! What the cgroups of a workload, and those above it, allow it: policies choose within.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{CpuCount, CpuSet, WorkloadId};

/// The CPUs and the CPU time that a workload may use at most, whatever is set on it. Values that Quell itself set are no part
/// of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allowance {
    /// The workload.
    pub workload: WorkloadId,
    /// The CPUs of its own cgroup and those above it; None: all.
    pub cpus: Option<CpuSet>,
    /// The tightest quota on its path; None: there is none.
    pub quota: Option<CpuCount>,
    /// Are real-time classes closed to its threads, by a cgroup without a budget for them (RT group scheduling)?
    #[serde(default)]
    pub no_realtime: bool,
}

impl Allowance {
    /// Does it limit anything?
    #[must_use]
    pub fn is_limited(&self) -> bool {
        self.cpus.is_some() || self.quota.is_some() || self.no_realtime
    }

    /// CPUs' worth of time that the workload can use at most; None: no limit.
    #[must_use]
    pub fn most(&self) -> Option<CpuCount> {
        let cpus = self.cpus.map(|cpus| CpuCount::whole(cpus.len() as u32));
        cpus.into_iter().chain(self.quota).min()
    }
}

/// As `CPUs 0-1 and 0.5 CPUs of time`.
impl fmt::Display for Allowance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.cpus, self.quota) {
            (Some(cpus), Some(quota)) => write!(f, "CPUs {cpus} and {quota} CPUs of time"),
            (Some(cpus), None) => write!(f, "CPUs {cpus}"),
            (None, Some(quota)) => write!(f, "{quota} CPUs of time"),
            (None, None) => f.write_str("all CPUs"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_what_it_limits() {
        let all = Allowance { workload: WorkloadId(0), cpus: None, quota: None, no_realtime: false };
        let cpus = Allowance { cpus: Some("0-1".parse().unwrap()), ..all };
        let both = Allowance { quota: Some(CpuCount(500)), ..cpus };
        assert_eq!((all.to_string(), all.most()), ("all CPUs".into(), None));
        assert_eq!((cpus.to_string(), cpus.most()), ("CPUs 0-1".into(), Some(CpuCount(2000))));
        assert_eq!((both.to_string(), both.most()), ("CPUs 0-1 and 0.5 CPUs of time".into(), Some(CpuCount(500))));
    }
}

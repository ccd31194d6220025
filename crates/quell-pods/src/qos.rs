//! The quality-of-service class that Kubernetes gives a pod.

use std::fmt;

/// A pod's class in Kubernetes: where its cgroup lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Qos {
    /// Every container has a limit, and its request equals it.
    Guaranteed,
    /// Some container has a request or a limit.
    Burstable,
    /// No container has either.
    BestEffort,
}

impl fmt::Display for Qos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Qos::Guaranteed => "Guaranteed",
            Qos::Burstable => "Burstable",
            Qos::BestEffort => "BestEffort",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_written_as_kubernetes_writes_it() {
        let all = [Qos::Guaranteed, Qos::Burstable, Qos::BestEffort].map(|qos| qos.to_string());
        assert_eq!(all, ["Guaranteed", "Burstable", "BestEffort"]);
    }
}

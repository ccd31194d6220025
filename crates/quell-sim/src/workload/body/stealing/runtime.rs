//! What a runtime is made of.

use quell_model::Nanos;
use serde::{Deserialize, Serialize};

use crate::workload::body::source::Forward;

/// What the runtime does for how long, as CPU time. All but `spin` are assumptions: caladan-osdi20 does not say. The experiments
/// take theirs from `papers/caladan/assumptions.toml`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Runtime {
    /// A thread that finds nothing looks about for this long before it parks (2 µs: `RUNTIME_SCHED_MIN_POLL_US` in the
    /// published sources of Shenango and Caladan).
    pub spin: Nanos,
    /// One green thread gives way to the next (assumed: 50 ns, a function call and a few registers).
    pub switch: Nanos,
    /// Taking work from another thread's queue (assumed: 100 ns, a few cache misses).
    pub steal: Nanos,
    /// Parking: a system call (assumed: 500 ns). What the kernel's switch costs comes on top.
    pub park: Nanos,
    /// Making a green thread of a packet; zero: requests come as green threads.
    #[serde(skip_serializing_if = "crate::config::is_zero")]
    pub packet: Nanos,
    /// Every request waits this long for a device when half of its work is done; zero: none does.
    #[serde(skip_serializing_if = "crate::config::is_zero")]
    pub storage: Nanos,
    /// Requests come through a core that forwards them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forward: Option<Forward>,
}

impl Default for Runtime {
    fn default() -> Runtime {
        Runtime { spin: Nanos(2_000), switch: Nanos(50), steal: Nanos(100), park: Nanos(500), ..Runtime::FREE }
    }
}

impl Runtime {
    /// Nothing costs anything, and no thread spins: for comparisons with theory.
    pub const FREE: Runtime = Runtime {
        spin: Nanos(0),
        switch: Nanos(0),
        steal: Nanos(0),
        park: Nanos(0),
        packet: Nanos(0),
        storage: Nanos(0),
        forward: None,
    };

    pub(crate) fn check(&self) -> Result<(), String> {
        let second = Nanos::from_secs(1);
        let forward = self.forward.unwrap_or(Forward { each: Nanos(1), memory: Nanos(0) });
        match self {
            _ if self.spin > second => {
                Err(format!("its threads spin for {} before they park: make it a second at most", self.spin))
            }
            _ if self.packet > second || self.storage > second || forward.each > second => {
                Err("a packet, a device or forwarding that takes longer than a second: make it shorter".into())
            }
            _ if forward.each == Nanos(0) || forward.memory > forward.each => {
                Err("forwarding takes `each` more than nothing, of which `memory` is a part".into())
            }
            _ => Ok(()),
        }
    }
}

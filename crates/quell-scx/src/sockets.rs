//! Since when the workloads' sockets have unread data.

use std::sync::atomic::Ordering::{Acquire, Relaxed};

use libbpf_rs::btf::{self, Btf};
use quell_model::{Nanos, Quality, Sample};

use crate::ScxError;
use crate::layout::WorkloadState;
use crate::program::{Grant, refused};

/// Has the kernel the tracepoints where data comes, is read, and is given up?
pub(crate) fn are_traceable(types: &Btf<'_>) -> bool {
    ["btf_trace_sk_data_ready", "btf_trace_tcp_rcv_space_adjust", "btf_trace_inet_sock_set_state"]
        .iter()
        .all(|name| types.type_by_name::<btf::types::Typedef<'_>>(name).is_some())
}

/// Can this kernel report unread data? False if it does not say.
pub(crate) fn can_be_watched() -> bool {
    Btf::from_vmlinux().is_ok_and(|types| are_traceable(&types))
}

impl Grant {
    /// From now on the age of unread data is known of the TCP sockets that a latency-critical workload reads from, each from
    /// its first reading on. It costs every piece of data that comes or is read some hundred instructions.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn watch_sockets(&mut self) -> Result<(), ScxError> {
        if !self.sockets.is_empty() || !self.can_watch_sockets() {
            return Ok(());
        }
        let step = "listening to sockets";
        for program in ["socket_closes", "data_read", "data_came"] {
            self.sockets.push(self.kernel.listen(program).map_err(refused(step))?);
        }
        Ok(())
    }

    /// Has this kernel what [`Grant::watch_sockets`] takes?
    #[must_use]
    pub fn can_watch_sockets(&self) -> bool {
        self.kernel.has("data_came")
    }
}

/// Nothing is known of any socket: the slot is another workload's now.
pub(crate) fn forget(state: &WorkloadState) {
    state.unread.store(0, Relaxed);
    state.unread_since.iter().for_each(|since| since.store(0, Relaxed));
}

/// Since when the socket has unread data that has it longest. An estimate while more sockets have some than are remembered.
pub(crate) fn unread_delay(state: &WorkloadState, now: Nanos) -> Sample<Nanos> {
    let places = state.unread.load(Acquire);
    let times = state.unread_since.iter().enumerate().filter(|(place, _)| places >> place & 1 == 1);
    let oldest = times.map(|(_, since)| since.load(Acquire)).filter(|&since| since != 0).min();
    let quality = if places == u64::MAX { Quality::Estimated } else { Quality::Exact };
    Sample { quality, ..Sample::exact(oldest.map_or(Nanos::ZERO, |since| now - Nanos(since)), now) }
}

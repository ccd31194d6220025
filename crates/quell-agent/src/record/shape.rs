//! Whether the columns of a recorded turn fit together, as policies may take for granted of a host's.

use quell_model::Topology;
use quell_model::view::{CpuColumns, ThreadColumns, WorkloadColumns};

use super::format::Turn;

/// What does not fit, if something does not.
pub(super) fn misfit(turn: &Turn<'_>, topology: &Topology) -> Option<String> {
    let WorkloadColumns {
        spec,
        queueing_delay,
        unread_delay,
        run_time,
        run_delay,
        thread_count,
        latency,
        llc_hit_ratio,
        memory_bandwidth,
        instruction_rate,
    } = &*turn.workloads;
    let CpuColumns { holder, request_start, llc_misses, .. } = &*turn.cpus;
    let ThreadColumns {
        at: _,
        id,
        workload,
        state,
        cpu,
        run_time: ran,
        run_delay: waited,
        class,
        preemptions,
        wake_ups,
    } = &*turn.threads;
    let per_workload = [
        queueing_delay.len(),
        unread_delay.len(),
        run_time.len(),
        run_delay.len(),
        thread_count.len(),
        latency.len(),
        llc_hit_ratio.len(),
        memory_bandwidth.len(),
        instruction_rate.len(),
    ];
    let per_cpu = [holder.len(), request_start.len(), llc_misses.len()];
    let per_thread = [workload.len(), state.len(), cpu.len(), ran.len(), waited.len(), class.len()];
    let edges = [wake_ups.waker.len(), wake_ups.woken.len(), wake_ups.count.len()];
    let slots = spec.len();
    if per_workload.iter().any(|&len| len != 0 && len != slots) {
        return Some(format!("columns of {per_workload:?} workloads where there are {slots}"));
    }
    if per_cpu.iter().any(|&len| len != 0 && len != topology.columns()) {
        return Some(format!("columns of {per_cpu:?} CPUs where there are {}", topology.columns()));
    }
    if per_thread.iter().any(|&len| len != id.len()) {
        return Some(format!("columns of {per_thread:?} threads where there are {}", id.len()));
    }
    if ![0, id.len()].contains(&preemptions.len()) {
        return Some(format!("preemptions of {} threads where there are {}", preemptions.len(), id.len()));
    }
    if edges.iter().any(|&len| len != edges[0]) {
        return Some(format!("columns of {edges:?} wake-up edges where there are {}", edges[0]));
    }
    let owners = workload.iter().chain(holder.iter().flatten());
    owners
        .copied()
        .find(|owner| owner.index() >= slots)
        .map(|owner| format!("a thread or CPU of workload {} where there are {slots}", owner.0))
}

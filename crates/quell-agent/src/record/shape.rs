//! Consistency of a recorded turn's columns, as policies may take it for granted of a host's.

use quell_model::{Signal, Topology};

use super::format::Turn;

/// The first inconsistency, if any.
pub(super) fn misfit(turn: &Turn<'_>, topology: &Topology) -> Option<String> {
    let (workloads, cpus, threads) = (&*turn.workloads, &*turn.cpus, &*turn.threads);
    let (slots, columns, rows) = (workloads.spec.len(), topology.columns(), threads.id.len());
    // Columns of signals that were not wanted are empty.
    let optional = (workloads.lengths().map(|column| (column, slots, "workloads")))
        .chain(cpus.lengths().map(|column| (column, columns, "CPUs")))
        .chain(threads.lengths().map(|column| (column, rows, "threads")))
        .chain([((Signal::Holder, cpus.holder.len()), columns, "CPUs")]);
    for ((signal, length), rows, what) in optional {
        if length != 0 && length != rows {
            return Some(format!("the column '{}' has {length} rows where there are {rows} {what}", signal.name()));
        }
    }
    let per_thread = [
        threads.workload.len(),
        threads.state.len(),
        threads.cpu.len(),
        threads.run_time.len(),
        threads.run_delay.len(),
        threads.class.len(),
    ];
    if per_thread.iter().any(|&length| length != rows) {
        return Some(format!("columns of {per_thread:?} threads where there are {rows}"));
    }
    let edges = [threads.wake_ups.waker.len(), threads.wake_ups.woken.len(), threads.wake_ups.count.len()];
    if edges.iter().any(|&length| length != edges[0]) {
        return Some(format!("columns of {edges:?} wake-up edges where there are {}", edges[0]));
    }
    let owners = threads.workload.iter().chain(cpus.holder.iter().flatten());
    owners
        .copied()
        .find(|owner| owner.index() >= slots)
        .map(|owner| format!("a thread or CPU of workload {} where there are {slots}", owner.0))
}

//! The memory that the scheduler shares with us, as `bpf/grant.h` lays it out. All of it is read and written by several
//! CPUs at once, hence atomics.

use std::sync::atomic::{AtomicU32, AtomicU64};

/// CPUs that the scheduler knows.
pub(crate) const MAX_CPUS: usize = 1024;
/// Workloads that it knows.
pub(crate) const MAX_SLOTS: usize = 1023;
pub(crate) const SIBLINGS: usize = 3;
/// Waiting threads of a workload whose waiting time is known exactly.
pub(crate) const QUEUE_TIMES: usize = 64;
/// Sockets of a workload that have unread data, at once.
pub(crate) const UNREAD_TIMES: usize = 64;
/// A CPU that was yielded, or was never granted.
pub(crate) const NOBODY: u32 = u32::MAX;
/// A CPU that was revoked.
pub(crate) const PARKED: u32 = u32::MAX - 1;
/// Wakes a loader that listens: queues that formed, CPUs that came or went …
pub(crate) const NEWS: u32 = 1;
/// … and CPUs that were yielded.
pub(crate) const YIELDS: u32 = 2;
pub(crate) const NO_CPU: u32 = u32::MAX;

/// `struct workload`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct WorkloadState {
    pub attached: AtomicU32,
    pub lc: AtomicU32,
    pub on_wake_up: AtomicU32,
    pub guaranteed: AtomicU32,
    pub burst: AtomicU32,
    pub limit: AtomicU32,
    pub in_line: AtomicU32,
    pub rank: AtomicU32,
    pub held: AtomicU32,
    pub grace_signal: AtomicU32,
    pub grace_ns: AtomicU64,
    pub pulls: AtomicU32,
    pub queued: AtomicU64,
    pub taken: AtomicU64,
    pub formed: AtomicU64,
    pub run_time: AtomicU64,
    pub vtime: AtomicU64,
    pub crowded_at: AtomicU64,
    pub since: [AtomicU64; QUEUE_TIMES],
    pub unread: AtomicU64,
    pub unread_since: [AtomicU64; UNREAD_TIMES],
}

/// `struct cpu`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct CpuState {
    pub holder: AtomicU32,
    pub in_pool: AtomicU32,
    pub online: AtomicU32,
    pub away: AtomicU32,
    pub sibling: [AtomicU32; SIBLINGS],
    pub runs: AtomicU32,
    pub request_start: AtomicU64,
    pub banned_for: AtomicU64,
    pub yields: AtomicU64,
    pub system_since: AtomicU64,
    pub system_until: AtomicU64,
    pub look_at: AtomicU64,
    pub look_for_system_at: AtomicU64,
    pub yielder: AtomicU32,
    pub awaits: AtomicU32,
    pub runs_idle: AtomicU32,
    pub hog: AtomicU32,
    pub stopped: AtomicU32,
    pub starving: AtomicU32,
    pub stopped_at: AtomicU64,
    pub unserved: AtomicU64,
    pub stays: AtomicU32,
    pub fetch: AtomicU32,
    pub tid: AtomicU32,
    pub leaving: AtomicU32,
    pub away_since: AtomicU64,
}

/// `struct shared`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Shared {
    pub nr_cpus: AtomicU32,
    pub nr_slots: AtomicU32,
    pub generation: AtomicU32,
    pub listening: AtomicU32,
    pub starving_ns: AtomicU64,
    pub system_ns: AtomicU64,
    pub lc_slice_ns: AtomicU64,
    pub be_slice_ns: AtomicU64,
    pub preemptions: AtomicU64,
    pub starved: AtomicU64,
    pub kick: [AtomicU64; MAX_CPUS / 64],
    pub drain: AtomicU64,
    pub stuck_before: AtomicU64,
    pub exit_kind: AtomicU64,
    pub bans: AtomicU64,
    pub fetches: AtomicU64,
    pub loops_thread: AtomicU64,
    pub cpu: [CpuState; MAX_CPUS],
    pub workload: [WorkloadState; MAX_SLOTS + 1],
}

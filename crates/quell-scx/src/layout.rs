//! The memory that the scheduler shares with us, as `bpf/lib/grant.h` lays it out. All of it is read and written by several
//! CPUs at once, hence atomics. The compiler holds every field against the type that libbpf read from the program.

use std::mem::{offset_of, size_of};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicU64};

use quell_model::Nanos;

use crate::program::types;

/// A structure of the header with its fields as atomics; it does not compile where name, place or size differ.
macro_rules! as_in_the_header {
    ($(#[$doc:meta])* $name:ident = $c:ident { $($field:ident: $type:ty,)+ }) => {
        $(#[$doc])*
        #[repr(C)]
        #[derive(Debug)]
        pub struct $name {
            $(pub $field: $type,)+
        }

        const _: () = {
            assert!(size_of::<$name>() == size_of::<types::$c>());
            $(
                assert!(offset_of!($name, $field) == offset_of!(types::$c, $field));
            )+
        };
    };
}

/// CPUs that the scheduler knows.
pub const MAX_CPUS: usize = 1024;
/// Workloads that it knows.
pub const MAX_SLOTS: usize = 1023;
pub const SIBLINGS: usize = 3;
/// Servers of one CPU.
pub const SERVERS: usize = 4;
/// Threads that are given weights at once.
pub const MAX_SETTINGS: usize = 256;
/// Waiting threads of a workload whose waiting time is known exactly.
pub const QUEUE_TIMES: usize = 64;
/// Sockets of a workload that have unread data, at once.
pub const UNREAD_TIMES: usize = 64;
/// A CPU that was yielded, or was never granted.
pub const NO_SLOT: u32 = u32::MAX;
/// A CPU that was revoked.
pub const PARKED: u32 = u32::MAX - 1;
/// Wakes a loader that listens: queues that formed, CPUs that came or went …
pub const NEWS: u32 = 1;
/// … and CPUs that were yielded.
pub const YIELDS: u32 = 2;
/// But for queues of best-effort work that has a place in the line, which were reported just now.
pub const CALM: u32 = 4;
pub const NO_CPU: u32 = u32::MAX;
/// A leader's queue is by weighted run time …
pub const BY_WEIGHT: u32 = 1;
/// … or first come, first served within the services' shares.
pub const BY_PROGRESS: u32 = 2;
/// Of CPUs, by who holds them and what is beside them.
pub const CPU_KINDS: usize = 6;
pub const KIND_SETS: usize = 8;
/// Sets of CPUs that are near each other.
pub const SETS: usize = 128;

as_in_the_header! {
    /// `struct workload`.
    #[repr(align(64))]
    WorkloadState = workload {
        attached: AtomicU32,
        lc: AtomicU32,
        on_wake_up: AtomicU32,
        guaranteed: AtomicU32,
        burst: AtomicU32,
        limit: AtomicU32,
        in_line: AtomicU32,
        rank: AtomicU32,
        servers: AtomicU32,
        leads: AtomicU32,
        leader: AtomicU32,
        grace_signal: AtomicU32,
        grace_ns: AtomicU64,
        room: AtomicU64,
        held: AtomicU32,
        pulls: AtomicU32,
        queued: AtomicU64,
        taken: AtomicU64,
        formed: AtomicU64,
        run_time: AtomicU64,
        vtime: AtomicU64,
        crowded_at: AtomicU64,
        unread: AtomicU64,
        since: [AtomicU64; QUEUE_TIMES],
        unread_since: [AtomicU64; UNREAD_TIMES],
    }
}

as_in_the_header! {
    /// `struct cpu`.
    #[repr(align(64))]
    CpuState = cpu {
        in_pool: AtomicU32,
        online: AtomicU32,
        sibling: [AtomicU32; SIBLINGS],
        cache: AtomicU32,
        place: [AtomicU32; 2],
        banned_for: AtomicU64,
        room: [AtomicU64; 3],
        holder: AtomicU32,
        away: AtomicU32,
        hog: AtomicU32,
        away_since: AtomicU64,
        yields: AtomicU64,
        yielder: AtomicU32,
        kept: AtomicU32,
        fetch: AtomicU32,
        leaving: AtomicU32,
        one_more: AtomicU32,
        more_room: [AtomicU64; 2],
        runs: AtomicU32,
        runs_idle: AtomicU32,
        tid: AtomicU32,
        starving: AtomicU32,
        request_start: AtomicU64,
        stopped_at: AtomicU64,
        unserved: AtomicU64,
        system_since: AtomicU64,
        system_until: AtomicU64,
        look_at: AtomicU64,
        look_for_system_at: AtomicU64,
        awaits_from: AtomicU64,
        awaits: AtomicU32,
        stopped: AtomicU32,
        most_room: [AtomicU64; 5],
    }
}

as_in_the_header! {
    /// `struct server`.
    ServerState = server {
        on: AtomicU32,
        slot: AtomicU32,
        priority: AtomicU32,
        given: AtomicU32,
        budgets: [AtomicU64; 2],
        periods: [AtomicU64; 2],
        budget: AtomicU64,
        period: AtomicU64,
        left: AtomicU64,
        next_period: AtomicU64,
        reported_until: AtomicU64,
        exhausted: AtomicU64,
        overrun: AtomicU64,
    }
}

as_in_the_header! {
    /// `struct serving`.
    ServingState = serving {
        servers: AtomicU32,
        served: AtomicU32,
        comes: AtomicU32,
        turn_until: AtomicU64,
        waits_until: AtomicU64,
        timer_at: AtomicU64,
        serve_at: AtomicU64,
        server: [ServerState; SERVERS],
    }
}

as_in_the_header! {
    /// `struct setting`.
    SettingState = setting {
        tid: AtomicU32,
        weight: AtomicU32,
        latency: AtomicU64,
        waits_in: AtomicU64,
    }
}

as_in_the_header! {
    /// `struct set`.
    #[repr(align(64))]
    Set = set {
        words: AtomicU64,
        room: [AtomicU64; 7],
        word: [AtomicU64; MAX_CPUS / 64],
    }
}

as_in_the_header! {
    /// `struct line`.
    #[repr(align(64))]
    LineState = line {
        version: AtomicU64,
    }
}

as_in_the_header! {
    /// `struct shared`.
    Shared = shared {
        nr_cpus: AtomicU32,
        nr_slots: AtomicU32,
        generation: AtomicU32,
        listening: AtomicU32,
        starving_ns: AtomicU64,
        system_ns: AtomicU64,
        lc_slice_ns: AtomicU64,
        be_slice_ns: AtomicU64,
        kick: [AtomicU64; MAX_CPUS / 64],
        drain: AtomicU64,
        stuck_before: AtomicU64,
        exit_kind: AtomicU64,
        bans: AtomicU64,
        fetches: AtomicU64,
        loops_thread: AtomicU64,
        unplaced: AtomicU64,
        wake_up_latency_ns: AtomicU64,
        nr_settings: AtomicU32,
        nr_caches: AtomicU32,
        setting: [SettingState; MAX_SETTINGS],
        begins: AtomicU64,
        drain_server: AtomicU64,
        sets: AtomicU64,
        cpu: [CpuState; MAX_CPUS],
        workload: [WorkloadState; MAX_SLOTS + 1],
        serving: [ServingState; MAX_CPUS],
        of_kind: [Set; KIND_SETS],
        waiting: [Set; 2],
        at_place: [Set; SETS],
        line: LineState,
    }
}

impl ServerState {
    /// Its first period begins now, with a full budget. It is not on yet.
    pub fn begin(&self, budget: Nanos, period: Nanos, now: Nanos) {
        let (budget, period) = cut(budget, period);
        self.given.store(0, Relaxed);
        for (ours, value) in [(&self.budgets[0], budget), (&self.periods[0], period)] {
            ours.store(value.0, Relaxed);
        }
        for (ours, value) in [(&self.budget, budget), (&self.period, period), (&self.left, budget)] {
            ours.store(value.0, Relaxed);
        }
        self.next_period.store((now + period).0, Relaxed);
        self.reported_until.store(0, Relaxed);
        self.overrun.store(0, Relaxed);
    }

    /// Another budget and period count from the next period on. The same ones again change nothing.
    pub fn set(&self, budget: Nanos, period: Nanos) {
        let (budget, period) = cut(budget, period);
        let other = (self.given.load(Relaxed) + 1) % 2;
        self.budgets[other as usize].store(budget.0, Relaxed);
        self.periods[other as usize].store(period.0, Relaxed);
        self.given.store(other, Release);
    }
}

/// As the reference function has it.
fn cut(budget: Nanos, period: Nanos) -> (Nanos, Nanos) {
    let period = period.max(Nanos(1));
    (budget.min(period), period)
}

impl Shared {
    /// The CPU goes from one holder to another, if the one still has it: true if that is a change. None: it has not, or the
    /// CPU is offline, and a workload may not have it.
    pub fn hand_on(&self, cpu: usize, from: u32, to: u32) -> Option<bool> {
        let held = |slot: u32| self.workload[..MAX_SLOTS].get(slot as usize).map(|state| &state.held);
        let state = &self.cpu[cpu % MAX_CPUS];
        if from == to {
            return (state.holder.load(Acquire) == to).then_some(false);
        }
        // Counted first: the scheduler must not give it one more than its limit meanwhile.
        if let Some(held) = held(to) {
            held.fetch_add(1, SeqCst);
        }
        let handed = state.holder.compare_exchange(from, to, SeqCst, SeqCst).is_ok();
        if let Some(held) = held(if handed { from } else { to }) {
            held.fetch_sub(1, SeqCst);
        }
        // It may have gone offline since it was looked at: either that sees the new holder, or it is seen here.
        let Some(gains) = held(to).filter(|_| handed && state.online.load(SeqCst) == 0) else {
            self.sort_core(cpu);
            return handed.then_some(true);
        };
        if state.holder.compare_exchange(to, NO_SLOT, SeqCst, SeqCst).is_ok() {
            gains.fetch_sub(1, SeqCst);
        }
        self.sort_core(cpu);
        None
    }
}

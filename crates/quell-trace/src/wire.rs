//! The byte layouts that the BPF program writes (`bpf/trace.h`), read without trust in alignment.

use quell_model::{CpuId, Nanos};

use crate::event::{Change, Doing, Event, Left, Member, Slot, Task};

const HOLDER_IDLE: u16 = 0xfffe;
const HOLDER_OTHER: u16 = 0xffff;

/// Bytes of a `struct totals`.
const TOTALS_BYTES: usize = 48;
/// Bytes of a `struct member`.
const MEMBER_BYTES: usize = TOTALS_BYTES + 24;
/// After a wake-up a thread that waits longer than that for a CPU starts late.
pub const LATE_START: Nanos = Nanos::from_millis(4);

/// Room for readings of counts: kept for its memory.
#[derive(Default)]
pub(crate) struct Room {
    pub(crate) keys: Vec<u32>,
    pub(crate) bytes: Vec<u8>,
    pub(crate) counts: Vec<Counts>,
}

/// The `N` bytes at an offset; `None` past the end.
fn bytes<const N: usize>(data: &[u8], at: usize) -> Option<[u8; N]> {
    data.get(at..at + N)?.try_into().ok()
}

pub(crate) fn u16_at(data: &[u8], at: usize) -> Option<u16> {
    bytes(data, at).map(u16::from_ne_bytes)
}

pub(crate) fn u32_at(data: &[u8], at: usize) -> Option<u32> {
    bytes(data, at).map(u32::from_ne_bytes)
}

pub(crate) fn i32_at(data: &[u8], at: usize) -> Option<i32> {
    bytes(data, at).map(i32::from_ne_bytes)
}

fn u64_at(data: &[u8], at: usize) -> Option<u64> {
    bytes(data, at).map(u64::from_ne_bytes)
}

pub(crate) fn task(tid: i32, slot: Slot) -> Task {
    match slot {
        HOLDER_IDLE => Task::Idle,
        HOLDER_OTHER => Task::Other(tid),
        slot => Task::Member(Member { tid, slot }),
    }
}

/// A `struct event`; `None` if the bytes are none.
pub fn event(data: &[u8]) -> Option<Event> {
    let (tid, next_tid) = (i32_at(data, 8)?, i32_at(data, 12)?);
    let (cpu, slot, next_slot) = (u16_at(data, 16)?, u16_at(data, 18)?, u16_at(data, 20)?);
    let (kind, state) = (*data.get(22)?, *data.get(23)?);
    let member = Member { tid, slot };
    let what = match kind {
        0 => Change::Switch { from: task(tid, slot), left: left(state)?, to: task(next_tid, next_slot) },
        1 => Change::Woke(member),
        2 => Change::Migrated(member),
        3 => Change::Born(member),
        4 => Change::Seen(member, doing(state)?),
        5 => Change::Holds(task(tid, slot)),
        _ => return None,
    };
    Some(Event { at: Nanos(u64_at(data, 0)?), cpu: CpuId(u32::from(cpu)), what })
}

fn left(state: u8) -> Option<Left> {
    [Left::Runnable, Left::Blocked, Left::Dead, Left::Untold].get(usize::from(state)).copied()
}

fn doing(state: u8) -> Option<Doing> {
    [Doing::Running, Doing::Waiting, Doing::Sleeping].get(usize::from(state)).copied()
}

/// Totals of a thread since it is watched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// On a CPU, up to the last time they left one.
    pub run: Nanos,
    /// Runnable and not on a CPU, up to the last time they got one.
    pub delay: Nanos,
    /// Times they got a CPU.
    pub switches: u64,
    /// Times they lost the CPU while they could have gone on: preempted, or yielded.
    pub preemptions: u64,
    /// Times they were woken.
    pub wakeups: u64,
    /// Times they waited longer for a CPU after that than [`LATE_START`].
    pub late_starts: u64,
}

/// State of a watched thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watched {
    /// Totals up to its last event.
    pub totals: Totals,
    /// Its present state.
    pub doing: Doing,
    /// Start of that state; zero while nothing is known of it.
    pub since: Nanos,
}

/// Events that are counted by workload, at most.
pub const COUNTED_EVENTS: usize = 5;
/// Bytes of a `struct counted`.
pub const COUNTED_BYTES: usize = COUNTED_EVENTS * 8;

/// What counters counted while a workload's threads ran, by event.
pub type Counts = [u64; COUNTED_EVENTS];

/// The time of one event's counters, over all CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CounterTime {
    /// For which they were to count.
    pub enabled: Nanos,
    /// For which they had the hardware: less, if other programs count too.
    pub running: Nanos,
}

/// Adds a `struct counted` of each CPU.
pub fn counted(data: &[u8]) -> Counts {
    let mut sum = Counts::default();
    for (at, word) in data.chunks_exact(8).enumerate() {
        sum[at % COUNTED_EVENTS] += u64_at(word, 0).unwrap_or(0);
    }
    sum
}

/// The times at the beginning of a `struct base`.
pub fn counter_times(data: &[u8]) -> [CounterTime; COUNTED_EVENTS] {
    let word = |at| Nanos(u64_at(data, at).unwrap_or(0));
    std::array::from_fn(|event| CounterTime { enabled: word(16 * event), running: word(16 * event + 8) })
}

impl std::ops::AddAssign for Totals {
    fn add_assign(&mut self, other: Totals) {
        self.run += other.run;
        self.delay += other.delay;
        self.switches += other.switches;
        self.preemptions += other.preemptions;
        self.wakeups += other.wakeups;
        self.late_starts += other.late_starts;
    }
}

/// A `struct totals`.
pub fn totals(data: &[u8]) -> Option<Totals> {
    Some(Totals {
        run: Nanos(u64_at(data, 0)?),
        delay: Nanos(u64_at(data, 8)?),
        switches: u64_at(data, 16)?,
        preemptions: u64_at(data, 24)?,
        wakeups: u64_at(data, 32)?,
        late_starts: u64_at(data, 40)?,
    })
}

/// The slot of a `struct member`, and all else of it.
pub fn member(data: &[u8]) -> Option<(Slot, Watched)> {
    let since = Nanos(u64_at(data, TOTALS_BYTES)?);
    let doing = doing(*data.get(TOTALS_BYTES + 8)?)?;
    let known = Watched { totals: totals(data)?, doing, since };
    Some((u16_at(data, TOTALS_BYTES + 12)?, known))
}

/// A `struct member` of a thread of which nothing is known yet.
pub fn unknown_member(slot: Slot) -> [u8; MEMBER_BYTES] {
    const SLEEPING: u32 = 2;
    let mut data = [0; MEMBER_BYTES];
    data[TOTALS_BYTES + 8..TOTALS_BYTES + 12].copy_from_slice(&SLEEPING.to_ne_bytes());
    data[TOTALS_BYTES + 12..TOTALS_BYTES + 14].copy_from_slice(&slot.to_ne_bytes());
    data[TOTALS_BYTES + 16..].copy_from_slice(&LATE_START.0.to_ne_bytes());
    data
}

/// Waker and wakee of a `struct edge`.
pub fn edge(data: &[u8]) -> Option<(i32, i32)> {
    Some((i32_at(data, 0)?, i32_at(data, 4)?))
}

/// A `struct edge`; a waker that is not watched is 0.
pub fn edge_key(waker: i32, wakee: i32) -> [u8; 8] {
    let mut key = [0; 8];
    key[..4].copy_from_slice(&waker.to_ne_bytes());
    key[4..].copy_from_slice(&wakee.to_ne_bytes());
    key
}

/// A `struct name`.
pub fn name(data: &[u8]) -> String {
    let end = data.iter().position(|&byte| byte == 0).unwrap_or(data.len());
    String::from_utf8_lossy(&data[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENT_BYTES: usize = 24;

    #[test]
    fn short_or_foreign_bytes_are_no_event() {
        let whole = [0u8; EVENT_BYTES];
        assert!(event(&whole).is_some());
        for length in 0..EVENT_BYTES {
            assert!(event(&whole[..length]).is_none(), "{length}");
        }
        let mut foreign = whole;
        foreign[22] = 200;
        assert!(event(&foreign).is_none());
        let mut wrong_state = whole;
        wrong_state[23] = 4;
        assert!(event(&wrong_state).is_none());
    }

    #[test]
    fn counts_are_the_sum_of_all_cpus() {
        let data: Vec<u8> = (1..=10u64).flat_map(u64::to_ne_bytes).collect();
        assert_eq!((data.len(), counted(&data)), (2 * COUNTED_BYTES, [1 + 6, 2 + 7, 3 + 8, 4 + 9, 5 + 10]));
        assert_eq!(counter_times(&data)[1], CounterTime { enabled: Nanos(3), running: Nanos(4) });
    }

    #[test]
    fn a_new_member_reads_back() {
        let nothing = Watched { totals: Totals::default(), doing: Doing::Sleeping, since: Nanos::ZERO };
        assert_eq!(member(&unknown_member(7)), Some((7, nothing)));
    }
}

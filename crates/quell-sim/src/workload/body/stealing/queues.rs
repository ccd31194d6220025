//! What a runtime's kernel threads have to do.

use std::collections::VecDeque;

use crate::workload::body::Request;

/// Packets, or completions, that are taken in at once (`RUNTIME_RX_BATCH_SIZE` in the published source).
const BATCH: usize = 32;

/// A green thread that no thread runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queued {
    pub request: Request,
    pub since: u64,
}

/// What a kernel thread has to do.
#[derive(Clone, Debug, Default)]
pub(super) struct Queues {
    pub green: VecDeque<Queued>,
    pub packets: VecDeque<Queued>,
    pub completions: VecDeque<Queued>,
}

impl Queues {
    fn all(&self) -> [&VecDeque<Queued>; 3] {
        [&self.green, &self.packets, &self.completions]
    }

    pub fn all_mut(&mut self) -> [&mut VecDeque<Queued>; 3] {
        [&mut self.green, &mut self.packets, &mut self.completions]
    }

    pub fn is_empty(&self) -> bool {
        self.all().iter().all(|queue| queue.is_empty())
    }

    /// The sum of the delays of the oldest elements, ns.
    pub fn delay(&self, now: u64) -> Option<u64> {
        let delays = self.all().map(|queue| queue.front().map(|queued| now - queued.since));
        delays.iter().flatten().copied().reduce(|sum, delay| sum + delay)
    }

    /// Makes green threads of what came, at most a batch of each kind, and says how many packets that were.
    pub fn take_in(&mut self, now: u64) -> u64 {
        let [completions, packets] = [&self.completions, &self.packets].map(|queue| queue.len().min(BATCH));
        let came = self.completions.drain(..completions).chain(self.packets.drain(..packets));
        self.green.extend(came.map(|queued| Queued { since: now, ..queued }));
        packets as u64
    }
}

/// One's queues and the other's.
pub(super) fn pair(queues: &mut [Queues], one: usize, other: usize) -> (&mut Queues, &mut Queues) {
    let (low, high) = queues.split_at_mut(one.max(other));
    if one < other { (&mut low[one], &mut high[0]) } else { (&mut high[0], &mut low[other]) }
}

//! The generator's notes while it runs: two numbers a request, in memory allocated beforehand.

use super::protocol::Answer;
use super::schedule::Schedule;

/// In [`Record::latency_ns`]: no answer came.
pub const UNANSWERED: u64 = u64::MAX;
/// In [`Record::latency_ns`]: the answer was an error, or did not suit the request.
pub const REFUSED: u64 = u64::MAX - 1;

/// The raw record of one run.
#[derive(Clone, Debug)]
pub struct Record {
    /// The schedule.
    pub schedule: Schedule,
    /// The schedule's start, CLOCK_MONOTONIC ns.
    pub start_ns: u64,
    /// The measured part's end, ns after the start.
    pub end_ns: u64,
    /// The whole run with the wait for the last answers, ns.
    pub elapsed_ns: u64,
    /// CPU time of the generator's thread within `elapsed_ns`, ns.
    pub cpu_ns: u64,
    /// Requests whose time came.
    pub due: usize,
    /// Requests answered, in whatever way.
    pub answered: usize,
    /// For each request: when the generator turned to it, ns after its intended time.
    pub lateness_ns: Vec<u64>,
    /// For each request: when its answer came, ns after its intended time; or [`UNANSWERED`], [`REFUSED`].
    pub latency_ns: Vec<u64>,
    /// `get`s of the measured part that found their key.
    pub hits: u64,
    /// `get`s of the measured part that found nothing.
    pub misses: u64,
    /// Connections that the server closed or that failed.
    pub closed_connections: usize,
    /// Number of new connections in place of those that the server ended in between.
    pub reconnects: u64,
}

impl Record {
    /// An empty record with all its memory, touched so that no page fault comes later.
    #[must_use]
    pub fn new(schedule: Schedule) -> Self {
        let requests = schedule.slots.len();
        Self {
            schedule,
            start_ns: 0,
            end_ns: 0,
            elapsed_ns: 0,
            cpu_ns: 0,
            due: 0,
            answered: 0,
            lateness_ns: vec![UNANSWERED; requests],
            latency_ns: vec![UNANSWERED; requests],
            hits: 0,
            misses: 0,
            closed_connections: 0,
            reconnects: 0,
        }
    }

    /// Notes the answer to request `index`, which came `at_ns` after the start.
    #[inline]
    pub fn answer(&mut self, index: usize, answer: Answer, at_ns: u64) {
        let slot = self.schedule.slots[index];
        self.answered += 1;
        self.latency_ns[index] =
            if answer.suits(slot.operation()) { at_ns.saturating_sub(slot.at_ns) } else { REFUSED };
        if index >= self.schedule.warmup {
            match answer {
                Answer::Hit { .. } => self.hits += 1,
                Answer::Miss => self.misses += 1,
                Answer::Stored | Answer::NotStored | Answer::Deleted | Answer::Error => {}
            }
        }
    }
}

//! The generator's thread: sends every request at its time, and notes the arrival of its answer.
//!
//! All memory is allocated before the first request. The loop only stores numbers; they are evaluated afterwards
//! (`report`). It sleeps in `epoll_pwait2` until the next request is due or an answer arrives.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use quell_thread::clock;

use super::connection::{Connection, Received};
use super::live::Live;
use super::poller::{Poller, READY_PER_ROUND, Ready};
use super::protocol::Requests;
use super::record::{REFUSED, Record};
use super::schedule::Schedule;
use super::spec::LoadSpec;
use crate::{Error, Result};

/// Between "start" and the schedule's beginning: time to get into the loop, ns.
const LEAD_NS: u64 = 1_000_000;
/// Not worth a sleep, ns: falling asleep and waking up cost more.
const SPIN_NS: u64 = 2_000;
/// The longest sleep, ns: how soon a stop is seen.
const LONGEST_SLEEP_NS: u64 = 50_000_000;
/// Number of consecutive requests after which answers are read, however late the rest is.
const SENDS_PER_ROUND: usize = 32;
const READ_BYTES: usize = 64 * 1024;

/// Watches a run from another thread, and ends it.
#[derive(Debug, Default)]
pub struct Monitor {
    /// Requests planned, warm-up included; 0 until the schedule is ready.
    pub planned: AtomicU64,
    /// Requests whose time has come.
    pub due: AtomicU64,
    /// Requests answered.
    pub answered: AtomicU64,
    /// If given: the latencies of the good answers, to be taken out meanwhile.
    pub live: Option<Live>,
    /// Set it to end the run early; the report covers the time until then.
    pub stop: Arc<AtomicBool>,
}

/// A generator that is connected and has all its memory.
#[derive(Debug)]
pub struct Generator {
    spec: LoadSpec,
    connections: Vec<Connection>,
    poller: Poller,
    ready: Vec<Ready>,
    read_buffer: Vec<u8>,
    requests: Requests,
    /// The next request that is not due yet.
    next: usize,
    record: Record,
}

impl Generator {
    /// Connects, draws the schedule.
    ///
    /// # Errors
    /// A bad spec, or no server.
    pub fn prepare(spec: &LoadSpec) -> Result<Self> {
        spec.check()?;
        let poller = Poller::new()?;
        let requests = Requests::new(spec);
        let buffer_bytes = (4 * requests.longest()).max(16 * 1024);
        let open = |_| Connection::open(&spec.target, spec.protocol, buffer_bytes);
        let connections = (0..spec.connections).map(open).collect::<Result<Vec<_>>>()?;
        for (number, connection) in connections.iter().enumerate() {
            let address = || spec.target.to_string();
            connection.set_nonblocking().map_err(Error::system("make the socket non-blocking", address()))?;
            poller.add(connection, number).map_err(Error::system("watch the socket", address()))?;
        }
        Ok(Self {
            record: Record::new(Schedule::new(spec)),
            spec: spec.clone(),
            connections,
            poller,
            ready: Vec::with_capacity(READY_PER_ROUND),
            read_buffer: vec![1; READ_BYTES],
            requests,
            next: 0,
        })
    }

    /// The schedule, and the part of it that was due so far.
    pub(crate) fn sent(&self) -> (&Schedule, usize) {
        (&self.record.schedule, self.next)
    }

    /// Runs the schedule on the calling thread, which allocates nothing meanwhile.
    ///
    /// # Errors
    /// When waiting fails. Failures of single connections are part of the record.
    pub fn drive(&mut self, monitor: &Monitor) -> Result<()> {
        let planned = self.record.schedule.slots.len();
        monitor.planned.store(planned as u64, Relaxed);
        let start = clock::now().0 + LEAD_NS;
        self.record.start_ns = start;
        self.record.end_ns = self.spec.warmup_ns + self.spec.duration_ns;
        let give_up = start + self.record.end_ns + self.spec.drain_ns;
        let cpu_before = clock::cpu_time().0;
        loop {
            let now = clock::now().0;
            if monitor.stop.load(Relaxed) || self.record.closed_connections == self.connections.len() {
                self.record.end_ns = now.saturating_sub(start).min(self.record.end_ns);
                break;
            }
            self.send_due(start);
            monitor.due.store(self.next as u64, Relaxed);
            monitor.answered.store(self.record.answered as u64, Relaxed);
            let wake = if self.next < planned {
                start + self.record.schedule.slots[self.next].at_ns
            } else if self.settled() || now >= give_up {
                break;
            } else {
                give_up
            };
            self.wait_until(wake)?;
            self.receive(start, monitor.live.as_ref());
            self.note_waiting(start, monitor.live.as_ref());
        }
        monitor.live.iter().for_each(|live| live.note_waiting(0, 0));
        self.record.elapsed_ns = clock::now().0.saturating_sub(start);
        self.record.cpu_ns = clock::cpu_time().0 - cpu_before;
        self.record.due = self.next;
        Ok(())
    }

    /// The record.
    #[must_use]
    pub fn finish(self) -> (LoadSpec, Record) {
        (self.spec, self.record)
    }

    fn send_due(&mut self, start: u64) {
        for _ in 0..SENDS_PER_ROUND {
            let Some(slot) = self.record.schedule.slots.get(self.next) else {
                return;
            };
            let now = clock::now().0;
            let Some(late) = now.checked_sub(start + slot.at_ns) else {
                return;
            };
            self.record.lateness_ns[self.next] = late;
            let number = self.next % self.connections.len();
            self.connections[number].due += 1;
            self.next += 1;
            if !self.connections[number].blocked {
                self.push(number);
            }
        }
    }

    /// Sends the due requests of a connection, as far as the socket takes them.
    fn push(&mut self, number: usize) {
        let stride = self.connections.len();
        let connection = &mut self.connections[number];
        let mut result = Ok(());
        while connection.open && result.is_ok() {
            while connection.may_encode() && connection.has_room(self.requests.longest()) {
                let slot = self.record.schedule.slots[number + connection.encoded * stride];
                connection.encode(slot, &self.requests);
            }
            result = connection.flush();
            if connection.blocked || !connection.may_encode() {
                break;
            }
        }
        if result.is_err() {
            self.renew(number);
        } else if self.connections[number].blocked {
            self.watch(number, true);
        }
    }

    fn wait_until(&mut self, wake: u64) -> Result<()> {
        let left = wake.saturating_sub(clock::now().0);
        let sleep = if left <= SPIN_NS { 0 } else { left.min(LONGEST_SLEEP_NS) };
        self.poller.wait(sleep, &mut self.ready)
    }

    fn receive(&mut self, start: u64, live: Option<&Live>) {
        for index in 0..self.ready.len() {
            let Ready { number, readable, writable } = self.ready[index];
            if writable && self.connections[number].blocked {
                self.push(number);
                if !self.connections[number].blocked {
                    self.watch(number, false);
                }
            }
            if readable && self.connections[number].open {
                if !self.read_answers(number, start, live) {
                    self.renew(number);
                } else if !self.connections[number].blocked && self.connections[number].may_encode() {
                    self.push(number);
                }
            }
        }
    }

    fn note_waiting(&self, start: u64, live: Option<&Live>) {
        let Some(live) = live else { return };
        let stride = self.connections.len();
        let (mut count, mut since) = (0, u64::MAX);
        for (number, connection) in self.connections.iter().enumerate() {
            if connection.open && connection.answered < connection.due {
                count += (connection.due - connection.answered) as u64;
                since = since.min(start + self.record.schedule.slots[number + connection.answered * stride].at_ns);
            }
        }
        live.note_waiting(count, if count == 0 { 0 } else { since });
    }

    /// `false` when the connection is of no more use.
    fn read_answers(&mut self, number: usize, start: u64, live: Option<&Live>) -> bool {
        let stride = self.connections.len();
        let connection = &mut self.connections[number];
        let (encoded, mut answered) = (connection.encoded, connection.answered);
        let record = &mut self.record;
        let mut unasked = false;
        let mut now = 0;
        let result = connection.receive(&mut self.read_buffer, |answer| {
            if answered == encoded {
                unasked = true;
                return;
            }
            if now == 0 {
                now = clock::now().0;
            }
            let index = number + answered * stride;
            record.answer(index, answer, now - start);
            match (live, record.latency_ns[index]) {
                (Some(live), latency) if latency < REFUSED => live.record(latency),
                _ => {}
            }
            answered += 1;
        });
        connection.answered = answered;
        matches!(result, Ok(Received::Bytes | Received::Nothing)) && !unasked
    }

    /// Goes on over a new connection where that is of use; otherwise this one is closed.
    fn renew(&mut self, number: usize) {
        let connection = &mut self.connections[number];
        if connection.open && connection.renew() && self.poller.add(&self.connections[number], number).is_ok() {
            self.record.reconnects += 1;
            self.push(number);
        } else {
            self.close(number);
        }
    }

    fn close(&mut self, number: usize) {
        let connection = &mut self.connections[number];
        if std::mem::replace(&mut connection.open, false) {
            connection.blocked = false;
            self.record.closed_connections += 1;
            // A socket that is no longer watched cannot wake the loop; that it is already gone is no error.
            let _ = self.poller.remove(&self.connections[number]);
        }
    }

    fn watch(&mut self, number: usize, writable: bool) {
        let connection = &self.connections[number];
        if connection.open && self.poller.change(connection, number, writable).is_err() {
            self.close(number);
        }
    }

    fn settled(&self) -> bool {
        self.connections.iter().all(|connection| !connection.open || connection.answered == connection.due)
    }
}

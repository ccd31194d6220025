//! Where requests come from: an open loop, or clients who wait for answers.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use quell_model::Nanos;
use serde::{Deserialize, Serialize};

use crate::Stream;
use crate::arrivals::{ArrivalProcess, Arrivals};
use crate::kernel::Kernel;
use crate::service::Service;
use crate::timers::TimerId;
use crate::workload::load::Streams;

/// Where requests come from.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// Whether or not earlier ones are done.
    Open(Box<Open>),
    /// Every client thinks, asks, and waits. With the times at which they ask.
    Closed { clients: BinaryHeap<Reverse<(u64, u32)>>, think: Service, pace: Option<Pace> },
}

/// Requests that come whether or not earlier ones are done.
#[derive(Clone, Debug)]
pub(crate) struct Open {
    process: ArrivalProcess,
    /// When the next one is there, ns.
    next: u64,
    forwarded: Option<Forwarded>,
}

/// A core of its own, not one of the machine's, through which requests pass one by one.
#[derive(Clone, Copy, Debug)]
struct Forwarded {
    by: Forward,
    /// When it is done with what it has, ns.
    free: u64,
    /// When the next request came to it, and the one that it forwarded last, ns.
    coming: u64,
    came: u64,
}

/// Forwarding of requests and their answers by a core of its own, as Shenango's IOKernel does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Forward {
    /// Its time for a request and the answer, while memory is idle.
    pub each: Nanos,
    /// The part of that in which it waits for memory, and which takes as many times longer as references to memory do.
    #[serde(default)]
    pub memory: Nanos,
}

/// A timetable for each client: it never asks earlier, and if it is late it asks as soon as it can.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    /// Between two requests of a client, ns.
    gap: f64,
    /// By client: when it asks next, by the timetable, ns.
    next: Vec<f64>,
}

impl Pace {
    /// Clients begin one after the other, so that all together ask at equal distances.
    fn new(rate: f64, clients: u32, began: u64) -> Pace {
        let gap = f64::from(clients) * 1e9 / rate;
        Pace { gap, next: (0..clients).map(|client| began as f64 + f64::from(client) * 1e9 / rate).collect() }
    }

    /// A client's next time, which counts as used.
    fn take(&mut self, client: u32) -> u64 {
        let next = &mut self.next[client as usize];
        let at = *next;
        *next += self.gap;
        at as u64
    }
}

impl Source {
    /// An open loop from this time on, ns.
    pub fn open(arrivals: &Arrivals, streams: &Streams, began: u64) -> Source {
        let process = ArrivalProcess::new(arrivals.clone(), streams.times.clone(), began);
        Source::Open(Box::new(Open { process, next: 0, forwarded: None }))
    }

    /// The same with requests forwarded; clients of a closed loop reach the server at once.
    pub fn forwarded(mut self, by: Option<Forward>) -> Source {
        if let Source::Open(open) = &mut self {
            open.forwarded = by.map(|by| Forwarded { by, free: 0, coming: 0, came: 0 });
        }
        self
    }

    /// Is a request there?
    pub fn is_due(&self, now: u64) -> bool {
        match self {
            Source::Open(open) => open.next <= now,
            Source::Closed { clients, .. } => clients.peek().is_some_and(|Reverse((at, _))| *at <= now),
        }
    }

    /// When the last request that was taken came, ns.
    pub fn came(&self, now: u64) -> u64 {
        match self {
            Source::Open(open) => open.forwarded.map_or(now, |forwarded| forwarded.came),
            Source::Closed { .. } => now,
        }
    }

    /// A closed loop from this time on, ns.
    pub fn closed(clients: u32, think: &Service, pace: Option<f64>, streams: &mut Streams, began: u64) -> Source {
        let mut pace = pace.map(|rate| Pace::new(rate, clients, began));
        let first =
            |client| (began + think.draw(&mut streams.times)).max(pace.as_mut().map_or(0, |pace| pace.take(client)));
        let first: Vec<u64> = (0..clients).map(first).collect();
        let clients = first.into_iter().zip(0..).map(Reverse).collect();
        Source::Closed { clients, think: think.clone(), pace }
    }

    /// Sets the timer to the next request, if one is known.
    #[inline]
    pub fn set_timer(&mut self, timer: TimerId, kernel: &mut Kernel) {
        let next = match self {
            Source::Open(open) => open.next(kernel.phases.memory_slowdown),
            Source::Closed { clients, .. } => clients.peek().map(|Reverse((at, _))| *at),
        };
        if let Some(at) = next {
            kernel.timers.set(timer, at.max(kernel.now));
        }
    }

    /// An open loop has this many requests per second from now on; none if that is nothing. Clients stay as they are.
    pub fn set_rate(&mut self, rate: f64, timer: TimerId, kernel: &mut Kernel) {
        if let Source::Open(open) = self {
            open.process.change_rate(rate, kernel.now);
            kernel.timers.cancel(timer);
            self.set_timer(timer, kernel);
        }
    }

    /// A request is due: whose it is. The timer is set to the next one.
    #[inline]
    pub fn take(&mut self, timer: TimerId, kernel: &mut Kernel) -> u32 {
        let client = match self {
            Source::Open(open) => {
                open.forwarded.iter_mut().for_each(|forwarded| forwarded.came = forwarded.coming);
                0
            }
            Source::Closed { clients, .. } => clients.pop().map_or(0, |Reverse((_, client))| client),
        };
        self.set_timer(timer, kernel);
        client
    }

    /// A client has its answer and begins to think.
    #[inline]
    pub fn answer(&mut self, client: u32, thinks: &mut Stream, timer: TimerId, kernel: &mut Kernel) {
        if let Source::Closed { clients, think, pace } = self {
            let by_timetable = pace.as_mut().map_or(0, |pace| pace.take(client));
            clients.push(Reverse(((kernel.now + think.draw(thinks)).max(by_timetable), client)));
            self.set_timer(timer, kernel);
        }
    }
}

impl Open {
    /// When the next request is at the server; references to memory take this many times longer than on idle memory.
    fn next(&mut self, slowdown: f64) -> Option<u64> {
        let came = self.process.next();
        let at = match (&mut self.forwarded, came) {
            (Some(forwarded), Some(came)) => {
                let Forward { each, memory } = forwarded.by;
                let more = (memory.0 as f64 * (slowdown - 1.0).clamp(0.0, LONGEST)) as u64;
                forwarded.coming = came;
                forwarded.free = forwarded.free.max(came) + each.0 + more;
                Some(forwarded.free)
            }
            _ => came,
        };
        self.next = at.unwrap_or(u64::MAX);
        at
    }
}

/// No reference takes longer than that many times, whatever the load.
const LONGEST: f64 = 100.0;

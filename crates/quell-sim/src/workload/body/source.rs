//! Where requests come from: an open loop, or clients who wait for answers.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::kernel::Kernel;
use crate::random::Stream;
use crate::timers::TimerId;
use crate::workload::arrivals::{ArrivalProcess, Arrivals};
use crate::workload::load::Streams;
use crate::workload::service::Service;

/// Where requests come from.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// Whether or not earlier ones are done.
    Open(Box<ArrivalProcess>),
    /// Every client thinks, asks, and waits. With the times at which they ask.
    Closed { clients: BinaryHeap<Reverse<(u64, u32)>>, think: Service, pace: Option<Pace> },
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
        Source::Open(Box::new(ArrivalProcess::new(arrivals.clone(), streams.times.clone(), began)))
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
            Source::Open(process) => process.next(),
            Source::Closed { clients, .. } => clients.peek().map(|Reverse((at, _))| *at),
        };
        if let Some(at) = next {
            kernel.timers.set(timer, at.max(kernel.now));
        }
    }

    /// An open loop has so many requests per second from now on; none if that is nothing. Clients stay as they are.
    pub fn set_rate(&mut self, rate: f64, timer: TimerId, kernel: &mut Kernel) {
        if let Source::Open(process) = self {
            process.change_rate(rate, kernel.now);
            kernel.timers.cancel(timer);
            self.set_timer(timer, kernel);
        }
    }

    /// A request is due: whose it is. The timer is set to the next one.
    #[inline]
    pub fn take(&mut self, timer: TimerId, kernel: &mut Kernel) -> u32 {
        let client = match self {
            Source::Open(_) => 0,
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

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
    Closed { clients: BinaryHeap<Reverse<(u64, u32)>>, think: Service },
}

impl Source {
    pub fn open(arrivals: &Arrivals, streams: &Streams) -> Source {
        Source::Open(Box::new(ArrivalProcess::new(arrivals.clone(), streams.times.clone())))
    }

    pub fn closed(clients: u32, think: &Service, streams: &mut Streams) -> Source {
        let first = (0..clients).map(|client| Reverse((think.draw(&mut streams.times), client))).collect();
        Source::Closed { clients: first, think: think.clone() }
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
        if let Source::Closed { clients, think } = self {
            clients.push(Reverse((kernel.now + think.draw(thinks), client)));
            self.set_timer(timer, kernel);
        }
    }
}

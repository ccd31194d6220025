//! A workload's random numbers outside the simulator: real threads that do what simulated ones do.

use quell_model::Nanos;

use super::WorkloadSpec;
use super::graph::{FIRST_STREAM, RequestSpec};
use super::load::Streams;
use crate::Stream;
use crate::arrivals::ArrivalProcess;
use crate::service::Service;

/// The numbers that the simulator draws for a workload, in the same order.
#[derive(Clone, Debug)]
pub struct Draws {
    streams: Streams,
    arrivals: Option<ArrivalProcess>,
}

impl Draws {
    /// Those of the workload at this place among the scene's, under this seed.
    #[must_use]
    pub fn new(spec: &WorkloadSpec, place: usize, seed: u64) -> Draws {
        let streams = Streams::new(seed, place as u64);
        let arrivals = spec.server.as_ref().map(|server| &server.arrivals);
        let arrivals = arrivals.map(|arrivals| ArrivalProcess::new(arrivals.clone(), streams.times.clone(), 0));
        Draws { streams, arrivals }
    }

    /// Those of the kind of request at this place among the scene's, under this seed.
    #[must_use]
    pub fn of_request(request: &RequestSpec, place: usize, seed: u64) -> Draws {
        let streams = Streams::new(seed, FIRST_STREAM + place as u64);
        let arrivals = request.arrivals.clone();
        let arrivals = arrivals.map(|arrivals| ArrivalProcess::new(arrivals, streams.times.clone(), 0));
        Draws { streams, arrivals }
    }

    /// When an open loop's next request arrives, since the start; None: never.
    pub fn arrival(&mut self) -> Option<Nanos> {
        self.arrivals.as_mut()?.next().map(Nanos)
    }

    /// The CPU time of the next request or job.
    pub fn work(&mut self, service: &Service) -> Nanos {
        Nanos(service.draw(&mut self.streams.services))
    }

    /// How much later than a period the next sporadic release comes.
    pub fn later(&mut self, later: Option<&Service>) -> Nanos {
        Nanos(later.map_or(0, |later| later.draw(&mut self.streams.times)))
    }

    /// The thread, of this many, to which the next request goes.
    pub fn thread(&mut self, threads: u32) -> u32 {
        Stream::below(&mut self.streams.choices, threads)
    }
}

//! What a workload's threads do, one file a kind.

mod batch;
mod forks;
mod jobs;
mod parallel;
mod periodic;
mod server;
mod source;
mod stealing;

use batch::Batch;
use forks::Forks;
use jobs::Jobs;
use parallel::Parallel;
use periodic::Periodic;
use server::Server;
use stealing::Stealing;

pub use batch::{BatchSpec, Phases, Turn};
pub use forks::ForksSpec;
pub use jobs::{Done, JobSource, JobsSpec, Order};
pub use parallel::ParallelSpec;
pub use periodic::PeriodicSpec;
pub use server::{ClosedSpec, Dispatch, ServerSpec};
pub use source::Forward;
pub(crate) use source::Source;
pub use stealing::Runtime;

use super::load::Streams;
use super::spec::WorkloadSpec;

/// Something to do, and for whom.
#[derive(Clone, Copy, Debug)]
struct Request {
    arrived: u64,
    work: u64,
    /// CPU time after it has waited for a device; 0: it waits for none.
    rest: u64,
    client: u32,
}

/// What the threads do.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    Server(Box<Server>),
    Stealing(Box<Stealing>),
    Batch(Batch),
    Parallel(Parallel),
    Periodic(Box<Periodic>),
    Jobs(Box<Jobs>),
    Forks(Box<Forks>),
    /// What the request graphs say.
    Stages,
    /// Nothing any more.
    Ended,
}

impl Body {
    /// What the threads do from this time on, ns.
    pub fn new(spec: &WorkloadSpec, threads: usize, streams: &mut Streams, began: u64) -> Body {
        if let Some(parallel) = &spec.parallel {
            return Body::Parallel(Parallel::new(parallel, threads, began));
        }
        if let Some(periodic) = &spec.periodic {
            return Body::Periodic(Box::new(Periodic::new(periodic, threads)));
        }
        if let Some(jobs) = &spec.jobs {
            return Body::Jobs(Box::new(Jobs::new(jobs, began)));
        }
        if let Some(forks) = &spec.forks {
            return Body::Forks(Box::new(Forks::new(forks, spec.threads)));
        }
        if spec.pool.is_some() {
            return Body::Stages;
        }
        let (source, service, dispatch) = if let Some(server) = &spec.server {
            (Source::open(&server.arrivals, streams, began), &server.service, server.dispatch)
        } else if let Some(closed) = &spec.closed {
            (
                Source::closed(closed.clients, &closed.think, closed.pace, streams, began),
                &closed.service,
                closed.dispatch,
            )
        } else {
            return Body::Batch(Batch::new(spec.batch.as_ref()));
        };
        match dispatch {
            Dispatch::WorkStealing(runtime) => {
                let source = source.forwarded(runtime.forward);
                Body::Stealing(Box::new(Stealing::new(source, service.clone(), runtime, threads)))
            }
            _ => Body::Server(Box::new(Server::new(source, service.clone(), dispatch, threads))),
        }
    }

    /// Since when the oldest of its requests that no thread works on has waited.
    pub fn oldest_waiting(&self, now: u64) -> Option<u64> {
        match self {
            Body::Server(server) => server.oldest_waiting(),
            Body::Stealing(server) => server.oldest_waiting(now),
            Body::Periodic(periodic) => periodic.oldest_waiting(),
            Body::Jobs(jobs) => jobs.oldest_waiting(),
            Body::Forks(forks) => forks.oldest_waiting(),
            Body::Batch(_) | Body::Parallel(_) | Body::Stages | Body::Ended => None,
        }
    }
}

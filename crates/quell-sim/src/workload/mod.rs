//! What runs on the simulated machine: servers, clients, batch work, periodic tasks.

mod arrivals;
mod load;
mod service;
mod spec;
mod stats;

pub use arrivals::{Arrivals, Step};
pub(crate) use load::Load;
pub use service::Service;
pub use spec::{
    BatchSpec, ClosedSpec, CpuList, Dispatch, GroupSpec, ParallelSpec, PeriodicSpec, Phases, ServerSpec, WorkloadSpec,
};
pub use stats::{Latencies, WorkloadStats};

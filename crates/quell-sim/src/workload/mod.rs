//! What runs on the simulated machine: servers, clients, batch work, periodic tasks, and requests that pass through
//! several of them.

mod body;
mod change;
mod draws;
pub mod graph;
mod load;
mod make;

mod spec;
mod stats;

pub use crate::arrivals::{Arrivals, Step};
pub use crate::service::Service;
pub use body::{
    BatchSpec, ClosedSpec, Dispatch, Done, ForksSpec, Forward, JobSource, JobsSpec, Order, ParallelSpec, PeriodicSpec,
    Phases, Runtime, ServerSpec, Turn,
};
pub use draws::Draws;
pub(crate) use load::{Load, PhaseSet};
pub(crate) use spec::QUOTA_PERIOD;
pub use spec::{CpuList, GroupSpec, WorkloadSpec};
pub use stats::WorkloadStats;

pub use crate::latencies::Latencies;

/// Something of which there are this many: name-1, name-2 and so on; a single one keeps its name.
fn copies<T>(count: u32, name: &str, copy: impl Fn(String) -> T) -> Vec<T> {
    match count {
        1 => vec![copy(name.to_owned())],
        count => (1..=count).map(|number| copy(format!("{name}-{number}"))).collect(),
    }
}

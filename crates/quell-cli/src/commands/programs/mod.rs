//! Scenes whose workloads are played by programs: a server is a memcached under load, work without end is `quell antagonist`.

pub mod antagonist;
mod launch;
pub mod server;

use std::sync::LazyLock;

use quell_evidence::Treatment;
use quell_sim::WorkloadSpec;
use quell_sim::scenario::Shipped;
use quell_sim::workload::Arrivals;

pub use launch::launched;

macro_rules! scenes {
    ($($name:literal,)+) => {
        /// All scenes; the first is that of the published table.
        pub const SCENES: &[Shipped] = &[$(Shipped {
            name: $name,
            text: include_str!(concat!("../../../../../scenes/programs/", $name, ".toml")),
        },)+];
    };
}

scenes! {
    "spin",
    "phased",
    "pool",
    "pool-phased",
    "runaway",
    "overload",
    "many",
}

/// How they are treated, in the table's order.
pub static TREATMENTS: LazyLock<Vec<Treatment>> =
    LazyLock::new(|| Treatment::all(include_str!("../../../../../scenes/programs/treatments.toml")).expect("tested").0);

/// The scene of this name.
pub fn scene(name: &str) -> Option<&'static Shipped> {
    SCENES.iter().find(|scene| scene.name == name)
}

/// The treatment of this name.
pub fn treatment(name: &str) -> Option<&'static Treatment> {
    TREATMENTS.iter().find(|treatment| treatment.name == name)
}

/// Requests a second that a load generator sends to it; None if it is no server.
pub fn rate(spec: &WorkloadSpec) -> Option<f64> {
    match (&spec.server, &spec.closed) {
        (Some(server), _) => match server.arrivals {
            Arrivals::Poisson(rate) => Some(rate),
            _ => None,
        },
        (None, Some(closed)) => closed.pace,
        (None, None) => None,
    }
}

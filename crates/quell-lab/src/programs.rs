//! Scenes whose workloads are played by programs: a server is a memcached or redis under load, work without end is
//! `quell antagonist`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use anyhow::Result;
use quell_bench::antagonist::Kind;
use quell_command::programs::{found, server};
use quell_evidence::Treatment;
use quell_sim::WorkloadSpec;
use quell_sim::scenario::{Scenario, Shipped};
use quell_sim::workload::Arrivals;

macro_rules! scenes {
    ($($name:literal,)+) => {
        /// All scenes; the first is that of the published table.
        pub const SCENES: &[Shipped] = &[$(Shipped {
            name: $name,
            text: include_str!(concat!("../../../scenes/programs/", $name, ".toml")),
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
    "redis",
}

/// How they are treated, in the table's order.
pub static TREATMENTS: LazyLock<Vec<Treatment>> =
    LazyLock::new(|| Treatment::all(include_str!("../../../scenes/programs/treatments.toml")).expect("tested").0);

/// The scene of this name.
pub fn scene(name: &str) -> Option<&'static Shipped> {
    SCENES.iter().find(|scene| scene.name == name)
}

/// The treatment of this name.
pub fn treatment(name: &str) -> Option<&'static Treatment> {
    TREATMENTS.iter().find(|treatment| treatment.name == name)
}

/// What plays a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    Server(server::Kind),
    Antagonist(Kind),
}

/// What plays this workload; None if no program does, or none of the name that it asks for.
pub fn program(spec: &WorkloadSpec) -> Option<Program> {
    let is_asked = |name: &str, by_default: bool| spec.program.as_ref().map_or(by_default, |asked| asked == name);
    if rate(spec).is_some() {
        let found = server::Kind::ALL.into_iter().find(|kind| is_asked(kind.name(), *kind == server::Kind::Memcached));
        return found.map(Program::Server);
    }
    spec.batch.as_ref().filter(|batch| batch.cycle.is_empty())?;
    Kind::ALL.into_iter().find(|kind| is_asked(kind.name(), *kind == Kind::Cpu)).map(Program::Antagonist)
}

/// The programs of the servers that a scene's text asks for.
pub fn servers(text: &str) -> Result<Vec<PathBuf>> {
    let scenario = Scenario::parse(Path::new("scene"), text, &[])?;
    let of = |spec: &WorkloadSpec| match program(spec) {
        Some(Program::Server(kind)) => Some(kind),
        _ => None,
    };
    let kinds: BTreeSet<_> = scenario.workloads.iter().filter_map(of).collect();
    kinds.into_iter().map(server::Kind::program).map(|(program, package)| found(program, package)).collect()
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

//! EdgeIso's experiments (his-edgeiso-sdc-snu2020 chapter 4) on its device: object detection on the GPU and two cores,
//! data processing and retraining beside it, and services of Tailbench.

mod scenes;

use quell_model::{LeaseLimits, Nanos, Policy, Stack};

use super::his::Span;
use super::rkube;
use crate::host::drive;
use crate::machine::{Machine, Preset};
use crate::workload::WorkloadStats;
use crate::workload::graph::{GraphSpec, RequestSpec};
use crate::{Population, SimError, SimHost, WorkloadSpec};

pub use scenes::{
    Cores, DATA, Dataset, FRAME, TAILBENCH, data_processing, detection, is_on_gpu, offloaded, retraining, stream,
    tailbench,
};

/// Cores of the device ("We disabled two Denver cores").
pub const CORES: u32 = 4;

/// What runs on the device.
#[derive(Clone, Debug, Default)]
pub struct Scene {
    /// The workloads; the first is the foreground.
    pub workloads: Vec<WorkloadSpec>,
    /// Their requests.
    pub requests: Vec<RequestSpec>,
}

impl Scene {
    /// With another workload and its requests.
    #[must_use]
    pub fn and(mut self, (workload, requests): (WorkloadSpec, Vec<RequestSpec>)) -> Scene {
        self.workloads.push(workload);
        self.requests.extend(requests);
        self
    }
}

/// What a run showed.
#[derive(Clone, Debug)]
pub struct Seen {
    /// By workload.
    pub stats: Vec<WorkloadStats>,
    /// The time.
    pub measured: Nanos,
    /// The foreground's requests that arrived after the warm-up: arrival and latency, by arrival.
    pub answered: Vec<(Nanos, Nanos)>,
    /// Remarks of the policy.
    pub notes: Vec<String>,
    /// The policy's time for deciding and acting, as part of one CPU.
    pub charged: f64,
}

impl Seen {
    /// Instructions a nanosecond of a workload.
    #[must_use]
    pub fn speed(&self, workload: usize) -> f64 {
        self.stats[workload].counted.instructions / self.measured.0 as f64
    }

    /// Instructions a cycle of a workload.
    #[must_use]
    pub fn ipc(&self, workload: usize) -> f64 {
        let counted = &self.stats[workload].counted;
        counted.instructions / counted.cycles.max(1.0)
    }

    /// A quantile of the foreground's latencies, ms.
    #[must_use]
    pub fn tail_ms(&self, quantile: f64) -> f64 {
        self.stats[0].latencies.quantile(quantile).0 as f64 / 1e6
    }

    /// Requests a second that a workload answered.
    #[must_use]
    pub fn rate(&self, workload: usize) -> f64 {
        self.stats[workload].latencies.count() as f64 / self.measured.as_secs_f64()
    }

    /// Each of the foreground's latencies as a multiple of the same request's alone, in the order of arrival. Requests that
    /// one of the runs did not answer are left out.
    #[must_use]
    pub fn normalised(&self, alone: &Seen) -> Vec<f64> {
        let same = |at: Nanos| alone.answered.binary_search_by_key(&at, |(at, _)| *at).ok();
        let each = self.answered.iter().filter_map(|(at, latency)| Some((latency, alone.answered[same(*at)?].1)));
        each.map(|(latency, alone)| latency.0 as f64 / alone.0.max(1) as f64).collect()
    }
}

/// The device.
///
/// # Panics
/// If the machine's preset is gone: a mistake.
#[must_use]
pub fn device() -> Machine {
    Preset::named("edgeiso").expect("a machine of the table").machine()
}

/// Runs a scene under a policy.
///
/// # Errors
/// [`SimError::Scenario`] if it makes no sense.
pub fn run<P: Policy>(scene: &Scene, policy: &mut P, span: Span) -> Result<Seen, SimError> {
    let requests = GraphSpec { requests: scene.requests.clone(), locks: Vec::new() };
    let population = Population { workloads: &scene.workloads, vms: &[], requests: &requests };
    let mut host = SimHost::new(device(), rkube::kernel(), population, span.seed, false)?;
    host.begin_log();
    // The chapter bounds solo runs by nothing but their length.
    host.limit_leases(LeaseLimits { longest: Nanos::from_secs(10), duty_per_mille: 1000 });
    let mut stack = Stack::of_one(policy, host.view());
    let mut notes = Vec::new();
    let mut remember = |_: &SimHost, stack: &Stack<&mut P>| {
        notes.extend(stack.first().plan.notes.iter().map(|note| note.text.to_string()));
    };
    drive(&mut host, &mut stack, span.warm_up, &mut remember);
    host.end_warm_up();
    drive(&mut host, &mut stack, span.warm_up + span.measured, &mut remember);
    let after = |(at, _): &&(Nanos, Nanos)| *at >= span.warm_up;
    let mut answered: Vec<_> = host.sim().answered(0).iter().filter(after).copied().collect();
    answered.sort_unstable();
    Ok(Seen {
        stats: host.sim().stats(),
        measured: span.measured,
        answered,
        notes,
        charged: host.policy_costs().charged.0 as f64 / span.measured.0 as f64,
    })
}

//! Figures 1, 5 and 7: what a client measures over short windows of time while a collector comes and goes.

use quell_model::{Nanos, Policy, Stack};

use super::{Means, Span, host, outside};
use crate::host::drive;
use crate::workload::Latencies;
use crate::{SimError, WorkloadSpec};

/// "We … measure its tail latency over 20 ms windows" (§7.1).
pub const WINDOW: Nanos = Nanos::from_millis(20);

/// What was seen in one window.
#[derive(Clone, Debug)]
pub struct Window {
    /// Its end, since the end of the warm-up.
    pub end: Nanos,
    /// By workload: latencies of what was answered in it, at the server.
    pub latencies: Vec<Latencies>,
    /// By workload: CPUs' worth of time got.
    pub cpus: Vec<f64>,
    /// By workload: instructions.
    pub instructions: Vec<f64>,
    /// Memory bandwidth in use, bytes a second.
    pub bandwidth: f64,
    /// Did a collector run at its beginning or end?
    pub collecting: bool,
    /// CPUs that changed hands.
    pub reallocations: u64,
}

impl Window {
    /// A client's 99.9th percentile; None: nothing was answered.
    #[must_use]
    pub fn p999(&self, workload: usize) -> Option<Nanos> {
        let latencies = &self.latencies[workload];
        (latencies.count() > 0).then(|| latencies.quantile(0.999) + outside())
    }
}

/// Runs these workloads under a policy, and looks at every window of this length.
///
/// # Errors
/// [`SimError::Scenario`] if a workload makes no sense.
pub fn windows<P: Policy>(
    means: Means,
    workloads: &[WorkloadSpec],
    policy: &mut P,
    span: Span,
    window: Nanos,
) -> Result<Vec<Window>, SimError> {
    let mut host = host(means, workloads, policy, span.seed)?;
    let mut stack = Stack::of_one(policy, host.view());
    drive(&mut host, &mut stack, span.warm_up, |_, _| {});
    host.sim_mut().loads.iter_mut().for_each(|load| load.common.recent = Some(Latencies::default()));
    let mut seen = Vec::new();
    let collects = |host: &crate::SimHost| host.sim().loads.iter().any(|load| load.turn() == Some(COLLECTING));
    let (mut used, mut counted, mut bytes) = (host.sim().run_times(), host.sim().counted(), host.sim().memory_bytes());
    let mut end = Nanos::ZERO;
    while end < span.measured {
        end += window;
        let began = host.sim().now();
        let mut collecting = collects(&host);
        let mut reallocations = 0;
        drive(&mut host, &mut stack, span.warm_up + end, |_, stack| {
            reallocations += stack.stepped().map(|layer| layer.plan.grants.len() as u64).sum::<u64>();
        });
        collecting |= collects(&host);
        let passed = (host.sim().now() - began).0.max(1) as f64;
        let (used_now, counted_now, bytes_now) =
            (host.sim().run_times(), host.sim().counted(), host.sim().memory_bytes());
        seen.push(Window {
            end,
            latencies: host.sim_mut().loads.iter_mut().map(|load| load.common.take_recent()).collect(),
            cpus: used_now.iter().zip(&used).map(|(now, before)| (now - before) as f64 / passed).collect(),
            instructions: counted_now
                .iter()
                .zip(&counted)
                .map(|(now, before)| now.instructions - before.instructions)
                .collect(),
            bandwidth: (bytes_now - bytes) * 1e9 / passed,
            collecting,
            reallocations,
        });
        (used, counted, bytes) = (used_now, counted_now, bytes_now);
    }
    Ok(seen)
}

/// The turn of the collector in its cycle.
pub(super) const COLLECTING: usize = 1;

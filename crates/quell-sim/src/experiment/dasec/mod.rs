//! DASEC's experiments (dasec-socc22 §2 and §6): services of 16 threads on four sockets of 20 cores, Linux 5.3's CFS.

mod figure4;
mod scenes;

use quell_model::{Event, Host, KnobSetting, Nanos, Plan, Policy, Stack, Target, ThreadId, Warp};

use super::his::Span;
use super::rkube;
use crate::config::FairScheduler;
use crate::host::drive;
use crate::machine::{Frequencies, Gpu, Machine, Preset};
use crate::workload::Latencies;
use crate::{IdleSearch, KernelConfig, Population, SimError, SimHost};

pub use figure4::units;
pub use scenes::{KINDS, Kind, MASSTREE, Scene, THREADS};

/// CPUs of the machine.
pub const CPUS: u32 = 80;

/// What a run showed.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Of all services of the scene's kind, together.
    pub latencies: Latencies,
    /// Of the last workload: inference, or the background.
    pub last: Latencies,
    /// Use of all CPUs, 0–1.
    pub use_of_cpus: f64,
    /// Part of the time in which the GPU was busy.
    pub use_of_gpu: f64,
    /// Context switches.
    pub switches: u64,
    /// By number of ready threads, up to 16: occasions on which some threads of a service are ready and none runs.
    pub occasions: Vec<u64>,
    /// The time.
    pub measured: Nanos,
}

impl Seen {
    /// Mean latency, ms.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.latencies.mean().0 as f64 / 1e6
    }

    /// 99th percentile, ms.
    #[must_use]
    pub fn p99(&self) -> f64 {
        self.latencies.quantile(0.99).0 as f64 / 1e6
    }

    /// Requests answered in a second, all services together.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.latencies.count() as f64 / self.measured.as_secs_f64()
    }

    /// Part of the occasions with at most this many threads ready.
    #[must_use]
    pub fn at_most_ready(&self, ready: usize) -> f64 {
        let all: u64 = self.occasions.iter().sum();
        self.occasions[..=ready].iter().sum::<u64>() as f64 / all.max(1) as f64
    }
}

/// What schedules.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scheduler {
    /// Linux 5.3: CFS. It balances by the rules before 5.5's rework; here the later ones do, by present weights.
    Cfs,
    /// BVT, with this warp of each thread.
    Bvt(Option<Warp>),
}

/// KVM's `halt_poll_ns` on x86 (Linux 5.3).
const HALT_POLL: Nanos = Nanos::from_micros(200);

/// The host's kernel.
#[must_use]
pub fn kernel(scheduler: Scheduler) -> KernelConfig {
    let fair = match scheduler {
        Scheduler::Cfs => FairScheduler::Cfs,
        Scheduler::Bvt(_) => FairScheduler::Bvt,
    };
    KernelConfig { fair, idle_search: IdleSearch::Proportional, halt_poll: HALT_POLL, ..rkube::kernel() }
}

/// The guests' kernel: the same.
fn guest() -> KernelConfig {
    KernelConfig { halt_poll: Nanos::ZERO, ..kernel(Scheduler::Cfs) }
}

/// The machine (L245), with a GPU of its own memory where inference runs.
///
/// # Panics
/// If the machine's preset is gone: a mistake.
#[must_use]
pub fn machine(has_gpu: bool) -> Machine {
    let mut machine = Preset::named("dasec").expect("a machine of the table").machine();
    let frequencies = Frequencies { min_khz: 1_000_000, max_khz: 1_000_000, step_khz: 0 };
    machine.gpu = has_gpu.then_some(Gpu { cores: 1, frequencies });
    machine
}

/// Two periods of dasec and some more.
#[must_use]
pub fn short(seed: u64) -> Span {
    Span { seed, warm_up: Nanos::from_millis(10), measured: Nanos::from_millis(200) }
}

/// How often occasions are looked for.
const LOOK: Nanos = Nanos::from_millis(1);

/// Runs a scene under a policy.
///
/// # Errors
/// [`SimError::Scenario`] if it makes no sense.
pub fn run<P: Policy>(scene: &Scene, scheduler: Scheduler, policy: &mut P, span: Span) -> Result<Seen, SimError> {
    let population = Population { workloads: &scene.workloads, vms: &scene.vms, requests: &scene.graph };
    let mut host = SimHost::new(machine(scene.has_gpu), kernel(scheduler), population, span.seed, false)?;
    if let Scheduler::Bvt(Some(warp)) = scheduler {
        warp_all(&mut host, warp);
    }
    let mut stack = Stack::of_one(policy, host.view());
    drive(&mut host, &mut stack, span.warm_up, |_, _| {});
    host.end_warm_up();
    let (gpu_before, switches_before) = (host.sim().gpu_busy(), host.sim().counters().switches);
    let mut occasions = vec![0; THREADS as usize + 1];
    let until = span.warm_up + span.measured;
    while host.now() < until {
        let next = (host.now() + LOOK).min(until);
        drive(&mut host, &mut stack, next, |_, _| {});
        look(&host, scene.services, &mut occasions);
    }
    let sim = host.sim();
    let stats = sim.stats();
    let alike = scene.services - usize::from(scene.has_gpu);
    let mut latencies = Latencies::default();
    stats[..alike].iter().for_each(|of| latencies.merge(&of.latencies));
    Ok(Seen {
        latencies,
        last: stats.last().map(|of| of.latencies.clone()).unwrap_or_default(),
        use_of_cpus: sim.utilisation(),
        use_of_gpu: sim.gpu_busy().saturating_sub(gpu_before) as f64 / span.measured.0 as f64,
        switches: sim.counters().switches.saturating_sub(switches_before),
        occasions,
        measured: span.measured,
    })
}

/// Counts the services of which some threads are ready, none runs, and others wait.
fn look(host: &SimHost, services: usize, occasions: &mut [u64]) {
    let kernel = host.sim().kernel();
    for tenant in &host.sim().tenants[..services] {
        let running = tenant.tasks.iter().any(|&task| kernel.is_running(task));
        let ready = tenant.tasks.iter().filter(|&&task| kernel.is_runnable(task)).count();
        if !running && ready > 0 && ready < tenant.tasks.len() {
            occasions[ready.min(THREADS as usize)] += 1;
        }
    }
}

fn warp_all(host: &mut SimHost, warp: Warp) {
    let count = host.sim().kernel().tasks.len() as i32;
    let on = |tid| KnobSetting {
        target: Target::Thread(ThreadId { tid, start: 0 }),
        knob: quell_model::Knob::Warp(Some(warp)),
    };
    let plan = Plan { knobs: (1..=count).map(on).collect(), ..Plan::default() };
    let mut events: Vec<Event> = Vec::new();
    let Ok(()) = host.apply(&plan, &mut events);
}

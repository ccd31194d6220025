//! SDC's experiments on one host (his-edgeiso-sdc-snu2020 chapter 5): copies of one program, and memcached's VM among
//! memory-intensive and other ones, with and without its local scheduler. A VM's vCPU is a thread of a workload.

use quell_model::{
    BytesPerSecond, CpuCount, Description, Event, Nanos, Need, Plan, Policy, Sample, Signal, Stack, View, Wake,
};

use super::assumed::{assumed, micros};
pub use super::his::Span;
use super::rkube;
use crate::contention::ProfileName;
use crate::host::drive;
use crate::machine::{Machine, Preset};
use crate::workload::{ClosedSpec, Dispatch, Service, WorkloadStats};
use crate::{SimError, SimHost, WorkloadSpec};

/// Cores of a host (§5.5.1).
pub const CORES: u32 = 8;
/// Memory- and CPU-intensive VMs by host (Table 5.1).
pub const HOSTS: [(u32, u32); 4] = [(8, 4), (6, 6), (4, 8), (0, 12)];
/// "Thirteen VMs (one Memcached VM, six CPU intensive VMs, and six memory intensive VMs)" (§5.5.2, Local Placement).
pub const LOCAL: (u32, u32) = (6, 6);
/// Five clients of sixteen threads (§5.5.1).
const CLIENTS: u32 = 5 * 16;
/// vCPUs of memcached's VM, and its threads (§5.5.1).
const VCPUS: u32 = 2;

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Seen {
    /// By workload; memcached's first, where it is there.
    pub stats: Vec<WorkloadStats>,
    /// The time.
    pub measured: Nanos,
}

impl Seen {
    /// Instructions a nanosecond of all workloads together.
    #[must_use]
    pub fn speed(&self) -> f64 {
        self.stats.iter().map(|of| of.counted.instructions).sum::<f64>() / self.measured.0 as f64
    }

    /// Full-buffer events a second of all workloads together: the host's MBFR.
    #[must_use]
    pub fn full(&self) -> f64 {
        self.stats.iter().map(|of| of.counted.buffer_full).sum::<f64>() / self.measured.as_secs_f64()
    }

    /// Part of the references to the LLC that miss.
    #[must_use]
    pub fn misses(&self) -> f64 {
        let sum = |of: fn(&WorkloadStats) -> f64| self.stats.iter().map(of).sum::<f64>();
        sum(|of| of.counted.misses) / sum(|of| of.counted.references)
    }

    /// Requests answered a second.
    #[must_use]
    pub fn throughput(&self) -> f64 {
        self.stats[0].latencies.count() as f64 / self.measured.as_secs_f64()
    }

    /// p99 of memcached's latencies, ms.
    #[must_use]
    pub fn tail_ms(&self) -> f64 {
        self.stats[0].latencies.quantile(0.99).0 as f64 / 1e6
    }
}

/// The load of memcached.
#[derive(Clone, Copy, Debug)]
pub enum Load {
    /// All clients send as fast as they are answered.
    Peak,
    /// This many requests a second, as far as their answers allow.
    Rate(f64),
}

/// A VM of one vCPU that runs this program for ever.
#[must_use]
pub fn vm(name: &str, number: u32) -> WorkloadSpec {
    let profile: Option<ProfileName> = Some(ProfileName::Known(name.to_owned()));
    let of = WorkloadSpec::be(format!("{name}-{number}"));
    WorkloadSpec { profile, cpus: CpuCount::whole(1), ..of }.busy(1)
}

/// memcached's VM.
#[must_use]
pub fn memcached(load: Load) -> WorkloadSpec {
    let service = Service::Exponential(micros("sdc.memcached-service"));
    let dispatch = Dispatch::Pool;
    let of = WorkloadSpec {
        threads: VCPUS,
        weight: (100.0 * assumed("sdc.weight")).round() as u32,
        profile: Some(ProfileName::Known("memcached".to_owned())),
        ..WorkloadSpec::lc("memcached", CpuCount::whole(VCPUS))
    };
    let think = Service::Constant(micros("sdc.think"));
    let pace = match load {
        Load::Peak => None,
        Load::Rate(rate) => Some(rate),
    };
    WorkloadSpec { closed: Some(ClosedSpec { clients: CLIENTS, think, pace, service, dispatch }), ..of }
}

/// memcached among this many VMs of lbm and of sjeng.
#[must_use]
pub fn among((memory, other): (u32, u32), load: Load) -> Vec<WorkloadSpec> {
    let lbm = (0..memory).map(|number| vm("lbm", number));
    let sjeng = (0..other).map(|number| vm("sjeng", number));
    [memcached(load)].into_iter().chain(lbm).chain(sjeng).collect()
}

/// This many VMs of one program.
#[must_use]
pub fn copies(name: &str, count: u32) -> Vec<WorkloadSpec> {
    (0..count).map(|number| vm(name, number)).collect()
}

/// Looks at memcached's soft interrupts, and decides nothing.
#[derive(Default)]
struct Counts {
    rates: Vec<f64>,
}

/// Time between its looks.
const LOOK: Nanos = Nanos::from_millis(100);

impl Policy for Counts {
    fn describe(&self) -> &'static Description {
        const DESCRIPTION: Description = Description {
            name: "counts",
            summary: "soft interrupts are counted",
            source: "his-edgeiso-sdc-snu2020 Figure 5.4",
            interval: LOOK,
            signals: &[Need::must(Signal::SoftInterrupts)],
            knobs: &[],
            rules: &[],
            keys: &[],
            grants: false,
        };
        &DESCRIPTION
    }

    fn step(&mut self, view: &View, _: &[Event], _: &mut Plan) -> Wake {
        self.rates.extend(view.workloads.soft_interrupt_rate.first().and_then(Sample::usable));
        Wake::At(view.now + LOOK)
    }
}

/// memcached alone on a host: requests answered and soft interrupts, a second (Figure 5.4).
///
/// # Errors
/// As [`run`].
pub fn interrupts(load: Load, span: Span) -> Result<(f64, f64), SimError> {
    let mut counts = Counts::default();
    let seen = run(&among((0, 0), load), &mut counts, span)?;
    // The looks of the measured time, the last ones.
    let looks = (span.measured.0 / LOOK.0).min(counts.rates.len() as u64).max(1);
    let last = counts.rates.iter().rev().take(looks as usize);
    Ok((seen.throughput(), last.sum::<f64>() / looks as f64))
}

fn machine() -> Machine {
    let mut machine = Preset::named("sdc").expect("a preset").machine();
    machine.memory.bandwidth = BytesPerSecond(assumed("sdc.bandwidth") * 1e9);
    machine.memory.latency = Nanos(assumed("sdc.memory-latency").round() as u64);
    machine.contention.full_power = assumed("sdc.full-power");
    machine
}

/// Runs VMs on a host under a policy.
///
/// # Errors
/// [`SimError::Scenario`] if a workload makes no sense.
pub fn run<P: Policy>(vms: &[WorkloadSpec], policy: &mut P, span: Span) -> Result<Seen, SimError> {
    let mut host = SimHost::new(machine(), rkube::kernel(), vms, span.seed, false)?;
    let mut stack = Stack::of_one(policy, host.view());
    drive(&mut host, &mut stack, span.warm_up, |_, _| {});
    host.end_warm_up();
    drive(&mut host, &mut stack, span.warm_up + span.measured, |_, _| {});
    Ok(Seen { stats: host.sim().stats(), measured: span.measured })
}

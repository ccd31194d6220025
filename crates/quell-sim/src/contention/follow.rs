//! The simulation and its contention, brought in line after everything that happened.

use std::collections::VecDeque;

use quell_model::{BytesPerSecond, CpuId, CpuSet, KnobKind};

use super::live::Live;
use super::meters::MeasuredOfMemory;
use super::phases::Phases;
use super::solve::Rates;
use crate::kernel::{FULL_SPEED, Timer};
use crate::sim::Sim;
use crate::timers::TimerId;
use crate::workload::{PhaseSet, WorkloadSpec};

/// Bytes of a tenant that are copied when its memory moves (assumed; the copying takes as long as the knob).
const RESIDENT: f64 = 1e9;

/// Something that was set and acts only a while later.
#[derive(Clone, Debug, PartialEq)]
enum Setting {
    Frequency(CpuId, u32),
    GpuFrequency(u32),
    /// In one cache, or in all.
    Ways(usize, Option<usize>, u32),
    Throttle(usize, f64),
    /// This tenant's memory is on this socket; it was copied from there.
    Home(usize, Option<usize>, Option<usize>),
    Lift(Lifted),
}

/// Who runs without limits, and where frequencies have none.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Lifted {
    pub tenants: Vec<usize>,
    pub cpus: CpuSet,
    pub gpu: bool,
}

impl Setting {
    fn kind(&self) -> KnobKind {
        match self {
            Setting::Frequency(..) => KnobKind::MaxFrequencyKhz,
            Setting::GpuFrequency(_) => KnobKind::GpuFrequencyKhz,
            Setting::Ways(..) | Setting::Lift(_) => KnobKind::CacheWays,
            Setting::Throttle(..) => KnobKind::Throttle,
            Setting::Home(..) => KnobKind::MemoryNodes,
        }
    }
}

/// What was set on a tenant.
#[derive(Clone, Debug)]
struct Limits {
    /// The ways before any policy, …
    own_ways: u32,
    /// … and by cache.
    ways: Vec<u32>,
    /// None: as before any policy.
    throttle: Option<f64>,
    home: Option<usize>,
}

impl Limits {
    fn of(ways: u32, caches: usize) -> Limits {
        Limits { own_ways: ways, ways: vec![ways; caches], throttle: None, home: None }
    }
}

/// What was set on the machine.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    timer: TimerId,
    /// What is on its way, with when it acts, the first first.
    pending: VecDeque<(u64, Setting)>,
    /// By CPU.
    khz: Vec<u32>,
    /// The GPU's; None: its highest.
    gpu_khz: Option<u32>,
    /// By tenant.
    limits: Vec<Limits>,
    lifted: Lifted,
    /// Who was last said to run without limits.
    lifting: Lifted,
}

impl Settings {
    /// A CPU's highest frequency, as set, kHz.
    pub fn khz_of(&self, cpu: CpuId) -> Option<u32> {
        self.khz.get(cpu.index()).copied()
    }

    /// The GPU's highest frequency, as set, kHz; None: none was set.
    pub fn gpu_khz(&self) -> Option<u32> {
        self.gpu_khz
    }

    /// The ways of a cache that a tenant may fill, as set.
    pub fn ways_of(&self, tenant: usize, cache: usize) -> Option<u32> {
        self.limits.get(tenant)?.ways.get(cache).copied()
    }

    /// What memory bandwidth allocation leaves a tenant, as set, 0–1; None: what it did before any policy.
    pub fn throttle_of(&self, tenant: usize) -> Option<f64> {
        self.limits.get(tenant)?.throttle
    }

    /// The socket that a tenant's memory is on, as set; None: the one where it runs.
    pub fn home_of(&self, tenant: usize) -> Option<usize> {
        self.limits.get(tenant)?.home
    }
}

/// Contention and what was set.
#[derive(Clone, Debug)]
pub(crate) struct Contention {
    pub live: Live,
    pub settings: Settings,
}

impl Sim {
    /// From now on threads slow each other down.
    /// By tenant: the ways that it may fill.
    pub(crate) fn contend(&mut self, phases: Phases, ways: Vec<u32>) {
        let highest = self.machine.frequencies.max_khz;
        let caches = self.machine.topology.llcs().len();
        let limits: Vec<Limits> = ways.into_iter().map(|ways| Limits::of(ways, caches)).collect();
        let ways = limits.iter().map(|limits| limits.ways.clone()).collect();
        let settings = Settings {
            timer: self.kernel.timers.add(Timer::Settings),
            pending: VecDeque::new(),
            khz: vec![highest; self.guests.len()],
            gpu_khz: None,
            limits,
            lifted: Lifted::default(),
            lifting: Lifted::default(),
        };
        let live = Live::new(&self.machine, phases, ways, &mut self.kernel.timers);
        self.contention = Some(Box::new(Contention { live, settings }));
        self.kernel.phases.is_on = true;
        self.vms.iter_mut().for_each(|vm| vm.guest.phases.is_on = true);
    }

    /// What a workload that comes while time passes does, as far as caches and memory are concerned. The host knows it as
    /// this tenant.
    ///
    /// # Errors
    /// A sentence, if its profile makes no sense.
    pub(crate) fn admit_phases(&mut self, spec: &WorkloadSpec, tenant: usize) -> Result<PhaseSet, String> {
        let ways = spec.cache_ways.unwrap_or(u32::MAX);
        if let Some(Contention { live, settings }) = self.contention.as_deref_mut() {
            let caches = self.machine.topology.llcs().len();
            settings.limits.resize(settings.limits.len().max(tenant + 1), Limits::of(u32::MAX, caches));
            settings.limits[tenant] = Limits::of(ways, caches);
            return live
                .admit(tenant, vec![ways; caches], |phases| PhaseSet::new(spec, self.loads.len(), tenant, phases));
        }
        let mut phases = Phases::new(self.machine.socket(), self.machine.contention.on);
        let own = PhaseSet::new(spec, self.loads.len(), tenant, &mut phases)?;
        if !phases.is_empty() {
            let mut all = vec![u32::MAX; self.tenants.len().max(tenant + 1)];
            all[tenant] = ways;
            self.contend(phases, all);
        }
        Ok(own)
    }

    /// Everybody's speed follows who runs beside him.
    pub(crate) fn follow_contention(&mut self) {
        let Some(contention) = self.contention.as_deref_mut() else { return };
        let (kernel, vms, guests) = (&mut self.kernel, &mut self.vms, &self.guests);
        if kernel.phases.cpus.is_empty() && vms.is_empty() && self.graphs.gpu.is_none() && contention.live.is_settled()
        {
            return;
        }
        let now = kernel.now;
        let mut changed = std::mem::take(&mut kernel.phases.cpus);
        for vm in vms.iter_mut() {
            while let Some(vcpu) = vm.guest.phases.cpus.pop() {
                changed.extend(vm.host_cpu(vcpu));
            }
        }
        for cpu in changed.drain(..) {
            let phase = match guests[cpu] {
                Some((vm, vcpu)) => vms[vm].guest.phase_on(vcpu),
                None => kernel.phase_on(cpu),
            };
            contention.live.runs(cpu, phase, kernel.cpus[cpu].work_from, now, &mut kernel.timers);
        }
        kernel.phases.cpus = changed;
        if let Some(gpu) = &mut self.graphs.gpu
            && gpu.take_changed()
        {
            contention.live.gpu_runs(gpu.running().map(|work| work.bytes_per_ns));
        }
        let gpu_speed = contention.live.settle(now, |cpu, speed| {
            kernel.set_pace(cpu, speed);
            if let Some((vm, vcpu)) = guests[cpu] {
                vms[vm].guest.set_pace(vcpu, speed);
            }
        });
        if let (Some(gpu), Some(speed)) = (&mut self.graphs.gpu, gpu_speed) {
            gpu.set_speed(speed, now, &mut kernel.timers);
        }
        kernel.phases.memory_slowdown = contention.live.slowdown();
    }

    /// A timer of contention's is due.
    pub(crate) fn expire_contention(&mut self, timer: Timer) {
        match timer {
            Timer::Cache(number) => {
                if let Some(contention) = &mut self.contention {
                    contention.live.step(number as usize, self.kernel.now, &mut self.kernel.timers);
                }
            }
            _ => self.act_on_settings(),
        }
    }

    /// A CPU's highest frequency. Where contention is modelled it acts after its latency, else at once. A CPU's power
    /// states are not modelled.
    pub fn set_frequency(&mut self, cpu: CpuId, khz: u32) {
        let highest = self.machine.frequencies.max_khz;
        if self.contention.is_some() {
            return self.set_later(Setting::Frequency(cpu, khz.min(highest)));
        }
        let per_mille = u64::from(khz.min(highest)) * 1000 / u64::from(highest.max(1));
        self.kernel.set_speed(cpu, per_mille as u32);
        self.settle();
    }

    /// The GPU's highest frequency; it acts as a CPU's does.
    pub fn set_gpu_frequency(&mut self, khz: u32) {
        let Some(frequencies) = self.machine.gpu.map(|gpu| gpu.frequencies) else { return };
        if self.contention.is_some() {
            return self.set_later(Setting::GpuFrequency(khz.min(frequencies.max_khz)));
        }
        let speed = FULL_SPEED * u64::from(khz.min(frequencies.max_khz)) / u64::from(frequencies.max_khz);
        let now = self.kernel.now;
        self.graphs.gpu.iter_mut().for_each(|gpu| gpu.set_speed(speed, now, &mut self.kernel.timers));
    }

    /// The ways of one last-level cache, or of all, that a tenant may fill, after the knob's latency.
    pub(crate) fn set_cache_ways(&mut self, tenant: usize, cache: Option<usize>, ways: u32) {
        self.set_later(Setting::Ways(tenant, cache, ways));
    }

    /// The part (0–1) of what a core can draw from memory that a tenant's do, after the knob's latency.
    pub(crate) fn set_throttle(&mut self, tenant: usize, part: f64) {
        self.set_later(Setting::Throttle(tenant, part));
    }

    /// The socket that a tenant's memory is on; it is copied there until then. None: where it runs.
    pub(crate) fn set_home(&mut self, tenant: usize, home: Option<usize>) {
        let Some(Contention { settings, live }) = self.contention.as_deref_mut() else { return };
        let from = settings.limits.get(tenant).and_then(|limits| limits.home);
        let copied = from.or((live.sockets() == 2).then(|| home.map_or(0, |home| 1 - home.min(1))));
        let copied = copied.filter(|_| home != from);
        if let (Some(from), Some(to)) = (copied, home) {
            live.copy(from, to, RESIDENT / KnobKind::MemoryNodes.effect_latency().0 as f64, self.kernel.now);
        }
        self.set_later(Setting::Home(tenant, home, copied));
    }

    /// These tenants have what they had before any policy, and so have the frequencies of these CPUs, after the knobs'
    /// latency; all others have what was set.
    pub(crate) fn lift_limits(&mut self, lifted: Lifted) {
        if self.contention.as_ref().is_some_and(|contention| contention.settings.lifting != lifted) {
            self.set_later(Setting::Lift(lifted));
        }
    }

    fn set_later(&mut self, setting: Setting) {
        let Some(Contention { settings, .. }) = self.contention.as_deref_mut() else { return };
        if let Setting::Lift(lifted) = &setting {
            settings.lifting.clone_from(lifted);
        }
        let at = self.kernel.now + setting.kind().effect_latency().0;
        let place = settings.pending.partition_point(|(other, _)| *other <= at);
        settings.pending.insert(place, (at, setting));
        self.kernel.timers.set(settings.timer, settings.pending[0].0);
    }

    fn act_on_settings(&mut self) {
        let Some(Contention { settings, live }) = self.contention.as_deref_mut() else { return };
        let now = self.kernel.now;
        while settings.pending.front().is_some_and(|(at, _)| *at <= now)
            && let Some((_, setting)) = settings.pending.pop_front()
        {
            match setting {
                Setting::Frequency(cpu, khz) => settings.khz[cpu.index()] = khz,
                Setting::GpuFrequency(khz) => settings.gpu_khz = Some(khz),
                Setting::Ways(tenant, None, ways) => settings.limits[tenant].ways.fill(ways),
                Setting::Ways(tenant, Some(cache), ways) => settings.limits[tenant].ways[cache] = ways,
                Setting::Throttle(tenant, part) => settings.limits[tenant].throttle = Some(part),
                Setting::Home(tenant, home, copied) => {
                    settings.limits[tenant].home = home;
                    live.set_home(tenant, home, now);
                    if let (Some(from), Some(to)) = (copied, home) {
                        live.copy(from, to, -RESIDENT / KnobKind::MemoryNodes.effect_latency().0 as f64, now);
                    }
                }
                Setting::Lift(lifted) => settings.lifted = lifted,
            }
        }
        for (cpu, &khz) in settings.khz.iter().enumerate() {
            let highest = self.machine.frequencies.max_khz;
            let is_lifted = settings.lifted.cpus.contains(CpuId(cpu as u32));
            live.set_khz(cpu, if is_lifted { highest } else { khz }, now);
        }
        if let Some(gpu) = &self.machine.gpu {
            let highest = gpu.frequencies.max_khz;
            let khz = settings.gpu_khz.filter(|_| !settings.lifted.gpu).unwrap_or(highest);
            live.set_gpu_frequency(f64::from(khz) / f64::from(highest));
        }
        for (tenant, limits) in settings.limits.iter().enumerate() {
            let is_lifted = settings.lifted.tenants.contains(&tenant);
            for (cache, &ways) in limits.ways.iter().enumerate() {
                live.set_ways(tenant, cache, if is_lifted { limits.own_ways } else { ways });
            }
            live.set_throttle(tenant, limits.throttle.filter(|_| !is_lifted));
        }
        if let Some((at, _)) = settings.pending.front() {
            self.kernel.timers.set(settings.timer, *at);
        }
    }

    /// Is contention modelled here?
    #[must_use]
    pub fn has_contention(&self) -> bool {
        self.contention.is_some()
    }

    /// What each workload has done up to now, as its counters say; zeros where contention is not modelled.
    #[must_use]
    pub fn counted(&self) -> Vec<Rates> {
        let now = self.kernel.now;
        let none = vec![Rates::default(); self.loads.len()];
        self.contention
            .as_ref()
            .map_or(none, |contention| contention.live.counted_by(self.loads.len(), |p| p.workload, now))
    }

    /// The same of those whom the host knows as workloads.
    pub(crate) fn counted_by_tenant(&self) -> Vec<Rates> {
        let (now, tenants) = (self.kernel.now, self.tenants.len());
        let none = vec![Rates::default(); tenants];
        self.contention.as_ref().map_or(none, |contention| contention.live.counted_by(tenants, |p| p.tenant, now))
    }

    /// What has happened on a CPU up to now.
    #[must_use]
    pub fn counted_on(&self, cpu: CpuId) -> Rates {
        let now = self.kernel.now;
        self.contention.as_ref().map_or(Rates::default(), |contention| contention.live.counted_on(cpu.index(), now))
    }

    /// Bytes between caches and memory up to now, a GPU's included.
    #[must_use]
    pub fn memory_bytes(&self) -> f64 {
        self.contention.as_ref().map_or(0.0, |contention| contention.live.bytes(self.kernel.now))
    }

    /// The seconds up to now, each as often as references to memory took longer then than on idle memory.
    pub(crate) fn memory_stretched_seconds(&self) -> f64 {
        let contention = self.contention.as_ref();
        contention.map_or(0.0, |contention| contention.live.stretched_ns(self.kernel.now) / 1e9)
    }

    /// What policies may learn of caches and memory.
    #[must_use]
    pub fn measured_of_memory(&self) -> MeasuredOfMemory {
        self.machine.contention.counters.measured(self.has_contention())
    }

    /// Memory bandwidth in use since the warm-up; none where contention is not modelled.
    #[must_use]
    pub fn bandwidth(&self) -> Option<BytesPerSecond> {
        let seconds = self.measured().as_secs_f64();
        let used = (self.memory_bytes() - self.before.bytes) / seconds;
        (self.has_contention() && seconds > 0.0).then_some(BytesPerSecond(used))
    }

    /// Bytes of last-level caches that a workload has.
    #[must_use]
    pub fn llc_bytes(&self, workload: usize) -> f64 {
        self.contention.as_ref().map_or(0.0, |contention| contention.live.occupied(|phase| phase.workload == workload))
    }
}

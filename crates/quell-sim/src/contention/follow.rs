//! The simulation and its contention, brought in line after everything that happened.

use std::collections::VecDeque;

use quell_model::{BytesPerSecond, CpuId, KnobKind};

use super::live::Live;
use super::meters::MeasuredOfMemory;
use super::phases::Phases;
use super::solve::Rates;
use crate::kernel::Timer;
use crate::sim::Sim;
use crate::timers::TimerId;
use crate::workload::{PhaseSet, WorkloadSpec};

/// Something that was set and acts only a while later.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Setting {
    Frequency(CpuId, u32),
    Ways(usize, u32),
    /// This tenant runs alone, without limits; None: all limits are back.
    Lift(Option<usize>),
}

impl Setting {
    fn kind(self) -> KnobKind {
        match self {
            Setting::Frequency(..) => KnobKind::MaxFrequencyKhz,
            Setting::Ways(..) | Setting::Lift(_) => KnobKind::CacheWays,
        }
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
    /// By tenant.
    ways: Vec<u32>,
    lifted: Option<usize>,
    /// Who was last said to run without limits.
    lifting: Option<usize>,
}

impl Settings {
    /// A CPU's highest frequency, as set, kHz.
    pub fn khz_of(&self, cpu: CpuId) -> Option<u32> {
        self.khz.get(cpu.index()).copied()
    }

    /// The ways that a tenant may fill, as set.
    pub fn ways_of(&self, tenant: usize) -> Option<u32> {
        self.ways.get(tenant).copied()
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
        let settings = Settings {
            timer: self.kernel.timers.add(Timer::Settings),
            pending: VecDeque::new(),
            khz: vec![highest; self.guests.len()],
            ways,
            lifted: None,
            lifting: None,
        };
        let live = Live::new(&self.machine, phases, settings.ways.clone(), &mut self.kernel.timers);
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
            settings.ways.resize(settings.ways.len().max(tenant + 1), u32::MAX);
            settings.ways[tenant] = ways;
            return live.admit(tenant, ways, |phases| PhaseSet::new(spec, self.loads.len(), tenant, phases));
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
        contention.live.settle(now, |cpu, speed| {
            kernel.set_pace(cpu, speed);
            if let Some((vm, vcpu)) = guests[cpu] {
                vms[vm].guest.set_pace(vcpu, speed);
            }
        });
        kernel.phases.memory_slowdown = contention.live.slowdown();
    }

    /// A timer of contention's; false: it is somebody else's.
    pub(crate) fn expire_contention(&mut self, timer: Timer) -> bool {
        match timer {
            Timer::Cache(number) => {
                if let Some(contention) = &mut self.contention {
                    contention.live.step(number as usize, self.kernel.now, &mut self.kernel.timers);
                }
            }
            Timer::Settings => self.act_on_settings(),
            _ => return false,
        }
        true
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

    /// The ways of the last-level caches that a tenant may fill, after the knob's latency.
    pub(crate) fn set_cache_ways(&mut self, tenant: usize, ways: u32) {
        self.set_later(Setting::Ways(tenant, ways));
    }

    /// This tenant runs at the highest frequency and with all ways, after the knobs' latency; None: what was set is back.
    pub(crate) fn lift_limits(&mut self, tenant: Option<usize>) {
        if self.contention.as_ref().is_some_and(|contention| contention.settings.lifting != tenant) {
            self.set_later(Setting::Lift(tenant));
        }
    }

    fn set_later(&mut self, setting: Setting) {
        let Some(Contention { settings, .. }) = self.contention.as_deref_mut() else { return };
        if let Setting::Lift(tenant) = setting {
            settings.lifting = tenant;
        }
        let at = self.kernel.now + setting.kind().effect_latency().0;
        let place = settings.pending.partition_point(|&(other, _)| other <= at);
        settings.pending.insert(place, (at, setting));
        self.kernel.timers.set(settings.timer, settings.pending[0].0);
    }

    fn act_on_settings(&mut self) {
        let Some(Contention { settings, live }) = self.contention.as_deref_mut() else { return };
        let now = self.kernel.now;
        while settings.pending.front().is_some_and(|&(at, _)| at <= now)
            && let Some((_, setting)) = settings.pending.pop_front()
        {
            match setting {
                Setting::Frequency(cpu, khz) => settings.khz[cpu.index()] = khz,
                Setting::Ways(tenant, ways) => settings.ways[tenant] = ways,
                Setting::Lift(tenant) => settings.lifted = tenant,
            }
        }
        for (cpu, &khz) in settings.khz.iter().enumerate() {
            let highest = self.machine.frequencies.max_khz;
            live.set_khz(cpu, if settings.lifted.is_some() { highest } else { khz }, now);
        }
        for (tenant, &ways) in settings.ways.iter().enumerate() {
            live.set_ways(tenant, if settings.lifted == Some(tenant) { u32::MAX } else { ways });
        }
        if let Some(&(at, _)) = settings.pending.front() {
            self.kernel.timers.set(settings.timer, at);
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

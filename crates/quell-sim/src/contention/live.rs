//! Contention while time passes: who runs where, how fast that lets everybody be, and what the counters count.

use std::collections::BTreeMap;

use quell_model::{CpuId, CpuSet, Topology, topology};

use super::balance::{Class, Domain};
use super::cache::Cache;
use super::gpu::GpuPart;
use super::phases::{Phase, Phases};
use super::profile::Profile;
use super::solve::{Load, Rates, Running, Socket};
use crate::Machine;
use crate::kernel::{FULL_SPEED, PhaseId, Timer};
use crate::timers::Timers;

/// Siblings that are looked at; what a core has beyond them does not press.
const SIBLINGS: usize = 7;

/// What makes threads alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    phase: PhaseId,
    cache: usize,
    /// The socket whose memory it uses.
    memory: usize,
    khz: u32,
    /// What runs on the core's other CPUs, in ascending order.
    siblings: [PhaseId; SIBLINGS],
}

/// One CPU.
#[derive(Clone, Debug)]
struct Cpu {
    domain: usize,
    cache: usize,
    siblings: Vec<usize>,
    khz: u32,
    phase: PhaseId,
    /// None: what runs there has no profile, or nothing runs.
    class: Option<u32>,
    /// What happens in a nanosecond from `from` on, …
    rates: Rates,
    from: u64,
    /// … and what has happened before.
    counted: Rates,
}

/// How slow memory has been, on the socket where it is slowest.
#[derive(Clone, Debug)]
struct Slowdown {
    /// This many times its time on idle memory a reference takes from `from` on, …
    times: f64,
    from: u64,
    /// … and the nanoseconds before, each as often as references took longer then.
    stretched_ns: f64,
}

/// The whole machine's.
#[derive(Clone, Debug)]
pub(crate) struct Live {
    socket: Socket,
    step: u64,
    max_khz: u32,
    phases: Phases,
    cpus: Vec<Cpu>,
    domains: Vec<Domain>,
    gpu: GpuPart,
    slowdown: Slowdown,
    caches: Vec<Cache>,
    classes: Vec<Class>,
    keys: Vec<Key>,
    numbers: BTreeMap<Key, u32>,
    /// By tenant and cache: the ways that it may fill.
    ways: Vec<Vec<u32>>,
    /// Is some tenant's memory on a certain socket?
    has_homes: bool,
    remote_ns: f64,
}

impl Live {
    pub fn new(machine: &Machine, phases: Phases, ways: Vec<Vec<u32>>, timers: &mut Timers<Timer>) -> Live {
        let (topology, socket) = (&machine.topology, machine.socket());
        let place = |sets: &[CpuSet], cpu: CpuId| sets.iter().position(|set| set.contains(cpu));
        let cpu = |cpu: &topology::Cpu| Cpu {
            domain: place(topology.sockets(), cpu.id).unwrap_or(0),
            cache: place(topology.llcs(), cpu.id).unwrap_or(0),
            siblings: topology.siblings_of(cpu.id).iter().map(CpuId::index).take(SIBLINGS).collect(),
            khz: machine.frequencies.max_khz,
            phase: PhaseId::default(),
            class: None,
            rates: Rates::default(),
            from: 0,
            counted: Rates::default(),
        };
        let cache = |number: usize| {
            let timer = timers.add(Timer::Cache(number as u32));
            Cache::new(timer, socket.ways, socket.llc_bytes, phases.numbers())
        };
        Live {
            step: machine.contention.llc_step.0,
            max_khz: machine.frequencies.max_khz,
            cpus: topology.cpus().iter().map(cpu).collect(),
            domains: domains(topology),
            gpu: GpuPart::default(),
            slowdown: Slowdown { times: 1.0, from: 0, stretched_ns: 0.0 },
            caches: (0..topology.llcs().len()).map(cache).collect(),
            classes: Vec::new(),
            keys: Vec::new(),
            numbers: BTreeMap::new(),
            ways,
            has_homes: false,
            remote_ns: machine.memory.remote.0 as f64,
            phases,
            socket,
        }
    }

    /// Something else runs on a CPU from now on; before `from` it is on its way there and does nothing.
    pub fn runs(&mut self, cpu: usize, phase: PhaseId, from: u64, now: u64, timers: &mut Timers<Timer>) {
        self.count(cpu, now);
        self.cpus[cpu].from = from.max(now);
        if self.cpus[cpu].phase == phase {
            return;
        }
        self.cpus[cpu].phase = phase;
        let cache = &mut self.caches[self.cpus[cpu].cache];
        if phase != PhaseId::default() && !cache.is_stepping {
            cache.begin(now);
            timers.set(cache.timer, now + self.step);
        }
        self.classify(cpu, now);
        for at in 0..self.cpus[cpu].siblings.len() {
            self.classify(self.cpus[cpu].siblings[at], now);
        }
    }

    /// A CPU's frequency from now on.
    pub fn set_khz(&mut self, cpu: usize, khz: u32, now: u64) {
        self.cpus[cpu].khz = khz;
        self.domains[self.cpus[cpu].domain].is_dirty = true;
        self.classify(cpu, now);
    }

    /// The GPU runs something that moves this many bytes a nanosecond from now on; None: nothing.
    pub fn gpu_runs(&mut self, bytes_per_ns: Option<f64>) {
        self.set_gpu(bytes_per_ns, self.gpu.frequency());
    }

    /// The GPU's frequency as part of the highest from now on.
    pub fn set_gpu_frequency(&mut self, part: f64) {
        self.set_gpu(self.gpu.runs(), part);
    }

    fn set_gpu(&mut self, runs: Option<f64>, frequency: f64) {
        let (classes, keys) = (&mut self.classes, &mut self.keys);
        self.gpu.set(runs, frequency, &self.socket, &mut self.domains[0], |class| {
            classes.push(class);
            keys.push(Key { phase: PhaseId::default(), cache: 0, memory: 0, khz: 0, siblings: Default::default() });
            classes.len() as u32 - 1
        });
    }

    /// The ways of a cache that a tenant's data may fill from now on.
    pub fn set_ways(&mut self, tenant: usize, cache: usize, ways: u32) {
        self.ways[tenant][cache] = ways;
    }

    /// What memory bandwidth allocation leaves a tenant from now on; None: what it did before any policy.
    pub fn set_throttle(&mut self, tenant: usize, throttle: Option<f64>) {
        if !self.phases.set_throttle(tenant, throttle) {
            return;
        }
        for (at, key) in self.keys.iter().enumerate() {
            if let Some(phase) = self.phases.get(key.phase).filter(|phase| phase.tenant == tenant) {
                self.classes[at] = self.class(key, phase);
            }
        }
        self.domains.iter_mut().for_each(Domain::forget);
    }

    /// The socket that a tenant's memory is on from now on; None: the one where it runs.
    pub fn set_home(&mut self, tenant: usize, home: Option<usize>, now: u64) {
        if !self.phases.set_home(tenant, home) {
            return;
        }
        self.has_homes = true;
        (0..self.cpus.len()).for_each(|cpu| self.classify(cpu, now));
        self.domains.iter_mut().for_each(|domain| domain.is_dirty = true);
    }

    /// Number of sockets.
    pub fn sockets(&self) -> usize {
        self.domains.len()
    }

    /// This many bytes a nanosecond are copied from one socket's memory to another's from now on; less, if negative.
    pub fn copy(&mut self, from: usize, to: usize, bytes_per_ns: f64, now: u64) {
        for socket in [from, to] {
            self.domains[socket].others_move(bytes_per_ns, now);
        }
    }

    /// A tenant comes, which may fill these ways; `add` numbers the kinds of its work.
    pub fn admit<T>(&mut self, tenant: usize, ways: Vec<u32>, add: impl FnOnce(&mut Phases) -> T) -> T {
        self.ways.resize(self.ways.len().max(tenant + 1), vec![u32::MAX; self.caches.len()]);
        self.ways[tenant] = ways;
        let added = add(&mut self.phases);
        self.caches.iter_mut().for_each(|cache| cache.grow(self.phases.numbers()));
        added
    }

    /// Is nothing left to follow, where no GPU is?
    #[inline]
    pub fn is_settled(&self) -> bool {
        self.domains.iter().all(|domain| !domain.is_dirty)
    }

    /// Each speed follows what runs beside it. `apply` receives CPUs and their speeds. Returns the GPU's speed, if it
    /// runs something.
    pub fn settle(&mut self, now: u64, mut apply: impl FnMut(usize, u64)) -> Option<u64> {
        let (is_dirty, nothing) = (!self.is_settled(), Rates::default());
        for number in 0..self.domains.len() {
            if !self.domains[number].is_dirty {
                continue;
            }
            let balance = self.domains[number].settle(&self.socket, &self.classes);
            let own = self.domains[number].cpus.len();
            for at in 0..if self.has_homes { self.cpus.len() } else { own } {
                let cpu = if self.has_homes { at } else { self.domains[number].cpus[at] };
                let seen = &self.cpus[cpu];
                if self.has_homes && self.memory_of(cpu) != number {
                    continue;
                }
                let plain = || (FULL_SPEED * u64::from(seen.khz) / u64::from(self.max_khz.max(1))).max(1);
                let (speed, rates) = match seen.class.map(|class| balance.pace(class)) {
                    Some(Some(pace)) => (pace.speed, &pace.rates),
                    Some(None) => (0, &nothing),
                    None => (plain(), &nothing),
                };
                if *rates != seen.rates {
                    self.count(cpu, now);
                    self.cpus[cpu].rates = *rates;
                }
                apply(cpu, speed);
            }
        }
        if is_dirty {
            let times = self.domains.iter().map(Domain::slowdown).fold(1.0, f64::max);
            self.slowdown = Slowdown { times, from: now, stretched_ns: self.stretched_ns(now) };
        }
        self.gpu.settle(&self.domains[0], now)
    }

    /// The nanoseconds up to now, each as often as references to memory took longer then than on idle memory.
    pub fn stretched_ns(&self, now: u64) -> f64 {
        let Slowdown { times, from, stretched_ns } = self.slowdown;
        stretched_ns + times * now.saturating_sub(from) as f64
    }

    /// References to memory take this many times longer than on idle memory.
    pub fn slowdown(&self) -> f64 {
        self.slowdown.times
    }

    /// A cache's step is due: its parts move.
    pub fn step(&mut self, number: usize, now: u64, timers: &mut Timers<Timer>) {
        for cpu in 0..self.cpus.len() {
            if self.cpus[cpu].cache == number {
                self.count(cpu, now);
            }
        }
        let (cache, ways) = (&mut self.caches[number], &self.ways);
        let Some(changed) = cache.step(now, &self.phases, |tenant| ways[tenant][number]) else { return };
        timers.set(cache.timer, now + self.step);
        if !changed {
            return;
        }
        for (at, key) in self.keys.iter().enumerate().filter(|(_, key)| key.cache == number) {
            if let Some(phase) = self.phases.get(key.phase) {
                self.classes[at] = self.class(key, phase);
            }
        }
        if self.has_homes {
            self.domains.iter_mut().for_each(Domain::forget);
            return;
        }
        let domain = self.cpus.iter().find(|cpu| cpu.cache == number).map_or(0, |cpu| cpu.domain);
        self.domains[domain].forget();
    }

    /// Counts what a CPU has done up to now.
    fn count(&mut self, cpu: usize, now: u64) {
        let seen = &mut self.cpus[cpu];
        if now <= seen.from {
            return;
        }
        let span = (now - seen.from) as f64;
        seen.from = now;
        if seen.class.is_some() {
            seen.counted.add(&seen.rates, span);
            let used = &mut self.caches[seen.cache].window[usize::from(seen.phase.0)];
            used.rates.add(&seen.rates, span);
            used.ran += span;
        }
    }

    /// Finds out anew whom a CPU's thread is like.
    fn classify(&mut self, cpu: usize, now: u64) {
        let class = self.class_on(cpu);
        let before = self.cpus[cpu].class;
        if class == before {
            return;
        }
        self.count(cpu, now);
        self.cpus[cpu].class = class;
        before.into_iter().for_each(|class| self.domains[self.keys[class as usize].memory].remove(class));
        class.into_iter().for_each(|class| self.domains[self.keys[class as usize].memory].add(class));
        self.domains[self.cpus[cpu].domain].is_dirty = true;
    }

    /// The socket whose memory a CPU's thread uses.
    fn memory_of(&self, cpu: usize) -> usize {
        let seen = &self.cpus[cpu];
        seen.class.map_or(seen.domain, |class| self.keys[class as usize].memory)
    }

    fn class_on(&mut self, cpu: usize) -> Option<u32> {
        let seen = &self.cpus[cpu];
        let phase = self.phases.get(seen.phase)?;
        let mut siblings = [PhaseId::default(); SIBLINGS];
        siblings.iter_mut().zip(&seen.siblings).for_each(|(phase, &sibling)| *phase = self.cpus[sibling].phase);
        siblings.sort_unstable();
        let memory = phase.home.unwrap_or(seen.domain);
        let key = Key { phase: seen.phase, cache: seen.cache, memory, khz: seen.khz, siblings };
        if let Some(&known) = self.numbers.get(&key) {
            return Some(known);
        }
        let number = self.classes.len() as u32;
        self.classes.push(self.class(&key, phase));
        self.keys.push(key);
        self.numbers.insert(key, number);
        Some(number)
    }

    /// One thread of a class as things are now.
    fn class(&self, key: &Key, phase: &Phase) -> Class {
        let siblings: Vec<&Profile> =
            key.siblings.iter().filter_map(|&phase| self.phases.get(phase)).map(|phase| &phase.profile).collect();
        let running = Running {
            profile: &phase.profile,
            siblings: &siblings,
            frequency: f64::from(key.khz) / f64::from(self.max_khz),
            llc_bytes: self.caches[key.cache].bytes(key.phase),
            remote_ns: if self.has_homes && self.socket_of(key.cache) != key.memory { self.remote_ns } else { 0.0 },
            throttle: phase.throttle,
        };
        Class { load: Load::new(&self.socket, &running), ns_alone: phase.ns_alone }
    }

    fn socket_of(&self, cache: usize) -> usize {
        self.cpus.iter().find(|cpu| cpu.cache == cache).map_or(0, |cpu| cpu.domain)
    }

    /// What has happened on a CPU up to now.
    pub fn counted_on(&self, cpu: usize, now: u64) -> Rates {
        let seen = &self.cpus[cpu];
        let mut counted = seen.counted;
        counted.add(&seen.rates, now.saturating_sub(seen.from) as f64);
        counted
    }

    /// What has happened up to now, by whatever kinds of work are distinguished by.
    pub fn counted_by(&self, numbers: usize, of: impl Fn(&Phase) -> usize, now: u64) -> Vec<Rates> {
        let mut counted = vec![Rates::default(); numbers];
        let mut add = |phase: PhaseId, rates: &Rates, ns: f64| {
            if let Some(counted) = self.phases.get(phase).and_then(|known| counted.get_mut(of(known))) {
                counted.add(rates, ns);
            }
        };
        for cache in &self.caches {
            for (phase, _) in self.phases.each() {
                add(phase, &cache.before[usize::from(phase.0)], 1.0);
                add(phase, &cache.window[usize::from(phase.0)].rates, 1.0);
            }
        }
        for cpu in self.cpus.iter().filter(|cpu| cpu.class.is_some()) {
            add(cpu.phase, &cpu.rates, now.saturating_sub(cpu.from) as f64);
        }
        counted
    }

    /// Bytes between caches and memory up to now, a GPU's included.
    pub fn bytes(&self, now: u64) -> f64 {
        let cpus: f64 = (0..self.cpus.len()).map(|cpu| self.counted_on(cpu, now).bytes).sum();
        cpus + self.gpu.moved(now) + self.domains.iter().map(|domain| domain.moved_by_others(now)).sum::<f64>()
    }

    /// Bytes of all last-level caches that a kind of work has.
    pub fn occupied(&self, of: impl Fn(&Phase) -> bool) -> f64 {
        let chosen = || self.phases.each().filter(|(_, phase)| of(phase)).map(|(phase, _)| phase);
        self.caches.iter().map(|cache| chosen().map(|phase| cache.occupied(phase)).sum::<f64>()).sum()
    }
}

fn domains(topology: &Topology) -> Vec<Domain> {
    let cpus = |set: &CpuSet| set.iter().map(CpuId::index).collect();
    topology.sockets().iter().map(|set| Domain::new(cpus(set))).collect()
}

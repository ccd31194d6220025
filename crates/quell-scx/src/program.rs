//! The scheduler in the kernel: loaded, attached, controlled.

use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

use libbpf_rs::{MapHandle, RingBuffer, RingBufferBuilder};
use quell_model::{CpuId, CpuSet, Nanos, Rule, Topology, WorkloadId};
use serde::{Deserialize, Serialize};

use crate::beside::Beside;
use crate::layout::{CpuState, MAX_CPUS, MAX_SLOTS, NO_CPU, NO_SLOT, PARKED, SIBLINGS, Shared};
use crate::sets::SlotSet;
use crate::{ScxError, kernel, messages, requests};

mod descriptors;
mod operations;
mod parcel;
mod verified;

use descriptors::Descriptors;
use verified::Made;
pub use verified::{Verified, probe};

// Written by libbpf-cargo at build time.
#[allow(missing_docs, clippy::all, clippy::undocumented_unsafe_blocks, dead_code)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/grant.skel.rs"));
}
pub(crate) use skeleton::types;

/// The scheduler's name, as the kernel shows it while it is loaded (`/sys/kernel/sched_ext/root/ops`).
pub const NAME: &str = "quell_grant";

/// The kernel's number for "the loader went away" (`SCX_EXIT_UNREG`).
const UNREGISTERED: u64 = 64;
/// And for SysRq-S (`SCX_EXIT_SYSRQ`).
const BY_SYSRQ: u64 = 67;
/// In the kernel's number of an end: CPUs came or went (`SCX_ECODE_RSN_HOTPLUG`).
const OF_HOTPLUG: i64 = 1 << 32;
/// The wake-up latency of threads that have none of their own where workloads hold CPUs as one: Linux's
/// `sched_wakeup_granularity_ns` before EEVDF, on 8 CPUs and more.
const WAKE_UP_LATENCY: Nanos = Nanos::from_millis(4);
/// So often it is loaded, at most, where CPUs come and go meanwhile.
const LOADS: usize = 5;
/// The kernel ends a scheduler that was loaded while a CPU came or went within this time: an assumption.
const RACE_SHOWS: Duration = Duration::from_secs(1);

/// Waits, for 5 s at most, while a scheduler of this name is loaded: that of a loader that just died is gone soon.
pub fn await_end_of_ours() {
    kernel::await_end_of(NAME);
}

/// Who holds a CPU: a workload, none, or none by command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder(u32);

impl Default for Holder {
    fn default() -> Holder {
        Holder(NO_SLOT)
    }
}

impl Holder {
    /// The workload that holds it.
    #[must_use]
    pub fn workload(self) -> Option<WorkloadId> {
        ((self.0 as usize) < MAX_SLOTS).then_some(WorkloadId(self.0))
    }
}

/// How long who may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slices {
    /// A thread of an LC workload, before the next one of its workload has its turn.
    pub lc: Nanos,
    /// A thread of a BE workload or of the system.
    pub be: Nanos,
    /// The system's threads wait at most this long for a turn on a CPU that an LC workload holds beyond its guarantee, twice
    /// as long on one within it, beside the slice that runs there and a tick.
    pub system: Nanos,
    /// A thread that waited this long has a turn on any CPU that it may run on; on one of an LC workload that has work, and no more
    /// than it is guaranteed, after four times as long.
    pub starving: Nanos,
}

impl Default for Slices {
    /// Our assumptions. 20 ms is sched_ext's own default slice; 4 ms is a tick at 250 Hz; 50 ms is what EEVDF's fair
    /// server gives beside real-time threads in each second.
    fn default() -> Slices {
        Slices {
            lc: Nanos::from_millis(20),
            be: Nanos::from_millis(4),
            system: Nanos::from_millis(50),
            starving: Nanos::from_millis(500),
        }
    }
}

/// What of the scheduler is loaded beside the rest; what is not costs nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parts {
    /// Can there be deferrable servers?
    pub servers: bool,
    /// Can workloads hold CPUs as one?
    pub together: bool,
    /// Is each CPU in a set of its kind, on a machine with [`FEW_CPUS`], too? With more it is.
    pub sets: bool,
}

/// On a machine with this many CPUs looking at all of them is cheaper than keeping sets.
pub const FEW_CPUS: u32 = 16;

/// Quell's scheduler. From [`Grant::load`] on it schedules every thread that is not real-time; when this value is dropped,
/// or the process ends, the kernel's own scheduler takes over.
pub struct Grant {
    // Dropped first: nothing of the program may go while it is attached.
    _link: OwnedFd,
    /// Reports real-time threads that take a CPU, where no operation does.
    _switches: Option<OwnedFd>,
    pub(crate) parts: Parts,
    pub(crate) requests: Option<OwnedFd>,
    pub(crate) sockets: Vec<OwnedFd>,
    pub(crate) wakeups: RingBuffer<'static>,
    pub(crate) cgroups: MapHandle,
    pub(crate) kernel: Descriptors,
    pub(crate) beside: Beside,
    /// Attached workloads that no CPU goes to by itself when it is yielded.
    pub(crate) outside_the_line: SlotSet,
    shared: NonNull<Shared>,
}

// SAFETY: the pointer is to memory that lives as long as `beside` and holds nothing but atomics; libbpf's ring is not bound to
// a thread.
unsafe impl Send for Grant {}

pub(crate) fn refused(step: &'static str) -> impl FnOnce(libbpf_rs::Error) -> ScxError {
    move |source| ScxError::Refused { step, source, messages: messages::last() }
}

pub(crate) fn broken(step: &'static str) -> impl FnOnce(libbpf_rs::Error) -> ScxError {
    move |source| ScxError::Broken { step, source }
}

impl Grant {
    /// Loads the scheduler; the CPUs of `pool` are those that it hands out, which need not be there yet. No workload holds one
    /// yet, and every thread belongs to the system. `online` is asked for the CPUs that are online, and again where one came
    /// or went while the scheduler was loaded. Without `servers` it has none, and the kernel drops their code.
    ///
    /// # Errors
    /// If the kernel has no sched_ext, has a scheduler loaded already, or refuses ours; what `online` says.
    pub fn load(
        topology: &Topology,
        online: impl FnMut() -> Result<CpuSet, ScxError>,
        pool: &CpuSet,
        slices: Slices,
        parts: Parts,
    ) -> Result<Grant, ScxError> {
        Grant::begin(Verified::load(topology, parts)?, topology, online, pool, slices)
    }

    /// As [`Grant::load`], of what is verified already. Where a CPU came or went since, it is verified again. Another scheduler
    /// is not waited for: see [`crate::await_end_of_ours`].
    ///
    /// # Errors
    /// As those of [`Grant::load`].
    pub fn begin(
        mut verified: Verified,
        topology: &Topology,
        mut online: impl FnMut() -> Result<CpuSet, ScxError>,
        pool: &CpuSet,
        slices: Slices,
    ) -> Result<Grant, ScxError> {
        let parts = verified.made.parts;
        kernel::ready()?;
        for _ in 1..LOADS {
            if verified.is_stale() {
                verified = Verified::load(topology, parts)?;
            }
            let hotplugs = verified.made.hotplugs;
            let grant = Grant::start(verified, topology, &online()?, pool, slices)?;
            if grant.is_of_these_cpus(hotplugs) {
                return Ok(grant);
            }
            tracing::info!("a CPU was hotplugged while the scheduler was loading: loading it again");
            drop(grant);
            kernel::await_end();
            verified = Verified::load(topology, parts)?;
        }
        Grant::start(verified, topology, &online()?, pool, slices)
    }

    /// Did no CPU come or go since this many had? The kernel ends a scheduler that was loaded meanwhile.
    fn is_of_these_cpus(&self, seen: u64) -> bool {
        let end = Instant::now() + RACE_SHOWS;
        while kernel::hotplugs() != seen && Instant::now() < end {
            if self.shared().exit_kind.load(Acquire) != 0 {
                return self.beside.exit_code() & OF_HOTPLUG == 0;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        true
    }

    fn start(
        verified: Verified,
        topology: &Topology,
        online: &CpuSet,
        pool: &CpuSet,
        slices: Slices,
    ) -> Result<Grant, ScxError> {
        let Verified { kernel, made: Made { parts, sets, .. }, .. } = verified;
        let variables = kernel.map_descriptor("bss").and_then(Beside::of);
        let beside = variables.map_err(refused("mapping the scheduler's variables"))?;
        beside.set_giving_calls(requests::giving_calls());
        let shared = beside.shared();
        // SAFETY: `layout` mirrors the header that both sides were compiled from (the compiler compares them); the memory
        // is a shared mapping that stays as long as `beside`.
        prepare(unsafe { shared.as_ref() }, topology, online, pool, (slices, sets));
        let wakeups = ring_of(&kernel).map_err(refused("opening the ring of wake-ups"))?;
        let cgroups = kernel.map("cgroups").map_err(refused("opening the table of cgroups"))?;
        let link = kernel.start("grant_ops").map_err(refused("starting the scheduler"))?;
        let switches = kernel.has("cpu_switches").then(|| kernel.listen("cpu_switches")).transpose();
        let switches = switches.map_err(refused("listening to switches"))?;
        Ok(Grant {
            _link: link,
            _switches: switches,
            parts,
            requests: None,
            sockets: Vec::new(),
            wakeups,
            cgroups,
            kernel,
            beside,
            outside_the_line: SlotSet::default(),
            shared,
        })
    }

    pub(crate) fn shared(&self) -> &Shared {
        // SAFETY: as in `start`; `self.beside` keeps the mapping.
        unsafe { self.shared.as_ref() }
    }

    pub(crate) fn cpu(&self, cpu: CpuId) -> &CpuState {
        &self.shared().cpu[cpu.index() % MAX_CPUS]
    }

    /// The CPUs that the scheduler knows.
    pub fn cpus(&self) -> impl Iterator<Item = CpuId> + use<> {
        (0..self.shared().nr_cpus.load(Relaxed)).map(CpuId)
    }

    /// Who holds a CPU.
    #[must_use]
    pub fn holder(&self, cpu: CpuId) -> Holder {
        Holder(self.cpu(cpu).holder.load(Acquire))
    }

    /// The CPU's siblings are parked while it works on the request that began then.
    pub(crate) fn ban(&self, cpu: CpuId, request_start: Nanos) {
        self.shared().bans.store(1, Release);
        self.cpu(cpu).banned_for.store(request_start.0, Release);
    }

    /// Says whether there are bans at all: without any the scheduler need not look for them.
    pub(crate) fn count_bans(&self) {
        let is_one = |cpu: CpuId| self.cpu(cpu).banned_for.load(Acquire) != Rule::NO_REQUEST.0;
        if self.shared().bans.load(Relaxed) == 1 {
            self.shared().bans.store(self.cpus().any(is_one).into(), Release);
        }
    }

    /// Gives a CPU to a workload, or takes it from everybody, if it is still held as it was; true if that is a change. It
    /// takes effect at the CPU's next decision: see [`Grant::kick`]. None: somebody else holds it by now, or it is offline.
    pub fn hand_on(&mut self, cpu: CpuId, from: Holder, to: Option<WorkloadId>) -> Option<bool> {
        let to = to.map_or(PARKED, |id| id.0);
        self.shared().hand_on(cpu.index(), from.0, to)
    }

    /// These CPUs decide again what they run, at once. One call, however many they are.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn kick(&self, cpus: &CpuSet) -> Result<(), ScxError> {
        if cpus.is_empty() {
            return Ok(());
        }
        let words = &self.shared().kick;
        words.iter().for_each(|bits| bits.store(0, Relaxed));
        for cpu in cpus.iter().filter(|cpu| cpu.index() < MAX_CPUS) {
            words[cpu.index() / 64].fetch_or(1 << (cpu.index() % 64), Relaxed);
        }
        self.call("kick_cpus", "kicking CPUs")
    }

    pub(crate) fn call(&self, program: &str, step: &'static str) -> Result<(), ScxError> {
        self.kernel.call(program).map(drop).map_err(broken(step))
    }

    /// This thread decides from now on, by its number. When it wakes up it goes before best-effort work, as the kernel's own
    /// threads; if it may run on one CPU only, others have turns there only if they waited for long.
    pub fn set_loop(&self, thread: i32) {
        self.shared().loops_thread.store(thread as u64, Release);
    }

    /// Is it still the machine's scheduler?
    ///
    /// # Errors
    /// [`ScxError::Ended`] with the kernel's reason if not.
    pub fn check(&self) -> Result<(), ScxError> {
        let kind = self.shared().exit_kind.load(Acquire);
        if kind == 0 {
            return Ok(());
        }
        let (reason, message) = self.beside.why_ended();
        let why = match (kind, message.is_empty()) {
            (UNREGISTERED, _) => "it was asked to end".to_owned(),
            (_, true) => reason,
            (_, false) => format!("{reason} ({message})"),
        };
        Err(ScxError::Ended { why, by_hand: [UNREGISTERED, BY_SYSRQ].contains(&kind), at: self.beside.ended_at() })
    }

    /// What stood where when the kernel ended it, in the words of the kernel and of the scheduler's own `dump`; empty before.
    #[must_use]
    pub fn what_stood_where(&self) -> String {
        self.beside.dump()
    }

    /// CPUs that were offline report their place when they come.
    pub(crate) fn know_topology(&self, topology: &Topology) {
        know_topology(self.shared(), topology);
    }

    /// Times that a thread of the workload had to wait while no other one did, so far; 0 for one that has no place.
    #[must_use]
    pub fn queues_formed(&self, id: WorkloadId) -> u64 {
        self.shared().workload.get(id.index()).map_or(0, |state| state.formed.load(Relaxed))
    }
}

fn ring_of(kernel: &Descriptors) -> libbpf_rs::Result<RingBuffer<'static>> {
    let map = kernel.map("wakeups")?;
    let mut rings = RingBufferBuilder::new();
    rings.add(&map, |_| 0)?;
    rings.build()
}

fn prepare(shared: &Shared, topology: &Topology, online: &CpuSet, pool: &CpuSet, (slices, sets): (Slices, bool)) {
    shared.sets.store(sets.into(), Relaxed);
    shared.nr_cpus.store(topology.columns().min(MAX_CPUS) as u32, Relaxed);
    shared.generation.store(1, Relaxed);
    shared.lc_slice_ns.store(slices.lc.0, Relaxed);
    shared.be_slice_ns.store(slices.be.0, Relaxed);
    shared.system_ns.store(slices.system.0, Relaxed);
    shared.starving_ns.store(slices.starving.0, Relaxed);
    shared.wake_up_latency_ns.store(WAKE_UP_LATENCY.0, Relaxed);
    // The queues of later ones would not be there.
    shared.nr_caches.store(topology.llcs().len() as u32, Relaxed);
    for (cpu, state) in shared.cpu.iter().enumerate() {
        let id = CpuId(cpu as u32);
        state.holder.store(NO_SLOT, Relaxed);
        state.runs.store(NO_SLOT, Relaxed);
        state.banned_for.store(u64::MAX, Relaxed);
        state.in_pool.store(pool.contains(id).into(), Relaxed);
        state.online.store(online.contains(id).into(), Relaxed);
    }
    know_topology(shared, topology);
}

/// Which CPUs are one core, have one last-level cache, are on one socket. An offline CPU does not report it.
pub(crate) fn know_topology(shared: &Shared, topology: &Topology) {
    let number_of = |units: &[CpuSet], cpu| units.iter().position(|unit| unit.contains(cpu)).unwrap_or(0) as u32;
    for (cpu, state) in shared.cpu.iter().enumerate() {
        let id = CpuId(cpu as u32);
        let siblings = topology.siblings_of(id);
        let siblings = siblings.iter().map(|sibling| sibling.0).chain(std::iter::repeat(NO_CPU)).take(SIBLINGS);
        for (place, sibling) in state.sibling.iter().zip(siblings) {
            place.store(sibling, Relaxed);
        }
        let caches = shared.nr_caches.load(Relaxed).max(1);
        state.cache.store(number_of(topology.llcs(), id) % caches, Relaxed);
    }
    shared.place_cpus(topology);
    shared.sort();
}

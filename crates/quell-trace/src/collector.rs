//! The BPF program, loaded and attached.

use std::io::Read;
use std::mem::MaybeUninit;
use std::sync::{Arc, Mutex, PoisonError};

use libbpf_rs::query::ProgInfoIter;
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{Iter, Link, MapCore, MapFlags, OpenObject, RingBuffer, RingBufferBuilder};
use quell_model::Nanos;

use crate::event::{Event, Member, Slot};
use crate::obstacle::in_a_namespace;
use crate::wire::{self, Room, Totals, Watched};
use crate::{Edge, Losses, TraceError};

// Written by libbpf-cargo at build time.
#[allow(missing_docs, clippy::all, clippy::undocumented_unsafe_blocks)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/trace.skel.rs"));
}
use skeleton::{TraceSkel, TraceSkelBuilder};

/// Slots that can be watched at once.
pub const MAX_SLOTS: usize = 1024;
/// Threads that can be watched at once.
pub const MAX_THREADS: usize = 1 << 16;

/// Pairs of waker and wakee that can be counted at once.
pub const MAX_EDGES: u32 = 1 << 16;

/// Entries of a table that one system call reads.
const A_CALL: u32 = 1024;

/// The optional data to collect.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Report each scheduling event ([`Collector::drain`]). Totals are collected in any case.
    pub events: bool,
    /// Count wake-ups by waker and wakee ([`Collector::edges`]).
    pub edges: bool,
    /// Room for this many pairs of them; 0: [`MAX_EDGES`]. The kernel walks the whole table each time that it is read.
    pub edge_room: u32,
    /// Count wake-ups out of soft interrupts by workload ([`Collector::soft_interrupts`]).
    pub soft_interrupts: bool,
    /// Events whose counters are read at the switch, by bit ([`Collector::count_by`]).
    pub counted: u32,
    /// Measure the program's cost ([`Collector::cost`]); this costs some 50 ns per event itself.
    pub cost: bool,
}

impl Options {
    /// Is every wake-up looked at, with the context that it comes from?
    fn sees_wakers(self) -> bool {
        self.edges || self.soft_interrupts
    }
}

/// Cost of the program so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// CPU time, over all CPUs.
    pub time: Nanos,
    /// Number of runs.
    pub runs: u64,
}

/// The tracing program in the kernel. It ends when this value is dropped; nothing stays behind.
pub struct Collector {
    pub(crate) skeleton: TraceSkel<'static>,
    ring: RingBuffer<'static>,
    received: Arc<Mutex<Received>>,
    look: Link,
    /// The time of the last event that was taken.
    drained_to: Nanos,
    pub(crate) room: Room,
    /// Keeps the kernel's measuring of BPF programs on.
    pub(crate) stats: Option<std::os::fd::OwnedFd>,
}

#[derive(Default)]
struct Received {
    events: Vec<Event>,
    malformed: u64,
}

/// The lock is held only while the ring is read, on the thread that reads it.
fn lock(received: &Mutex<Received>) -> std::sync::MutexGuard<'_, Received> {
    received.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn refused(step: &'static str) -> impl FnOnce(libbpf_rs::Error) -> TraceError {
    move |source| TraceError::Refused { step, source }
}

pub(crate) fn broken(step: &'static str) -> impl FnOnce(libbpf_rs::Error) -> TraceError {
    move |source| TraceError::Broken { step, source }
}

impl Collector {
    /// Loads and attaches the program; it watches no thread yet.
    ///
    /// # Errors
    /// [`TraceError::Refused`] if the kernel does not allow it, [`TraceError::Namespace`] in a container with process
    /// numbers of its own.
    pub fn open(options: Options) -> Result<Collector, TraceError> {
        if in_a_namespace() {
            return Err(TraceError::Namespace);
        }
        quiet_libbpf();
        // Kernels without all symbols do not report where the preemption count is; interrupts are then counted.
        match Collector::load(options, false) {
            Err(error) if options.sees_wakers() => {
                tracing::debug!("interrupts are counted, since: {error}");
                Collector::load(options, true)
            }
            result => result,
        }
    }

    fn load(options: Options, count_interrupts: bool) -> Result<Collector, TraceError> {
        // The skeleton borrows this small object for as long as it lives, and a value cannot borrow from itself.
        let object: &'static mut MaybeUninit<OpenObject> = Box::leak(Box::new(MaybeUninit::uninit()));
        let mut open = TraceSkelBuilder::default().open(object).map_err(refused("reading the program"))?;
        if let Some(settings) = open.maps.rodata_data.as_deref_mut() {
            settings.report_events = options.events;
            settings.count_edges = options.edges;
            settings.count_softirqs = options.soft_interrupts;
            settings.counted_events = options.counted;
        }
        let room = match (options.edges, options.edge_room) {
            (false, _) => 1,
            (true, 0) => MAX_EDGES,
            (true, room) => room.min(MAX_EDGES),
        };
        open.maps.edges.set_max_entries(room).map_err(refused("reading the program"))?;
        if options.counted == 0 {
            open.maps.counted.set_max_entries(1).map_err(refused("reading the program"))?;
        }
        let programs = &mut open.progs;
        programs.look.set_autoattach(false);
        programs.settle.set_autoattach(false);
        programs.settle.set_autoload(options.counted != 0);
        programs.on_migrate.set_autoload(options.events);
        programs.on_waking.set_autoload(options.sees_wakers() && !count_interrupts);
        for counting in [
            &mut programs.on_waking_counted,
            &mut programs.on_irq,
            &mut programs.on_irq_end,
            &mut programs.on_softirq,
            &mut programs.on_softirq_end,
            &mut programs.on_timer,
            &mut programs.on_timer_end,
        ] {
            counting.set_autoload(options.sees_wakers() && count_interrupts);
        }
        let mut skeleton = open.load().map_err(refused("loading the program"))?;
        skeleton.attach().map_err(refused("attaching to the scheduler's tracepoints"))?;
        let look = skeleton.progs.look.attach().map_err(refused("attaching the look at all threads"))?;

        let received = Arc::new(Mutex::new(Received::default()));
        let sink = Arc::clone(&received);
        let mut rings = RingBufferBuilder::new();
        let take = move |data: &[u8]| {
            let mut received = lock(&sink);
            match wire::event(data) {
                Some(event) => received.events.push(event),
                None => received.malformed += 1,
            }
            0
        };
        rings.add(&skeleton.maps.events, take).map_err(refused("opening the ring of events"))?;
        let ring = rings.build().map_err(refused("opening the ring of events"))?;
        let stats = if options.cost { measure_programs() } else { None };
        Ok(Collector { skeleton, ring, received, look, drained_to: Nanos::ZERO, room: Room::default(), stats })
    }

    /// Watches a thread, and all that it will give birth to. No change if it is watched already, unless for another workload:
    /// then its totals begin anew.
    ///
    /// # Errors
    /// [`TraceError::TooMany`], or if the kernel refuses.
    pub fn watch(&mut self, member: Member) -> Result<(), TraceError> {
        let value = wire::unknown_member(member.slot);
        match self.skeleton.maps.members.update(&member.tid.to_ne_bytes(), &value, MapFlags::NO_EXIST) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == libbpf_rs::ErrorKind::AlreadyExists => {
                let known = self.skeleton.maps.members.lookup(&member.tid.to_ne_bytes(), MapFlags::ANY);
                let slot = known.ok().flatten().and_then(|value| wire::member(&value)).map(|(slot, _)| slot);
                match slot {
                    Some(slot) if slot != member.slot => {
                        self.unwatch(member.tid)?;
                        self.watch(member)
                    }
                    _ => Ok(()),
                }
            }
            Err(error) if error.kind() == libbpf_rs::ErrorKind::TooBig => Err(TraceError::TooMany { max: MAX_THREADS }),
            Err(source) => Err(TraceError::Broken { step: "watching a thread", source }),
        }
    }

    /// Stops watching a thread. No error if it ended.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn unwatch(&mut self, tid: i32) -> Result<(), TraceError> {
        match self.skeleton.maps.members.delete(&tid.to_ne_bytes()) {
            Err(error) if error.kind() != libbpf_rs::ErrorKind::NotFound => {
                Err(TraceError::Broken { step: "letting a thread go", source: error })
            }
            _ => Ok(()),
        }
    }

    /// Looks at every thread once, so that the events that follow have a beginning: reports
    /// [`crate::Change::Seen`] for watched threads and [`crate::Change::Holds`] for busy CPUs.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn look(&mut self) -> Result<(), TraceError> {
        let mut all = Iter::new(&self.look).map_err(broken("taking a snapshot of all threads"))?;
        all.read_to_end(&mut Vec::new())?;
        Ok(())
    }

    /// Takes the events since the last call, in the order of time. Call it every few milliseconds: the ring holds
    /// 262,144 events, and those that do not fit are counted in [`Losses::events`].
    ///
    /// # Errors
    /// If the ring cannot be read.
    pub fn drain(&mut self, into: &mut Vec<Event>) -> Result<(), TraceError> {
        self.ring.consume().map_err(broken("reading the ring of events"))?;
        let first = into.len();
        into.append(&mut lock(&self.received).events);
        // CPUs take their place in the ring a moment after they took the time.
        into[first..].sort_by_key(|event| event.at);
        // A switch that was reconstructed afterwards may belong before events taken earlier.
        for event in &mut into[first..] {
            event.at = event.at.max(self.drained_to);
        }
        self.drained_to = into.last().map_or(self.drained_to, |last| last.at.max(self.drained_to));
        Ok(())
    }

    /// Events lost so far.
    #[must_use]
    pub fn losses(&self) -> Losses {
        let lost = self.skeleton.maps.bss_data.as_deref().map(|data| &data.losses);
        let mut losses = lost.map_or(Losses::default(), |lost| Losses {
            events: lost.events,
            members: lost.members,
            edges: lost.edges,
            switches: lost.switches,
            interrupts: lost.interrupts,
        });
        losses.events += lock(&self.received).malformed;
        losses
    }

    /// Totals and state of one thread; `None` if it is not watched, or has ended.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn thread(&self, tid: i32) -> Result<Option<Watched>, TraceError> {
        let found = self.skeleton.maps.members.lookup(&tid.to_ne_bytes(), MapFlags::ANY);
        Ok(found
            .map_err(broken("reading a watched thread"))?
            .and_then(|value| wire::member(&value))
            .map(|(_, known)| known))
    }

    /// The watched threads with their totals and states. The kernel walks its whole table for that, which takes some
    /// 100 µs: for a few threads each millisecond there is [`Collector::thread`].
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn threads(&self) -> Result<Vec<(Member, Watched)>, TraceError> {
        let members = self.skeleton.maps.members.lookup_batch(A_CALL, MapFlags::ANY, MapFlags::ANY);
        let thread = |(key, value): (Vec<u8>, Vec<u8>)| {
            let tid = i32::from_ne_bytes(key.as_slice().try_into().ok()?);
            let (slot, known) = wire::member(&value)?;
            Some((Member { tid, slot }, known))
        };
        Ok(members.map_err(broken("reading the watched threads"))?.filter_map(thread).collect())
    }

    /// Totals of a workload's threads that ended while they were watched.
    #[must_use]
    pub fn ended(&self, slot: Slot) -> Totals {
        let value = self.skeleton.maps.ended.lookup(&u32::from(slot).to_ne_bytes(), MapFlags::ANY);
        value.ok().flatten().and_then(|value| wire::totals(&value)).unwrap_or_default()
    }

    /// Wake-ups of a workload's threads out of soft interrupts since the collector began: packets, and timers of the kernel's
    /// wheel, that came for it. A real-time kernel's soft interrupts are threads, and none of them count.
    #[must_use]
    pub fn soft_interrupts(&self, slot: Slot) -> u64 {
        let value = self.skeleton.maps.softirqs.lookup(&u32::from(slot).to_ne_bytes(), MapFlags::ANY);
        value.ok().flatten().and_then(|value| Some(u64::from_ne_bytes(value.try_into().ok()?))).unwrap_or_default()
    }

    /// The name of the process of a thread that ended while the collector was there; of some 16,000, the oldest are forgotten.
    #[must_use]
    pub fn name_of_ended(&self, tid: i32) -> Option<String> {
        let value = self.skeleton.maps.names.lookup(&tid.to_ne_bytes(), MapFlags::ANY);
        value.ok().flatten().map(|value| wire::name(&value))
    }

    /// Wake-ups of watched threads by waker, counted since the collector began. Wake-ups from interrupts have no waker
    /// and are left out ([`Losses::interrupts`] counts them).
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn edges(&self) -> Result<Vec<Edge>, TraceError> {
        let edges = self.skeleton.maps.edges.lookup_batch(A_CALL, MapFlags::ANY, MapFlags::ANY);
        let edge = |(key, value): (Vec<u8>, Vec<u8>)| {
            let (waker, wakee) = wire::edge(&key)?;
            let count = u64::from_ne_bytes(value.as_slice().try_into().ok()?);
            Some(Edge { waker: (waker != 0).then_some(waker), wakee, count })
        };
        Ok(edges.map_err(broken("reading wake-ups by waker"))?.filter_map(edge).collect())
    }

    /// Makes room: what was counted of this pair is forgotten.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn forget_edge(&self, edge: Edge) -> Result<(), TraceError> {
        let key = wire::edge_key(edge.waker.unwrap_or(0), edge.wakee);
        match self.skeleton.maps.edges.delete(&key) {
            Err(error) if error.kind() != libbpf_rs::ErrorKind::NotFound => {
                Err(TraceError::Broken { step: "forgetting wake-ups by waker", source: error })
            }
            _ => Ok(()),
        }
    }

    /// Cost of the program so far; `None` if it was not requested.
    #[must_use]
    pub fn cost(&self) -> Option<Cost> {
        self.stats.as_ref()?;
        let links = &self.skeleton.links;
        let links = [
            &links.on_switch,
            &links.on_wakeup,
            &links.on_wakeup_new,
            &links.on_migrate,
            &links.on_fork,
            &links.on_waking,
            &links.on_waking_counted,
            &links.on_irq,
            &links.on_irq_end,
            &links.on_softirq,
            &links.on_softirq_end,
            &links.on_timer,
            &links.on_timer_end,
        ];
        Some(cost_of(&links))
    }
}

/// What libbpf says goes to the log.
pub(crate) fn quiet_libbpf() {
    libbpf_rs::set_print(Some((libbpf_rs::PrintLevel::Info, |_, text| tracing::debug!("libbpf: {}", text.trim_end()))));
}

/// What the programs behind these links cost so far.
pub(crate) fn cost_of(links: &[&Option<Link>]) -> Cost {
    let ours: Vec<u32> = links.iter().filter_map(|link| link.as_ref()?.info().ok()).map(|info| info.prog_id).collect();
    let programs = ProgInfoIter::default().filter(|program| ours.contains(&program.id));
    programs.fold(Cost::default(), |cost, program| Cost {
        time: cost.time + Nanos(program.run_time_ns),
        runs: cost.runs + program.run_cnt,
    })
}

/// Has the kernel measure BPF programs for as long as the descriptor is open.
pub(crate) fn measure_programs() -> Option<std::os::fd::OwnedFd> {
    use std::os::fd::FromRawFd;
    // SAFETY: a system call without pointers.
    let descriptor = unsafe { libbpf_rs::libbpf_sys::bpf_enable_stats(libbpf_rs::libbpf_sys::BPF_STATS_RUN_TIME) };
    // SAFETY: the descriptor was just opened and has no other owner.
    (descriptor >= 0).then(|| unsafe { std::os::fd::OwnedFd::from_raw_fd(descriptor) })
}

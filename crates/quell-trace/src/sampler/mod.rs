//! Which watched threads wait, and what runs instead, at random instants: a sample, at a fraction of the cost of every event.

mod instants;
#[cfg(test)]
mod tests;
mod wire;

use std::io::Read;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Iter, Link, OpenObject, RingBuffer, RingBufferBuilder};
use quell_model::CpuId;
use quell_thread::clock::now;

use crate::TraceError;
use crate::collector::{Cost, MAX_THREADS, broken, cost_of, measure_programs, quiet_libbpf, refused};
use crate::event::{Member, Task};
use crate::obstacle::in_a_namespace;

// Written by libbpf-cargo at build time.
#[allow(missing_docs, clippy::all, clippy::undocumented_unsafe_blocks)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/sampler.skel.rs"));
}
use skeleton::types::listed;
use skeleton::{SamplerLinks, SamplerSkel, SamplerSkelBuilder};

pub use instants::Instants;
pub use wire::{Found, Sampled};

/// The sampling program in the kernel, attached within a session alone. It ends when this value is dropped; nothing stays behind.
pub struct Sampler {
    skeleton: SamplerSkel<'static>,
    ring: RingBuffer<'static>,
    received: Arc<Mutex<Vec<Option<Sampled>>>>,
    look: Link,
    instants: Instants,
    /// Was a record none?
    is_malformed: bool,
    /// Keeps the kernel's measuring of BPF programs on.
    stats: Option<OwnedFd>,
}

impl Sampler {
    /// Loads the program, which takes a moment.
    ///
    /// # Errors
    /// [`TraceError::Refused`] if the kernel does not allow it, [`TraceError::Namespace`] in a container with process
    /// numbers of its own.
    pub fn open() -> Result<Sampler, TraceError> {
        if in_a_namespace() {
            return Err(TraceError::Namespace);
        }
        quiet_libbpf();
        // The skeleton borrows this small object for as long as it lives, and a value cannot borrow from itself.
        let object: &'static mut MaybeUninit<OpenObject> = Box::leak(Box::new(MaybeUninit::uninit()));
        let open = SamplerSkelBuilder::default().open(object).map_err(refused("reading the program"))?;
        let skeleton = open.load().map_err(refused("loading the program"))?;
        let look = skeleton.progs.look.attach().map_err(refused("attaching the look at all threads"))?;
        let received = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&received);
        let mut rings = RingBufferBuilder::new();
        let take = move |data: &[u8]| {
            sink.lock().unwrap_or_else(PoisonError::into_inner).push(wire::sampled(data));
            0
        };
        rings.add(&skeleton.maps.records, take).map_err(refused("opening the ring of records"))?;
        let ring = rings.build().map_err(refused("opening the ring of records"))?;
        Ok(Sampler { skeleton, ring, received, look, instants: Instants::default(), is_malformed: false, stats: None })
    }

    /// Begins a session: watches these threads, their children to come, and no others. The program's cost is measured where the
    /// kernel allows it, until [`Sampler::measure_no_longer`].
    ///
    /// # Errors
    /// [`TraceError::TooMany`], or if the kernel refuses.
    pub fn begin(&mut self, members: &[Member]) -> Result<(), TraceError> {
        if members.len() > MAX_THREADS {
            return Err(TraceError::TooMany { max: MAX_THREADS });
        }
        self.detach();
        self.take(&mut Vec::new())?;
        self.is_malformed = false;
        self.instants = Instants { origin: now(), session: self.instants.session.wrapping_add(1).max(1) };
        if let Some(state) = self.skeleton.maps.bss_data.as_deref_mut() {
            state.cpus.fill(Default::default());
            for (at, member) in state.listed.iter_mut().zip(members) {
                *at = listed { tid: member.tid, slot: member.slot, unused: 0 };
            }
            state.listed[..members.len()].sort_unstable_by_key(|member| member.tid);
            state.listed_count = members.len() as u32;
            (state.lost, state.is_over) = (0, 0);
            (state.session, state.origin) = (self.instants.session, self.instants.origin.0);
        }
        self.stats = measure_programs();
        self.attach().map_err(refused("attaching to the scheduler's tracepoints"))?;
        self.look()
    }

    fn attach(&mut self) -> Result<(), libbpf_rs::Error> {
        let (programs, links) = (&self.skeleton.progs, &mut self.skeleton.links);
        // Births first: a thread that is born meanwhile is watched, too.
        links.on_fork = Some(programs.on_fork.attach()?);
        links.on_wakeup = Some(programs.on_wakeup.attach()?);
        links.on_wakeup_new = Some(programs.on_wakeup_new.attach()?);
        links.on_migrate = Some(programs.on_migrate.attach()?);
        links.on_switch = Some(programs.on_switch.attach()?);
        Ok(())
    }

    fn detach(&mut self) {
        self.skeleton.links = SamplerLinks::default();
        self.stats = None;
    }

    fn look(&self) -> Result<(), TraceError> {
        let mut all = Iter::new(&self.look).map_err(broken("taking a snapshot of all threads"))?;
        all.read_to_end(&mut Vec::new())?;
        Ok(())
    }

    /// The instants of the session.
    #[must_use]
    pub fn instants(&self) -> Instants {
        self.instants
    }

    /// Takes what was found since the last time. The ring holds some 100,000 records; one that does not fit is a loss
    /// ([`Sampler::has_lost`]).
    ///
    /// # Errors
    /// If the ring cannot be read.
    pub fn take(&mut self, into: &mut Vec<Sampled>) -> Result<(), TraceError> {
        self.ring.consume().map_err(broken("reading the ring of records"))?;
        let mut received = self.received.lock().unwrap_or_else(PoisonError::into_inner);
        for record in received.drain(..) {
            self.is_malformed |= record.is_none();
            into.extend(record);
        }
        Ok(())
    }

    /// Ends the session with what still waits and runs, up to this instant.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn end(&mut self, instants: u32, into: &mut Vec<Sampled>) -> Result<(), TraceError> {
        self.detach();
        self.take(into)?;
        let Some(state) = self.skeleton.maps.bss_data.as_deref_mut() else { return Ok(()) };
        (state.instants, state.is_over) = (instants, 1);
        let cpus = libbpf_rs::num_possible_cpus().map_err(broken("counting the CPUs"))?;
        let mut does_any_wait = false;
        for (number, cpu) in state.cpus.iter().enumerate().take(cpus) {
            does_any_wait |= cpu.waiting > 0;
            // What came last still runs; a CPU of which nothing is known has been idle from the beginning.
            let task = if cpu.is_known == 0 { Task::Idle } else { wire::task(cpu.running, cpu.slot) };
            if cpu.looked < instants {
                let what = Found::Runs(task, String::new());
                into.push(Sampled { from: cpu.looked, to: instants, cpu: CpuId(number as u32), what });
            }
        }
        if does_any_wait {
            self.look()?;
            self.take(into)?;
        }
        Ok(())
    }

    /// Calls of the program in this session.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.skeleton.maps.bss_data.as_deref().map_or(0, |state| state.cpus.iter().map(|cpu| cpu.calls).sum())
    }

    /// Is anything missing of this session?
    #[must_use]
    pub fn has_lost(&self) -> bool {
        self.is_malformed || self.skeleton.maps.bss_data.as_deref().is_some_and(|state| state.lost > 0)
    }

    /// Cost of the attached program since it was loaded, as far as it was measured; `None` if it is not.
    #[must_use]
    pub fn cost(&self) -> Option<Cost> {
        self.stats.as_ref()?;
        let links = &self.skeleton.links;
        Some(cost_of(&[&links.on_switch, &links.on_wakeup, &links.on_wakeup_new, &links.on_migrate, &links.on_fork]))
    }

    /// Measuring costs about as much as the program itself.
    pub fn measure_no_longer(&mut self) {
        self.stats = None;
    }
}

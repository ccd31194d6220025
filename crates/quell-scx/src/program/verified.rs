//! The scheduler opened, fitted to the kernel and verified by it; attached to nothing yet.

use std::mem::MaybeUninit;
use std::time::Duration;

use libbpf_rs::btf::Btf;
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use quell_model::{Nanos, Topology};
use serde::{Deserialize, Serialize};

use super::descriptors::Descriptors;
use super::skeleton::GrantSkelBuilder;
use super::{FEW_CPUS, NAME, Parts, operations, refused};
use crate::{ScxError, forms, kernel, messages, requests, sockets};

/// The kernel ends a scheduler under which a thread waits for this long, where no real-time thread can cause that; elsewhere
/// after 30 s, the longest that it allows.
const SHORT_WATCHDOG: Duration = Duration::from_secs(8);

/// The scheduler as the kernel verified it, not yet attached: that takes the kernel most of the time of loading, and may be
/// done on another thread, or in another process ([`Verified::into_parcel`]).
pub struct Verified {
    pub(super) kernel: Descriptors,
    pub(super) made: Made,
    pub(super) began: Nanos,
}

/// What a scheduler was verified for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Made {
    pub parts: Parts,
    /// Are sets of CPUs kept?
    pub sets: bool,
    /// Are there several last-level caches?
    pub caches: bool,
    /// Count of CPUs that came or went until then.
    pub hotplugs: u64,
}

impl Made {
    fn now_for(topology: &Topology, parts: Parts) -> Made {
        let sets = parts.sets || topology.columns() > FEW_CPUS as usize;
        Made { parts, sets, caches: topology.llcs().len() > 1, hotplugs: kernel::hotplugs() }
    }
}

impl Verified {
    /// Has the kernel verify the scheduler for this machine.
    ///
    /// # Errors
    /// If the kernel has no sched_ext, has another scheduler loaded already, or refuses ours.
    pub fn load(topology: &Topology, parts: Parts) -> Result<Verified, ScxError> {
        kernel::await_end_of(NAME);
        kernel::ready()?;
        Verified::spare(topology, parts)
    }

    /// As [`Verified::load`], also while a scheduler runs: to be attached when that has ended.
    ///
    /// # Errors
    /// If the kernel refuses ours.
    pub fn spare(topology: &Topology, parts: Parts) -> Result<Verified, ScxError> {
        let began = quell_linux::now();
        messages::listen();
        let made = Made::now_for(topology, parts);
        Ok(Verified { kernel: into_the_kernel(made)?, made, began })
    }

    /// When loading began, by the monotonic clock; of one from another process, when it came.
    #[must_use]
    pub fn began(&self) -> Nanos {
        self.began
    }

    /// Is it what [`Verified::load`] would make now?
    #[must_use]
    pub fn fits(&self, topology: &Topology, parts: Parts) -> bool {
        self.made == Made::now_for(topology, parts)
    }

    /// Did a CPU come or go since? The kernel would end the scheduler as soon as it is attached.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        kernel::hotplugs() != self.made.hotplugs
    }

    /// Count of CPUs that had come or gone when it was verified ([`crate::hotplugs`]).
    #[must_use]
    pub fn hotplugs(&self) -> u64 {
        self.made.hotplugs
    }

    /// The kernel memory that it takes, in bytes, without the machine code of its programs.
    #[must_use]
    pub fn memory(&self) -> u64 {
        self.kernel.memory()
    }
}

impl std::fmt::Debug for Verified {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Verified").field("made", &self.made).finish_non_exhaustive()
    }
}

/// Would the kernel take the scheduler, with all of its programs? It is loaded for that and let go, and does not run.
/// Without the privileges for that only what stands in files is looked at.
///
/// # Errors
/// As those of [`Verified::load`].
pub fn probe() -> Result<(), ScxError> {
    kernel::ready()?;
    if !kernel::may_load() {
        return Ok(());
    }
    messages::listen();
    let parts = Parts { servers: true, together: true, sets: true };
    into_the_kernel(Made { parts, sets: true, caches: true, hotplugs: kernel::hotplugs() }).map(drop)
}

/// Has the kernel check the scheduler, which does not run yet. libbpf is needed for that alone.
fn into_the_kernel(made: Made) -> Result<Descriptors, ScxError> {
    let Made { parts, sets, caches, hotplugs } = made;
    let mut object = MaybeUninit::uninit();
    let mut open = GrantSkelBuilder::default().open(&mut object).map_err(refused("reading the scheduler"))?;
    let types = Btf::from_vmlinux().map_err(refused("reading the kernel's types"))?;
    if let Some(unknown) = forms::unknown(&types).into_iter().next() {
        return Err(ScxError::UnknownKernel { unknown });
    }
    let prefers = forms::Preference::of_the_environment();
    let releases = forms::releases(&types) && prefers != forms::Preference::Later;
    let operations = open.struct_ops.grant_ops_mut();
    if !releases {
        operations.cpu_release = std::ptr::null_mut();
    }
    open.progs.cpu_switches.set_autoload(!releases);
    let operations = open.struct_ops.grant_ops_mut();
    operations.flags |= kernel::flag_of_bound_threads(&types);
    operations.hotplug_seq = hotplugs;
    let switches = open.maps.rodata_data.as_deref_mut().expect("libbpf maps a program's switches");
    switches.servers_on = parts.servers;
    switches.together_on = parts.together;
    switches.caches_on = caches;
    switches.sets_on = sets;
    switches.prefers = prefers as u32;
    // Threads beside servers may have to wait for two budgets, which may be 10 s.
    if kernel::serves_ext_threads(&types) && !parts.servers {
        operations.timeout_ms = SHORT_WATCHDOG.as_millis() as u32;
        switches.overdue_ns = (SHORT_WATCHDOG / 2).as_nanos() as u64;
    }
    open.progs.set_threads.set_autoload(parts.together);
    open.progs.request_given.set_autoload(requests::is_traceable(&types));
    for program in [&mut open.progs.data_came, &mut open.progs.data_read, &mut open.progs.socket_closes] {
        program.set_autoload(sockets::are_traceable(&types));
    }
    let loaded = open.load().map_err(refused("loading the scheduler"))?;
    operations::set(&loaded, &types).map_err(refused("setting the scheduler's operations"))?;
    Descriptors::of(loaded.object()).map_err(refused("keeping the scheduler's descriptors"))
}

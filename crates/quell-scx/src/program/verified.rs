//! The scheduler opened, fitted to the kernel and verified by it; attached to nothing yet.

use std::mem::MaybeUninit;
use std::time::Duration;

use libbpf_rs::OpenObject;
use libbpf_rs::btf::Btf;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use quell_model::{Nanos, Topology};

use super::skeleton::{GrantSkel, GrantSkelBuilder};
use super::{FEW_CPUS, NAME, Parts, refused};
use crate::{ScxError, forms, kernel, messages, requests, sockets};

/// The kernel ends a scheduler under which a thread waits for so long, where no real-time thread can cause that; elsewhere
/// after 30 s, the longest that it allows.
const SHORT_WATCHDOG: Duration = Duration::from_secs(8);

/// The scheduler as the kernel verified it, not yet attached: that takes the kernel most of the time of loading, and may be
/// done on another thread.
pub struct Verified {
    pub(super) skeleton: GrantSkel<'static>,
    pub(super) parts: Parts,
    pub(super) sets: bool,
    /// Count of CPUs that came or went until then.
    pub(super) hotplugs: u64,
    began: Nanos,
}

// SAFETY: libbpf's objects are not bound to a thread, and nothing else refers to these.
unsafe impl Send for Verified {}

impl Verified {
    /// Has the kernel verify the scheduler for this machine.
    ///
    /// # Errors
    /// If the kernel has no sched_ext, has a scheduler loaded already, or refuses ours.
    pub fn load(topology: &Topology, parts: Parts) -> Result<Verified, ScxError> {
        let began = quell_linux::now();
        // That of a loader that just died is gone soon.
        if matches!(kernel::ready(), Err(ScxError::Busy { name }) if name.starts_with(NAME)) {
            kernel::await_end();
        }
        kernel::ready()?;
        messages::listen();
        // The skeleton borrows this small object for as long as it lives, and a value cannot borrow from itself.
        let object: &'static mut MaybeUninit<OpenObject> = Box::leak(Box::new(MaybeUninit::uninit()));
        let sets = parts.sets || topology.columns() > FEW_CPUS as usize;
        let hotplugs = kernel::hotplugs();
        let skeleton = into_the_kernel(object, Parts { sets, ..parts }, topology.llcs().len() > 1, hotplugs)?;
        Ok(Verified { skeleton, parts, sets, hotplugs, began })
    }

    /// When loading began, by the monotonic clock.
    #[must_use]
    pub fn began(&self) -> Nanos {
        self.began
    }

    /// Did a CPU come or go since? The kernel would end the scheduler as soon as it is attached.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        kernel::hotplugs() != self.hotplugs
    }
}

impl std::fmt::Debug for Verified {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Verified").field("parts", &self.parts).finish_non_exhaustive()
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
    into_the_kernel(&mut MaybeUninit::uninit(), parts, true, kernel::hotplugs()).map(drop)
}

/// Has the kernel check the scheduler, which does not run yet.
fn into_the_kernel(
    object: &mut MaybeUninit<OpenObject>,
    parts: Parts,
    caches: bool,
    hotplugs: u64,
) -> Result<GrantSkel<'_>, ScxError> {
    let mut open = GrantSkelBuilder::default().open(object).map_err(refused("reading the scheduler"))?;
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
    switches.sets_on = parts.sets;
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
    open.load().map_err(refused("loading the scheduler"))
}

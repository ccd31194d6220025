//! The whole kernel half in this process: one thing happens at a time, and a test says what happens in between.

use std::ffi::c_void;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, PoisonError};

use quell_model::Nanos;
use quell_scx::Decisions;
use quell_scx::layout::{CpuState, Shared, WorkloadState};

/// Where a test may have something happen in between: `enum place`.
#[derive(Clone, Copy)]
#[repr(u32)]
pub enum Place {
    LookForRealTime,
    LookAtCurrent,
    TimerStart,
    Insert,
}

pub const WAKES: u64 = 1;

unsafe extern "C" {
    fn half_begin(cpus: u32) -> *const Shared;
    fn half_shared() -> *const Shared;
    fn half_counted(what: u32) -> u64;
    fn half_is_woken(cpu: u32) -> bool;
    fn half_begins_groups();
    fn half_makes_group(id: u64, parent: u64, delegated: bool) -> bool;
    fn half_removes_group(id: u64);
    fn half_limits_group(id: u64, quota: u64);
    fn half_throttles_group(id: u64, ran: u64, other: u64) -> bool;
    fn half_sets_clock(now: u64);
    fn half_does_at(place: u32, what: extern "C" fn());
    fn half_thread(number: u32, slot: u32, cpus: u64, cpu: u32) -> *mut c_void;
    fn half_has_real_time(cpu: u32, is_about_to: bool);
    fn half_enqueues(number: u32, flags: u64);
    fn half_chooses(thread: *mut c_void) -> u32;
    fn half_sends(number: u32) -> u32;
    fn half_hears_of_cookies(has: bool) -> bool;
    fn half_takes_chosen(cpu: u32, slot: u32) -> bool;
    fn half_told() -> u64;
    fn half_is_of_kernel(number: u32);
    fn half_first_on(cpu: u32) -> i32;
    fn half_slice(number: u32) -> u64;
    fn half_uses_upkeep(cpu: u32, ran: u64, now: u64) -> u64;
    fn half_dispatches(cpu: u32) -> i32;
    fn half_wants_since(thread: *mut c_void, since: u64);
    fn half_is_overdue(thread: *mut c_void) -> bool;
    fn half_hurries(slot: u32, now: u64);
    fn half_is_served_at_once(slot: u32, now: u64) -> bool;
    fn half_fetches(cpu: u32, now: u64);
    fn half_releases(cpu: u32);
    fn half_goes_offline(cpu: u32);
    fn grant_cpu_online(cpu: i32);
    fn half_patrols_by(at: u64);
    fn half_patrols();
    fn half_next_patrol() -> u64;
    fn half_throttles();
    fn half_drains(slot: u32);
    fn half_belongs_to(number: u32, slot: u32);
    fn half_is_mixed() -> bool;
    fn half_begins_serving();
    fn half_runs(number: u32);
    fn half_stops(number: u32, runnable: bool);
    fn half_idles(cpu: u32);
    fn half_rings_at(cpu: u32) -> u64;
    fn half_waits_for_server(cpu: u32) -> u32;
}

/// It is one set of variables: one test at a time has it.
static ONE: Mutex<()> = Mutex::new(());

pub struct Half {
    shared: &'static Shared,
    _one: MutexGuard<'static, ()>,
}

#[derive(Clone, Copy)]
pub struct Thread(*mut c_void);

/// What happens in between: on other CPUs, hence without the test's own values.
pub mod meanwhile {
    pub fn releases(cpu: u32) {
        // SAFETY: numbers only, within a call that a test makes.
        unsafe { super::half_releases(cpu) };
    }

    /// The thread with this number comes into its workload's queue.
    pub fn enqueues(number: u32, flags: u64) {
        // SAFETY: as above.
        unsafe { super::half_enqueues(number, flags) };
    }

    /// Another workload has the slot.
    pub fn is_reused(slot: u32, lc: bool) {
        // SAFETY: as above; the variables were set up by the test.
        let shared = unsafe { &*super::half_shared() };
        shared.workload[slot as usize].lc.store(lc.into(), super::Relaxed);
    }

    pub fn goes_offline(cpu: u32) {
        // SAFETY: as above.
        unsafe { super::half_goes_offline(cpu) };
    }

    pub fn patrols_by(at: u64) {
        // SAFETY: as above.
        unsafe { super::half_patrols_by(at) };
    }
}

// All calls below are of functions that take numbers, and threads that `thread` made: they live as long as the process.
impl Half {
    /// A machine with this many CPUs, idle and in the pool. It is one second old.
    pub fn with_cpus(cpus: u32) -> Half {
        let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the variables live as long as the process, and are atomics to us.
        let shared = unsafe { &*half_begin(cpus) };
        let half = Half { shared, _one: one };
        half.sets_clock(1_000_000_000);
        shared.lc_slice_ns.store(20_000_000, Relaxed);
        shared.be_slice_ns.store(4_000_000, Relaxed);
        shared.system_ns.store(50_000_000, Relaxed);
        shared.starving_ns.store(500_000_000, Relaxed);
        half
    }

    pub fn sets_clock(&self, now: u64) {
        // SAFETY: see above.
        unsafe { half_sets_clock(now) };
    }

    /// A workload that takes CPUs at a wake-up, in this slot.
    pub fn workload(&self, slot: u32, lc: bool) -> &WorkloadState {
        let state = &self.shared.workload[slot as usize];
        state.lc.store(lc.into(), Relaxed);
        state.limit.store(u32::MAX, Relaxed);
        state.in_line.store(1, Relaxed);
        state.on_wake_up.store(1, Relaxed);
        state.guaranteed.store(lc.into(), Relaxed);
        self.shared.nr_slots.fetch_max(slot + 1, Relaxed);
        state
    }

    /// The thread with this number is one of the kernel's for its CPU.
    pub fn is_of_kernel(&self, number: u32) {
        // SAFETY: see above.
        unsafe { half_is_of_kernel(number) };
    }

    /// The number of the thread that is first in the CPU's own queue.
    pub fn first_on(&self, cpu: u32) -> Option<u32> {
        // SAFETY: see above.
        unsafe { half_first_on(cpu) }.try_into().ok()
    }

    /// What is left of its slice, in nanoseconds.
    pub fn slice(&self, number: u32) -> u64 {
        // SAFETY: see above.
        unsafe { half_slice(number) }
    }

    /// The kernel's upkeep has run on the CPU for this long, in nanoseconds: what is left of its budget.
    pub fn uses_upkeep(&self, cpu: u32, ran: u64, now: u64) -> u64 {
        // SAFETY: numbers only.
        unsafe { half_uses_upkeep(cpu, ran, now) }
    }

    /// How often the decision of this name was made.
    pub fn counted(&self, name: &str) -> u64 {
        let place = Decisions::NAMES.iter().position(|&decision| decision == name).expect("a decision");
        // SAFETY: see above.
        unsafe { half_counted(place as u32) }
    }

    /// How often the loader was woken up, since it was asked last.
    pub fn notified(&self) -> u64 {
        // SAFETY: see above.
        unsafe { half_told() }
    }

    pub fn shared(&self) -> &Shared {
        self.shared
    }

    pub fn comes_online(&self, cpu: u32) {
        // SAFETY: see above.
        unsafe { grant_cpu_online(cpu as i32) };
    }

    pub fn cpu(&self, cpu: u32) -> &CpuState {
        &self.shared.cpu[cpu as usize]
    }

    pub fn fetches(&self) -> u64 {
        self.shared.fetches.load(Relaxed)
    }

    /// A thread that sleeps, may run on these CPUs, and ran on the first of them.
    pub fn thread(&self, number: u32, slot: u32, cpus: u64) -> Thread {
        // SAFETY: see above.
        Thread(unsafe { half_thread(number, slot, cpus, cpus.trailing_zeros()) })
    }

    pub fn does_at(&self, place: Place, what: extern "C" fn()) {
        // SAFETY: see above; the function is static.
        unsafe { half_does_at(place as u32, what) };
    }

    /// A real-time thread has the CPU, or is about to.
    pub fn has_real_time(&self, cpu: u32, is_about_to: bool) {
        // SAFETY: see above.
        unsafe { half_has_real_time(cpu, is_about_to) };
    }

    pub fn enqueues(&self, number: u32, flags: u64) {
        meanwhile::enqueues(number, flags);
    }

    pub fn chooses(&self, thread: Thread) -> u32 {
        // SAFETY: see above.
        unsafe { half_chooses(thread.0) }
    }

    /// The thread with this number wakes up: the CPU on which it was put when that was chosen, or `NO_CPU`.
    pub fn sends(&self, number: u32) -> u32 {
        // SAFETY: see above.
        unsafe { half_sends(number) }
    }

    /// A thread has a cookie of core scheduling, or none has, and the patrol comes: does the loader learn that one has?
    pub fn hears_of_cookies(&self, has: bool) -> bool {
        // SAFETY: see above.
        unsafe { half_hears_of_cookies(has) }
    }

    pub fn takes_chosen(&self, cpu: u32, slot: u32) -> bool {
        // SAFETY: see above.
        unsafe { half_takes_chosen(cpu, slot) }
    }

    /// The number of the thread that the CPU runs next.
    pub fn dispatches(&self, cpu: u32) -> Option<u32> {
        // SAFETY: see above.
        u32::try_from(unsafe { half_dispatches(cpu) }).ok()
    }

    pub fn wants_since(&self, thread: Thread, since: u64) {
        // SAFETY: see above.
        unsafe { half_wants_since(thread.0, since) };
    }

    pub fn is_overdue(&self, thread: Thread) -> bool {
        // SAFETY: see above.
        unsafe { half_is_overdue(thread.0) }
    }

    pub fn hurries(&self, slot: u32, now: u64) {
        // SAFETY: see above.
        unsafe { half_hurries(slot, now) };
    }

    pub fn is_served_at_once(&self, slot: u32, now: u64) -> bool {
        // SAFETY: see above.
        unsafe { half_is_served_at_once(slot, now) }
    }

    pub fn fetch(&self, cpu: u32, now: u64) {
        // SAFETY: see above.
        unsafe { half_fetches(cpu, now) };
    }

    pub fn patrols(&self) {
        // SAFETY: see above.
        unsafe { half_patrols() };
    }

    pub fn next_patrol(&self) -> u64 {
        // SAFETY: see above.
        unsafe { half_next_patrol() }
    }

    /// The thread's cgroup is another workload's from now on.
    pub fn belongs_to(&self, number: u32, slot: u32) {
        // SAFETY: see above.
        unsafe { half_belongs_to(number, slot) };
    }

    /// Threads that are counted in the slot's queue.
    pub fn waiting(&self, slot: u32) -> u64 {
        let state = &self.shared.workload[slot as usize];
        state.queued.load(Relaxed) - state.taken.load(Relaxed)
    }

    /// The quota of all threads is used up, until 100 ms from now.
    pub fn throttles(&self) {
        // SAFETY: see above.
        unsafe { half_throttles() };
    }

    pub fn drains(&self, slot: u32) {
        // SAFETY: see above.
        unsafe { half_drains(slot) };
    }

    /// A server for the workload in this slot, the CPU's first.
    pub fn serves(&self, cpu: u32, slot: u32, budget: Nanos, period: Nanos, now: Nanos) {
        // SAFETY: see above.
        unsafe { half_begins_serving() };
        let serving = &self.shared.serving[cpu as usize];
        serving.server[0].begin(budget, period, now);
        serving.server[0].slot.store(slot, Relaxed);
        serving.server[0].on.store(1, Relaxed);
        serving.servers.store(1, Relaxed);
        self.shared.workload[slot as usize].servers.store(1, Relaxed);
    }

    pub fn runs(&self, number: u32) {
        // SAFETY: see above.
        unsafe { half_runs(number) };
    }

    pub fn stops(&self, number: u32, runnable: bool) {
        // SAFETY: see above.
        unsafe { half_stops(number, runnable) };
    }

    /// The CPU finds nothing to run.
    pub fn idles(&self, cpu: u32) {
        assert_eq!(self.dispatches(cpu), None);
        // SAFETY: see above.
        unsafe { half_idles(cpu) };
    }

    /// When the CPU's timer ends a budget, a period or a turn; 0: it is not set.
    pub fn rings_at(&self, cpu: u32) -> u64 {
        // SAFETY: see above.
        unsafe { half_rings_at(cpu) }
    }

    /// Threads that wait in the queue of the CPU's first server.
    pub fn waits_for_server(&self, cpu: u32) -> u32 {
        // SAFETY: see above.
        unsafe { half_waits_for_server(cpu) }
    }

    /// Was the CPU made to look again, if it is idle?
    pub fn is_woken(&self, cpu: u32) -> bool {
        // SAFETY: see above.
        unsafe { half_is_woken(cpu) }
    }

    /// A root cgroup, with the number 1, and no other ones.
    pub fn begins_groups(&self) {
        // SAFETY: see above.
        unsafe { half_begins_groups() };
    }

    /// A cgroup comes below another one, which an ordinary user owns or not. Has it a place?
    pub fn makes_group(&self, id: u64, parent: u64, delegated: bool) -> bool {
        // SAFETY: see above.
        unsafe { half_makes_group(id, parent, delegated) }
    }

    /// A cgroup that has a place goes.
    pub fn removes_group(&self, id: u64) {
        // SAFETY: see above.
        unsafe { half_removes_group(id) };
    }

    /// The cgroup, which has a place, may use this many nanoseconds in 100 ms.
    pub fn limits_group(&self, id: u64, quota: u64) {
        // SAFETY: see above.
        unsafe { half_limits_group(id, quota) };
    }

    /// A thread of the cgroup ran for this many nanoseconds: is the other cgroup throttled? Both have places.
    pub fn throttles_group(&self, id: u64, ran: u64, other: u64) -> bool {
        // SAFETY: see above.
        unsafe { half_throttles_group(id, ran, other) }
    }

    pub fn is_mixed(&self) -> bool {
        // SAFETY: see above.
        unsafe { half_is_mixed() }
    }
}

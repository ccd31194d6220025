//! Quell's scheduler in the kernel, as the Linux host's.

mod cookies;
mod exported;
mod fetch;
mod grants;
mod hogs;
mod observe;
mod rules;
mod servers;
mod together;
mod wait;
mod workloads;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use quell_linux::sched::Kernel;
use quell_linux::scheduler::{Activity, Scheduler, Working};
use quell_linux::{LinuxError, Roots};
use quell_model::{
    Capabilities, CpuSet, Event, Key, Knob, KnobKind, KnobSetting, Nanos, Plan, RuleKind, Signal, SignalSet, Support,
    Topology, View, Wake, Workload, WorkloadId,
};

use self::cookies::Cookies;
use self::exported::Exported;
use self::fetch::Fetcher;
use self::hogs::Hogs;
use self::servers::Served;
use self::workloads::Attached;
use crate::program::Holder;
use crate::together::ThreadSetting;
use crate::{Decisions, Grant, Parts, ScxError, Slices, Verified, requests, sockets};

/// How the loop waits for its next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Poll {
    /// On a CPU of its own, without sleeping.
    Dedicated,
    /// It sleeps until a queue forms or this time is over, and each time that there was nothing to do twice as long as
    /// before: the kernel's rules carry the reaction meanwhile. For small machines.
    Adaptive(Nanos),
}

/// How the scheduler and the loop that serves it run.
#[derive(Clone, Debug)]
pub struct ScxOptions {
    /// The CPUs that are handed out; None: all. Those that are offline are handed out when they come.
    pub pool: Option<CpuSet>,
    /// Time slices and bounds.
    pub slices: Slices,
    /// How it waits.
    pub poll: Poll,
    /// The names of the workloads that CPUs are granted to; None: all. The others' threads are the system's.
    pub granted: Option<BTreeSet<String>>,
    /// Are there to be deferrable servers, and workloads that hold CPUs as one? What is not there costs nothing.
    pub parts: Parts,
}

impl Default for ScxOptions {
    /// All CPUs, adaptive with a look each millisecond.
    fn default() -> ScxOptions {
        ScxOptions {
            pool: None,
            slices: Slices::default(),
            poll: Poll::Adaptive(Nanos::from_millis(1)),
            granted: None,
            parts: Parts::default(),
        }
    }
}

/// Quell's scheduler, loaded. It grants CPUs, keeps rules, and measures what it alone sees; all else is the host's.
pub struct Scx {
    grant: Grant,
    topology: Arc<Topology>,
    roots: Roots,
    options: ScxOptions,
    /// In boxes: each turn looks which of them there are.
    slots: Vec<Option<Box<Attached>>>,
    /// As of the last observation.
    seen: Seen,
    reported: Vec<Event>,
    /// This long the next sleep lasts at most, if nothing wakes the loop.
    patience: Nanos,
    /// And this long if a queue waits that no rule serves; zero while there is none.
    queue_looks: Nanos,
    /// When it is looked next which cgroups the workloads have.
    cgroups_at: Nanos,
    /// Who cannot run because of real-time threads, and when it is looked for them next.
    hogs: Hogs,
    /// Workloads that are scheduled by cores.
    cookies: Cookies,
    /// Has the kernel enqueue threads anew.
    fetcher: Fetcher,
    /// Workloads with servers, and exhausted budgets.
    served: Served,
    /// What a plan gives threads of workloads that hold CPUs as one.
    given: Vec<ThreadSetting>,
}

/// What an observation leaves for the next one, and for commands.
struct Seen {
    /// Times that each CPU was yielded.
    yields: Vec<u64>,
    /// Who held each CPU then: a command about it was meant for that.
    holders: Vec<Holder>,
    /// Counters of decisions, and the time of their reading.
    decided: (Option<Nanos>, Decisions),
    /// When a queue of best-effort work in line was reported last.
    best_effort_at: Nanos,
    /// What programs say of their requests.
    exported: Exported,
}

impl Scx {
    /// Loads the scheduler. The calling thread is the loop, which decides.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn load(topology: Arc<Topology>, roots: Roots, options: ScxOptions) -> Result<Scx, ScxError> {
        let verified = Verified::load(&topology, options.parts)?;
        Scx::begin(verified, topology, roots, options)
    }

    /// As [`Scx::load`], of what is verified already, with the same parts.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn begin(
        verified: Verified,
        topology: Arc<Topology>,
        roots: Roots,
        options: ScxOptions,
    ) -> Result<Scx, ScxError> {
        let grant = Scx::attach(verified, &topology, &roots, &options)?;
        Scx::with(grant, topology, roots, options)
    }

    /// The first half of [`Scx::begin`]: the kernel attaches it. That may take long, and no signal ends it: any thread may call this.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn attach(
        verified: Verified,
        topology: &Topology,
        roots: &Roots,
        options: &ScxOptions,
    ) -> Result<Grant, ScxError> {
        let began = verified.began();
        let possible = quell_linux::sysfs::possible(&roots.sys)?;
        let pool = options.pool.as_ref().unwrap_or(&possible);
        let online = || Ok(quell_linux::sysfs::online(&roots.sys)?);
        let grant = Grant::begin(verified, topology, online, pool, options.slices)?;
        tracing::info!(after = %(quell_linux::now() - began), servers = options.parts.servers, together = options.parts.together, "Quell's scheduler runs");
        Ok(grant)
    }

    /// The second half. The calling thread is the loop, which decides.
    ///
    /// # Errors
    /// If the kernel gives no pidfds.
    pub fn with(grant: Grant, topology: Arc<Topology>, roots: Roots, options: ScxOptions) -> Result<Scx, ScxError> {
        grant.set_loop(rustix::thread::gettid().as_raw_nonzero().get());
        let columns = topology.columns();
        Ok(Scx {
            grant,
            topology,
            roots,
            options,
            slots: Vec::new(),
            seen: Seen {
                yields: vec![0; columns],
                holders: vec![Holder::default(); columns],
                decided: (None, Decisions::default()),
                best_effort_at: Nanos::ZERO,
                exported: Exported::default(),
            },
            reported: Vec::new(),
            patience: Nanos::ZERO,
            queue_looks: Nanos::ZERO,
            cgroups_at: Nanos::ZERO,
            hogs: Hogs::default(),
            cookies: Cookies::default(),
            fetcher: Fetcher { threads: Kernel::new()?, fetched: 0 },
            served: Served::default(),
            given: Vec::new(),
        })
    }

    /// The program in the kernel.
    #[must_use]
    pub fn grant(&self) -> &Grant {
        &self.grant
    }

    fn tell_what_stood_where(&self) {
        let dump = self.grant.what_stood_where();
        if !dump.is_empty() {
            tracing::warn!("what stood where when the kernel ended Quell's scheduler:\n{dump}");
        }
    }

    fn look(&mut self, wanted: SignalSet) -> Result<(), ScxError> {
        self.grant.check().inspect_err(|_| self.tell_what_stood_where())?;
        self.fetch_who_stays();
        self.look_around()?;
        self.look_for_stuck()?;
        self.look_for_cookies()?;
        // What a long request calls for is a ban of siblings. Where no CPU has one, the clock is not worth its cost.
        if wanted.contains(Signal::RequestStart) && self.topology.has_siblings() {
            match self.seen.exported.covers_all(quell_linux::now()) {
                true => self.grant.ignore_requests(),
                false => self.grant.watch_requests()?,
            }
        }
        if wanted.contains(Signal::UnreadDelay) {
            self.grant.watch_sockets()?;
        }
        Ok(())
    }
}

impl fmt::Debug for Scx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scx").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Scheduler for Scx {
    fn report(&self, found: &mut Capabilities) {
        *found = capabilities(std::mem::take(found));
    }

    fn check(&self, workload: &Workload) -> Result<(), LinuxError> {
        if self.is_granted(workload) || self.is_to_be_served(workload) {
            self.cgroups(workload)?;
        }
        Ok(())
    }

    fn attach(&mut self, id: WorkloadId, workload: &Workload) -> Result<(), LinuxError> {
        if self.is_granted(workload) {
            self.enter(id, workload.clone())?;
        } else {
            self.served.others.insert(id, workload.clone());
        }
        Ok(())
    }

    fn update(&mut self, id: WorkloadId, workload: &Workload) -> Result<(), LinuxError> {
        if let Some(other) = self.served.others.get_mut(&id) {
            *other = workload.clone();
        }
        if self.cookies.describe(id, workload) {
            return Ok(());
        }
        Ok(self.describe(id, workload)?)
    }

    fn detach(&mut self, id: WorkloadId) -> Result<(), LinuxError> {
        self.served.others.remove(&id);
        self.cookies.forget(id);
        self.take_servers(id)?;
        Ok(self.leave(id)?)
    }

    fn prepare(&mut self, wanted: SignalSet) -> Result<SignalSet, LinuxError> {
        self.look(wanted)?;
        Ok(observe::left_to_sensors(wanted))
    }

    fn take_exported(&mut self, workers: &[Working], covered: bool) {
        self.seen.exported.take(workers, covered, quell_linux::now());
    }

    fn observe(&mut self, wanted: SignalSet, _: &[Activity], view: &mut View, events: &mut Vec<Event>) {
        self.fill(wanted, view);
        self.collect(events);
    }

    fn carry_out(&mut self, plan: &Plan, _: &mut Vec<KnobSetting>, events: &mut Vec<Event>) -> Result<(), LinuxError> {
        Ok(self.hand_out(plan, events)?)
    }

    fn keeps(&self, knob: &Knob, workload: WorkloadId) -> bool {
        self.keeps_setting(knob, workload)
    }

    fn set(&mut self, settings: &[KnobSetting]) -> Result<(), LinuxError> {
        Ok(self.give(settings)?)
    }

    fn warnings(&self) -> Vec<String> {
        self.cookies.lines().chain(unplaced_line(self.grant.unplaced())).collect()
    }

    fn unplaced_cgroups(&self) -> u64 {
        self.grant.unplaced()
    }

    fn wait(&mut self, until: Wake) -> Result<Option<Wake>, LinuxError> {
        self.wait_for(until)?;
        Ok(None)
    }
}

/// What is said of cgroups without a place; None: there is none. Powers of two, so that one more is no new line.
fn unplaced_line(count: u64) -> Option<String> {
    let least = 1_u64 << count.checked_ilog2()?;
    Some(format!(
        "at least {least} cgroups have no place in the scheduler's table (4,096 places, 256 a user): the strictest cpu.max among those \
         below one cgroup holds for all below it; remove cgroups that are not used (the metric quell_unplaced_cgroups has the number)"
    ))
}

/// What the stock host can, with Quell's scheduler around it.
#[must_use]
pub fn capabilities(stock: Capabilities) -> Capabilities {
    let mut can = stock;
    can.host = "scx".to_owned();
    for signal in [Signal::QueueingDelay, Signal::RunTime, Signal::Holder].into_iter().chain(Signal::DECISIONS) {
        can.signals.insert(signal, Support::Yes);
    }
    let limit = "this kernel does not trace system calls: a request begins when its thread wakes up; what a busy \
                 thread reads without sleeping is not seen";
    let clock = if requests::can_be_watched() { Support::Yes } else { Support::Partly(limit.to_owned()) };
    can.signals.insert(Signal::RequestStart, clock);
    let sockets = if sockets::can_be_watched() {
        Support::Yes
    } else {
        let why = "this kernel does not report when data arrives at sockets".to_owned();
        Support::No { why, fix: "use Linux 6.3 or later".to_owned() }
    };
    can.signals.insert(Signal::UnreadDelay, sockets);
    for rule in [RuleKind::Guaranteed, RuleKind::Burst, RuleKind::Limit, RuleKind::Rank, RuleKind::SiblingBan] {
        can.rules.insert(rule, Support::Yes);
    }
    can.rules.insert(RuleKind::Server, Support::Yes);
    can.rules.insert(RuleKind::Together, Support::Yes);
    let within = "between the threads and cgroups of one workload, and of the system; between workloads rights decide";
    for knob in [KnobKind::Weight, KnobKind::IdleOnly] {
        if can.knobs.get(&knob) == Some(&Support::Yes) {
            can.knobs.insert(knob, Support::Partly(within.to_owned()));
        }
    }
    can.keys.insert(Key::Grace, Support::Yes);
    can.grants = Support::Yes;
    can
}

#[cfg(test)]
mod tests {
    use super::unplaced_line;

    #[test]
    fn cgroups_without_a_place_are_a_line_that_few_more_do_not_change() {
        assert_eq!(unplaced_line(0), None);
        assert!(unplaced_line(1).unwrap().starts_with("at least 1 "));
        assert_eq!(unplaced_line(1024), unplaced_line(2047));
        assert_ne!(unplaced_line(1024), unplaced_line(2048));
    }
}

//! The host for policies that grant CPUs: the stock Linux host, and Quell's scheduler in the kernel.

mod apply;
mod fetch;
mod hogs;
mod observe;
mod wait;
mod workloads;

use std::collections::BTreeSet;
use std::sync::Arc;

use quell_linux::sched::Kernel;
use quell_linux::{LinuxHost, Roots};
use quell_model::{
    Capabilities, CpuSet, Event, Host, Key, KnobKind, Nanos, Plan, RuleKind, Signal, SignalSet, Support, Topology,
    View, Wake, Workload, WorkloadId,
};

use self::workloads::Attached;
use crate::program::Holder;
use crate::{Grant, ScxError, Slices, Stuck, requests, sockets};

/// How the loop waits for its next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Poll {
    /// On a CPU of its own, without sleeping.
    Dedicated,
    /// It sleeps until a queue forms or this time is over, and each time that there was nothing to do twice as long as
    /// before: the kernel's rules carry the reaction meanwhile. For small machines.
    Adaptive(Nanos),
}

/// How the host runs.
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
}

impl Default for ScxOptions {
    /// All CPUs, adaptive with a look each millisecond.
    fn default() -> ScxOptions {
        ScxOptions { pool: None, slices: Slices::default(), poll: Poll::Adaptive(Nanos::from_millis(1)), granted: None }
    }
}

/// A machine on which Quell's scheduler runs. What this host does not measure or set by itself, the stock Linux host
/// within does.
pub struct ScxHost {
    linux: LinuxHost,
    grant: Grant,
    topology: Arc<Topology>,
    roots: Roots,
    options: ScxOptions,
    slots: Vec<Option<Attached>>,
    /// What the stock host is told to do: kept for its memory.
    rest: Plan,
    /// As of the last observation, by CPU.
    yields: Vec<u64>,
    /// Who held each CPU then: a command about it was meant for that.
    holders: Vec<Holder>,
    told: Vec<Event>,
    /// So long the next sleep lasts at most, if nothing wakes the loop.
    patience: Nanos,
    /// And so long if a queue waits that no rule serves; zero while there is none.
    queue_looks: Nanos,
    /// When it is looked next which cgroups the workloads have.
    cgroups_at: Nanos,
    /// Who cannot run because of real-time threads, and when it is looked for them next.
    stuck: Vec<Stuck>,
    stuck_at: Nanos,
    /// To have the kernel enqueue threads anew, and how often that was asked for before.
    threads: Kernel,
    fetched: u64,
    /// CPUs that were offline when it was loaded, and have not come since.
    absent: CpuSet,
}

impl ScxHost {
    /// Loads the scheduler. The calling thread is the loop, which decides. The workloads that the stock host has already
    /// are attached to it too.
    ///
    /// # Errors
    /// If the kernel refuses, or a workload is not selected by cgroups alone.
    pub fn new(linux: LinuxHost, roots: Roots, options: ScxOptions) -> Result<ScxHost, ScxError> {
        let topology = linux.topology();
        let possible = quell_linux::sysfs::possible(&roots.sys)?;
        let pool = options.pool.unwrap_or(possible);
        let online = || Ok(quell_linux::sysfs::online(&roots.sys)?);
        let grant = Grant::load(&topology, online, &pool, options.slices)?;
        grant.set_loop(rustix::thread::gettid().as_raw_nonzero().get());
        let columns = topology.columns();
        let absent = possible.difference(&topology.all());
        let mut host = ScxHost {
            linux,
            grant,
            topology,
            roots,
            options,
            slots: Vec::new(),
            rest: Plan::default(),
            yields: vec![0; columns],
            holders: vec![Holder::default(); columns],
            told: Vec::new(),
            patience: Nanos::ZERO,
            queue_looks: Nanos::ZERO,
            cgroups_at: Nanos::ZERO,
            stuck: Vec::new(),
            stuck_at: Nanos::ZERO,
            threads: Kernel::new()?,
            fetched: 0,
            absent,
        };
        let known: Vec<(WorkloadId, Workload)> = host.linux.workloads().map(|(id, spec)| (id, spec.clone())).collect();
        for (id, spec) in known {
            if host.is_granted(&spec) {
                host.enter(id, spec)?;
            }
        }
        Ok(host)
    }

    /// The scheduler.
    #[must_use]
    pub fn grant(&self) -> &Grant {
        &self.grant
    }
}

impl Host for ScxHost {
    type Error = ScxError;

    fn capabilities(&self) -> Capabilities {
        capabilities(self.linux.capabilities())
    }

    fn observe(&mut self, wanted: SignalSet, view: &mut View, events: &mut Vec<Event>) -> Result<(), ScxError> {
        self.grant.check()?;
        self.fetch_who_stays();
        self.look_around()?;
        self.look_for_stuck()?;
        // What a long request calls for is a ban of siblings. Where no CPU has one, the clock is not worth its cost.
        if wanted.contains(Signal::RequestStart) && self.topology.has_siblings() {
            self.grant.watch_requests()?;
        }
        if wanted.contains(Signal::UnreadDelay) {
            self.grant.watch_sockets()?;
        }
        self.linux.observe(observe::left_to_linux(wanted), view, events)?;
        self.fill(wanted, view);
        self.hear(events);
        Ok(())
    }

    fn apply(&mut self, plan: &Plan, events: &mut Vec<Event>) -> Result<(), ScxError> {
        self.carry_out(plan, events)
    }

    fn wait(&mut self, until: Wake) -> Result<(), ScxError> {
        self.wait_for(until)
    }
}

/// What the stock host can, with Quell's scheduler around it.
#[must_use]
pub fn capabilities(stock: Capabilities) -> Capabilities {
    let mut can = stock;
    can.host = "scx".to_owned();
    for signal in [Signal::QueueingDelay, Signal::RunTime, Signal::Holder] {
        can.signals.insert(signal, Support::Yes);
    }
    let limit = "this kernel does not trace system calls: a request begins when its thread wakes up; what a busy \
                 thread reads without sleeping is not seen";
    let clock = if requests::can_be_watched() { Support::Yes } else { Support::Partly(limit.to_owned()) };
    can.signals.insert(Signal::RequestStart, clock);
    let sockets = if sockets::can_be_watched() {
        Support::Yes
    } else {
        let why = "this kernel does not tell when data comes to sockets".to_owned();
        Support::No { why, mend: "use Linux 6.3 or later".to_owned() }
    };
    can.signals.insert(Signal::UnreadDelay, sockets);
    for rule in [RuleKind::Guaranteed, RuleKind::Burst, RuleKind::Limit, RuleKind::Rank, RuleKind::SiblingBan] {
        can.rules.insert(rule, Support::Yes);
    }
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

//! The host for policies that grant CPUs: the stock Linux host, and Quell's scheduler in the kernel.

mod apply;
mod observe;
mod wait;

use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use quell_linux::{LinuxHost, Roots, cgroup};
use quell_model::{
    Capabilities, CpuSet, Event, Host, KnobKind, Nanos, Plan, RuleKind, Selector, Signal, SignalSet, Support, Topology,
    View, Wake, Workload, WorkloadId,
};

use crate::{Grant, ScxError, Slices};

/// How the loop waits for its next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Poll {
    /// On a CPU of its own, without sleeping.
    Dedicated,
    /// It sleeps until a queue forms, a CPU is yielded, or this time is over: the kernel's rules carry the reaction
    /// meanwhile. For small machines.
    Adaptive(Nanos),
}

/// How the host runs.
#[derive(Clone, Debug)]
pub struct ScxOptions {
    /// The CPUs that are handed out; None: all.
    pub pool: Option<CpuSet>,
    /// Time slices and bounds.
    pub slices: Slices,
    /// How it waits.
    pub poll: Poll,
}

impl Default for ScxOptions {
    /// All CPUs, adaptive with a look each millisecond.
    fn default() -> ScxOptions {
        ScxOptions { pool: None, slices: Slices::default(), poll: Poll::Adaptive(Nanos::from_millis(1)) }
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
    told: Vec<Event>,
}

/// A workload in its slot.
struct Attached {
    cgroups: Vec<u64>,
    run_time_before: u64,
    formed: u64,
}

impl ScxHost {
    /// Loads the scheduler. The workloads that the stock host has already are attached to it too.
    ///
    /// # Errors
    /// If the kernel refuses, or a workload is not selected by cgroups alone.
    pub fn new(linux: LinuxHost, roots: Roots, options: ScxOptions) -> Result<ScxHost, ScxError> {
        let topology = linux.topology();
        let online = quell_linux::sysfs::online(&roots.sys)?;
        let pool = options.pool.unwrap_or_else(|| topology.all());
        let grant = Grant::load(&topology, &online, &pool, options.slices)?;
        let columns = topology.columns();
        let mut host = ScxHost {
            linux,
            grant,
            topology,
            roots,
            options,
            slots: Vec::new(),
            rest: Plan::default(),
            yields: vec![0; columns],
            told: Vec::new(),
        };
        let known: Vec<(WorkloadId, Workload)> = host.linux.workloads().map(|(id, spec)| (id, spec.clone())).collect();
        for (id, spec) in known {
            host.enter(id, &spec)?;
        }
        Ok(host)
    }

    /// Begins to manage a workload. It holds no CPU until one is granted to it.
    ///
    /// # Errors
    /// If the stock host refuses it, or it is not selected by cgroups alone.
    pub fn attach(&mut self, workload: Workload) -> Result<WorkloadId, ScxError> {
        self.cgroups(&workload)?;
        let id = self.linux.attach(workload.clone())?;
        self.enter(id, &workload)?;
        Ok(id)
    }

    /// Stops to manage a workload: its threads are the system's from now on.
    ///
    /// # Errors
    /// If there is no such workload, or the kernel refuses.
    pub fn detach(&mut self, id: WorkloadId) -> Result<(), ScxError> {
        self.linux.detach(id)?;
        if let Some(attached) = self.slots.get_mut(id.index()).and_then(Option::take) {
            self.grant.detach(id, &attached.cgroups)?;
        }
        Ok(())
    }

    /// The stock host within.
    pub fn linux(&mut self) -> &mut LinuxHost {
        &mut self.linux
    }

    /// The scheduler.
    #[must_use]
    pub fn grant(&self) -> &Grant {
        &self.grant
    }

    fn enter(&mut self, id: WorkloadId, spec: &Workload) -> Result<(), ScxError> {
        let cgroups = self.cgroups(spec)?;
        self.grant.attach(id, spec, &cgroups)?;
        let state = self.grant.workload(id)?;
        let run_time_before = state.run_time.load(std::sync::atomic::Ordering::Relaxed);
        let formed = state.formed.load(std::sync::atomic::Ordering::Relaxed);
        if self.slots.len() <= id.index() {
            self.slots.resize_with(id.index() + 1, || None);
        }
        self.slots[id.index()] = Some(Attached { cgroups, run_time_before, formed });
        Ok(())
    }

    /// The numbers of a workload's cgroups: the kernel's number of a cgroup is its directory's inode.
    fn cgroups(&self, spec: &Workload) -> Result<Vec<u64>, ScxError> {
        let mut found = Vec::new();
        for selector in &spec.selectors {
            let path = match selector {
                Selector::Cgroup(path) => Some(self.roots.cgroup.join(path.strip_prefix("/").unwrap_or(path))),
                Selector::Unit(name) => cgroup::unit(&self.roots.cgroup, name)?,
                Selector::Pid(_) | Selector::Command(_) => {
                    let (workload, selector) = (spec.name.clone(), selector.to_string());
                    return Err(ScxError::NoCgroup { workload, selector });
                }
            };
            // One that is not there is for the stock host to refuse.
            found.extend(path.and_then(|path| std::fs::metadata(path).ok()).map(|directory| directory.ino()));
        }
        Ok(found)
    }
}

impl Host for ScxHost {
    type Error = ScxError;

    fn capabilities(&self) -> Capabilities {
        let mut can = self.linux.capabilities();
        can.host = "scx".to_owned();
        for signal in [Signal::QueueingDelay, Signal::RunTime, Signal::Holder] {
            can.signals.insert(signal, Support::Yes);
        }
        let limit = "this kernel does not trace system calls: a request begins when its thread wakes up; what a busy \
                     thread reads without sleeping is not seen";
        let clock = if self.grant.can_watch_requests() { Support::Yes } else { Support::Partly(limit.to_owned()) };
        can.signals.insert(Signal::RequestStart, clock);
        for rule in [RuleKind::Guaranteed, RuleKind::Limit, RuleKind::Rank, RuleKind::SiblingBan] {
            can.rules.insert(rule, Support::Yes);
        }
        let within =
            "between the threads and cgroups of one workload, and of the system; between workloads rights decide";
        for knob in [KnobKind::Weight, KnobKind::IdleOnly] {
            if can.knobs.get(&knob) == Some(&Support::Yes) {
                can.knobs.insert(knob, Support::Partly(within.to_owned()));
            }
        }
        can.grants = true;
        can
    }

    fn observe(&mut self, wanted: SignalSet, view: &mut View, events: &mut Vec<Event>) -> Result<(), ScxError> {
        self.grant.check()?;
        if wanted.contains(Signal::RequestStart) {
            self.grant.watch_requests()?;
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

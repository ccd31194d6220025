//! The stock Linux host.

mod apply;
mod attach;
mod limit;
mod manager;
mod names;
mod observe;
mod options;
mod pace;
mod record;
mod restore;
mod samples;
mod scan;
mod solo;
mod trace;
mod usage;
mod wait;

pub use manager::Manager;
pub use names::program;
pub use options::HostOptions;
pub(crate) use pace::Look;
pub use record::Level;
pub(crate) use record::{History, Ledger, Overrides, Thread};
pub(crate) use trace::Activity;
pub use trace::TRACED;
pub use wait::Waker;

use std::sync::Arc;

use quell_model::{
    Capabilities, CpuId, CpuSet, Event, Host, LeaseBook, Nanos, Plan, Sample, SignalSet, Topology, View, Wake,
    Workload, WorkloadId,
};

use crate::clock;
use crate::knobs::{Subject, Wanted};
use crate::limit::LimitState;
use crate::members::{self, Found, Members, Resolved};
use crate::procfs::ProcFs;
use crate::sched::{Kernel, ThreadCalls};
use crate::sensors::bandwidth::Bandwidth;
use crate::sensors::canary::Canary;
use crate::write::{DryRun, Journal, Machine, Medium, NoJournal};
use crate::{LinuxError, Roots, capabilities, cgroup, sysfs};

/// A stock Linux machine.
///
/// Values of a workload stand: threads that are born later get them at the next scan, and a cgroup that is removed and
/// made again gets them too. A value that somebody else changes is not written again until the policy changes it.
#[derive(Debug)]
pub struct LinuxHost {
    roots: Roots,
    options: HostOptions,
    topology: Arc<Topology>,
    online: CpuSet,
    proc: ProcFs,
    medium: Box<dyn Medium + Send>,
    journal: Box<dyn Journal>,
    ledger: Ledger,
    slots: Vec<Option<Managed>>,
    /// Ascending by workload.
    selectors: Vec<(WorkloadId, Resolved)>,
    members: Members,
    /// Ascending by number.
    threads: Vec<Thread>,
    overrides: Overrides,
    /// Workloads whose standing values could not be made true; tried again at each scan.
    unsettled: Vec<WorkloadId>,
    /// The last look at everything, and at those whose new threads somebody waits for.
    full_look: Look,
    prompt_look: Look,
    /// What the last observation wanted.
    wanted: SignalSet,
    found: Vec<Found>,
    /// Runnable threads that ran since the last look: the CPU, for how long, whose.
    on_cpu: Vec<(CpuId, Nanos, WorkloadId)>,
    /// Are there changes of an earlier run, which threads may have inherited?
    adopted: bool,
    leases: LeaseBook,
    solo: Option<solo::Solo>,
    trace: Option<trace::Trace>,
    /// What each workload's threads did at the last look that wanted to know.
    activities: Vec<Activity>,
    bandwidth: Bandwidth,
    canary: Canary,
    /// So many files may stay open from one observation to the next.
    may_stay_open: usize,
    pending: Vec<Event>,
    waker: Waker,
}

/// A workload in its slot.
#[derive(Debug)]
struct Managed {
    spec: Arc<Workload>,
    level: Level,
    standing: Wanted,
    /// Is its limit kept? None: it has none, or everything was put back.
    limit: Option<LimitState>,
    history: History,
    /// CPU time and waiting of its threads since it attached.
    run_time: Nanos,
    run_delay: Nanos,
    /// CPU time of its cgroups since it attached.
    usage: usage::Usage,
    threads: u32,
    /// Have its threads been looked for since it attached?
    scanned: bool,
    latency: Sample<Nanos>,
}

impl LinuxHost {
    /// The running machine.
    ///
    /// # Errors
    /// If its topology or processes cannot be read, or the roots are another machine's (see
    /// [`LinuxHost::with_calls`]).
    pub fn new(roots: Roots, options: HostOptions) -> Result<LinuxHost, LinuxError> {
        if !roots.is_this_machine() {
            let what = format!("the threads in {} are not the running kernel's", roots.proc.display());
            return Err(LinuxError::unsupported(what, "give calls that act on that tree (LinuxHost::with_calls)"));
        }
        LinuxHost::with_calls(roots, options, Box::new(Kernel::new()?))
    }

    /// A machine whose threads obey these calls.
    ///
    /// # Errors
    /// If its topology or processes cannot be read.
    pub fn with_calls(
        roots: Roots,
        options: HostOptions,
        calls: Box<dyn ThreadCalls>,
    ) -> Result<LinuxHost, LinuxError> {
        let topology = Arc::new(sysfs::topology(&roots.sys)?);
        let mut proc = ProcFs::open(&roots.proc)?;
        let counts_itself = options.include_self || !roots.is_this_machine();
        let exempt = if counts_itself { Vec::new() } else { members::own_line(&mut proc)? };
        let machine = Machine::new(ProcFs::open(&roots.proc)?, calls);
        let medium: Box<dyn Medium + Send> =
            if options.dry_run { Box::new(DryRun::of(machine)) } else { Box::new(machine) };
        Ok(LinuxHost {
            online: topology.all(),
            proc,
            medium,
            journal: Box::new(NoJournal),
            ledger: Ledger::default(),
            slots: Vec::new(),
            selectors: Vec::new(),
            members: Members::new(exempt),
            threads: Vec::new(),
            overrides: Overrides::default(),
            unsettled: Vec::new(),
            full_look: Look::default(),
            prompt_look: Look::default(),
            wanted: SignalSet::default(),
            found: Vec::new(),
            on_cpu: Vec::new(),
            adopted: false,
            leases: LeaseBook::new(options.leases),
            solo: None,
            trace: None,
            activities: Vec::new(),
            bandwidth: Bandwidth::new(&roots, topology.columns()),
            canary: Canary::new(&roots),
            may_stay_open: cgroup::most_open_files(),
            pending: Vec::new(),
            waker: Waker::new()?,
            topology,
            roots,
            options,
        })
    }

    /// Tells this journal about every write before it is made.
    #[must_use]
    pub fn with_journal(mut self, journal: Box<dyn Journal>) -> LinuxHost {
        self.journal = journal;
        self
    }

    /// The machine's CPUs.
    #[must_use]
    pub fn topology(&self) -> Arc<Topology> {
        Arc::clone(&self.topology)
    }

    /// Wakes [`Host::wait`] from another thread.
    #[must_use]
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// A latency that an application or a load generator reported: the SLO's quantile. Its time is on the clock of
    /// [`LinuxHost::now`]. A policy that waits for events steps.
    ///
    /// # Errors
    /// If there is no such workload.
    pub fn feed_latency(&mut self, id: WorkloadId, sample: Sample<Nanos>) -> Result<(), LinuxError> {
        self.managed_mut(id)?.latency = sample;
        self.pending.push(Event::LatencyArrived(id));
        Ok(())
    }

    /// The host's clock: CLOCK_MONOTONIC.
    #[must_use]
    pub fn now(&self) -> Nanos {
        clock::now()
    }

    /// What each workload's threads did at the last look that wanted queueing delays, by slot.
    pub(crate) fn activities(&self) -> &[Activity] {
        &self.activities
    }

    fn managed(&self, id: WorkloadId) -> Option<&Managed> {
        self.slots.get(id.index())?.as_ref()
    }

    fn managed_mut(&mut self, id: WorkloadId) -> Result<&mut Managed, LinuxError> {
        self.slots.get_mut(id.index()).and_then(Option::as_mut).ok_or(LinuxError::UnknownWorkload(id.0))
    }
}

impl Managed {
    /// What is to be made true of it now.
    fn subject<'a>(&'a self, id: WorkloadId, resolved: &'a Resolved, solo: &Option<solo::Solo>) -> Subject<'a> {
        let keeps = matches!(self.limit, Some(LimitState::Kept(_)));
        Subject {
            id,
            name: &self.spec.name,
            level: self.level,
            resolved,
            history: &self.history,
            wanted: solo::wanted(solo, id, &self.spec, self.standing),
            limit: self.spec.limit.filter(|_| keeps),
        }
    }
}

/// A workload's selectors in the ascending list.
fn resolved(selectors: &[(WorkloadId, Resolved)], id: WorkloadId) -> Option<&Resolved> {
    let at = selectors.binary_search_by_key(&id, |(other, _)| *other).ok()?;
    Some(&selectors[at].1)
}

impl Host for LinuxHost {
    type Error = LinuxError;

    fn capabilities(&self) -> Capabilities {
        let levels: Vec<Level> = self.slots.iter().flatten().map(|managed| managed.level).collect();
        let mut found = capabilities::probe(&self.roots, &self.options, &levels);
        self.bandwidth.tell(&mut found);
        self.canary.tell(&mut found);
        found
    }

    fn observe(&mut self, wanted: SignalSet, view: &mut View, events: &mut Vec<Event>) -> Result<(), LinuxError> {
        let now = clock::now();
        self.end_solo_if_over(now);
        self.wanted = wanted;
        if self.scan_due(now) {
            self.scan(now)?;
        }
        self.take_samples();
        events.append(&mut self.pending);
        self.fill(wanted, now, view)
    }

    fn apply(&mut self, plan: &Plan, events: &mut Vec<Event>) -> Result<(), LinuxError> {
        if self.full_look.at.is_none() && !plan.is_idle() {
            self.scan(clock::now())?;
        }
        self.carry_out(plan, events);
        Ok(())
    }

    fn wait(&mut self, until: Wake) -> Result<(), LinuxError> {
        self.wait_for(until)
    }
}

//! The stock Linux host.

mod again;
mod allowances;
mod apply;
mod attach;
mod differences;
mod exported;
mod limit;
mod own;
mod restore;
mod rules;
mod sessions;
mod solo;
mod suspend;
mod wait;

pub use allowances::{allowance, isolated};
pub use differences::Difference;
pub use sessions::Within;
pub use wait::Waker;

use std::any::Any;
use std::sync::Arc;

use quell_model::{
    Capabilities, CpuSet, Event, Host, KnobSetting, Nanos, Plan, Sample, Signal, SignalSet, Target, ThreadId, Topology,
    View, Wake, Workload, WorkloadId, foreign,
};

use self::sessions::Sessions;
use crate::actuators::{self, Standing};
use crate::clock;
use crate::members::{Departure, Level, Members, News};
use crate::procfs::ProcFs;
use crate::sched::{Kernel, ThreadCalls};
use crate::scheduler::{Scheduler, Stock, tell_stock};
use crate::sensors::Sensors;
use crate::write::{Conflict, DryRun, Journal, Machine, Medium, NoJournal, Writes};
use crate::{HostOptions, LinuxError, Roots};

use self::again::Again;
use self::rules::Rules;

/// A Linux machine.
///
/// Values of a workload persist: threads that are created later get them at the next scan, and so does a cgroup that is
/// removed and made again. A value that another program changes is not written again until the policy changes it.
#[derive(Debug)]
pub struct LinuxHost {
    pub(crate) members: Members,
    pub(crate) sensors: Sensors,
    writes: Writes,
    standing: Standing,
    scheduler: Box<dyn Scheduler>,
    /// The rules that stand.
    rules: Rules,
    /// When it is read next what the workloads' cgroups allow.
    reading: allowances::Next,
    /// Threads that cannot have their workload's server.
    serverless: Again,
    due: Due,
    buffers: Buffers,
    pending: Vec<Event>,
    /// The change of the threads of which the journal knows.
    reported: u64,
    waker: Waker,
    /// Is nothing to be set until [`LinuxHost::resume`]?
    suspended: bool,
    sessions: Sessions,
}

/// What is tried again at each scan.
#[derive(Debug, Default)]
struct Due {
    /// Workloads whose standing values could not be made true.
    workloads: Vec<WorkloadId>,
    /// Could frequencies not be made what they should be?
    frequencies: bool,
}

/// Kept for their memory.
#[derive(Debug, Default)]
struct Buffers {
    /// Settings that the scheduler needs.
    settings: Vec<KnobSetting>,
    /// Results of a scan.
    news: News,
}

impl LinuxHost {
    /// The running machine.
    ///
    /// # Errors
    /// If its topology or processes cannot be read, or the roots are another machine's (see
    /// [`LinuxHost::with_calls`]).
    pub fn new(roots: Roots, options: HostOptions) -> Result<LinuxHost, LinuxError> {
        if !roots.is_this_machine() {
            let what = format!("the threads in {} are not the running kernel's", foreign::path(&roots.proc));
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
        let machine = Machine::new(ProcFs::open(&roots.proc)?, calls);
        let medium: Box<dyn Medium + Send> =
            if options.dry_run { Box::new(DryRun::of(machine)) } else { Box::new(machine) };
        let scheduler = Box::new(Stock::new(&roots));
        let members = Members::new(roots, options)?;
        Ok(LinuxHost {
            sensors: Sensors::new(&members.roots, members.topology.columns()),
            writes: Writes::to(medium),
            standing: Standing::new(members.options.leases),
            scheduler,
            rules: Rules::default(),
            reading: allowances::Next::on(&members.roots),
            serverless: Again::default(),
            due: Due::default(),
            buffers: Buffers::default(),
            pending: Vec::new(),
            reported: 0,
            waker: Waker::new()?,
            suspended: false,
            sessions: Sessions::default(),
            members,
        })
    }

    /// Notifies this journal of every write before it is made.
    #[must_use]
    pub fn with_journal(mut self, journal: Box<dyn Journal>) -> LinuxHost {
        self.writes.journal = journal;
        self
    }

    /// The journal, for another host after this one.
    pub fn take_journal(&mut self) -> Box<dyn Journal> {
        std::mem::replace(&mut self.writes.journal, Box::new(NoJournal))
    }

    /// Lets this scheduler give out the CPUs; it gets the workloads attached so far.
    ///
    /// # Errors
    /// If it cannot take one of them.
    pub fn with_scheduler(mut self, scheduler: impl Scheduler) -> Result<LinuxHost, LinuxError> {
        self.scheduler = Box::new(scheduler);
        for (id, workload) in self.members.workloads() {
            self.scheduler.check(workload)?;
            self.scheduler.attach(id, workload)?;
        }
        Ok(self)
    }

    /// The scheduler, if it is of this kind.
    #[must_use]
    pub fn scheduler<S: Scheduler>(&self) -> Option<&S> {
        let scheduler: &dyn Any = &*self.scheduler;
        scheduler.downcast_ref()
    }

    /// Counts with these.
    #[cfg(test)]
    pub(crate) fn with_counters(mut self, counters: Box<dyn crate::perf::Counters>) -> LinuxHost {
        let Members { roots, topology, .. } = &self.members;
        self.sensors.bandwidth =
            crate::sensors::bandwidth::Bandwidth::with_counters(roots, topology.columns(), counters);
        self
    }

    /// The machine's CPUs.
    #[must_use]
    pub fn topology(&self) -> Arc<Topology> {
        Arc::clone(&self.members.topology)
    }

    /// Wakes [`Host::wait`] from another thread.
    #[must_use]
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// The attached workloads.
    pub fn workloads(&self) -> impl Iterator<Item = (WorkloadId, &Workload)> {
        self.members.workloads()
    }

    /// The level on which a workload's values are set; None if it is not attached.
    #[must_use]
    pub fn level(&self, id: WorkloadId) -> Option<Level> {
        self.members.get(id).map(|member| member.level)
    }

    /// Number of threads of a workload at the last scan; zero before its first, and when all its processes ended.
    #[must_use]
    pub fn thread_count(&self, id: WorkloadId) -> usize {
        self.members.get(id).map_or(0, |member| member.threads as usize)
    }

    /// The processes that a workload's selectors name by number, as they were when it was attached.
    #[must_use]
    pub fn numbered(&self, id: WorkloadId) -> Vec<ThreadId> {
        self.members.resolved(id).map_or(Vec::new(), |resolved| resolved.roots.clone())
    }

    /// The process that has this number now; None if there is none.
    #[must_use]
    pub fn process(&self, pid: i32) -> Option<ThreadId> {
        let stat = ProcFs::open(&self.members.roots.proc).ok()?.stat(pid, pid).ok().flatten()?;
        Some(ThreadId { tid: pid, start: stat.start })
    }

    /// The latest processes that left a workload and run on, with the reason for each and the line of the configuration that
    /// keeps it; those that have ended since are left out.
    pub fn departures(&mut self, id: WorkloadId) -> &[Departure] {
        self.members.departures(id)
    }

    /// Does a process that left a workload, of this host or of one before, still run?
    pub fn runs_on(&mut self, departure: &Departure) -> bool {
        departure.runs_on(&mut self.members.proc)
    }

    /// The programs of a target: `memcached 4711`, `memcached 4711/worker`, or `memcached 4711 and 2 more`.
    #[must_use]
    pub fn programs(&self, target: Target) -> String {
        self.members.programs(target)
    }

    /// A thread's workload; None if it belongs to none.
    #[must_use]
    pub fn workload_of(&self, target: Target) -> Option<&str> {
        self.members.workload_of(target)
    }

    /// The pseudo-filesystems that it reads and writes.
    #[must_use]
    pub fn roots(&self) -> &Roots {
        &self.members.roots
    }

    /// From now on, until [`LinuxHost::end_look`], all selectors are compared with what is seen of the machine once.
    pub fn begin_look(&mut self) {
        self.members.look_once(true);
    }

    /// From now on each is compared with the machine as it is then.
    pub fn end_look(&mut self) {
        self.members.look_once(false);
    }

    /// Cgroups that the last look for a workload could not look into, for want of a right.
    #[must_use]
    pub fn unreadable_cgroups(&self) -> usize {
        self.members.unreadable_cgroups()
    }

    /// What does not work of the scheduler, now, one line each.
    #[must_use]
    pub fn scheduler_warnings(&self) -> Vec<String> {
        self.scheduler.warnings()
    }

    /// Cgroups with the cpu controller for which the scheduler has no place.
    #[must_use]
    pub fn unplaced_cgroups(&self) -> u64 {
        self.scheduler.unplaced_cgroups()
    }

    /// Do the patterns, containers and pods among a workload's selectors match other cgroups now than when it attached?
    #[must_use]
    pub fn has_other_cgroups(&self, id: WorkloadId) -> bool {
        self.members.has_other_cgroups(id)
    }

    /// A latency that an application or a load generator reported: the SLO's quantile. Its time is on the clock of
    /// [`LinuxHost::now`]. A policy that waits for events steps.
    ///
    /// # Errors
    /// If there is no such workload.
    pub fn feed_latency(&mut self, id: WorkloadId, sample: Sample<Nanos>) -> Result<(), LinuxError> {
        self.members.get_mut(id)?;
        self.sensors.latency.feed(id, sample);
        self.pending.push(Event::LatencyArrived(id));
        Ok(())
    }

    /// A request rate that came with a latency.
    ///
    /// # Errors
    /// If there is no such workload.
    pub fn feed_rate(&mut self, id: WorkloadId, sample: Sample<f64>) -> Result<(), LinuxError> {
        self.members.get_mut(id)?;
        self.sensors.latency.feed_rate(id, sample);
        Ok(())
    }

    /// How long a workload waited for others, as attribution has it.
    ///
    /// # Errors
    /// If there is no such workload.
    pub fn feed_waited(&mut self, id: WorkloadId, for_others: Sample<Nanos>) -> Result<(), LinuxError> {
        self.members.get_mut(id)?;
        self.sensors.attributed.feed(id, for_others);
        Ok(())
    }

    /// CPU time that attribution used.
    pub fn feed_attribution_cost(&mut self, cost: Sample<Nanos>) {
        self.sensors.attributed.feed_cost(cost);
    }

    /// All threads of workloads as of the last scan, by number: the thread, its process and its workload.
    pub fn threads(&self) -> impl Iterator<Item = (i32, i32, WorkloadId)> {
        self.members.threads.iter().map(|thread| (thread.id.tid, thread.pid, thread.workload))
    }

    /// The host's clock: CLOCK_MONOTONIC.
    #[must_use]
    pub fn now(&self) -> Nanos {
        clock::now()
    }

    /// A workload with a thread that another Quell has: nothing of it is set. Each once.
    pub fn conflict(&mut self) -> Option<Conflict> {
        self.writes.journal.conflict()
    }

    /// Has another Quell this thread?
    pub fn is_anothers(&mut self, thread: ThreadId) -> bool {
        self.writes.journal.is_anothers(thread)
    }

    fn tell_journal(&mut self) {
        if std::mem::replace(&mut self.reported, self.members.threads_changed) != self.reported {
            let mut threads = self.members.threads.iter().map(|thread| (thread.workload, thread.id));
            self.writes.journal.members(&mut threads);
        }
    }

    /// Reads the counters that a plan asked for, if it is time.
    fn take_samples(&mut self) {
        if self.sensors.take_samples() {
            self.pending.push(Event::SamplesReady);
        }
    }

    /// Looks for new threads and gives them their workload's values.
    fn scan(&mut self, now: Nanos) -> Result<(), LinuxError> {
        let mut news = std::mem::take(&mut self.buffers.news);
        let result = self.members.scan(now, &mut news);
        self.tell_journal();
        let online = |event: &Event| if let Event::Online(cpu) = event { Some(*cpu) } else { None };
        let returned: CpuSet = news.events.iter().filter_map(online).collect();
        self.pending.append(&mut news.events);
        for thread in news.died.drain(..) {
            self.writes.ledger.forget_thread(thread);
            self.standing.values.forget_thread(thread);
        }
        self.let_go(&news.left);
        news.left.clear();
        for (id, group) in news.groups.drain(..) {
            self.writes.ledger.forget_group(&group);
            self.sensors.groups_changed(id);
        }
        let refused_before = self.due.workloads.len();
        self.due.workloads.append(&mut news.dirty);
        if result.is_ok() {
            self.look_at_allowances(now);
        }
        if !returned.is_empty() {
            // A set has those of its CPUs that are online.
            let bound = self.members.workloads().map(|(id, _)| id);
            self.due.workloads.extend(bound.filter(|&id| self.standing.values.of(id).cpus.is_some()));
        }
        self.buffers.news = news;
        if result.is_ok() && !self.due.workloads.is_empty() {
            let mut dirty = std::mem::take(&mut self.due.workloads);
            let refused = dirty[..refused_before].to_vec();
            dirty.sort_unstable();
            dirty.dedup();
            self.reapply(&dirty, &refused);
        }
        if !returned.is_empty() {
            self.hardware_returned(returned);
        } else if self.due.frequencies {
            self.settle_frequencies();
        }
        if result.is_ok() {
            self.meet_again();
            self.settle_sessions(now);
        }
        result
    }
}

impl Host for LinuxHost {
    type Error = LinuxError;

    fn capabilities(&self) -> Capabilities {
        let mut found = Capabilities { host: "linux".into(), ..Capabilities::default() };
        tell_stock(&mut found);
        actuators::report(&self.members, &mut found);
        self.sensors.report(&self.members, &mut found);
        self.scheduler.report(&mut found);
        found
    }

    fn observe(&mut self, wanted: SignalSet, view: &mut View, events: &mut Vec<Event>) -> Result<(), LinuxError> {
        let measured = self.scheduler.prepare(wanted)?;
        let now = clock::now();
        self.end_solo_if_over(now);
        self.members.wanted = measured;
        if self.members.scan_due(now) {
            self.scan(now)?;
        }
        self.take_samples();
        events.append(&mut self.pending);
        self.members.describe(now, view);
        view.cpus.isolated = self.reading.isolated;
        view.blank(wanted);
        self.sensors.observe(measured, &mut self.members, view)?;
        let exported = &mut self.sensors.exported;
        exported.read(&mut self.members, wanted.contains(Signal::RequestStart), view.now);
        self.scheduler.take_exported(exported.working(), exported.covers(&self.members));
        self.scheduler.observe(wanted, &self.sensors.traced.activities, view, events);
        self.sensors.exported.merge(view);
        let kept_on = |id| self.standing.values.of(id).cpus.unwrap_or(self.members.online).len() as u32;
        self.sensors.exported.notify(&self.members, view, kept_on);
        Ok(())
    }

    fn apply(&mut self, plan: &Plan, events: &mut Vec<Event>) -> Result<(), LinuxError> {
        if plan.is_idle() {
            return Ok(());
        }
        self.carry_out(plan, events)
    }

    fn wait(&mut self, until: Wake) -> Result<(), LinuxError> {
        match self.scheduler.wait(until)? {
            Some(until) => self.wait_for(until),
            None => Ok(()),
        }
    }
}

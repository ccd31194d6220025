//! The managed workloads in their slots, and the threads that belong to them.
//!
//! New threads and forks are found at each scan, so at the latest after the scan interval. A scan misses a child whose
//! parent was created *and* exited between two scans (a daemon's double fork within one interval): it belongs to no
//! workload, because its parent number is then 1. It misses as well what a thread creates outside of a threaded cgroup that it
//! left since the last scan. And a directory of threads is not read at one moment: one that the kernel skipped in the scan before,
//! because another ended meanwhile, counts as one from elsewhere, which has its own values.
//!
//! A process belongs to one workload: the one that selects it by number or command line; else the one whose cgroup it
//! is in, the deepest; else its parent's, unless a cgroup selects that one. A thread of a threaded cgroup belongs to that cgroup's
//! workload, whatever its process does. Quell's own process belongs to none, unless the options say otherwise.
//!
//! A thread is *there*, has *left* (it runs on and is another program, user or cgroup now, or its parent left), or has *ended*
//! (`departure`). What leaves gets its own values back in the same scan. A process and a thread are known by number and start
//! time: every process that a workload owns by number, command line or descent is asked for its start at each scan, everything
//! else where the kernel may have given its number out again since the last one (`procfs::Numbers`).

mod before;
mod census;
mod command;
mod cpus;
mod departure;
mod finder;
mod history;
mod merge;
mod names;
mod pace;
mod processes;
#[cfg(test)]
mod property_tests;
mod scan;
mod scout;
mod selectors;
mod sighting;
mod still;
mod survey;
mod systemd;
mod thread;
mod watchdog;

pub use census::{Census, Counted, mounted_hierarchies};
pub use command::{user_id, user_name};
pub use departure::{Departure, Why};
pub(crate) use finder::{Finder, Found};
use history::History;
pub use names::{comm, program};
pub(crate) use processes::Processes;
pub(crate) use scan::News;
pub(crate) use selectors::{Places, Resolved};
pub(crate) use sighting::Sighting;
pub use survey::{Contested, Matched, Survey, survey, users_of};
use systemd::Systemd;
pub use thread::Level;
pub(crate) use thread::Thread;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use quell_model::{Allowance, Controls, CpuSet, Nanos, SignalSet, Topology, View, Workload, WorkloadId, foreign};

use self::departure::Departures;
use self::scout::{Away, Scout};
use self::still::Still;
use crate::cgroup::CpuV1;
use crate::clock::Look;
use crate::procfs::ProcFs;
use crate::{HostOptions, LinuxError, Roots, cgroup, sysfs};

/// A workload in its slot.
#[derive(Debug)]
pub(crate) struct Member {
    pub spec: Arc<Workload>,
    pub level: Level,
    /// Values that were set on its threads.
    pub history: History,
    /// Number of threads at the last scan.
    pub threads: u32,
    /// Have its threads been looked for since it attached?
    scanned: bool,
    /// Has its description changed since the last scan? What leaves then is selected no more.
    has_new_selectors: bool,
    departures: Departures,
}

/// How threads are found.
#[derive(Debug, Default)]
struct Search {
    finder: Finder,
    /// Of the last scan; a buffer.
    found: Vec<Found>,
    /// The last look at everything whose results were taken in began at this time, in the unit of start times.
    taken_at: Option<u64>,
    /// What is seen of the machine in the look at all selectors that is under way.
    sighting: Option<Sighting>,
    /// Cgroups that the last look for a workload could not look into.
    unreadable: usize,
    systemd: Systemd,
    /// Are there changes of an earlier run, which threads may have inherited?
    adopted: bool,
    /// The last scan of the workloads for whose new threads a policy waits.
    prompt_look: Look,
    /// The costs of the last scan of everything, and of that one.
    full_cost: Option<Nanos>,
    prompt_cost: Option<Nanos>,
    /// The machine's threads at the last look at everything, and where a policy waits for new ones.
    full_still: Still,
    prompt_still: Still,
    /// The last look at which CPUs are online.
    cpus_look: Look,
    /// Who looks where that takes long, once it did.
    scout: Option<Scout>,
    away: Option<Away>,
    /// A CPU came online, and nothing of its caches was known yet: since when.
    undescribed: Option<Instant>,
}

/// The machine's workloads and their threads.
#[derive(Debug)]
pub(crate) struct Members {
    pub roots: Roots,
    pub options: HostOptions,
    pub topology: Arc<Topology>,
    pub online: CpuSet,
    /// What its cgroups allow each workload that they limit; ascending by workload.
    pub allowances: Arc<Vec<Allowance>>,
    /// What there is to turn.
    pub controls: Arc<Controls>,
    /// Where real-time CPU time is divided among cgroups; None: it is not.
    pub budgets: Option<CpuV1>,
    pub proc: ProcFs,
    pub slots: Vec<Option<Member>>,
    /// Their selectors, looked up; ascending by workload.
    pub selectors: Vec<(WorkloadId, Resolved)>,
    /// Ascending by number.
    pub threads: Vec<Thread>,
    /// How often they became others.
    pub threads_changed: u64,
    /// Signals wanted by the last observation.
    pub wanted: SignalSet,
    search: Search,
    /// The last scan of everything.
    pub full_look: Look,
}

impl Members {
    /// None yet.
    ///
    /// # Errors
    /// If the machine's topology or processes cannot be read.
    pub fn new(roots: Roots, options: HostOptions) -> Result<Members, LinuxError> {
        let topology = Arc::new(sysfs::topology(&roots.sys)?);
        let mut proc = ProcFs::open(&roots.proc)?;
        let counts_itself = options.include_self || !roots.is_this_machine();
        let exempt = if counts_itself { Vec::new() } else { finder::own_line(&mut proc)? };
        let mut finder = Finder::new(exempt);
        finder.cpus = topology.cpus().len();
        let systemd = Systemd::of(&roots);
        Ok(Members {
            online: topology.all(),
            allowances: Arc::default(),
            controls: Arc::new(controls(&roots, &options, &topology)),
            budgets: CpuV1::find(&roots).filter(CpuV1::has_real_time_budgets),
            topology,
            roots,
            options,
            proc,
            slots: Vec::new(),
            selectors: Vec::new(),
            threads: Vec::new(),
            threads_changed: 0,
            wanted: SignalSet::default(),
            search: Search { finder, systemd, ..Search::default() },
            full_look: Look::default(),
        })
    }

    pub fn get(&self, id: WorkloadId) -> Option<&Member> {
        self.slots.get(id.index())?.as_ref()
    }

    pub fn get_mut(&mut self, id: WorkloadId) -> Result<&mut Member, LinuxError> {
        self.slots.get_mut(id.index()).and_then(Option::as_mut).ok_or(LinuxError::UnknownWorkload(id.0))
    }

    /// Groups or CPUs came or went: what there is to turn is read anew.
    pub fn controls_changed(&mut self) {
        let mut now = controls(&self.roots, &self.options, &self.topology);
        // The range is that from before Quell, not what it set.
        for control in &mut now.frequencies {
            if let Some(before) = self.controls.frequencies.iter().find(|before| before.cpus == control.cpus) {
                control.max_khz = before.max_khz.max(control.max_khz);
            }
        }
        if let Some((now, before)) = now.gpu.as_mut().zip(self.controls.gpu) {
            now.max_khz = before.max_khz.max(now.max_khz);
        }
        if now != *self.controls {
            self.controls = Arc::new(now);
        }
    }

    /// All of them.
    pub fn workloads(&self) -> impl Iterator<Item = (WorkloadId, &Workload)> {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(slot, member)| Some((WorkloadId(slot as u32), member.as_ref()?.spec.as_ref())))
    }

    /// A workload's selectors; None if there is no such workload.
    pub fn resolved(&self, id: WorkloadId) -> Option<&Resolved> {
        resolved(&self.selectors, id)
    }

    /// The latest processes that left a workload and run on outside of it.
    pub fn departures(&mut self, id: WorkloadId) -> &[Departure] {
        let member = self.slots.get_mut(id.index()).and_then(Option::as_mut);
        member.map_or(&[], |member| member.departures.of_the_living(&mut self.proc))
    }

    /// Are there workloads whose values are set on single threads?
    pub fn some_on_threads(&self) -> bool {
        self.slots.iter().flatten().any(|member| member.level == Level::Threads)
    }

    /// A thread that was there at the last scan.
    pub fn thread(&self, tid: i32) -> Option<&Thread> {
        let at = self.threads.binary_search_by_key(&tid, |thread| thread.id.tid).ok()?;
        Some(&self.threads[at])
    }

    /// Writes the members into the view.
    pub fn describe(&self, now: Nanos, view: &mut View) {
        if !Arc::ptr_eq(&view.topology, &self.topology) {
            view.topology = Arc::clone(&self.topology);
        }
        if !Arc::ptr_eq(&view.controls, &self.controls) {
            view.controls = Arc::clone(&self.controls);
        }
        if !Arc::ptr_eq(&view.allowances, &self.allowances) {
            view.allowances = Arc::clone(&self.allowances);
        }
        view.now = now;
        view.cpus.online = self.online;
        let specs = &mut view.workloads.spec;
        specs.resize(self.slots.len(), None);
        for (spec, member) in specs.iter_mut().zip(&self.slots) {
            let ours = member.as_ref().map(|member| &member.spec);
            let same = match (spec.as_ref(), ours) {
                (Some(theirs), Some(ours)) => Arc::ptr_eq(theirs, ours),
                (None, None) => true,
                _ => false,
            };
            if !same {
                *spec = ours.cloned();
            }
        }
    }

    /// A workload's present matches.
    ///
    /// # Errors
    /// If its numbers contradict each other, its name is taken, one of its selectors matches nothing, or a cgroup of it
    /// belongs to another workload than `of`.
    pub fn resolve(&mut self, workload: &Workload, of: Option<WorkloadId>) -> Result<Resolved, LinuxError> {
        workload.check()?;
        if self.workloads().any(|(id, other)| Some(id) != of && other.name == workload.name) {
            let what = format!("workload '{}' already exists", workload.name);
            return Err(LinuxError::unsupported(what, "give each workload a unique name"));
        }
        let fresh = Sighting::of(&self.roots.cgroup);
        let sighting = self.search.sighting.as_ref().unwrap_or(&fresh);
        let mut places =
            Places { roots: &self.roots, proc: &mut self.proc, sighting, exempt: self.search.finder.exempt() };
        let resolved = places.resolve(workload);
        self.search.unreadable = sighting.tree.unreadable();
        let resolved = resolved?;
        for (id, other) in self.selectors.iter().filter(|(id, _)| Some(*id) != of) {
            if let Some(group) =
                resolved.groups.iter().find(|group| other.group_paths().any(|path| *path == group.path))
            {
                let owner = self.get(*id).map_or("", |member| &member.spec.name);
                let what = format!("{} already belongs to workload '{owner}'", foreign::path(&group.path));
                return Err(LinuxError::unsupported(what, "select each cgroup for one workload only"));
            }
        }
        Ok(resolved)
    }

    /// The number that the next workload will have.
    pub fn next_id(&self) -> WorkloadId {
        WorkloadId(self.slots.iter().position(Option::is_none).unwrap_or(self.slots.len()) as u32)
    }

    /// Takes a workload in.
    pub fn add(&mut self, id: WorkloadId, workload: Workload, resolved: Resolved) {
        self.ask_for_watchdogs(&workload, &resolved);
        let member = Member {
            level: self.level_of(&resolved),
            spec: Arc::new(workload),
            history: History::default(),
            threads: 0,
            scanned: false,
            has_new_selectors: false,
            departures: Departures::default(),
        };
        if id.index() == self.slots.len() {
            self.slots.push(None);
        }
        self.slots[id.index()] = Some(member);
        let at = self.selectors.partition_point(|(other, _)| *other < id);
        self.selectors.insert(at, (id, resolved));
        self.selectors_changed();
    }

    /// A workload's description is another one now; returns the cgroups that it selects no more.
    pub fn change(
        &mut self,
        id: WorkloadId,
        workload: Workload,
        resolved: Resolved,
    ) -> Result<Vec<PathBuf>, LinuxError> {
        let level = self.level_of(&resolved);
        let member = self.get_mut(id)?;
        (member.spec, member.level, member.has_new_selectors) = (Arc::new(workload), level, true);
        let mut left = Vec::new();
        if let Some((_, old)) = self.selectors.iter_mut().find(|(other, _)| *other == id) {
            let is_left = |group: &&PathBuf| !resolved.group_paths().any(|path| path == *group);
            left.extend(old.group_paths().filter(is_left).cloned());
            *old = resolved;
        }
        self.selectors_changed();
        Ok(left)
    }

    /// Lets a workload go.
    pub fn remove(&mut self, id: WorkloadId) {
        self.slots[id.index()] = None;
        self.selectors.retain(|(other, _)| *other != id);
        self.threads.retain(|thread| thread.workload != id);
        self.threads_changed += 1;
        self.selectors_changed();
    }

    /// Any thread may have inherited the values of an earlier run.
    pub fn adopt(&mut self) {
        self.search.adopted = true;
        self.threads.iter_mut().for_each(|thread| thread.born_under = true);
    }

    /// All selectors are compared with what is seen of the machine once, or each with the machine as it is then.
    pub fn look_once(&mut self, once: bool) {
        self.search.sighting = once.then(|| Sighting::of(&self.roots.cgroup));
    }

    fn level_of(&self, resolved: &Resolved) -> Level {
        let groups = &resolved.groups;
        let by_cgroup = !self.options.threads_only
            && !groups.is_empty()
            && !resolved.selects_processes()
            && groups.iter().all(cgroup::Group::has_controllers);
        if by_cgroup { Level::Cgroup } else { Level::Threads }
    }
}

/// What there is to turn on this machine.
fn controls(roots: &Roots, options: &HostOptions, topology: &Topology) -> Controls {
    let mut found = Controls::default();
    crate::resctrl::controls(roots, topology, &mut found);
    let domains = sysfs::frequency_domains(&roots.sys, &topology.all()).unwrap_or_default();
    found.frequencies = domains.into_iter().map(|domain| domain.control).collect();
    let gpu = sysfs::gpu(&roots.sys).ok().flatten().filter(|_| options.gpu);
    found.gpu = gpu.map(|device| device.control);
    found.nodes = sysfs::memory_nodes(&roots.sys).unwrap_or_default();
    found
}

/// A workload's selectors in the ascending list.
pub(crate) fn resolved(selectors: &[(WorkloadId, Resolved)], id: WorkloadId) -> Option<&Resolved> {
    let at = selectors.binary_search_by_key(&id, |(other, _)| *other).ok()?;
    Some(&selectors[at].1)
}

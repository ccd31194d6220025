//! The node's pods and what stands for them: changed by the runtime's events and by the clock, under one lock, never the loop's.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quell_linux::sysfs;
use quell_linux::write::Medium;
use quell_model::{CpuSet, Nanos};
use quell_pods::{Container, Mode, Node, PodPath, PodView, Refused, Rules, Sandbox};
use quell_thread::clock::now;

use super::Site;
use super::convert::Cpu;
use super::files::Files;
use super::shown::{Connection, kubernetes};
use super::workloads::workloads;
use crate::api::ShownPods;
use crate::config::{Kubernetes, PodWorkload};

/// Shared by the thread that answers the runtime and the one that looks at the clock.
pub(super) type Shared = Arc<Mutex<Keeper>>;

/// The keeper, also after a thread that had it panicked: what it holds is whole between two calls.
pub(super) fn locked(keeper: &Shared) -> MutexGuard<'_, Keeper> {
    keeper.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The node's pods, the files in their cgroups, and where both are shown.
#[derive(Debug)]
pub(super) struct Keeper {
    node: Node,
    files: Files,
    /// By container's id: its file that the runtime creates with what Quell answered.
    born: BTreeMap<String, String>,
    connection: Connection,
    mode: Mode,
    /// Why pods are only observed, though the configuration asks for more.
    lacks: Option<String>,
    /// Partitions were not to be had.
    without_partitions: Option<WithoutPartitions>,
    /// Do policies manage latency-critical pods?
    guards: bool,
    /// Nothing is set, as long as the agent is switched off, and when it ends.
    is_suspended: bool,
    sys: PathBuf,
    online: CpuSet,
    shown: ShownPods,
    news: Sender<Vec<PodWorkload>>,
    last: Option<Vec<PodWorkload>>,
}

/// Why strict pods are no partitions, and how long.
#[derive(Debug)]
struct WithoutPartitions {
    why: String,
    pause: Nanos,
    until: Nanos,
}

/// Partitions are tried again after this time, then after twice as long each time …
const FIRST_PAUSE: Nanos = Nanos::from_secs(60);
/// … up to this.
const LONGEST_PAUSE: Nanos = Nanos::from_secs(3600);

impl Keeper {
    /// Of a node of which nothing is known yet.
    pub fn new(
        settings: &Kubernetes,
        site: Site,
        medium: Box<dyn Medium + Send>,
        shown: ShownPods,
        news: Sender<Vec<PodWorkload>>,
    ) -> Keeper {
        let Site { roots, topology, online, not_managed, journal, only_looks } = site;
        let lacks = (settings.mode == Mode::Enforce).then(|| lack(&roots.cgroup)).flatten();
        let mode = if only_looks || lacks.is_some() { Mode::Observe } else { settings.mode };
        // What Quell does not manage is shared, and never given away.
        let rules = Rules { mode, reserved: settings.reserved.union(&not_managed), ..settings.rules() };
        let mut node = Node::new(rules, topology, online);
        node.set_partitions(true);
        let keeper = Keeper {
            node,
            files: Files::below(roots.cgroup, medium, journal),
            lacks,
            without_partitions: None,
            born: BTreeMap::new(),
            connection: Connection::default(),
            mode,
            guards: settings.policy && mode == Mode::Enforce,
            is_suspended: false,
            sys: roots.sys,
            online,
            shown,
            news,
            last: None,
        };
        keeper.show();
        keeper
    }

    /// May it change anything of pods?
    pub fn enforces(&self) -> bool {
        self.mode == Mode::Enforce
    }

    /// The runtime answers from now on.
    pub fn connected(&mut self, runtime: String) {
        tracing::info!("the container runtime asks about pods: {runtime}");
        self.connection = Connection { runtime: Some(runtime), why_not: None };
        self.show();
    }

    /// The runtime has gone. What stands remains: containers go on without it.
    pub fn disconnected(&mut self, why: &str) {
        if self.connection.why_not.as_deref() != Some(why) {
            tracing::warn!("no container runtime: {why}; it is tried again");
        }
        self.connection = Connection { runtime: None, why_not: Some(why.to_owned()) };
        self.show();
    }

    /// All that there is, after a connection.
    pub fn synchronize(&mut self, sandboxes: Vec<Sandbox>, containers: Vec<Container>) {
        self.node.synchronize(now(), sandboxes, containers);
        self.settle();
    }

    /// A sandbox is there.
    pub fn sandbox_runs(&mut self, sandbox: Sandbox) {
        self.node.sandbox_runs(now(), sandbox);
        self.settle();
    }

    /// A sandbox has ended, and all that belongs to it.
    pub fn sandbox_ends(&mut self, id: &str) {
        self.node.sandbox_ends(id);
        self.settle();
    }

    /// A container is to be created: on these CPUs, if its runtime's choice is not to stand. When this returns they are its own.
    ///
    /// # Errors
    /// Why it cannot be created, with the fix.
    pub fn create(&mut self, sandbox: &Sandbox, container: Container) -> Result<Option<CpuSet>, String> {
        let file = PodPath::of(sandbox).and_then(|pod| pod.container(&container.cgroup)).ok();
        let (id, origin) = (container.id.clone(), container.cpus.clone());
        let created = self.node.create(now(), sandbox, container);
        // Of a container in a strange cgroup nothing would be set later.
        let cpus = created.map_err(|refused| refused.to_string())?.filter(|_| !self.is_suspended);
        let Some((file, cpus)) = file.zip(cpus) else {
            self.settle();
            return Ok(None);
        };
        self.settle();
        let own = cpus.intersection(&self.node.reserved_for_strict());
        if let Some(why) = self.files.not_cleared_of(&own) {
            self.removed(&id);
            return Err(format!("CPUs {own} could not be cleared of other containers: {why}"));
        }
        let file = format!("{file}/cpuset.cpus");
        self.born.insert(id, file.clone());
        self.files.is_born_with(file, &cpus.to_string(), origin);
        Ok(Some(cpus))
    }

    /// A container runs, or is about to: its cgroup is there.
    pub fn starts(&mut self, id: &str) {
        self.node.starts(id);
        self.settle();
        if let Some(file) = self.born.get(id) {
            self.files.has_started(file);
        }
    }

    /// A container is to have other resources: the CPUs that it has then, if that is not its runtime's choice.
    ///
    /// # Errors
    /// Why it cannot have them, with the fix.
    pub fn resize(&mut self, id: &str, cpu: &Cpu) -> Result<Option<CpuSet>, Refused> {
        self.node.resize(now(), id, cpu.shares, cpu.quota, cpu.period)?;
        self.settle();
        Ok(self.node.cpus_of(id).filter(|_| !self.is_suspended))
    }

    /// A container has stopped.
    pub fn stops(&mut self, id: &str) {
        self.node.stops(id);
        self.settle();
    }

    /// A container is removed.
    pub fn removed(&mut self, id: &str) {
        if let Some(file) = self.born.remove(id) {
            self.files.is_never_born(&file);
        }
        self.node.removed(id);
        self.settle();
    }

    /// Some time has passed: CPUs may have come or gone, others may have written files, and a container that was announced may never
    /// have started.
    pub fn tick(&mut self) {
        let online = sysfs::online(&self.sys).unwrap_or(self.online);
        let is_changed = online != self.online;
        if is_changed {
            self.online = online;
            self.node.set_online(online);
        }
        let is_due = self.without_partitions.as_ref().is_some_and(|it| it.until <= now());
        if is_due && !self.is_suspended && !self.node.reserved_for_strict().is_empty() {
            self.node.set_partitions(true);
        }
        if self.node.expire(now()) || is_changed || !self.files.is_empty() {
            self.settle_after(true);
        }
    }

    /// Sets nothing from now on, and puts everything back; or sets what is to stand again.
    pub fn suspend(&mut self, is_suspended: bool) {
        if self.is_suspended != is_suspended {
            self.is_suspended = is_suspended;
            self.settle();
        }
        if is_suspended {
            self.files.put_back();
        }
    }

    fn settle(&mut self) {
        self.settle_after(false);
    }

    fn settle_after(&mut self, is_to_be_read: bool) {
        let wanted = if self.is_suspended { BTreeMap::new() } else { self.node.wanted() };
        if let Some(why) = self.files.follow(&wanted, is_to_be_read) {
            self.fall_back(why);
            self.files.follow(&self.node.wanted(), is_to_be_read);
        } else if !self.is_suspended && self.node.has_partitions() && self.without_partitions.take().is_some() {
            tracing::info!("strict pods are CPU partitions again");
        }
        let pods = self.node.pods();
        let workloads = workloads(&pods, self.guards);
        self.show_these(&pods);
        if self.last.as_ref() != Some(&workloads) {
            // The loop may have ended.
            let _ = self.news.send(workloads.clone());
            self.last = Some(workloads);
        }
    }

    /// By CPU sets from now on, until partitions are tried again.
    fn fall_back(&mut self, why: String) {
        let why = format!(
            "CPU partitions of strict pods, which are kept apart from other pods alone: what is in no pod may run on their CPUs; {why}"
        );
        let pause = self.without_partitions.as_ref().map_or(FIRST_PAUSE, |it| (it.pause + it.pause).min(LONGEST_PAUSE));
        if self.without_partitions.as_ref().is_none_or(|it| it.why != why) {
            tracing::warn!("not set: {why}");
        }
        self.without_partitions = Some(WithoutPartitions { why, pause, until: now() + pause });
        self.node.set_partitions(false);
    }

    fn show(&self) {
        self.show_these(&self.node.pods());
    }

    fn show_these(&self, pods: &[PodView]) {
        let without = self.without_partitions.as_ref().map(|it| it.why.as_str());
        let lacks = [self.lacks.as_deref(), without.filter(|_| !self.node.reserved_for_strict().is_empty())];
        let not_set = lacks.into_iter().flatten();
        self.shown.show(kubernetes((&self.node, pods), self.mode, &self.connection, &self.files, not_set));
    }
}

/// What this hierarchy lacks for CPU sets of pods, with the fix. With some containers on CPUs of their own and others not kept from
/// these, nothing would be reserved.
fn lack(cgroup: &Path) -> Option<String> {
    let controllers = std::fs::read_to_string(cgroup.join("cgroup.controllers")).unwrap_or_default();
    let is_there = controllers.split_whitespace().any(|name| name == "cpuset");
    let line = "cgroup v2 has no cpuset controller here, so that pods are only observed; boot with \
                systemd.unified_cgroup_hierarchy=1, and see `quell doctor --kubernetes`";
    (!is_there).then(|| line.to_owned())
}

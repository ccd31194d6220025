//! Collects the writes of one plan. Reads see what the writes before them will have done.

use std::collections::HashMap;
use std::path::Path;

use quell_model::{CpuCount, CpuSet, PreemptionMode, ThreadId, WorkloadId};

use super::{Overrides, Wanted};
use crate::LinuxError;
use crate::debugfs::preempt;
use crate::members::{History, Level, Members, Resolved, Thread};
use crate::write::{Ledger, Medium, Place, Value, Write, Writes};

/// One workload whose values are to be made true.
pub(crate) struct Subject<'a> {
    pub id: WorkloadId,
    pub name: &'a str,
    pub level: Level,
    pub resolved: &'a Resolved,
    pub history: &'a History,
    pub wanted: Wanted,
    /// Its limit, where it can be kept.
    pub limit: Option<CpuCount>,
}

/// Collects writes.
pub(crate) struct Compiler<'a> {
    pub(super) ledger: &'a Ledger,
    pub(super) online: CpuSet,
    pub(super) cgroup_root: &'a Path,
    medium: &'a mut dyn Medium,
    planned: HashMap<Place, Value>,
    /// Of threads that inherited a value: what they would have had.
    origins: HashMap<Place, Value>,
    writes: Vec<Write>,
}

impl<'a> Compiler<'a> {
    pub fn new(writes: &'a mut Writes, members: &'a Members) -> Compiler<'a> {
        let Writes { medium, ledger, .. } = writes;
        let (planned, origins) = (HashMap::new(), HashMap::new());
        let (online, cgroup_root) = (members.online, &*members.roots.cgroup);
        Compiler { ledger, online, cgroup_root, medium: &mut **medium, planned, origins, writes: Vec::new() }
    }

    /// Everything that is to be written so that these workloads and threads have what is wanted of them.
    pub fn compile(
        &mut self,
        subjects: &[Subject<'_>],
        threads: &[Thread],
        overrides: &Overrides,
    ) -> Result<(), LinuxError> {
        subjects.iter().try_for_each(|subject| self.refuse_what_threads_cannot(subject))?;
        self.pause(subjects, threads, true)?;
        self.end_partitions(subjects)?;
        self.cpusets(subjects)?;
        for subject in subjects.iter().filter(|subject| subject.level == Level::Cgroup) {
            self.shares(subject)?;
        }
        subjects.iter().try_for_each(|subject| self.quota(subject))?;
        self.threads(subjects, threads, overrides)?;
        self.claim_partitions(subjects)?;
        self.pause(subjects, threads, false)
    }

    /// The preemption mode.
    pub fn preemption(&mut self, sys: &Path, mode: PreemptionMode) -> Result<(), LinuxError> {
        let path = preempt::path(sys);
        let mend = "mount debugfs and use a kernel with CONFIG_PREEMPT_DYNAMIC";
        let place = Place::File(path.clone());
        if self.read(&place)?.is_none() {
            return Err(LinuxError::unsupported(format!("{} is not there", path.display()), mend));
        }
        self.set(None, place, Value::Text(preempt::word(mode).into()))
    }

    /// The writes in the order in which they are to be made.
    pub fn finish(self) -> Vec<Write> {
        self.writes
    }

    /// What will stand there after the writes so far; None if the place is gone.
    pub(super) fn read(&mut self, place: &Place) -> Result<Option<Value>, LinuxError> {
        match self.planned.get(place) {
            Some(value) => Ok(Some(value.clone())),
            None => self.medium.read(place),
        }
    }

    /// What a thread had before Quell, which has this value `now`. One that was born under a value of Quell's has what
    /// its process's first thread had, or, if it is that one, what its parent's had; an orphan has what most of the
    /// workload's processes had that are older than Quell's first write.
    pub(super) fn origin(
        &mut self,
        subject: &Subject<'_>,
        thread: &Thread,
        place: &Place,
        now: &Value,
        threads: &[Thread],
    ) -> Result<Value, LinuxError> {
        if let Some(origin) = self.ledger.origin(place) {
            return Ok(origin.clone());
        }
        if !subject.history.inherited(thread, now) {
            return Ok(now.clone());
        }
        let sort = |id| if matches!(place, Place::Class(_)) { Place::Class(id) } else { Place::Affinity(id) };
        let model = if thread.is_first() { thread.parent } else { thread.pid };
        let origin = match threads.binary_search_by_key(&model, |known| known.id.tid) {
            Ok(at) => self.known_origin(&sort(threads[at].id))?,
            Err(_) => self.usual_origin(subject, threads, &sort)?,
        };
        let origin = origin.unwrap_or_else(|| now.clone());
        self.origins.insert(place.clone(), origin.clone());
        Ok(origin)
    }

    /// What stood there before Quell; what was never written is as it was.
    fn known_origin(&mut self, place: &Place) -> Result<Option<Value>, LinuxError> {
        match self.origins.get(place).or_else(|| self.ledger.origin(place)) {
            Some(origin) => Ok(Some(origin.clone())),
            None => self.medium.read(place),
        }
    }

    fn usual_origin(
        &mut self,
        subject: &Subject<'_>,
        threads: &[Thread],
        sort: &dyn Fn(ThreadId) -> Place,
    ) -> Result<Option<Value>, LinuxError> {
        let mut tally: Vec<(Value, u32)> = Vec::new();
        let old = |thread: &&Thread| thread.workload == subject.id && thread.is_first() && !thread.born_under;
        for thread in threads.iter().filter(old) {
            let Some(origin) = self.known_origin(&sort(thread.id))? else { continue };
            match tally.iter_mut().find(|(known, _)| *known == origin) {
                Some((_, count)) => *count += 1,
                None => tally.push((origin, 1)),
            }
        }
        Ok(tally.into_iter().max_by_key(|(_, count)| *count).map(|(origin, _)| origin))
    }

    /// What a file will hold.
    pub(super) fn text(&mut self, path: &Path) -> Result<Option<String>, LinuxError> {
        Ok(self.read(&Place::File(path.to_owned()))?.and_then(|value| match value {
            Value::Text(text) => Some(text),
            _ => None,
        }))
    }

    /// Writes a value unless it will stand there anyway, or the place is gone.
    pub(super) fn set(&mut self, workload: Option<WorkloadId>, place: Place, after: Value) -> Result<(), LinuxError> {
        let Some(before) = self.read(&place)? else { return Ok(()) };
        if before != after {
            let origin = self.ledger.origin(&place).unwrap_or(&before).clone();
            self.push(Write { workload, place, origin, before, after });
        }
        Ok(())
    }

    pub(super) fn push(&mut self, write: Write) {
        self.planned.insert(write.place.clone(), write.after.clone());
        self.writes.push(write);
    }

    /// Gives a file a wanted text; if nothing is wanted, its origin, where Quell touched it.
    pub(super) fn want(&mut self, subject: &Subject<'_>, path: &Path, text: Option<String>) -> Result<(), LinuxError> {
        let place = Place::File(path.to_owned());
        let after = match text {
            Some(text) => Value::Text(text),
            None => match self.ledger.origin(&place) {
                Some(origin) => origin.clone(),
                None => return Ok(()),
            },
        };
        self.set(Some(subject.id), place, after)
    }

    fn refuse_what_threads_cannot(&self, subject: &Subject<'_>) -> Result<(), LinuxError> {
        let (wanted, name) = (&subject.wanted, subject.name);
        let mend = "select it by a cgroup or unit that has the cpu and cpuset controllers (cgroup v2)";
        if subject.level == Level::Threads && matches!(wanted.quota, Some(Some(_))) {
            return Err(LinuxError::unsupported(
                format!("workload '{name}': single threads have no cycle quota"),
                mend,
            ));
        }
        if subject.level == Level::Threads && wanted.partition == Some(true) {
            return Err(LinuxError::unsupported(
                format!("workload '{name}': single threads are no CPU partition"),
                mend,
            ));
        }
        let several = subject.resolved.groups.len() > 1;
        if several && (matches!(wanted.quota, Some(Some(_))) || wanted.partition == Some(true)) {
            let what = format!("workload '{name}' has several cgroups, which cannot share a quota or a partition");
            return Err(LinuxError::unsupported(what, "put them below one slice and select that"));
        }
        Ok(())
    }
}

//! Collects the writes of one plan. Reads return the values after the writes so far.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use quell_model::{Allowance, CpuSet, SchedClass, ThreadId, Topology, WorkloadId};

use super::{Subject, threaded};
use crate::members::{Members, Thread};
use crate::sched::ThreadClass;
use crate::write::{Ledger, Medium, Place, Value, Write, Writes};
use crate::{LinuxError, Roots};

/// Writes that are to be made together.
pub(crate) struct Draft<'a> {
    pub ledger: &'a Ledger,
    pub online: CpuSet,
    pub allowances: &'a [Allowance],
    pub cgroup_root: &'a Path,
    pub sys_root: &'a Path,
    pub roots: &'a Roots,
    pub topology: &'a Topology,
    /// May the mask of resctrl's root group be set?
    pub cache: bool,
    members: &'a Members,
    medium: &'a mut dyn Medium,
    planned: HashMap<Place, Value>,
    /// Original values of threads that inherited a value.
    origins: HashMap<Place, Value>,
    writes: Vec<Write>,
    /// By thread: the weight of its own group, if it has one.
    own_weights: HashMap<i32, Option<PathBuf>>,
}

impl<'a> Draft<'a> {
    pub fn new(writes: &'a mut Writes, members: &'a Members) -> Draft<'a> {
        let Writes { medium, ledger, .. } = writes;
        let (planned, origins) = (HashMap::new(), HashMap::new());
        let (online, cgroup_root, sys_root) = (members.online, &*members.roots.cgroup, &*members.roots.sys);
        let (medium, writes) = (&mut **medium, Vec::new());
        let (roots, topology, cache) = (&members.roots, &*members.topology, members.options.cache);
        Draft {
            ledger,
            online,
            allowances: &members.allowances,
            cgroup_root,
            sys_root,
            roots,
            topology,
            cache,
            members,
            medium,
            planned,
            origins,
            writes,
            own_weights: HashMap::new(),
        }
    }

    /// The writes in the order in which they are to be made.
    pub fn finish(self) -> Vec<Write> {
        self.writes
    }

    /// Those of the CPUs that a policy wants for a workload that are online and that its cgroups allow.
    ///
    /// # Errors
    /// If they allow none of them.
    pub fn fitting(&self, subject: &Subject<'_>, wanted: &CpuSet) -> Result<CpuSet, LinuxError> {
        let here = wanted.intersection(&self.online);
        let own = self.allowances.binary_search_by_key(&subject.id, |one| one.workload);
        let Some(allowed) = own.ok().and_then(|at| self.allowances[at].cpus) else { return Ok(here) };
        if here.is_disjoint(&allowed) {
            let what = format!("workload '{}' cannot have CPUs {here}: its cgroups allow it {allowed}", subject.name);
            return Err(LinuxError::unsupported(
                what,
                "widen AllowedCPUs= of its unit or slice, or choose CPUs that it has",
            ));
        }
        Ok(here.intersection(&allowed))
    }

    /// The place's value after the writes so far; None if the place is gone.
    pub fn read(&mut self, place: &Place) -> Result<Option<Value>, LinuxError> {
        match self.planned.get(place) {
            Some(value) => Ok(Some(value.clone())),
            None => self.medium.read(place),
        }
    }

    /// Is a write of the place in the draft?
    pub fn is_planned(&self, place: &Place) -> bool {
        self.planned.contains_key(place)
    }

    /// Control groups that the draft makes.
    pub fn planned_groups(&self) -> u32 {
        let makes = |(place, value): &(&Place, &Value)| matches!((place, value), (Place::Group(_), Value::There(true)));
        self.planned.iter().filter(makes).count() as u32
    }

    /// The original value of a thread, from before Quell, given its value `now`. A thread that was created under a
    /// value of Quell's has the original value of its process's first thread (its oldest, if that has ended), or, if it is that one, of its parent; an
    /// orphan has the value of most of the workload's processes that are older than Quell's first write.
    pub fn origin(
        &mut self,
        thread: &Thread,
        place: &Place,
        now: &Value,
        threads: &[Thread],
    ) -> Result<Value, LinuxError> {
        if let Some(origin) = self.ledger.origin(place).or_else(|| self.origins.get(place)) {
            return Ok(origin.clone());
        }
        let members = self.members;
        let is_of = |id: WorkloadId| members.get(id).is_some_and(|member| member.history.inherited(thread, now));
        if !is_of(thread.workload) && !thread.born_of.is_some_and(is_of) {
            return Ok(now.clone());
        }
        let sort = |id| if matches!(place, Place::Class(_)) { Place::Class(id) } else { Place::Affinity(id) };
        let model = if thread.is_first() { thread.parent } else { thread.pid };
        let leader = threads.binary_search_by_key(&model, |known| known.id.tid).ok().map(|at| &threads[at]);
        // Where the first thread has ended, or is another workload's: another one of the process that is older.
        let is_older = |known: &&Thread| known.pid == model && known.id.start < thread.id.start;
        let model = leader.or_else(|| threads.iter().filter(is_older).min_by_key(|known| known.id.start));
        // A younger process has the number of the creator, which has ended.
        let model = model.filter(|known| known.id != thread.id && known.id.start <= thread.id.start);
        let left = match thread.creator.filter(|_| model.is_none() && thread.is_first()) {
            Some(creator) => self.medium.read(&sort(creator))?,
            None => None,
        };
        // It is Quell's, so that it is not the thread's own: what Linux gives to a thread that asks for nothing. It also ends a
        // search in a circle: of two that were created in one tick, each may have the number of the other's parent.
        let usual = match now {
            Value::Class(_) => Value::Class(ThreadClass::of(SchedClass::NORMAL)),
            Value::Cpus(_) => Value::Cpus(self.topology.all()),
            other => other.clone(),
        };
        self.origins.insert(place.clone(), usual.clone());
        let origin = match model {
            Some(known) => self.origin_of(known, &sort(known.id), threads)?,
            // What has just left has its own values again.
            None if left.is_some() => left,
            None => self.usual_origin(thread.workload, threads, &sort)?,
        };
        let origin = origin.unwrap_or(usual);
        self.origins.insert(place.clone(), origin.clone());
        Ok(origin)
    }

    /// The original value of another thread, which may be new, too.
    fn origin_of(&mut self, thread: &Thread, place: &Place, threads: &[Thread]) -> Result<Option<Value>, LinuxError> {
        let Some(now) = self.medium.read(place)? else { return Ok(None) };
        self.origin(thread, place, &now, threads).map(Some)
    }

    fn usual_origin(
        &mut self,
        id: WorkloadId,
        threads: &[Thread],
        sort: &dyn Fn(ThreadId) -> Place,
    ) -> Result<Option<Value>, LinuxError> {
        let mut tally: Vec<(Value, u32)> = Vec::new();
        let old = |thread: &&Thread| thread.workload == id && thread.is_first() && !thread.born_under;
        for thread in threads.iter().filter(old) {
            let Some(origin) = self.origin_of(thread, &sort(thread.id), threads)? else { continue };
            match tally.iter_mut().find(|(known, _)| *known == origin) {
                Some((_, count)) => *count += 1,
                None => tally.push((origin, 1)),
            }
        }
        if let Some((usual, _)) = tally.into_iter().max_by_key(|(_, count)| *count) {
            return Ok(Some(usual));
        }
        let own = threads.iter().filter(|thread| thread.workload == id);
        Ok(own.filter_map(|thread| self.ledger.origin(&sort(thread.id))).next().cloned())
    }

    /// The file by which a thread competes that is alone in a threaded cgroup.
    pub fn own_weight(&mut self, thread: &Thread) -> Option<PathBuf> {
        let find = || threaded::weight_of_group(self.roots, thread);
        self.own_weights.entry(thread.id.tid).or_insert_with(find).clone()
    }

    /// A file's text after the writes so far.
    pub fn text(&mut self, path: &Path) -> Result<Option<String>, LinuxError> {
        Ok(self.read(&Place::File(path.to_owned()))?.and_then(|value| match value {
            Value::Text(text) => Some(text),
            _ => None,
        }))
    }

    /// Writes a value unless it will stand there anyway, or the place is gone.
    pub fn set(&mut self, workload: Option<WorkloadId>, place: Place, after: Value) -> Result<(), LinuxError> {
        let Some(before) = self.read(&place)? else { return Ok(()) };
        if before != after {
            let origin = self.ledger.origin(&place).unwrap_or(&before).clone();
            self.push(Write { workload, place, origin, before, after });
        }
        Ok(())
    }

    pub fn push(&mut self, write: Write) {
        self.planned.insert(write.place.clone(), write.after.clone());
        self.writes.push(write);
    }

    /// Gives a file a wanted text; if nothing is wanted, its origin, where Quell touched it.
    pub fn want(&mut self, subject: &Subject<'_>, path: &Path, text: Option<String>) -> Result<(), LinuxError> {
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

    /// Has a thread the wanted value already, from its creation? Then it is written all the same, so that ledger and
    /// journal have its original value.
    pub fn inherited(&self, place: &Place, not_its_own: bool) -> bool {
        not_its_own && self.ledger.origin(place).is_none()
    }
}

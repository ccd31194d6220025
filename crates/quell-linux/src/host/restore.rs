//! Puts everything back.

use std::path::PathBuf;

use quell_model::{Nanos, WorkloadId};

use super::LinuxHost;
use crate::actuators::cpusets::{self, Change};
use crate::members::Thread;
use crate::write::{self, Place, RestoreReport, Touched, Value};
use crate::{LinuxError, clock};

impl LinuxHost {
    /// Everything that Quell changed and has not put back, the latest change first.
    #[must_use]
    pub fn touched(&self) -> Vec<Touched> {
        self.writes.ledger.latest_first()
    }

    /// What Quell changed for no workload, the latest change first.
    #[must_use]
    pub fn touched_of_the_machine(&self) -> Vec<Touched> {
        self.writes.ledger.latest_first_of(|touched| touched.workload.is_none())
    }

    /// The present value of a place; None if the place is gone.
    ///
    /// # Errors
    /// If it could not be read.
    pub fn standing(&mut self, place: &Place) -> Result<Option<Value>, LinuxError> {
        self.writes.medium.read(place)
    }

    /// Adopts a journal's record of an earlier run, so that [`LinuxHost::restore`] restores it.
    pub fn adopt(&mut self, touched: impl IntoIterator<Item = Touched>) {
        self.members.adopt();
        touched.into_iter().for_each(|touched| self.writes.ledger.adopt(touched));
    }

    /// Restores what still has the value that Quell wrote; reports what other programs changed since, and what the
    /// system refused. Threads that were created under a value of Quell's get their workload's original value. Ends a
    /// solo run. Afterwards no setting is left.
    pub fn restore(&mut self) -> RestoreReport {
        self.last_look();
        for id in self.standing.solo.workloads() {
            self.standing.solo.end(id, clock::now());
        }
        let touched = self.writes.ledger.latest_first();
        self.put_back(touched, None)
    }

    pub(super) fn restore_workload(&mut self, id: WorkloadId) -> RestoreReport {
        self.last_look();
        let mut touched = self.writes.ledger.latest_first();
        touched.retain(|touched| touched.workload == Some(id));
        self.put_back(touched, Some(id))
    }

    /// Finds the threads that were created since the last scan.
    fn last_look(&mut self) {
        self.members.full_look.at = None;
        if let Err(error) = self.scan(clock::now()) {
            tracing::warn!(%error, "the newest threads are not put back");
        }
    }

    fn put_back(&mut self, mut touched: Vec<Touched>, only: Option<WorkloadId>) -> RestoreReport {
        let is_kept = |id: WorkloadId| only.is_some_and(|only| only != id);
        let limits = self.standing.limits.iter_mut().enumerate().filter(|(slot, _)| !is_kept(WorkloadId(*slot as u32)));
        limits.for_each(|(_, limit)| *limit = None);
        self.standing.values.clear(only);
        self.due.workloads.retain(|owner| is_kept(*owner));
        self.forget_sessions(only);
        let threads = std::mem::take(&mut self.members.threads);
        let inherited = self.inherited(&threads, &touched);
        self.members.threads = threads;
        touched.extend(inherited);
        self.put_places_back(touched)
    }

    /// Threads that run on outside of their workload get their own values back, each where it has Quell's still: what a thread
    /// set itself meanwhile is its own.
    pub(super) fn let_go(&mut self, left: &[Thread]) {
        if left.is_empty() {
            return;
        }
        left.iter().for_each(|thread| self.standing.values.forget_thread(thread.id));
        let all = self.writes.ledger.latest_first();
        let mut touched = self.inherited(left, &all);
        touched.extend(
            all.into_iter()
                .filter(|touched| touched.place.thread().is_some_and(|of| left.iter().any(|thread| thread.id == of))),
        );
        for refused in self.put_places_back(touched).left {
            let is_ours = match self.writes.ledger.touched(&refused.place).map(|touched| touched.last.clone()) {
                Some(last) => {
                    let now = self.writes.medium.read(&refused.place);
                    now.map_or(true, |now| now.is_some_and(|now| last.is_still(&now)))
                }
                None => false,
            };
            if is_ours {
                tracing::warn!("a thread that left its workload: {refused}");
            } else {
                self.writes.ledger.forget(&refused.place);
            }
        }
    }

    /// Restores the settings on cgroups that are no longer the workload's.
    pub(super) fn leave_groups(&mut self, groups: &[PathBuf]) {
        let in_them = |place: &Place| matches!(place, Place::File(path) if path.parent().is_some_and(|at| groups.iter().any(|group| group == at)));
        let mut touched = self.writes.ledger.latest_first();
        touched.retain(|touched| in_them(&touched.place));
        for left in self.put_places_back(touched).left {
            tracing::warn!(place = %left.place, now = %left.now, "not put back: {}", left.why);
        }
    }

    pub(super) fn put_places_back(&mut self, touched: Vec<Touched>) -> RestoreReport {
        let places: Vec<Place> = touched.iter().map(|touched| touched.place.clone()).collect();
        let touched = self.in_order(touched);
        let report = write::restore(&mut *self.writes.medium, &mut *self.writes.journal, &touched);
        for place in places.iter().filter(|place| !report.left.iter().any(|left| left.place == **place)) {
            self.writes.ledger.forget(place);
        }
        report
    }

    /// Threads that have a value that Quell set on another thread of their workload, without having been set
    /// themselves: they inherited it.
    fn inherited(&mut self, threads: &[Thread], touched: &[Touched]) -> Vec<Touched> {
        let mut swept = Vec::new();
        for thread in threads.iter().filter(|thread| thread.born_under) {
            for place in [Place::Affinity(thread.id), Place::Class(thread.id)] {
                if touched.iter().any(|touched| touched.place == place) {
                    continue;
                }
                let Ok(Some(now)) = self.writes.medium.read(&place) else { continue };
                let models = || {
                    touched.iter().filter(|touched| {
                        touched.last != touched.origin
                            && concerns(touched, thread, threads)
                            && std::mem::discriminant(&touched.place) == std::mem::discriminant(&place)
                    })
                };
                let is_same = |touched: &&Touched| touched.last.is_still(&now);
                // Its own process's values come first: others of the workload may have had others before.
                let own = models().filter(|touched| is_of_process(touched, thread.pid, threads));
                let model = own.clone().find(is_same).or_else(|| own.clone().find(|own| own.last.is_reset_to(&now)));
                let model = model.or_else(|| models().find(is_same));
                if let Some(model) = model {
                    swept.push(Touched { place, last: now.clone(), ..model.clone() });
                }
            }
        }
        swept
    }

    /// Control groups first (with them go their lines and members), partitions, then CPU sets in an order in which every set stays within its parent's, then the rest.
    fn in_order(&self, touched: Vec<Touched>) -> Vec<Touched> {
        let named = |touched: &Touched, name: &str| matches!(&touched.place, Place::File(path) if path.ends_with(name));
        let (mut ordered, rest): (Vec<_>, Vec<_>) =
            touched.into_iter().partition(|touched| matches!(touched.place, Place::Group(_) | Place::Cgroup(_)));
        let (partitions, rest): (Vec<_>, Vec<_>) =
            rest.into_iter().partition(|touched| named(touched, "cpuset.cpus.partition"));
        let (exclusive, rest): (Vec<_>, Vec<_>) =
            rest.into_iter().partition(|touched| named(touched, "cpuset.cpus.exclusive"));
        let (cpusets, rest): (Vec<_>, Vec<_>) = rest.into_iter().partition(|touched| named(touched, "cpuset.cpus"));
        let (controllers, rest): (Vec<_>, Vec<_>) =
            rest.into_iter().partition(|touched| matches!(touched.place, Place::Controllers(_)));
        ordered.extend(partitions);
        ordered.extend(exclusive);
        ordered.extend(self.cpuset_steps(cpusets));
        ordered.extend(rest);
        ordered.extend(controllers);
        ordered
    }

    fn cpuset_steps(&self, touched: Vec<Touched>) -> Vec<Touched> {
        let changes: Vec<Change> = touched
            .iter()
            .filter_map(|touched| match (&touched.place, &touched.last, &touched.origin) {
                (Place::File(path), Value::Text(now), Value::Text(to)) => {
                    Some(Change { group: path.parent()?.to_owned(), now: now.clone(), to: to.clone() })
                }
                _ => None,
            })
            .collect();
        let above =
            |group: &std::path::Path| cpusets::usable_above(group, &self.members.roots.cgroup, &self.members.online);
        let Ok(steps) = cpusets::order(&changes, &above) else { return touched };
        let mut last: Vec<Value> = touched.iter().map(|touched| touched.last.clone()).collect();
        steps
            .into_iter()
            .map(|step| {
                let origin = Value::Text(step.text);
                let before = std::mem::replace(&mut last[step.change], origin.clone());
                Touched { origin, last: before, ..touched[step.change].clone() }
            })
            .collect()
    }
}

/// Was the change made on a thread of this process?
fn is_of_process(touched: &Touched, pid: i32, threads: &[Thread]) -> bool {
    let of = touched.place.thread();
    of.is_some_and(|of| of.tid == pid || threads.iter().any(|known| known.id == of && known.pid == pid))
}

/// Was the change made on the thread's workload, before the thread was created?
fn concerns(touched: &Touched, thread: &Thread, threads: &[Thread]) -> bool {
    let (Place::Affinity(other) | Place::Class(other)) = touched.place else { return false };
    let same = touched.workload == Some(thread.workload)
        || threads.iter().any(|known| known.id == other && known.workload == thread.workload);
    same && thread.id.start >= other.start
}

impl Drop for LinuxHost {
    /// No workload stays paused because a host was dropped in the middle of a solo run.
    fn drop(&mut self) {
        self.end_solos(quell_model::SoloEnd::Released, Nanos::MAX);
    }
}

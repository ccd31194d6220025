//! What single threads and processes are set to.

use quell_model::{CpuSet, SchedClass};

use super::compile::{Compiler, Subject};
use super::wanted::{Overrides, Wanted};
use crate::LinuxError;
use crate::members::{Level, Thread};
use crate::sched::{ThreadClass, nice_of_weight};
use crate::write::{Place, Value, Write};

impl Compiler<'_> {
    /// Affinities and classes of all threads; real-time classes are taken away before they are given.
    pub(super) fn threads(
        &mut self,
        subjects: &[Subject<'_>],
        threads: &[Thread],
        overrides: &Overrides,
    ) -> Result<(), LinuxError> {
        let mut promotions = Vec::new();
        for (thread, subject) in with_subjects(subjects, threads) {
            let workload = match subject.level {
                Level::Threads => subject.wanted,
                Level::Cgroup => subject.wanted.beside_cgroup(),
            };
            let wanted = overrides.get(&thread.id).map_or(workload, |(_, own)| own.over(&workload));
            self.affinity(subject, thread, threads, &wanted)?;
            if let Some(write) = self.class(subject, thread, threads, &wanted)? {
                if is_real_time(&write.after) { promotions.push(write) } else { self.push(write) }
            }
        }
        promotions.into_iter().for_each(|write| self.push(write));
        Ok(())
    }

    /// Stops those workloads that are to stop, or lets the others go on: cgroups by their freezer, processes by signals.
    /// (A shell that waits for such a process sees it stop.) A process that somebody else stopped is never continued.
    pub(super) fn pause(&mut self, subjects: &[Subject<'_>], threads: &[Thread], stop: bool) -> Result<(), LinuxError> {
        let concerned = |subject: &&Subject<'_>| (subject.wanted.pause == Some(true)) == stop;
        for subject in subjects.iter().filter(concerned).filter(|subject| has_freezer(subject)) {
            for group in &subject.resolved.groups {
                let wanted = subject.wanted.pause.map(|pause| u8::from(pause).to_string());
                self.want(subject, &group.path.join("cgroup.freeze"), wanted)?;
            }
        }
        for (thread, subject) in with_subjects(subjects, threads) {
            if thread.is_first() && concerned(&subject) && !has_freezer(subject) {
                self.signal(subject, thread, stop)?;
            }
        }
        Ok(())
    }

    fn signal(&mut self, subject: &Subject<'_>, process: &Thread, stop: bool) -> Result<(), LinuxError> {
        let place = Place::Stopped(process.id);
        let before = match self.ledger.touched(&place) {
            // A stop signal takes effect a little later than it is sent: what was sent counts.
            Some(touched) => Some(touched.last.clone()),
            None if stop => self.read(&place)?,
            None => None,
        };
        let Some(before) = before else { return Ok(()) };
        let origin = self.ledger.origin(&place).unwrap_or(&before).clone();
        let after = if stop { Value::Stopped(true) } else { origin.clone() };
        if before != after {
            self.push(Write { workload: Some(subject.id), place, origin, before, after });
        }
        Ok(())
    }

    fn affinity(
        &mut self,
        subject: &Subject<'_>,
        thread: &Thread,
        threads: &[Thread],
        wanted: &Wanted,
    ) -> Result<(), LinuxError> {
        let place = Place::Affinity(thread.id);
        if wanted.cpus.is_none() && self.ledger.origin(&place).is_none() {
            return Ok(());
        }
        let Some(now @ Value::Cpus(before)) = self.read(&place)? else { return Ok(()) };
        let origin = self.origin(subject, thread, &place, &now, threads)?;
        let Value::Cpus(origin) = origin else { return Ok(()) };
        let after = wanted.cpus.map_or(origin, |cpus| within(&cpus.intersection(&self.online), &origin));
        if before != after || self.inherited(&place, before != origin) {
            self.push(Write {
                workload: Some(subject.id),
                place,
                origin: Value::Cpus(origin),
                before: Value::Cpus(before),
                after: Value::Cpus(after),
            });
        }
        Ok(())
    }

    fn class(
        &mut self,
        subject: &Subject<'_>,
        thread: &Thread,
        threads: &[Thread],
        wanted: &Wanted,
    ) -> Result<Option<Write>, LinuxError> {
        let place = Place::Class(thread.id);
        let untouched = wanted.class.is_none() && wanted.weight.is_none() && wanted.idle.is_none();
        if untouched && self.ledger.origin(&place).is_none() {
            return Ok(None);
        }
        let Some(now @ Value::Class(before)) = self.read(&place)? else { return Ok(None) };
        let origin = self.origin(subject, thread, &place, &now, threads)?;
        let Value::Class(origin) = origin else { return Ok(None) };
        let after = class_of(wanted, &origin);
        let same = before.is_like(&after) && before.reset_on_fork == after.reset_on_fork;
        let inherited = self.inherited(&place, !before.is_like(&origin));
        Ok((!same || inherited).then_some(Write {
            workload: Some(subject.id),
            place,
            origin: Value::Class(origin),
            before: Value::Class(before),
            after: Value::Class(after),
        }))
    }

    /// Has a thread the wanted value already, by its birth? Then it is written all the same, so that ledger and journal
    /// know what to put back.
    fn inherited(&self, place: &Place, not_its_own: bool) -> bool {
        not_its_own && self.ledger.origin(place).is_none()
    }
}

/// Can all of the workload be stopped by the freezers of its cgroups?
fn has_freezer(subject: &Subject<'_>) -> bool {
    !subject.resolved.groups.is_empty() && !subject.resolved.selects_processes()
}

/// The threads of these workloads, each with its workload; subjects are ascending.
fn with_subjects<'a, 'b>(
    subjects: &'a [Subject<'a>],
    threads: &'b [Thread],
) -> impl Iterator<Item = (&'b Thread, &'a Subject<'a>)> {
    threads.iter().filter_map(|thread| {
        let at = subjects.binary_search_by_key(&thread.workload, |subject| subject.id).ok()?;
        Some((thread, &subjects[at]))
    })
}

/// A thread that bound itself to CPUs stays within its own choice where the two have a CPU in common.
fn within(cpus: &CpuSet, origin: &CpuSet) -> CpuSet {
    let common = cpus.intersection(origin);
    if common.is_empty() { *cpus } else { common }
}

/// The class of a thread for which these values stand: idle-only before everything, then the class that was set, with
/// the weight as its nice value.
fn class_of(wanted: &Wanted, origin: &ThreadClass) -> ThreadClass {
    let class = if wanted.idle == Some(true) { Some(SchedClass::Idle) } else { wanted.class };
    let base = class.unwrap_or(origin.class);
    let class = match (base, wanted.weight) {
        (SchedClass::Fair { slice, .. }, Some(weight)) => SchedClass::Fair { nice: nice_of_weight(weight), slice },
        (SchedClass::Batch { .. }, Some(weight)) => SchedClass::Batch { nice: nice_of_weight(weight) },
        (other, _) => other,
    };
    if class == origin.class { *origin } else { ThreadClass::of(class) }
}

fn is_real_time(value: &Value) -> bool {
    matches!(value, Value::Class(class) if class.class.is_real_time())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_combine_to_one_class() {
        let origin = ThreadClass::of(SchedClass::Batch { nice: 3 });
        let wanted =
            |class, weight, idle| class_of(&Wanted { class, weight, idle, ..Wanted::default() }, &origin).class;
        assert_eq!(wanted(None, None, None), SchedClass::Batch { nice: 3 });
        assert_eq!(wanted(None, Some(100), None), SchedClass::Batch { nice: 0 });
        assert_eq!(wanted(Some(SchedClass::NORMAL), Some(1), None), SchedClass::Fair { nice: 19, slice: None });
        assert_eq!(wanted(Some(SchedClass::Fifo { priority: 1 }), Some(1), Some(true)), SchedClass::Idle);
        assert!(
            class_of(&Wanted { class: Some(SchedClass::Fifo { priority: 1 }), ..Wanted::default() }, &origin)
                .reset_on_fork
        );
    }

    #[test]
    fn a_threads_own_binding_is_kept_where_it_can_be() {
        let set = |text: &str| text.parse::<CpuSet>().unwrap();
        assert_eq!(within(&set("0-3"), &set("2")), set("2"));
        assert_eq!(within(&set("0-1"), &set("2")), set("0-1"));
    }
}

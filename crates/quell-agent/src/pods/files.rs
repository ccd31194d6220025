//! What stands in pods' cgroups: each file's text from before, the text that is to stand, and the way back.

use std::collections::BTreeMap;
use std::path::PathBuf;

use quell_linux::LinuxError;
use quell_linux::write::{Fate, Journal, Medium, Place, Touched, Value, Write, carry_out, restore};
use quell_model::CpuSet;
use quell_pods::{EXCLUSIVE, PARTITION};

/// A quota, of which the runtime may write another one: that is then the one to put back.
const QUOTA: &str = "cpu.max";
/// A CPU list.
const CPUS: &str = "cpuset.cpus";

/// The files that Quell wrote in pods' cgroups.
#[derive(Debug)]
pub(super) struct Files {
    root: PathBuf,
    medium: Box<dyn Medium + Send>,
    journal: Box<dyn Journal>,
    /// By path below the root.
    standing: BTreeMap<String, Standing>,
    /// Created with Quell's text by the runtime: their text without Quell.
    born: BTreeMap<String, String>,
    /// Times that another program had changed a file, and it was set again.
    pub set_again: u64,
    /// What could not be set, in words, by path.
    pub refused: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Standing {
    origin: Value,
    last: Value,
}

/// What a file's next text leaves of its CPUs.
enum Kept {
    All,
    Some(CpuSet),
    /// It had these, and will have those.
    None(CpuSet, CpuSet),
}

impl Standing {
    /// Did Quell write this last? A quota has its period behind it.
    fn is_as(&self, text: &str) -> bool {
        let Value::Text(last) = &self.last else { return false };
        last.strip_prefix(text).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    }
}

impl Files {
    /// None written yet, below this root of cgroups.
    pub fn below(root: PathBuf, medium: Box<dyn Medium + Send>, journal: Box<dyn Journal>) -> Files {
        let (standing, born, refused) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Files { root, medium, journal, standing, born, set_again: 0, refused }
    }

    /// The runtime creates this file with what Quell answers, `text`; without that its text would be `origin`. The way back is in the
    /// journal before the file is there: its container may start when Quell has been killed.
    pub fn is_born_with(&mut self, file: String, text: &str, origin: String) {
        let text = Value::Text(text.to_owned());
        let (place, origin_value) = (self.place(&file), Value::Text(origin.clone()));
        let write = Write { workload: None, place, origin: origin_value, before: text.clone(), after: text };
        if let Err(error) = self.journal.before(&write) {
            tracing::warn!(%write, %error, "the journal could not record what a container starts with");
        }
        self.born.insert(file, origin);
    }

    /// The container of this file has started. Where nothing was set in it, nothing is wanted there any more: it has what it would have
    /// without Quell.
    pub fn has_started(&mut self, file: &str) {
        if self.take_over(file) {
            self.give_up(|its| its == file);
        }
    }

    /// That file will not be: its container was never started.
    pub fn is_never_born(&mut self, file: &str) {
        let Some(origin) = self.born.remove(file) else { return };
        self.is_anothers(file, Value::Text(origin.clone()), Value::Text(origin));
    }

    /// What is in these files from now on; the others get back what they had. First what takes CPUs away from a container, then the
    /// rest: no CPU is two containers' at any time, unless some change places. A file that has its text already is read only to find
    /// out what others wrote.
    ///
    /// Returns why a partition is none: the kernel refuses it, or has none of this kind. No CPU set has become larger then, so that
    /// the next call may set other files instead.
    pub fn follow(&mut self, wanted: &BTreeMap<String, String>, is_to_be_read: bool) -> Option<String> {
        self.refused.clear();
        if wanted.is_empty() {
            self.take_over_what_was_born();
        }
        let due: Vec<(&str, &str)> = wanted
            .iter()
            .map(|(file, text)| (file.as_str(), text.as_str()))
            .filter(|(file, _)| of_partition(file).is_none())
            .filter(|(file, text)| is_to_be_read || !self.stands(file, text))
            .collect();
        let (mut moves, mut gives) = (Vec::new(), Vec::new());
        for (file, text) in due {
            match self.kept(file, text) {
                Kept::All => gives.push((file, text)),
                Kept::Some(cpus) => {
                    let cpus = cpus.to_string();
                    self.set(file, &cpus);
                    if cpus != text {
                        gives.push((file, text));
                    }
                }
                Kept::None(before, next) => moves.push((file, text, before, next)),
            }
        }
        // A partition ends when the CPU sets of others are clear of its CPUs, and before another one has them.
        self.give_up(|file| !wanted.contains_key(file) && !file.ends_with(CPUS));
        self.make_partitions(wanted, is_to_be_read);
        if let Some(why) = self.no_partition(wanted) {
            return Some(why);
        }
        // What moves as a whole leaves before others get what it had: an empty list would be all CPUs. Of those, first what goes where
        // none of the others is; in a circle, any.
        while !moves.is_empty() {
            let goes = |at: &usize| {
                let mut others = moves.iter().enumerate().filter(|(other, _)| other != at);
                others.all(|(_, (.., before, _))| before.is_disjoint(&moves[*at].3))
            };
            let (file, text, ..) = moves.remove((0..moves.len()).find(goes).unwrap_or(0));
            self.set(file, text);
        }
        // Who had CPUs of its own has all that others have, after those others have theirs.
        for (file, text) in gives {
            self.set(file, text);
        }
        self.give_up(|file| !wanted.contains_key(file));
        None
    }

    /// Exclusive CPUs become smaller from the bottom up, then larger from the top down: at no time are they two siblings', or not a
    /// part of those above. Partitions are last: from then on their CPUs are in no other set.
    fn make_partitions(&mut self, wanted: &BTreeMap<String, String>, is_to_be_read: bool) {
        let mut files: Vec<(&str, &str)> = wanted
            .iter()
            .map(|(file, text)| (file.as_str(), text.as_str()))
            .filter(|(file, _)| of_partition(file).is_some())
            .collect();
        files.sort_by_key(|(file, _)| (of_partition(file), depth(file)));
        let mut is_changed = false;
        for (file, text) in files.iter().rev().filter(|(file, _)| file.ends_with(EXCLUSIVE)) {
            if let Some(both) = self.of_both(file, text) {
                self.set(file, &both.to_string());
                is_changed = true;
            }
        }
        for (file, text) in files {
            let is_new = !self.stands(file, text);
            // Other exclusive CPUs may have ended a partition.
            if is_to_be_read || is_new || is_changed && file.ends_with(PARTITION) {
                self.set(file, text);
                is_changed |= is_new;
            }
        }
    }

    /// The CPUs of this file that it has already and will have, if it has others, too.
    fn of_both(&self, file: &str, text: &str) -> Option<CpuSet> {
        let Value::Text(last) = &self.standing.get(file)?.last else { return None };
        let (last, next) = (last.parse::<CpuSet>().ok()?, text.parse::<CpuSet>().ok()?);
        let both = last.intersection(&next);
        (both != last).then_some(both)
    }

    fn no_partition(&mut self, wanted: &BTreeMap<String, String>) -> Option<String> {
        let refused = self.refused.iter().find(|(file, _)| of_partition(file).is_some());
        if let Some((_, why)) = refused {
            return Some(why.clone());
        }
        let top = wanted.keys().filter(|file| file.ends_with(EXCLUSIVE)).min_by_key(|file| depth(file))?;
        let is_missing = self.medium.read(&self.place(top)).is_ok_and(|text| text.is_none());
        is_missing.then(|| {
            format!("there is no {top}: the kernel is older than 6.7, or the cpuset controller is not enabled there")
        })
    }

    /// Did Quell write this text into this file last?
    fn stands(&self, file: &str, text: &str) -> bool {
        self.standing.get(file).is_some_and(|standing| standing.is_as(text))
    }

    /// Is nothing written, and nothing to be?
    pub fn is_empty(&self) -> bool {
        self.standing.is_empty() && self.born.is_empty()
    }

    /// Everything is as it was before.
    pub fn put_back(&mut self) {
        self.take_over_what_was_born();
        self.give_up(|_| true);
    }

    /// Containers that have not started, and whose CPUs are nothing's any more: they get back all.
    fn take_over_what_was_born(&mut self) {
        for file in self.born.keys().cloned().collect::<Vec<_>>() {
            self.take_over(&file);
        }
    }

    fn take_over(&mut self, file: &str) -> bool {
        let Ok(Some(now)) = self.medium.read(&self.place(file)) else { return false };
        let Some(origin) = self.born.remove(file) else { return false };
        self.standing.insert(file.to_owned(), Standing { origin: Value::Text(origin), last: now });
        true
    }

    /// The first CPU set that could not be written, if it still has some of these CPUs.
    pub fn not_cleared_of(&mut self, cpus: &CpuSet) -> Option<String> {
        let sets: Vec<(String, String)> = self
            .refused
            .iter()
            .filter(|(file, _)| file.ends_with(CPUS))
            .map(|it| (it.0.clone(), it.1.clone()))
            .collect();
        sets.into_iter().find_map(|(file, why)| {
            let is_clear = match self.medium.read(&self.place(&file)) {
                Ok(None) => true,
                Ok(Some(Value::Text(now))) => {
                    !now.is_empty() && now.parse::<CpuSet>().is_ok_and(|now| now.intersection(cpus).is_empty())
                }
                _ => false,
            };
            (!is_clear).then_some(why)
        })
    }

    /// What does the text leave of the CPUs that are in the file now? There, an empty list stands for all CPUs.
    fn kept(&mut self, file: &str, text: &str) -> Kept {
        let now = self.medium.read(&self.place(file));
        let (Ok(Some(Value::Text(now))), Ok(next)) = (now, text.parse::<CpuSet>()) else { return Kept::All };
        let Ok(before) = now.parse::<CpuSet>() else { return Kept::All };
        let both = if now.is_empty() { next } else { before.intersection(&next) };
        match (both.is_empty(), both == before) {
            _ if next.is_empty() => Kept::All,
            (true, _) => Kept::None(before, next),
            (_, true) => Kept::All,
            _ => Kept::Some(both),
        }
    }

    fn place(&self, file: &str) -> Place {
        Place::File(self.root.join(file))
    }

    fn set(&mut self, file: &str, text: &str) {
        match self.try_set(file, text) {
            Ok(()) => drop(self.refused.remove(file)),
            Err(error) => drop(self.refused.insert(file.to_owned(), error.to_string())),
        }
    }

    fn try_set(&mut self, file: &str, text: &str) -> Result<(), LinuxError> {
        let place = self.place(file);
        let Some(now) = self.medium.read(&place)? else {
            self.forget(file);
            return Ok(());
        };
        let after = Value::Text(whole(file, text, &now));
        let mut origin = self.born.remove(file).map(Value::Text);
        if let Some(standing) = self.standing.get(file).cloned() {
            if standing.last == now && now == after {
                return Ok(());
            }
            origin = Some(standing.origin);
            if standing.last != now {
                // The kernel itself ends a partition whose CPUs change.
                self.set_again += u64::from(now != after && !standing.last.is_text_of(&now));
                if file.ends_with(QUOTA) {
                    // The pod was resized: what the runtime wrote is what comes back.
                    self.forget(file);
                    origin = Some(now.clone());
                }
            }
        }
        let (kind, before) = if file.ends_with(PARTITION) { of_ended(&now) } else { (now.clone(), now) };
        let origin = origin.unwrap_or(kind);
        let write = Write { workload: None, place, origin: origin.clone(), before, after: after.clone() };
        if write.before == write.after {
            // It has the text since it was created: only the way back is recorded.
            let failed = |source| LinuxError::Journal { write: write.to_string(), source };
            self.journal.before(&write).map_err(failed)?;
            self.journal.done(&write, Fate::Applied).map_err(failed)?;
        } else {
            carry_out(&mut *self.medium, &mut *self.journal, &[write])?;
        }
        self.standing.insert(file.to_owned(), Standing { origin, last: after });
        Ok(())
    }

    /// It is another program's, or gone: nothing is to be put back.
    fn forget(&mut self, file: &str) {
        self.born.remove(file);
        if let Some(Standing { origin, last }) = self.standing.remove(file) {
            self.is_anothers(file, origin, last);
        }
    }

    fn is_anothers(&mut self, file: &str, origin: Value, last: Value) {
        let write = Write { workload: None, place: self.place(file), before: last.clone(), after: last, origin };
        if let Err(error) = self.journal.done(&write, Fate::Vanished) {
            tracing::warn!(%write, %error, "the journal could not record that a file is another program's");
        }
    }

    fn give_up(&mut self, is_meant: impl Fn(&str) -> bool) {
        let mut due: Vec<String> = self.standing.keys().filter(|file| is_meant(file)).cloned().collect();
        // A partition ends before its CPUs are anyone's; then from the bottom up.
        due.sort_by_key(|file| (std::cmp::Reverse(of_partition(file)), std::cmp::Reverse(depth(file))));
        let touched: Vec<Touched> = due
            .iter()
            .filter_map(|file| {
                let Standing { origin, last } = self.standing.get(file)?.clone();
                Some(Touched { workload: None, place: self.place(file), origin, last })
            })
            .collect();
        let report = restore(&mut *self.medium, &mut *self.journal, &touched);
        for left in &report.left {
            tracing::warn!("{left}");
        }
        for file in due {
            // What the system refused is tried again, and in the end the guardian's.
            let is_refused = report.left.iter().any(|left| left.place == self.place(&file)) && self.still_has(&file);
            if !is_refused {
                // What another program has changed is its own; what was put back has an entry that is closed.
                self.forget(&file);
            }
        }
    }

    /// Has the file what Quell wrote last?
    fn still_has(&mut self, file: &str) -> bool {
        let now = self.medium.read(&self.place(file));
        self.standing
            .get(file)
            .is_some_and(|standing| now.is_ok_and(|now| now.is_some_and(|now| standing.last.is_text_of(&now))))
    }
}

/// A file that makes partitions: in which order it is set.
fn of_partition(file: &str) -> Option<usize> {
    [EXCLUSIVE, PARTITION].iter().position(|name| file.ends_with(name))
}

/// The kind of a partition that the kernel has ended, since its reason cannot be written, and what it is now: none.
fn of_ended(now: &Value) -> (Value, Value) {
    match now {
        Value::Text(text) => match text.split_once(" invalid") {
            Some((kind, _)) => (Value::Text(kind.to_owned()), Value::Text("member".to_owned())),
            None => (now.clone(), now.clone()),
        },
        _ => (now.clone(), now.clone()),
    }
}

fn depth(file: &str) -> usize {
    file.matches('/').count()
}

/// The text as the kernel shows it: a quota has its period behind it.
fn whole(file: &str, text: &str, now: &Value) -> String {
    match now {
        Value::Text(now) if file.ends_with(QUOTA) && !text.contains(' ') => {
            let period = now.split_whitespace().nth(1).unwrap_or("100000");
            format!("{text} {period}")
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
#[path = "files_tests.rs"]
mod tests;

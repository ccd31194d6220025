//! Sum of a journal's records. Pure: bytes in, entries out.

use std::collections::HashMap;

use quell_linux::write::{Place, Touched, Value, Write};
use quell_model::WorkloadId;

use super::{Begin, Owner, Record};

/// A place that Quell changed, or was about to.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The place.
    pub place: Place,
    /// The workload that it was for.
    pub workload: Option<WorkloadId>,
    /// The original value.
    pub origin: Value,
    /// Quell's last value, written or about to be written.
    pub last: Value,
    /// The place's value if that last write was not made.
    pub before_last: Value,
    /// The number of the last write.
    pub n: u64,
    /// Start of Quell's control, in clock ticks since boot.
    pub since: u64,
    /// The thread's owner.
    pub owner: Option<Owner>,
    /// The directory's inode.
    pub inode: Option<u64>,
}

impl Entry {
    /// Has it been restored, as far as the journal knows?
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.last == self.origin && self.before_last == self.origin
    }

    /// The change to restore, given that the place has `now`: the last write may have been announced only.
    ///
    /// A stop signal takes effect a little after it was sent: a process that looks as if it ran is continued all the same.
    #[must_use]
    pub fn touched(&self, now: Option<&Value>) -> Touched {
        let by_signal = matches!(self.place, Place::Stopped(_));
        let announced_only = match by_signal {
            true => self.last == self.origin,
            false => now.is_some_and(|now| same(now, &self.before_last) && !same(now, &self.last)),
        };
        let last = if announced_only { &self.before_last } else { &self.last };
        Touched { workload: self.workload, place: self.place.clone(), origin: self.origin.clone(), last: last.clone() }
    }
}

/// Are the values the same, as far as can be known? A slice that the kernel chose reads like one that was set.
#[must_use]
pub fn same(now: &Value, written: &Value) -> bool {
    match (now, written) {
        (Value::Class(now), Value::Class(written)) => now.is_as_written(written),
        _ => written.is_text_of(now),
    }
}

/// A journal's meaning so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Replay {
    /// Its first line.
    pub begin: Option<Begin>,
    /// Lines that could not be understood, a torn last one included.
    pub broken: usize,
    entries: Vec<Option<Entry>>,
    index: HashMap<Place, usize>,
}

/// The entries of a journal's bytes. A last line without its end is left out: its write was not made.
#[must_use]
pub fn replay(bytes: &[u8]) -> Replay {
    let mut state = Replay::default();
    let complete = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
    state.broken += usize::from(complete < bytes.len());
    for line in bytes[..complete].split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
        match serde_json::from_slice(line) {
            Ok(record) => state.read(record),
            Err(_) => state.broken += 1,
        }
    }
    state
}

impl Replay {
    /// The places, in the order in which they were first touched.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().flatten()
    }

    /// The entry of a place.
    #[must_use]
    pub fn entry(&self, place: &Place) -> Option<&Entry> {
        self.entries[*self.index.get(place)?].as_ref()
    }

    /// Number of places.
    #[must_use]
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Is there nothing to put back?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Takes one more record in.
    pub fn read(&mut self, record: Record) {
        match record {
            Record::Begin(begin) => *self = Replay { begin: Some(begin), broken: self.broken, ..Replay::default() },
            Record::Write { n, at, write, owner, inode } => match self.index.get(&write.place) {
                Some(&slot) => {
                    let entry = self.entries[slot].as_mut().expect("an indexed entry is there");
                    if entry.is_closed() {
                        // It was restored; another program may have changed it before Quell came again.
                        entry.origin = write.origin;
                        entry.owner = owner.or(entry.owner);
                        entry.inode = inode.or(entry.inode);
                    }
                    (entry.before_last, entry.last, entry.n) = (write.before, write.after, n);
                    entry.workload = write.workload;
                }
                None => {
                    let since = since(&write, at);
                    self.index.insert(write.place.clone(), self.entries.len());
                    self.entries.push(Some(Entry {
                        place: write.place,
                        workload: write.workload,
                        origin: write.origin,
                        last: write.after,
                        before_last: write.before,
                        n,
                        since,
                        owner,
                        inode,
                    }));
                }
            },
            Record::Vanished(n) => {
                let place = self.entries().find(|entry| entry.n == n).map(|entry| entry.place.clone());
                place.iter().for_each(|place| self.forget(place));
            }
        }
    }

    /// The last write on this place is known to have been made.
    pub fn made(&mut self, place: &Place) {
        let slot = self.index.get(place).copied();
        if let Some(entry) = slot.and_then(|slot| self.entries[slot].as_mut()) {
            entry.before_last = entry.last.clone();
        }
    }

    /// Drops entries that `keep` rejects.
    pub fn retain(&mut self, keep: impl Fn(&Entry) -> bool) {
        let kept: Vec<Option<Entry>> =
            self.entries.drain(..).filter(|entry| entry.as_ref().is_some_and(&keep)).collect();
        self.index =
            kept.iter().enumerate().filter_map(|(at, entry)| Some((entry.as_ref()?.place.clone(), at))).collect();
        self.entries = kept;
    }

    fn forget(&mut self, place: &Place) {
        if let Some(slot) = self.index.remove(place) {
            self.entries[slot] = None;
        }
    }
}

/// Start of Quell's control of a place, given its first write. A thread whose value then was not its original one had
/// inherited Quell's, and so was under Quell from its creation.
fn since(write: &Write, at: u64) -> u64 {
    match write.place {
        Place::Affinity(thread) | Place::Class(thread) if !same(&write.before, &write.origin) => at.min(thread.start),
        _ => at,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_process_that_may_have_been_stopped_is_continued_however_it_looks() {
        let (running, stopped) = (Value::Stopped(false), Value::Stopped(true));
        let process = quell_model::ThreadId { tid: 7, start: 1 };
        let entry = |before: &Value, last: &Value| Entry {
            place: Place::Stopped(process),
            workload: None,
            origin: Value::Stopped(false),
            last: last.clone(),
            before_last: before.clone(),
            n: 1,
            since: 0,
            owner: None,
            inode: None,
        };
        for now in [&running, &stopped] {
            assert_eq!(entry(&running, &stopped).touched(Some(now)).last, stopped, "it was sent just now");
            assert_eq!(entry(&stopped, &running).touched(Some(now)).last, stopped, "its end was announced only");
        }
    }

    fn write(place: &str, origin: &str, before: &str, after: &str) -> Write {
        let text = |text: &str| Value::Text(text.into());
        Write {
            workload: None,
            place: Place::File(place.into()),
            origin: text(origin),
            before: text(before),
            after: text(after),
        }
    }

    fn line(n: u64, write: &Write) -> Record {
        Record::Write { n, at: 5, write: write.clone(), owner: None, inode: Some(3) }
    }

    fn bytes(records: &[Record]) -> Vec<u8> {
        let mut text = Vec::new();
        records.iter().for_each(|record| record.append_to(&mut text));
        text
    }

    #[test]
    fn a_thread_that_inherited_its_value_was_under_quell_from_its_birth() {
        let place = Place::Affinity(quell_model::ThreadId { tid: 7, start: 3 });
        let cpus = |list: &str| Value::Cpus(list.parse().unwrap());
        let first =
            |before| Write { workload: None, place: place.clone(), origin: cpus("0-1"), before, after: cpus("0") };
        let since = |write: Write| {
            let mut replay = Replay::default();
            replay.read(line(1, &write));
            replay.entry(&place).unwrap().since
        };
        assert_eq!(since(first(cpus("0-1"))), 5, "the time of the write");
        assert_eq!(since(first(cpus("1"))), 3, "its birth");
    }

    fn begin() -> Record {
        Record::Begin(Begin { version: 1, boot: "b".into(), pid: 1, start: 2, program: String::new() })
    }

    #[test]
    fn the_first_value_stays_and_the_last_write_counts() {
        let records = [begin(), line(1, &write("a", "0", "0", "1")), line(2, &write("a", "0", "1", "2"))];
        let state = replay(&bytes(&records));
        let entry = state.entry(&Place::File("a".into())).unwrap();
        assert_eq!((&entry.origin, &entry.last), (&Value::Text("0".into()), &Value::Text("2".into())));
        assert_eq!(state.begin.as_ref().unwrap().pid, 1);
    }

    #[test]
    fn a_write_that_was_announced_only_is_told_by_what_stands_there() {
        let state = replay(&bytes(&[line(1, &write("a", "0", "0", "1")), line(2, &write("a", "0", "1", "2"))]));
        let entry = state.entries().next().unwrap();
        let last = |now: &str| entry.touched(Some(&Value::Text(now.into()))).last;
        assert_eq!(last("1"), Value::Text("1".into()), "made before, not yet again");
        assert_eq!(last("2"), Value::Text("2".into()));
        assert_eq!(last("9"), Value::Text("2".into()), "another process's value is none of ours");
    }

    #[test]
    fn what_was_refused_or_vanished_needs_nothing() {
        let a = write("a", "0", "0", "1");
        let state = replay(&bytes(&[line(1, &a), line(1, &write("a", "0", "0", "0"))]));
        assert!(state.entries().next().unwrap().is_closed());
        assert!(replay(&bytes(&[line(1, &a), Record::Vanished(1)])).is_empty());
    }

    #[test]
    fn a_place_that_was_put_back_and_touched_again_has_a_new_first_value() {
        let mut state = replay(&bytes(&[line(1, &write("a", "0", "0", "1")), line(2, &write("a", "0", "1", "0"))]));
        state.made(&Place::File("a".into()));
        state.read(line(3, &write("a", "7", "7", "1")));
        assert_eq!(state.entries().next().unwrap().origin, Value::Text("7".into()));
    }

    proptest! {
        /// Cut anywhere, a journal has the entries of its complete lines.
        #[test]
        fn a_torn_last_line_is_no_problem(count in 1usize..20, cut in 0usize..4000) {
            let records: Vec<Record> = (0..count)
                .map(|n| line(n as u64, &write(&format!("p{}", n % 5), "0", "1", &n.to_string())))
                .collect();
            let whole = bytes(&records);
            let torn = &whole[..cut.min(whole.len())];
            let complete = torn.iter().filter(|&&byte| byte == b'\n').count();
            let state = replay(torn);
            let expected = replay(&bytes(&records[..complete]));
            prop_assert!(state.entries().eq(expected.entries()));
            prop_assert!(state.broken <= 1);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = replay(&bytes);
        }
    }
}

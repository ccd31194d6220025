use super::{Fate, Journal, Medium, Write, Written};
use crate::LinuxError;

/// Makes all writes in order, or none: when one is refused, those before it are taken back in reverse order. A place
/// that is gone is no failure. Returns for each write whether it was made.
///
/// # Errors
/// The refusal; [`LinuxError::Rollback`] if something could not be taken back.
pub fn carry_out(
    medium: &mut dyn Medium,
    journal: &mut dyn Journal,
    writes: &[Write],
) -> Result<Vec<Written>, LinuxError> {
    let mut made = Vec::with_capacity(writes.len());
    for write in writes {
        match make(medium, journal, write) {
            Ok(written) => made.push(written),
            Err(cause) => return Err(take_back(medium, journal, &writes[..made.len()], &made, cause)),
        }
    }
    Ok(made)
}

fn make(medium: &mut dyn Medium, journal: &mut dyn Journal, write: &Write) -> Result<Written, LinuxError> {
    journal.before(write).map_err(|source| LinuxError::Journal { write: write.to_string(), source })?;
    let result = medium.write(&write.place, &write.after);
    let fate = match &result {
        Ok(Written::Done) => Fate::Applied,
        Ok(Written::Vanished) => Fate::Vanished,
        Err(_) => {
            // A partition that did not become valid was written all the same. A cgroup that could not be made may be another's.
            if !matches!(write.place, super::Place::Cgroup(_)) {
                let _ = medium.write(&write.place, &write.before);
            }
            Fate::Refused
        }
    };
    note(journal, write, fate);
    result
}

fn take_back(
    medium: &mut dyn Medium,
    journal: &mut dyn Journal,
    writes: &[Write],
    made: &[Written],
    cause: LinuxError,
) -> LinuxError {
    let mut left = Vec::new();
    for (write, _) in writes.iter().zip(made).rev().filter(|(_, written)| **written == Written::Done) {
        match medium.write(&write.place, &write.before) {
            Ok(_) => note(journal, write, Fate::TakenBack),
            Err(error) => left.push(format!("{write} ({error})")),
        }
    }
    if left.is_empty() { cause } else { LinuxError::Rollback { cause: Box::new(cause), left } }
}

fn note(journal: &mut dyn Journal, write: &Write, fate: Fate) {
    if let Err(error) = journal.done(write, fate) {
        tracing::warn!(%write, ?fate, %error, "the journal could not record what became of a write");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write::{NoJournal, Place, Value};
    use std::collections::BTreeMap;

    /// Places in memory, of which one refuses a value and then holds something else, as an invalid partition does.
    #[derive(Debug, Default)]
    struct Memory {
        values: BTreeMap<Place, Value>,
        refuses: Option<Place>,
        keeps: Option<Place>,
    }

    impl Medium for Memory {
        fn read(&mut self, place: &Place) -> Result<Option<Value>, LinuxError> {
            Ok(self.values.get(place).cloned())
        }

        fn write(&mut self, place: &Place, value: &Value) -> Result<Written, LinuxError> {
            if !self.values.contains_key(place) {
                return Ok(Written::Vanished);
            }
            if self.keeps.as_ref() == Some(place) && *value == text("old") {
                return Err(LinuxError::unsupported("it keeps its value", ""));
            }
            self.values.insert(place.clone(), value.clone());
            if self.refuses.as_ref() == Some(place) && *value == text("new") {
                self.values.insert(place.clone(), text("new invalid"));
                return Err(LinuxError::unsupported("it refuses", ""));
            }
            Ok(Written::Done)
        }
    }

    fn text(text: &str) -> Value {
        Value::Text(text.into())
    }

    fn place(number: usize) -> Place {
        Place::File(format!("/{number}").into())
    }

    fn writes() -> Vec<Write> {
        let write = |number| Write {
            workload: None,
            place: place(number),
            origin: text("old"),
            before: text("old"),
            after: text("new"),
        };
        (0..5).map(write).collect()
    }

    fn memory() -> Memory {
        Memory {
            values: (0..5).filter(|number| *number != 1).map(|number| (place(number), text("old"))).collect(),
            ..Memory::default()
        }
    }

    #[test]
    fn what_vanished_is_no_failure() {
        let mut memory = memory();
        let made = carry_out(&mut memory, &mut NoJournal, &writes()).unwrap();
        assert_eq!(made[1], Written::Vanished);
        assert_eq!(made.iter().filter(|written| **written == Written::Done).count(), 4);
        assert!(memory.values.values().all(|value| *value == text("new")));
    }

    #[test]
    fn a_refusal_anywhere_takes_everything_back() {
        for refused in [0, 2, 3, 4] {
            let mut memory = Memory { refuses: Some(place(refused)), ..memory() };
            assert!(carry_out(&mut memory, &mut NoJournal, &writes()).is_err());
            assert!(memory.values.values().all(|value| *value == text("old")), "{refused}: {memory:?}");
        }
    }

    #[test]
    fn what_cannot_be_taken_back_is_named() {
        let mut memory = Memory { refuses: Some(place(4)), keeps: Some(place(2)), ..memory() };
        let error = carry_out(&mut memory, &mut NoJournal, &writes()).unwrap_err();
        let LinuxError::Rollback { left, .. } = &error else { panic!("{error}") };
        assert_eq!(left.len(), 1);
        assert!(error.to_string().contains("it refuses") && left[0].contains("/2"), "{error}");
        assert_eq!(memory.values[&place(0)], text("old"));
    }
}

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
            // A partition that did not become valid was written all the same.
            let _ = medium.write(&write.place, &write.before);
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

//! Restores places to their original values, where they still have Quell's.

use serde::{Deserialize, Serialize};

use quell_model::WorkloadId;

use super::{Fate, Journal, Medium, Place, Value, Write, Written};
use crate::LinuxError;

/// A place that Quell changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Touched {
    /// The workload that it was for.
    pub workload: Option<WorkloadId>,
    /// The place.
    pub place: Place,
    /// The value to restore.
    pub origin: Value,
    /// Quell's last value.
    pub last: Value,
}

/// A place that was not put back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Left {
    /// The place.
    pub place: Place,
    /// The present value.
    pub now: String,
    /// The reason why it was left.
    pub why: String,
}

impl std::fmt::Display for Left {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "not put back: {} remains {}: {}", self.place, self.now, self.why)
    }
}

/// Outcome of a restore.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoreReport {
    /// Put back.
    pub restored: Vec<Write>,
    /// Gone in the meantime.
    pub vanished: usize,
    /// Not restored: another program changed them since, or the system refused.
    pub left: Vec<Left>,
}

/// Puts these places back, in this order, each only if it still has the value that Quell wrote last. Goes on after a
/// failure and reports it.
pub fn restore(medium: &mut dyn Medium, journal: &mut dyn Journal, touched: &[Touched]) -> RestoreReport {
    let mut report = RestoreReport::default();
    for entry in touched {
        if let Err(error) = put_back(medium, journal, entry, &mut report) {
            let now = medium.read(&entry.place).ok().flatten().map_or("unknown".into(), |now| now.to_string());
            report.left.push(Left { place: entry.place.clone(), now, why: error.to_string() });
        }
    }
    report
}

fn put_back(
    medium: &mut dyn Medium,
    journal: &mut dyn Journal,
    entry: &Touched,
    report: &mut RestoreReport,
) -> Result<(), LinuxError> {
    if entry.last == entry.origin {
        return Ok(());
    }
    let Some(now) = medium.read(&entry.place)? else {
        report.vanished += 1;
        return Ok(());
    };
    // A stop signal takes effect a little after it was sent: a process that Quell stopped is always continued.
    let by_signal = matches!(entry.place, Place::Stopped(_));
    if !by_signal && !entry.last.is_still(&now) {
        if now != entry.origin {
            let why = format!("changed by another process since; Quell had written {}", entry.last);
            report.left.push(Left { place: entry.place.clone(), now: now.to_string(), why });
        }
        return Ok(());
    }
    let write = Write {
        workload: entry.workload,
        place: entry.place.clone(),
        origin: entry.origin.clone(),
        before: now,
        after: entry.origin.clone(),
    };
    journal.before(&write).map_err(|source| LinuxError::Journal { write: write.to_string(), source })?;
    let written = medium.write(&write.place, &write.after)?;
    let fate = if written == Written::Done { Fate::Applied } else { Fate::Vanished };
    if let Err(error) = journal.done(&write, fate) {
        tracing::warn!(%write, %error, "the journal could not record what was put back");
    }
    match written {
        Written::Done => report.restored.push(write),
        Written::Vanished => report.vanished += 1,
    }
    Ok(())
}

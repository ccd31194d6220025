//! Is the agent switched off, since when, and by whom? A file keeps what outlasts its worker.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use quell_model::Nanos;
use serde::{Deserialize, Serialize};

use crate::wire;

/// One reason for being off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Reason {
    since: Nanos,
    by: String,
}

/// Off by a person until switched on, off by leases for as long as those last, or on.
#[derive(Debug, Default)]
pub struct Switch {
    off: Option<Reason>,
    /// By number.
    leases: BTreeMap<u64, Reason>,
    file: Option<PathBuf>,
}

impl Switch {
    /// As this file says; on if it does not exist or cannot be read.
    #[must_use]
    pub fn kept_in(file: Option<PathBuf>, now: Nanos) -> Switch {
        let text = file.as_ref().and_then(|file| fs::read(file).ok());
        let kept: Option<Reason> = text.and_then(|text| serde_json::from_slice(&text).ok());
        // The file may be of an earlier boot, with another clock.
        let off = kept.map(|reason| Reason { since: reason.since.min(now), ..reason });
        Switch { off, leases: BTreeMap::new(), file }
    }

    /// Is the agent off?
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.off.is_some() || !self.leases.is_empty()
    }

    /// Do callers hold it off?
    #[must_use]
    pub fn has_leases(&self) -> bool {
        !self.leases.is_empty()
    }

    /// Off until switched on.
    ///
    /// # Errors
    /// If the file cannot be written: a worker that starts again would be on.
    pub fn off(&mut self, by: &str, now: Nanos) -> Result<(), String> {
        let reason = self.off.get_or_insert_with(|| Reason { since: now, by: by.to_owned() });
        let Some(file) = &self.file else { return Ok(()) };
        let text = serde_json::to_vec(reason).expect("numbers and text");
        // Whole or not at all: one that is there already stays valid.
        let new = file.with_extension("new");
        fs::write(&new, text)
            .and_then(|()| fs::rename(&new, file))
            .map_err(|error| format!("{}: {error}; a restarted agent would be on", file.display()))
    }

    /// On again, but for leases.
    pub fn on(&mut self) {
        self.off = None;
        self.forget();
    }

    /// Off for as long as this lease lasts.
    pub fn lease(&mut self, number: u64, by: &str, now: Nanos) {
        self.leases.insert(number, Reason { since: now, by: by.to_owned() });
    }

    /// A lease is over.
    pub fn end_lease(&mut self, number: u64) {
        self.leases.remove(&number);
    }

    /// A person stopped the agent: the next one begins on.
    pub fn forget(&self) {
        if let Some(file) = &self.file {
            // Not there: it was on.
            let _ = fs::remove_file(file);
        }
    }

    /// For people; None: it is on.
    #[must_use]
    pub fn reported(&self) -> Option<wire::Off> {
        let reasons = || self.off.iter().chain(self.leases.values());
        let since = reasons().map(|reason| reason.since).min()?;
        Some(wire::Off {
            since_ns: since.0,
            by: reasons().map(|reason| reason.by.clone()).collect(),
            leased: self.off.is_none(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Nanos = Nanos::from_secs(5);

    #[test]
    fn it_is_off_until_it_is_switched_on_and_the_last_lease_is_over() {
        let mut switch = Switch::default();
        switch.lease(1, "root (process 7)", NOW);
        assert!(switch.reported().unwrap().leased);
        switch.off("root (process 8)", NOW + NOW).unwrap();
        switch.off("root (process 9)", NOW + NOW).unwrap();
        let reported = switch.reported().unwrap();
        assert_eq!((reported.since_ns, reported.leased), (NOW.0, false));
        assert_eq!(reported.by, ["root (process 8)", "root (process 7)"]);
        switch.on();
        assert!(switch.is_off(), "the lease lasts");
        switch.end_lease(1);
        assert!(!switch.is_off() && switch.reported().is_none());
    }

    #[test]
    fn a_worker_that_is_started_again_is_off_and_one_after_a_clean_stop_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let file = Some(directory.path().join("switched-off.json"));
        Switch::kept_in(file.clone(), NOW).off("root (process 8)", NOW).unwrap();
        let next = Switch::kept_in(file.clone(), Nanos::from_secs(1));
        assert_eq!(next.reported().unwrap().since_ns, 1_000_000_000, "the clock of another boot");
        next.forget();
        assert!(!Switch::kept_in(file, NOW).is_off());
    }
}

//! Which workloads all processes left, and why: a file keeps it for the next worker, which sees only that nothing is there.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::PathBuf;

use quell_linux::Departure;
use quell_model::Nanos;
use serde::{Deserialize, Serialize};

/// No longer file is read.
const LONGEST: u64 = 256 * 1024;

/// A workload that all processes left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Abandoned {
    /// When.
    pub since: Nanos,
    /// The latest of them.
    pub left: Vec<Departure>,
}

/// By the workload's name.
type All = BTreeMap<String, Abandoned>;

/// What is kept.
#[derive(Debug, Default)]
pub struct Departed {
    /// Of the worker before, and not yet asked for.
    before: All,
    stands: Option<All>,
    file: Option<PathBuf>,
}

impl Departed {
    /// As this file says; nothing if it does not exist or cannot be read.
    #[must_use]
    pub fn kept_in(file: Option<PathBuf>) -> Departed {
        let mut text = Vec::new();
        let opened = file.as_ref().and_then(|file| fs::File::open(file).ok());
        let is_read = opened.is_some_and(|opened| opened.take(LONGEST).read_to_end(&mut text).is_ok());
        let before = is_read.then(|| serde_json::from_slice(&text).ok()).flatten();
        Departed { before: before.unwrap_or_default(), stands: None, file }
    }

    /// What is known of this workload from the worker before; once.
    pub fn take(&mut self, name: &str) -> Option<Abandoned> {
        self.before.remove(name)
    }

    /// These stand now.
    pub fn keep(&mut self, now: All) {
        let Some(file) = self.file.as_ref().filter(|_| self.stands.as_ref() != Some(&now)) else { return };
        let text = serde_json::to_vec(&now).expect("numbers and text");
        let new = file.with_extension("new");
        let written = match now.is_empty() {
            true => fs::remove_file(file).or_else(|error| match error.kind() {
                std::io::ErrorKind::NotFound => Ok(()),
                _ => Err(error),
            }),
            // Whole or not at all.
            false => fs::write(&new, text).and_then(|()| fs::rename(&new, file)),
        };
        if let Err(error) = written {
            tracing::debug!(%error, "the next worker does not know which workloads all processes have left");
        }
        self.stands = Some(now);
    }

    /// A person stopped the agent.
    pub fn forget(&mut self) {
        self.keep(All::new());
    }
}

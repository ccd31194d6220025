//! Settings left behind by killed Quells, readable without privileges: nothing is claimed and nothing is changed.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::restore::main_journal;
use super::rundir::{USUAL, VARIABLE};
use crate::journal::owner::boot_id;
use crate::journal::record::newer;
use crate::journal::replay;
use crate::lock;

/// A journal that no living Quell watches over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leftover {
    /// The journal.
    pub journal: PathBuf,
    /// Number of values that are still to be restored; None: this user may not read it.
    pub values: Option<usize>,
    /// The command that puts them back.
    pub fix: String,
}

impl Leftover {
    /// The leftovers, without the fix.
    #[must_use]
    pub fn what(&self) -> String {
        let values = match self.values {
            Some(1) => "1 value".to_owned(),
            Some(count) => format!("{count} values"),
            None => "values".to_owned(),
        };
        format!("a killed Quell left {values} changed ({})", self.journal.display())
    }
}

impl fmt::Display for Leftover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; put them back with `{}`", self.what(), self.fix)
    }
}

/// The leftovers in this run directory, by name; none if there is no such directory. `proc` identifies the present
/// boot.
#[must_use]
pub fn leftovers(directory: &Path, proc: &Path) -> Vec<Leftover> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let journals = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let is_journal = |path: &PathBuf| main_journal(path).extension().is_some_and(|end| end == "journal");
    let mut journals: Vec<PathBuf> = journals.filter(is_journal).collect();
    journals.sort();
    let usual = std::env::var_os(VARIABLE).filter(|named| !named.is_empty()).map_or(USUAL.into(), PathBuf::from);
    let fix = if directory == usual {
        "quell restore".into()
    } else {
        format!("quell restore --run-dir {}", directory.display())
    };
    let left = |journal: PathBuf| {
        if lock::is_watched(&main_journal(&journal).with_extension("lock"), proc) {
            return None;
        }
        let values = match fs::read(&journal) {
            Ok(bytes) => {
                if let Some(newer) = newer(&bytes) {
                    // A comment for a shell: it takes the program that wrote it.
                    let fix = format!("{fix} # of Quell {}", newer.program);
                    return (newer.boot == boot_id(proc)).then_some(Leftover { journal, values: None, fix });
                }
                let state = replay(&bytes);
                let of_this_boot = state.begin.as_ref().is_none_or(|begin| begin.boot == boot_id(proc));
                let open = state.entries().filter(|entry| !entry.is_closed()).count();
                Some(open).filter(|open| of_this_boot && *open > 0).map(Some)?
            }
            Err(_) => fs::metadata(&journal).is_ok_and(|found| found.len() > 0).then_some(None)?,
        };
        Some(Leftover { journal, values, fix: fix.clone() })
    };
    journals.into_iter().filter_map(left).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guardian::RunDir;
    use crate::guardian::restore::pods_journal;
    use crate::journal::FileJournal;
    use quell_linux::Roots;
    use quell_linux::write::{Journal, Place, Value, Write};

    #[test]
    fn the_journal_of_a_killed_quell_is_a_leftover_and_that_of_a_living_one_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let proc = Roots::default().proc;
        let run_dir = RunDir::at(directory.path().join("quell")).unwrap();
        let claim = run_dir.claim("agent").unwrap();
        let mut journal = FileJournal::create(&claim.journal(), &Roots::default()).unwrap();
        let write = Write {
            workload: None,
            place: Place::File(directory.path().join("value")),
            origin: Value::Text("1".into()),
            before: Value::Text("1".into()),
            after: Value::Text("2".into()),
        };
        journal.before(&write).unwrap();
        assert_eq!(leftovers(run_dir.path(), &proc), [], "its writer lives");
        let mut pods = FileJournal::create(&pods_journal(&claim.journal()), &Roots::default()).unwrap();
        pods.before(&write).unwrap();
        assert_eq!(leftovers(run_dir.path(), &proc), [], "so are its pods'");
        drop((journal, pods, claim));
        let left = leftovers(run_dir.path(), &proc);
        assert_eq!(left.iter().map(|left| left.values).collect::<Vec<_>>(), [Some(1), Some(1)]);
        let text = left[0].to_string();
        assert!(text.contains("left 1 value changed") && text.contains("`quell restore --run-dir "), "{text}");
        assert!(run_dir.claim("agent").is_ok(), "a look claims nothing");
        assert_eq!(leftovers(&directory.path().join("nowhere"), &proc), []);
    }
}

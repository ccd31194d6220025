//! What has been done to a simulated cluster, on disk: who repeats it has the same cluster again.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use quell_agent::lock;
use quell_model::Nanos;
use quell_model::cluster::ClusterPlan;
use serde::{Deserialize, Serialize};

use crate::ClusterError;
use crate::scenario::Scenario;

/// How the cluster began.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Beginning {
    pub scenario: Scenario,
    pub seed: u64,
    /// Its seconds for one of the wall's.
    pub speed: f64,
    /// When, on the wall: nanoseconds since 1970.
    pub at: u64,
}

/// One thing that was done to it, at its own time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Done {
    Observed(Nanos),
    Applied(Nanos, ClusterPlan),
}

/// What a file holds: how the cluster began, and what was done to it since.
pub(super) type Held = (Beginning, Vec<Done>);

/// The file, which one controller has at a time.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    file: File,
}

impl Journal {
    /// Opens the file and reads what is in it; a last line that a dying controller left unfinished is cut off.
    ///
    /// # Errors
    /// If it cannot be opened, another controller has it, or it is not a journal.
    pub fn open(path: &Path) -> Result<(Journal, Option<Held>), ClusterError> {
        let mut journal = Journal::take(path)?;
        let mut text = String::new();
        journal.file.read_to_string(&mut text).map_err(|error| failed("read", path, &error))?;
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        journal.cut(whole as u64)?;
        let mut lines = text[..whole].lines();
        let Some(first) = lines.next() else { return Ok((journal, None)) };
        let odd = |error: serde_json::Error| ClusterError::Live {
            what: path.display().to_string(),
            why: format!("it is not a journal of this version ({error}); begin anew with --fresh"),
        };
        let beginning = serde_json::from_str(first).map_err(odd)?;
        let done = lines.map(|line| serde_json::from_str(line).map_err(odd)).collect::<Result<_, _>>()?;
        Ok((journal, Some((beginning, done))))
    }

    /// The same, whatever is in it.
    ///
    /// # Errors
    /// If it cannot be opened, or another controller has it.
    pub fn take(path: &Path) -> Result<Journal, ClusterError> {
        let opened = || lock::open(path).map_err(|error| failed("open", path, &error));
        let taken = |file: &File| lock::try_take(file).map_err(|error| failed("lock", path, &error));
        let mut file = opened()?;
        if !taken(&file)? {
            if lock::is_held_by_its_user(&file, "/proc".as_ref()) {
                let why = "another controller has this cluster; stop it, or name another folder with --dir".to_owned();
                return Err(ClusterError::Live { what: path.display().to_string(), why });
            }
            // Another program opened it when others could: a copy takes its place.
            let copy = path.with_extension("copy");
            std::fs::copy(path, &copy)
                .and_then(|_| std::fs::rename(&copy, path))
                .map_err(|error| failed("copy", path, &error))?;
            file = opened()?;
            if !taken(&file)? {
                let why = "another process took its lock just now; try again".to_owned();
                return Err(ClusterError::Live { what: path.display().to_string(), why });
            }
        }
        Ok(Journal { path: path.to_owned(), file })
    }

    /// Begins anew.
    pub fn begin(&mut self, beginning: &Beginning) -> Result<(), ClusterError> {
        self.cut(0)?;
        self.write(beginning)
    }

    /// Written before it is done: what a dying controller may have done was done.
    pub fn will(&mut self, done: &Done) -> Result<(), ClusterError> {
        self.write(done)
    }

    fn write(&mut self, line: &impl Serialize) -> Result<(), ClusterError> {
        let mut text = serde_json::to_vec(line).map_err(|error| failed("write", &self.path, &error.into()))?;
        text.push(b'\n');
        self.file.write_all(&text).map_err(|error| failed("write", &self.path, &error))
    }

    fn cut(&mut self, length: u64) -> Result<(), ClusterError> {
        let cut = self.file.set_len(length).and_then(|()| self.file.seek(SeekFrom::Start(length)));
        cut.map(|_| ()).map_err(|error| failed("write", &self.path, &error))
    }
}

fn failed(operation: &str, path: &Path, error: &io::Error) -> ClusterError {
    let fix = "name a folder of this user with --dir";
    ClusterError::Live { what: path.display().to_string(), why: format!("cannot {operation} it: {error}; {fix}") }
}

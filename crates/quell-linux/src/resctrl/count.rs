//! A file that counts.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// One of resctrl's counts, kept open.
#[derive(Debug)]
pub(crate) struct Count {
    pub path: PathBuf,
    file: Option<File>,
}

impl Count {
    /// The one in this file, which need not be there yet.
    pub fn at(path: PathBuf) -> Count {
        Count { path, file: None }
    }

    /// Its count; the inner None for "Unavailable", "Unassigned" or "Error"; the outer None if the file is gone.
    pub fn read(&mut self) -> Option<Option<u64>> {
        let mut text = [0; 32];
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(File::open(&self.path).ok()?),
        };
        let Ok(length) = file.read_at(&mut text, 0) else {
            self.file = None;
            return None;
        };
        Some(std::str::from_utf8(&text[..length]).ok().and_then(|text| text.trim().parse().ok()))
    }
}

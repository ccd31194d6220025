//! The worker's journal as a descriptor: another program may remove the run directory, and the journal with it.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::Claim;

/// The journal that was found last.
#[derive(Debug, Default)]
pub(super) struct Kept {
    file: Option<File>,
}

impl Kept {
    /// Looks whether the journal is another file by now, as after it was made smaller. True: it was there, and is gone.
    pub(super) fn is_lost(&mut self, claim: &Claim) -> bool {
        let path = claim.journal();
        let Ok(found) = fs::metadata(&path) else { return self.file.is_some() };
        // The journal in a directory that another Quell has made since is not this one's.
        let is_known = self.file.as_ref().is_some_and(|file| is_same(file, &found));
        if !is_known && claim.stands() {
            self.file = File::open(&path).ok();
        }
        false
    }

    /// Makes the run directory, the lock and the journal again, if the journal was lost. `None`: it was not. Else the place to read
    /// it at, with an error if it could not be made.
    pub(super) fn make_again(&mut self, claim: &mut Claim) -> Option<(PathBuf, io::Result<()>)> {
        if !self.is_lost(claim) {
            return None;
        }
        let file = self.file.as_ref()?;
        // A file that has no name any more is read by its descriptor.
        let unnamed = Path::new("/proc/self/fd").join(file.as_raw_fd().to_string());
        let made = claim.make_again().map_err(io::Error::other);
        match made.and_then(|()| write(&claim.journal(), &fs::read(&unnamed)?)) {
            Ok(()) => Some((claim.journal(), Ok(()))),
            Err(error) => Some((unnamed, Err(error))),
        }
    }

    /// The worker has ended, and its journal is put back.
    pub(super) fn forget(&mut self) {
        self.file = None;
    }
}

/// An inode is not used again while the file is open.
pub(super) fn is_same(file: &File, found: &Metadata) -> bool {
    file.metadata().is_ok_and(|own| (own.dev(), own.ino()) == (found.dev(), found.ino()))
}

fn write(path: &Path, text: &[u8]) -> io::Result<()> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?.write_all(text)
}

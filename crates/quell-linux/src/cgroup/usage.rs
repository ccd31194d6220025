//! CPU time of cgroups that are asked for it again and again.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use quell_model::Nanos;
use rustix::process::{Resource, getrlimit};

use crate::LinuxError;
use crate::error::is_gone;

/// A cgroup's `cpu.stat`, kept open: looking a path up costs more than reading the file.
#[derive(Debug, Default)]
pub struct UsageFile(Option<File>);

impl UsageFile {
    /// CPU time that the cgroup used since it was made; None if it is gone. One that was made again under the same name
    /// is another cgroup: it wants another [`UsageFile`].
    ///
    /// # Errors
    /// If the file cannot be read or understood.
    pub fn read(&mut self, group: &Path) -> Result<Option<Nanos>, LinuxError> {
        let path = || group.join("cpu.stat");
        // The first line alone is wanted.
        let mut bytes = [0; 512];
        let length = match self.open(group).and_then(|file| file.read_at(&mut bytes, 0)) {
            Ok(length) => length,
            Err(error) if is_gone(&error) || error.raw_os_error() == Some(libc::ENOTDIR) => {
                self.0 = None;
                return Ok(None);
            }
            Err(error) => return Err(LinuxError::io("read", path())(error)),
        };
        let text = &bytes[..length];
        usage(text)
            .map(Some)
            .ok_or_else(|| LinuxError::parse(path(), &String::from_utf8_lossy(text), "a line usage_usec"))
    }

    fn open(&mut self, group: &Path) -> io::Result<&File> {
        match &mut self.0 {
            Some(file) => Ok(file),
            none => Ok(none.insert(File::open(group.join("cpu.stat"))?)),
        }
    }

    /// Is the file open?
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.0.is_some()
    }

    /// Closes the file; the next reading opens it again.
    pub fn close(&mut self) {
        self.0 = None;
    }
}

/// The CPU time of a `cpu.stat`; None without a line `usage_usec`. It is the first.
fn usage(text: &[u8]) -> Option<Nanos> {
    let line = text.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(b"usage_usec "))?;
    let digit = |&byte: &u8| byte.is_ascii_digit().then(|| u64::from(byte - b'0'));
    let micros = line.trim_ascii().iter().try_fold(0u64, |sum, byte| sum.checked_mul(10)?.checked_add(digit(byte)?));
    micros.filter(|_| !line.trim_ascii().is_empty()).map(Nanos::from_micros)
}

/// Number of files that may stay open: half of the limit of this process.
#[must_use]
pub fn most_open_files() -> usize {
    getrlimit(Resource::Nofile).current.map_or(usize::MAX, |most| usize::try_from(most / 2).unwrap_or(usize::MAX))
}

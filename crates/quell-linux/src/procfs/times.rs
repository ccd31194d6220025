//! Times of threads that are asked for them again and again.

use rustix::fd::OwnedFd;
use rustix::fs::Mode;
use rustix::io::Errno;

use super::name::Name;
use super::reader::{FILE, ProcFs};
use super::stat::SchedStat;
use crate::LinuxError;

/// A thread's `schedstat`, kept open: to look its path up costs several times the reading. The file of a thread that is gone
/// says so, whatever has its number now.
#[derive(Debug)]
pub struct TimesFile(OwnedFd);

impl ProcFs {
    /// Opens a thread's times; None if it vanished, or if the kernel does not count (no CONFIG_SCHED_INFO).
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub fn times_file(&self, pid: i32, tid: i32) -> Result<Option<TimesFile>, LinuxError> {
        let name = Name::new(format_args!("{pid}/task/{tid}/schedstat"));
        if self.has_ended(name.as_c_str()) {
            return Ok(None);
        }
        match rustix::fs::openat(self.directory(), name.as_c_str(), FILE, Mode::empty()) {
            Ok(file) => Ok(Some(TimesFile(file))),
            Err(Errno::NOENT | Errno::SRCH) => Ok(None),
            Err(errno) => Err(self.failed("open", &name, errno)),
        }
    }

    /// Run time and run delay of the thread whose file this is; None if it vanished.
    ///
    /// # Errors
    /// If the file cannot be read or understood.
    pub fn times(&self, file: &TimesFile, pid: i32, tid: i32) -> Result<Option<SchedStat>, LinuxError> {
        let name = || Name::new(format_args!("{pid}/task/{tid}/schedstat"));
        // Three numbers of 20 digits at most.
        let mut text = [0; 128];
        let length = loop {
            match rustix::io::pread(&file.0, &mut text, 0) {
                Ok(0) | Err(Errno::NOENT | Errno::SRCH) => return Ok(None),
                Ok(length) => break length,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(self.failed("read", &name(), errno)),
            }
        };
        let said = &text[..length];
        let unreadable = || {
            let path = self.root().join(name().as_str());
            LinuxError::parse(path, &String::from_utf8_lossy(said), "three numbers")
        };
        SchedStat::parse(said).map(Some).ok_or_else(unreadable)
    }
}

//! Reads procfs through one directory handle and one buffer: no allocation once the buffers have grown.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};

use quell_model::foreign;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags, RawDir};
use rustix::io::Errno;

use super::ended::{has_own_numbers, is_none};
use super::name::Name;
use super::stat::{SchedStat, ThreadStat, number};
use crate::LinuxError;

pub(super) const FILE: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC);

/// No file of a process is read beyond this: what a process says of itself may be as long as it likes.
pub(super) const PROCESS_FILE: usize = 64 * 1024;
/// Nor its command line beyond this (prctl(2), PR_SET_MM_MAP: any memory of a process may be called its command line).
const COMMAND_LINE: usize = 4 * 1024;
/// The numbers of a thread's children: as many as the kernel has (4,194,304), of 8 digits.
const CHILDREN: usize = 32 * 1024 * 1024;
const DIRECTORY: OFlags = FILE.union(OFlags::DIRECTORY);

/// A file, whatever its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    /// The file at this path, if there is one.
    #[must_use]
    pub fn at(path: &Path) -> Option<FileId> {
        let found = rustix::fs::stat(path).ok()?;
        Some(FileId { device: found.st_dev, inode: found.st_ino })
    }
}

/// A procfs.
#[derive(Debug)]
pub struct ProcFs {
    root: PathBuf,
    directory: OwnedFd,
    /// Has it the numbers that this process's calls have?
    pub(super) is_own: bool,
    text: Vec<u8>,
    entries: Vec<MaybeUninit<u8>>,
    /// By autogroup: a process of a session whose leader has ended.
    pub(super) last_in_session: BTreeMap<i64, i32>,
}

impl ProcFs {
    /// Opens the procfs that is mounted there.
    ///
    /// # Errors
    /// If the directory cannot be opened.
    pub fn open(root: &Path) -> Result<ProcFs, LinuxError> {
        let directory = rustix::fs::open(root, DIRECTORY, Mode::empty())
            .map_err(|errno| LinuxError::io("open", root)(errno.into()))?;
        let status = std::fs::read_to_string(root.join("self/status")).unwrap_or_default();
        Ok(ProcFs {
            root: root.to_owned(),
            directory,
            is_own: has_own_numbers(&status, std::process::id()),
            text: vec![0; 4096],
            entries: vec![MaybeUninit::uninit(); 32 * 1024],
            last_in_session: BTreeMap::new(),
        })
    }

    /// Its mount point.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Its directory.
    pub(super) fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// The numbers of all processes, ascending.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn pids(&mut self, into: &mut Vec<i32>) -> Result<(), LinuxError> {
        into.clear();
        self.numbers_in(c".", into).map(|_| ())
    }

    /// The numbers of a process's threads, ascending, appended; nothing if it vanished.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn threads(&mut self, pid: i32, into: &mut Vec<i32>) -> Result<(), LinuxError> {
        let path = Name::new(format_args!("{pid}/task"));
        self.numbers_in(path.as_c_str(), into).map(|_| ())
    }

    /// The children of a process's threads, appended. False if they cannot be listed: the process vanished, or the kernel has
    /// no such files (CONFIG_PROC_CHILDREN).
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn children(&mut self, pid: i32, into: &mut Vec<i32>) -> Result<bool, LinuxError> {
        let (mut tids, mut listed) = (Vec::new(), false);
        self.threads(pid, &mut tids)?;
        for tid in tids {
            let name = Name::new(format_args!("{pid}/task/{tid}/children"));
            let Some(text) = self.read(&name, CHILDREN)? else { continue };
            listed = true;
            into.extend(text.split(u8::is_ascii_whitespace).filter_map(number).map(|child| child as i32));
        }
        Ok(listed)
    }

    /// State, start time, CPU and class of a thread; None if it vanished. A process is its first thread.
    ///
    /// # Errors
    /// If the file cannot be read or understood.
    pub fn stat(&mut self, pid: i32, tid: i32) -> Result<Option<ThreadStat>, LinuxError> {
        let name = Name::new(format_args!("{pid}/task/{tid}/stat"));
        let Some(text) = self.read(&name, PROCESS_FILE)? else { return Ok(None) };
        match ThreadStat::parse(text) {
            Some(stat) => Ok(Some(stat)),
            None => Err(self.unreadable(&name, "a thread's stat line")),
        }
    }

    /// CPU time that all threads of a process used, in clock ticks, those that have ended included; None if it vanished.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn ticks(&mut self, pid: i32) -> Result<Option<u64>, LinuxError> {
        let text = self.read(&Name::new(format_args!("{pid}/stat")), PROCESS_FILE)?;
        Ok(text.and_then(ThreadStat::parse).map(|stat| stat.ticks))
    }

    /// Run time and run delay of a thread; None if it vanished, or if the kernel does not count (no CONFIG_SCHED_INFO).
    ///
    /// # Errors
    /// If the file cannot be read or understood.
    pub fn schedstat(&mut self, pid: i32, tid: i32) -> Result<Option<SchedStat>, LinuxError> {
        let name = Name::new(format_args!("{pid}/task/{tid}/schedstat"));
        let Some(text) = self.read(&name, PROCESS_FILE)? else { return Ok(None) };
        match SchedStat::parse(text) {
            Some(stat) => Ok(Some(stat)),
            None => Err(self.unreadable(&name, "three numbers")),
        }
    }

    /// Numbers of a thread's voluntary and involuntary context switches; None if it vanished.
    ///
    /// # Errors
    /// If the file cannot be read or understood.
    pub fn switches(&mut self, pid: i32, tid: i32) -> Result<Option<(u64, u64)>, LinuxError> {
        let name = Name::new(format_args!("{pid}/task/{tid}/status"));
        let Some(text) = self.read(&name, PROCESS_FILE)? else { return Ok(None) };
        let value = |key: &[u8]| {
            let line = text.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(key))?;
            number(line.trim_ascii()).map(|count| count as u64)
        };
        match (value(b"voluntary_ctxt_switches:"), value(b"nonvoluntary_ctxt_switches:")) {
            (Some(own), Some(forced)) => Ok(Some((own, forced))),
            _ => Err(self.unreadable(&name, "counts of context switches")),
        }
    }

    /// Does the process's command line, its arguments joined by spaces, contain this text? False if it vanished; a
    /// kernel thread has no command line.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn command_contains(&mut self, pid: i32, text: &str) -> Result<bool, LinuxError> {
        Ok(self.command_line(pid)?.is_some_and(|line| crate::cgroup::line_contains(line, text)))
    }

    /// The process's command line, its arguments joined by spaces; None if it vanished.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn command_line(&mut self, pid: i32) -> Result<Option<&[u8]>, LinuxError> {
        let name = Name::new(format_args!("{pid}/cmdline"));
        if self.read(&name, COMMAND_LINE)?.is_none() {
            return Ok(None);
        }
        let length = self.text.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        let line = &mut self.text[..length];
        line.iter_mut().filter(|byte| **byte == 0).for_each(|byte| *byte = b' ');
        Ok(Some(line))
    }

    /// The user that the process runs as, if all of its user numbers agree: a program that has another user's rights by its
    /// file (setuid) still has its caller's number. None, too, if it vanished.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn user(&mut self, pid: i32) -> Result<Option<u32>, LinuxError> {
        let name = Name::new(format_args!("{pid}/status"));
        let Some(text) = self.read(&name, PROCESS_FILE)? else { return Ok(None) };
        let line = text.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(b"Uid:"));
        let mut numbers = line.unwrap_or_default().split(u8::is_ascii_whitespace).filter_map(number);
        let first = numbers.next();
        Ok(first.filter(|first| numbers.all(|other| other == *first)).and_then(|first| u32::try_from(first).ok()))
    }

    /// As [`ProcFs::user`], of a process whose first thread has ended and keeps the user that it had: by its others.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn user_of_others(&mut self, pid: i32) -> Result<Option<u32>, LinuxError> {
        let mut tids = Vec::new();
        self.threads(pid, &mut tids)?;
        for other in tids.into_iter().filter(|tid| *tid != pid) {
            // A thread's number names a directory, too, which is not listed.
            if let Some(user) = self.user(other)? {
                return Ok(Some(user));
            }
        }
        Ok(None)
    }

    /// The file that the process executes, by device and inode: the path may lead elsewhere in its mount namespace. None if
    /// it vanished or executes none, or this process may not see it.
    pub fn exe(&self, pid: i32) -> Option<FileId> {
        let name = Name::new(format_args!("{pid}/exe"));
        if self.has_ended(name.as_c_str()) {
            return None;
        }
        let found = rustix::fs::statat(&self.directory, name.as_c_str(), AtFlags::empty()).ok()?;
        Some(FileId { device: found.st_dev, inode: found.st_ino })
    }

    /// The path of the file that the process executes, as the process has it; None as of [`ProcFs::exe`].
    pub fn exe_path(&self, pid: i32) -> Option<PathBuf> {
        let name = Name::new(format_args!("{pid}/exe"));
        if self.has_ended(name.as_c_str()) {
            return None;
        }
        let target = rustix::fs::readlinkat(&self.directory, name.as_c_str(), Vec::new()).ok()?;
        let path = target.to_str().ok()?;
        Some(PathBuf::from(path.strip_suffix(" (deleted)").unwrap_or(path)))
    }

    /// A process's name, which it may choose; None if it vanished.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn comm(&mut self, pid: i32) -> Result<Option<String>, LinuxError> {
        let text = self.read(&Name::new(format_args!("{pid}/comm")), PROCESS_FILE)?;
        Ok(text.map(|text| String::from_utf8_lossy(text.strip_suffix(b"\n").unwrap_or(text)).into_owned()))
    }

    /// A process's cgroup, in the hierarchy that systemd uses: that of cgroup v2, or else its own; a path from the root. None,
    /// too, if the process vanished.
    pub fn systemd_cgroup(&mut self, pid: i32) -> Option<&str> {
        let text = self.read(&Name::new(format_args!("{pid}/cgroup")), PROCESS_FILE).ok().flatten()?;
        let lines = || text.split(|&byte| byte == b'\n');
        let is_systemds = |line: &&[u8]| line.splitn(3, |&byte| byte == b':').nth(1) == Some(b"name=systemd");
        let own = lines().find(is_systemds);
        let line = own.or_else(|| lines().find(|line| line.starts_with(b"0::")))?;
        std::str::from_utf8(line.splitn(3, |&byte| byte == b':').nth(2)?).ok()
    }

    /// A process's command line, its arguments separated by spaces, for people; None if it vanished.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn command(&mut self, pid: i32) -> Result<Option<String>, LinuxError> {
        let name = Name::new(format_args!("{pid}/cmdline"));
        let text = self.read(&name, COMMAND_LINE)?.map(|text| String::from_utf8_lossy(text).replace('\0', " "));
        let start = |text: String| text.trim().chars().take(80).collect::<String>();
        Ok(text.map(|text| foreign::text(&start(text)).into_owned()))
    }

    /// The cgroup of a thread, below the root of its hierarchy: version 2's, or the first. None if it vanished or the file cannot
    /// be read.
    pub(crate) fn cgroup(&mut self, pid: i32, tid: i32) -> Option<String> {
        let text = self.read(&Name::new(format_args!("{pid}/task/{tid}/cgroup")), PROCESS_FILE).ok().flatten()?;
        let text = String::from_utf8_lossy(text);
        let line = text.lines().find(|line| line.starts_with("0::")).or_else(|| text.lines().next())?;
        line.splitn(3, ':').nth(2).filter(|path| path.starts_with('/')).map(str::to_owned)
    }

    /// The process of a thread; None if it vanished.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn process_of(&mut self, tid: i32) -> Result<Option<i32>, LinuxError> {
        let Some(text) = self.read(&Name::new(format_args!("{tid}/status")), PROCESS_FILE)? else { return Ok(None) };
        let line = text.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(b"Tgid:"));
        Ok(line.and_then(|line| number(line.trim_ascii())).map(|pid| pid as i32))
    }

    /// The thread's number in its own pid namespace; None if it vanished. The first is the number here: true if that is the only one.
    pub(crate) fn own_number(&mut self, pid: i32, tid: i32) -> Option<(u32, bool)> {
        let text = self.read(&Name::new(format_args!("{pid}/task/{tid}/status")), PROCESS_FILE).ok().flatten()?;
        let line = text.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(b"NSpid:"))?;
        let numbers = line.split(u8::is_ascii_whitespace).filter_map(number);
        numbers.enumerate().last().and_then(|(at, last)| Some((u32::try_from(last).ok()?, at == 0)))
    }

    /// Has this process this thread now?
    pub(crate) fn has_thread(&self, pid: i32, tid: i32) -> bool {
        let name = Name::new(format_args!("{pid}/task/{tid}"));
        !self.has_ended(name.as_c_str())
            && rustix::fs::statat(&self.directory, name.as_c_str(), AtFlags::empty()).is_ok()
    }

    /// As [`has_ended`], of the numbers in a name.
    pub(super) fn has_ended(&self, name: &CStr) -> bool {
        let mut numbers = name.to_bytes().split(|&byte| byte == b'/').filter_map(number);
        self.is_own && numbers.any(|number| i32::try_from(number).is_ok_and(is_none))
    }

    /// The time since the machine started, in the unit of the threads' start times; None: not known.
    pub(crate) fn uptime(&mut self) -> Option<u64> {
        let text = self.read(&Name::new(format_args!("uptime")), 64).ok()??;
        let (seconds, rest) = std::str::from_utf8(text).ok()?.split_once('.')?;
        let hundredths: u64 = rest.get(..2)?.parse().ok()?;
        Some(seconds.parse::<u64>().ok()? * 100 + hundredths)
    }

    /// The number in a file of the machine; None if it is not there or no number.
    pub(crate) fn number(&mut self, path: &str) -> Option<i32> {
        let text = self.read(&Name::new(format_args!("{path}")), PROCESS_FILE).ok().flatten()?;
        number(text.trim_ascii()).and_then(|number| i32::try_from(number).ok())
    }

    /// Reads a file into the buffer, its first `limit` bytes; None if it vanished. The rest of the buffer is zero.
    pub(super) fn read(&mut self, name: &Name, limit: usize) -> Result<Option<&[u8]>, LinuxError> {
        if self.has_ended(name.as_c_str()) {
            return Ok(None);
        }
        let file = match rustix::fs::openat(&self.directory, name.as_c_str(), FILE, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT | Errno::SRCH) => return Ok(None),
            Err(errno) => return Err(self.failed("open", name, errno)),
        };
        let mut filled = 0;
        loop {
            if filled == limit {
                break;
            }
            if filled == self.text.len() {
                self.text.resize(filled * 2, 0);
            }
            let end = self.text.len().min(limit);
            match rustix::io::read(&file, &mut self.text[filled..end]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(Errno::INTR) => {}
                Err(Errno::SRCH | Errno::NOENT) => return Ok(None),
                Err(errno) => return Err(self.failed("read", name, errno)),
            }
        }
        self.text[filled..].fill(0);
        Ok(Some(&self.text[..filled]))
    }

    /// Appends the numeric names of a directory, ascending; false if it vanished.
    fn numbers_in(&mut self, name: &CStr, into: &mut Vec<i32>) -> Result<bool, LinuxError> {
        let from = into.len();
        let failed = |root: &Path, errno: Errno| {
            LinuxError::io("list", root.join(name.to_string_lossy().as_ref()))(errno.into())
        };
        if self.has_ended(name) {
            return Ok(false);
        }
        let directory = match rustix::fs::openat(&self.directory, name, DIRECTORY, Mode::empty()) {
            Ok(directory) => directory,
            Err(Errno::NOENT | Errno::SRCH) => return Ok(false),
            Err(errno) => return Err(failed(&self.root, errno)),
        };
        let mut entries = RawDir::new(&directory, &mut self.entries);
        while let Some(entry) = entries.next() {
            match entry {
                Ok(entry) => {
                    if let Some(pid) = number(entry.file_name().to_bytes()) {
                        into.push(pid as i32);
                    }
                }
                Err(Errno::NOENT | Errno::SRCH) => break,
                Err(errno) => return Err(failed(&self.root, errno)),
            }
        }
        into[from..].sort_unstable();
        Ok(true)
    }

    pub(super) fn failed(&self, op: &'static str, name: &Name, errno: Errno) -> LinuxError {
        LinuxError::io(op, self.root.join(name.as_str()))(errno.into())
    }

    fn unreadable(&self, name: &Name, expected: &'static str) -> LinuxError {
        let end = self.text.iter().position(|&byte| byte == 0).unwrap_or(self.text.len()).min(200);
        LinuxError::parse(self.root.join(name.as_str()), &String::from_utf8_lossy(&self.text[..end]), expected)
    }
}

//! The text of a configuration's file, within a bound of length and of time.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;

/// Greatest length of a file, in bytes.
const LONGEST: u64 = 1 << 20;
/// A pipe ends within this.
const PIPE_ENDS: Duration = Duration::from_secs(10);

/// Is it a pipe? That is read once: an agent that runs reads none.
#[must_use]
pub fn is_pipe(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo())
}

/// A drop-in's text. The agent's loop reads it again and again, and no pipe may keep it waiting.
pub(super) fn text_of_file(path: &Path) -> io::Result<String> {
    match is_pipe(path) {
        true => Err(io::Error::other("it is a pipe; a drop-in is a file")),
        false => text_of(path),
    }
}

/// A file's text, or a pipe's: a device may have no end.
pub(super) fn text_of(path: &Path) -> io::Result<String> {
    let found = fs::metadata(path)?.file_type();
    if !(found.is_file() || found.is_fifo()) {
        return Err(io::Error::other("it is neither a file nor a pipe; name a file"));
    }
    // A named pipe without a writer would not open else.
    let file = OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)?;
    let mut text = String::new();
    if found.is_fifo() {
        Pipe { file, end: Instant::now() + PIPE_ENDS }.take(LONGEST + 1).read_to_string(&mut text)?;
    } else {
        file.take(LONGEST + 1).read_to_string(&mut text)?;
    }
    if text.len() as u64 > LONGEST {
        return Err(io::Error::other("it is larger than 1 MiB; name a configuration file"));
    }
    Ok(text)
}

/// A pipe that is read until a time.
struct Pipe {
    file: File,
    end: Instant,
}

impl Read for Pipe {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let left = Timespec::try_from(self.end.saturating_duration_since(Instant::now())).ok();
            match poll(&mut [PollFd::new(&self.file, PollFlags::IN)], left.as_ref()) {
                Ok(0) => return Err(io::Error::other("it is a pipe that its writer does not end; name a file")),
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno.into()),
            }
            match self.file.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::path::PathBuf;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::super::{read_all, read_with};
    use super::*;

    const GOOD: &str = "[[policy]]\nname = \"guard\"\n";

    fn pipe_at(path: PathBuf) -> PathBuf {
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        path
    }

    /// Before: the reader waited for a writer for ever, and with it the agent's loop.
    #[test]
    fn a_pipe_among_the_drop_ins_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("q.toml");
        fs::write(&file, GOOD).unwrap();
        fs::create_dir(directory.path().join("q.d")).unwrap();
        let pipe = pipe_at(directory.path().join("q.d/a.toml"));
        let said = read_all(&file).1.to_string();
        assert!(said.contains("a.toml: error: cannot read it: it is a pipe; a drop-in is a file"), "{said}");
        assert!(!read_with(&file, Some((&pipe, None))).1.are_fatal());
    }

    #[test]
    fn a_pipe_is_read_to_its_end_and_not_for_ever() {
        let directory = tempfile::tempdir().unwrap();
        let path = pipe_at(directory.path().join("q.toml"));
        let writer = std::thread::spawn({
            let path = path.clone();
            move || OpenOptions::new().write(true).open(path).unwrap().write_all(GOOD.as_bytes()).unwrap()
        });
        let (config, problems) = read_all(&path);
        assert!(!problems.are_fatal() && config.policies.len() == 1, "{problems}");
        writer.join().unwrap();
        let file =
            OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(&path).unwrap();
        let error = Pipe { file, end: Instant::now() }.read(&mut [0; 1]).unwrap_err().to_string();
        assert!(error.contains("its writer does not end"), "{error}");
    }

    /// Before: a reload read the first drop-in, and those beside it not.
    #[test]
    fn a_configuration_of_drop_ins_alone_keeps_the_name_to_read_it_by() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("q.toml");
        fs::create_dir(directory.path().join("q.d")).unwrap();
        fs::write(directory.path().join("q.d/a.toml"), GOOD).unwrap();
        let config = read_all(&file).0;
        assert_eq!((config.main, config.files), (Some(file), vec![directory.path().join("q.d/a.toml")]));
    }
}

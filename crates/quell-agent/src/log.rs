//! Destination of the log: the loop never waits for its reader.

use std::io::{self, IoSlice, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, fstat};
use rustix::io::{Errno, ReadWriteFlags, pwritev2, write};

/// Writes as much as fits at once, a line at a time; lines that do not fit are dropped and counted, and the next
/// written line has their number. Flags that others set on the same open file (blocking or not) stay.
#[derive(Debug)]
pub struct Unwaiting<F> {
    to: F,
    lost: AtomicU64,
}

/// A writable pipe takes at least this many bytes.
const PORTION: usize = 4096;

impl<F: AsFd> Unwaiting<F> {
    /// Lines go to this file.
    pub fn new(to: F) -> Unwaiting<F> {
        Unwaiting { to, lost: AtomicU64::new(0) }
    }

    /// Writes the whole line, or as much as there is room for.
    fn line(&self, line: &[u8]) -> Result<(), Errno> {
        let mut rest = line;
        while !rest.is_empty() {
            let portion = &rest[..rest.len().min(PORTION)];
            match self.portion(portion) {
                Ok(written) => rest = &rest[written..],
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    fn portion(&self, portion: &[u8]) -> Result<usize, Errno> {
        // A disk is waited for: it has no reader that may stand still.
        if fstat(&self.to).is_ok_and(|file| FileType::from_raw_mode(file.st_mode) == FileType::RegularFile) {
            return write(&self.to, portion);
        }
        const AT_ITS_PLACE: u64 = u64::MAX;
        match pwritev2(&self.to, &[IoSlice::new(portion)], AT_ITS_PLACE, ReadWriteFlags::NOWAIT) {
            // Terminals, and pipes before Linux 6.4, know no such writing.
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::SPIPE) => {}
            result => return result,
        }
        let mut room = [PollFd::new(&self.to, PollFlags::OUT)];
        match poll(&mut room, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))? {
            0 => Err(Errno::AGAIN),
            _ => write(&self.to, portion),
        }
    }
}

impl<F: AsFd> Write for &Unwaiting<F> {
    /// Takes a line. Never fails: there is no other place to say so.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let lost = self.lost.swap(0, Ordering::Relaxed);
        let reported = lost == 0
            || self.line(format!("{lost} lines of the log were lost: its reader is too slow\n").as_bytes()).is_ok();
        if !reported {
            self.lost.fetch_add(lost, Ordering::Relaxed);
        }
        if !reported || self.line(line).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;

    use rustix::fs::{OFlags, fcntl_getfl};
    use rustix::pipe::pipe;

    use super::*;

    /// Writes numbered lines until some must be dropped, with nothing read; returns the number of lines that it wrote.
    fn overflow(log: &Unwaiting<impl AsFd>) -> usize {
        (0..100_000)
            .take_while(|n| {
                let mut log = log;
                log.write_all(format!("line {n}\n").as_bytes()).unwrap();
                log.lost.load(Ordering::Relaxed) < 100
            })
            .count()
            + 1
    }

    /// Reads everything away, beside a last line with the number of dropped ones.
    fn rest(log: Unwaiting<impl AsFd>, mut reader: File) -> String {
        let mut before = vec![0; 1 << 20];
        let read = reader.read(&mut before).unwrap();
        (&log).write_all(b"the last\n").unwrap();
        drop(log);
        let mut text = String::from_utf8_lossy(&before[..read]).into_owned();
        reader.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn lines_that_nothing_reads_are_lost_and_counted_and_the_writer_goes_on() {
        let (reader, writer) = pipe().unwrap();
        let log = Unwaiting::new(writer);
        let wrote = overflow(&log);
        assert!(!fcntl_getfl(&log.to).unwrap().contains(OFlags::NONBLOCK), "the file is others' as well");
        let text = rest(log, reader.into());
        assert!(text.ends_with("100 lines of the log were lost: its reader is too slow\nthe last\n"), "{text}");
        // A line that did not fit wholly has its beginning there.
        let whole = text.lines().filter(|line| line.starts_with("line ")).count();
        assert!((wrote - 100..=wrote - 99).contains(&whole), "{whole} of {wrote}");
    }

    #[test]
    fn a_socket_is_not_waited_for_either() {
        let (reader, writer) = std::os::unix::net::UnixStream::pair().unwrap();
        let log = Unwaiting::new(writer);
        overflow(&log);
        let text = rest(log, std::os::fd::OwnedFd::from(reader).into());
        assert!(text.contains("lines of the log were lost"), "{}", text.len());
    }

    #[test]
    fn a_file_gets_every_line() {
        let mut file = tempfile::tempfile().unwrap();
        let log = Unwaiting::new(file.try_clone().unwrap());
        for n in 0..10_000 {
            (&log).write_all(format!("line {n}\n").as_bytes()).unwrap();
        }
        let mut text = String::new();
        io::Seek::rewind(&mut file).unwrap();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text.lines().count(), 10_000);
    }
}

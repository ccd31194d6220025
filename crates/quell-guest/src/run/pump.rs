//! Moves the output of a running guest to its destinations, until the guest ends.

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{PidfdFlags, pidfd_open};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::process::Process;
use crate::error::{LabError, Result};

/// Of console and messages only the end is kept.
const KEPT_BYTES: usize = 1 << 16;

/// Our ends of the pipes from QEMU.
pub(super) struct Channels {
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
    pub(super) status: OwnedFd,
    pub(super) console: OwnedFd,
}

/// A guest that runs.
pub(super) struct Pump {
    pub(super) process: Process,
    pub(super) channels: Channels,
    pub(super) signals: Signals,
    pub(super) deadline: Option<Instant>,
    pub(super) show_console: bool,
    /// Wait until the guest has shut down, not only until the command has ended.
    pub(super) until_shutdown: bool,
}

/// Remains of a guest.
#[derive(Debug)]
pub(super) struct Finished {
    /// The reason for the end of the pumping.
    pub(super) reason: Reason,
    /// Text from the status port.
    pub(super) status: String,
    /// The console's end.
    pub(super) console: String,
    /// The end of QEMU's own messages.
    pub(super) messages: String,
    /// The end of QEMU; killed, mostly.
    pub(super) qemu: ExitStatus,
}

/// The reason for the end of the pumping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// The command reported its exit status.
    Reported,
    /// QEMU ended.
    Ended,
    /// The deadline has passed.
    TimedOut,
    /// This process got the signal.
    Signal(i32),
}

impl Pump {
    /// Runs until the command has reported its status or the guest has ended otherwise; then nothing of it is left.
    pub(super) fn run(mut self, out: &mut dyn Write, err: &mut dyn Write) -> Result<Finished> {
        let failed = |error| LabError::io("watch", Path::new("QEMU"))(error);
        let ended = pidfd_open(self.process.pid(), PidfdFlags::empty()).map_err(|error| failed(error.into()))?;
        let messages_pipe = self.process.take_messages();
        let messages_pipe = messages_pipe.map(OwnedFd::from).ok_or_else(|| failed(io::ErrorKind::BrokenPipe.into()))?;
        let (mut status, mut console, mut messages) = (Tail::default(), Tail::default(), Tail::default());
        let mut screen = io::stderr();
        let mut move_all = |status: &mut Tail, console: &mut Tail, messages: &mut Tail| -> Result<()> {
            let fallible = |what, result: io::Result<()>| result.map_err(LabError::io("write", Path::new(what)));
            fallible("the status", drain(&self.channels.status, &mut [status]))?;
            fallible("stdout", drain(&self.channels.stdout, &mut [out]))?;
            fallible("stderr", drain(&self.channels.stderr, &mut [err]))?;
            if self.show_console {
                fallible("the console", drain(&self.channels.console, &mut [console, &mut screen]))?;
            } else {
                fallible("the console", drain(&self.channels.console, &mut [console]))?;
            }
            fallible("QEMU's messages", drain(&messages_pipe, &mut [messages]))
        };
        let reason = loop {
            let watched = [
                ended.as_fd(),
                self.channels.stdout.as_fd(),
                self.channels.stderr.as_fd(),
                self.channels.status.as_fd(),
                self.channels.console.as_fd(),
                messages_pipe.as_fd(),
                self.signals.pipes[0].1.as_fd(),
                self.signals.pipes[1].1.as_fd(),
                self.signals.pipes[2].1.as_fd(),
            ];
            let ready = wait(&watched, self.deadline).map_err(failed)?;
            move_all(&mut status, &mut console, &mut messages)?;
            if let Some((signal, _)) =
                self.signals.pipes.iter().zip(&ready[6..]).find_map(|(pipe, on)| on.then_some(pipe))
            {
                break Reason::Signal(*signal);
            }
            if status.0.ends_with(b"\n") && !self.until_shutdown {
                break Reason::Reported;
            }
            if ready[0] {
                break if status.0.ends_with(b"\n") { Reason::Reported } else { Reason::Ended };
            }
            if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                break Reason::TimedOut;
            }
        };
        let qemu = self.process.end().map_err(failed)?;
        move_all(&mut status, &mut console, &mut messages)?;
        Ok(Finished { reason, status: status.text(), console: console.text(), messages: messages.text(), qemu })
    }
}

/// Waits until one of the files has something or the deadline has passed; says which have.
fn wait(files: &[BorrowedFd], deadline: Option<Instant>) -> io::Result<Vec<bool>> {
    let mut polled: Vec<_> = files.iter().map(|file| PollFd::from_borrowed_fd(*file, PollFlags::IN)).collect();
    let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()) + Duration::from_millis(1));
    let left = left.map(|left| Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() });
    match poll(&mut polled, left.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(polled.iter().map(|file| file.revents().intersects(PollFlags::IN)).collect())
}

/// Copies the content of the pipe to every one of `sinks`.
fn drain(pipe: &OwnedFd, sinks: &mut [&mut dyn Write]) -> io::Result<()> {
    let mut buffer = [0; 1 << 14];
    loop {
        match rustix::io::read(pipe, &mut buffer) {
            Ok(0) | Err(rustix::io::Errno::AGAIN) => break,
            Ok(bytes) => sinks.iter_mut().try_for_each(|sink| sink.write_all(&buffer[..bytes]))?,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    sinks.iter_mut().try_for_each(|sink| sink.flush())
}

/// Keeps the last part of its input.
#[derive(Default)]
struct Tail(Vec<u8>);

impl Tail {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0).replace('\r', "")
    }
}

impl Write for Tail {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.extend(bytes);
        if self.0.len() > 2 * KEPT_BYTES {
            self.0.drain(..self.0.len() - KEPT_BYTES);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Turns the signals that would end this process into readable pipes, as long as it lives.
pub(super) struct Signals {
    pipes: [(i32, UnixStream); 3],
    registered: Vec<signal_hook::SigId>,
}

impl Signals {
    pub(super) fn catch() -> Result<Self> {
        let failed = LabError::io("catch", Path::new("signals"));
        let mut registered = Vec::new();
        let mut pipe = |signal| -> Result<(i32, UnixStream)> {
            let (ours, handlers) = UnixStream::pair().map_err(&failed)?;
            registered.push(signal_hook::low_level::pipe::register(signal, handlers).map_err(&failed)?);
            Ok((signal, ours))
        };
        let pipes = [pipe(SIGINT)?, pipe(SIGTERM)?, pipe(SIGHUP)?];
        Ok(Self { pipes, registered })
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        self.registered.drain(..).for_each(|id| {
            signal_hook::low_level::unregister(id);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_kept() {
        let mut tail = Tail::default();
        for line in 0..50_000 {
            writeln!(tail, "line {line}").unwrap();
        }
        assert!(tail.0.len() <= 2 * KEPT_BYTES);
        assert!(tail.text().ends_with("line 49999\n"));
    }

    #[test]
    fn waiting_ends_at_the_deadline_and_with_data() {
        let (ours, theirs) = super::super::process::pipe().unwrap();
        let soon = Some(Instant::now() + Duration::from_millis(5));
        assert_eq!(wait(&[ours.as_fd()], soon).unwrap(), [false]);
        rustix::io::write(&theirs, b"data").unwrap();
        assert_eq!(wait(&[ours.as_fd()], None).unwrap(), [true]);
        let mut got = Vec::new();
        drain(&ours, &mut [&mut got]).unwrap();
        assert_eq!(got, b"data");
    }
}

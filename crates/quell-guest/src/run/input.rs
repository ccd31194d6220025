//! Input of the command in the guest: this process's standard input, as a stream or as a terminal.

use std::io::{self, IsTerminal, Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use rustix::termios::{self, OptionalActions, Termios};

use crate::error::{LabError, Result};
use crate::machine::{Clock, Input, Machine, fd};

/// The input that is open, for as long as the guest runs.
pub(super) struct Open {
    /// The terminal's original state.
    before: Option<Termios>,
    /// Shows the guest's terminal, until the guest has ended.
    screen: Option<JoinHandle<io::Result<u64>>>,
    /// Our end, which ends with the guest.
    _stream: Option<UnixStream>,
}

impl Input {
    /// Refuses input that would make the guest's time depend on the time of typing.
    pub(super) fn check(self, machine: &Machine) -> Result<()> {
        match (self, &machine.clock) {
            (Input::Stdin | Input::Terminal, Clock::Lockstep(_)) => Err(LabError::BadOption {
                option: "--lockstep",
                why:
                    "time that repeats cannot wait for what is typed or piped in; give the input as a file, with --pack"
                        .into(),
            }),
            _ => Ok(()),
        }
    }

    /// Opens it; the guest's end is added to `ends`. `empty` is set once it is known that there was nothing to read.
    pub(super) fn open(self, ends: &mut Vec<(OwnedFd, i32)>, empty: &Arc<AtomicBool>) -> Result<Open> {
        let failed = |operation| LabError::io(operation, Path::new("standard input"));
        if self == Input::Nothing {
            empty.store(true, Ordering::Release);
            return Ok(Open { before: None, screen: None, _stream: None });
        }
        let (ours, guests) = UnixStream::pair().map_err(failed("connect"))?;
        ends.push((guests.into(), fd::STDIN));
        let mut to_guest = ours.try_clone().map_err(failed("connect"))?;
        let empty = Arc::clone(empty);
        thread::spawn(move || {
            let passed_on = forward(&mut io::stdin(), &mut to_guest);
            empty.store(matches!(passed_on, Ok(0)), Ordering::Release);
            let _ = to_guest.shutdown(Shutdown::Write);
        });
        let (mut before, mut screen) = (None, None);
        if self == Input::Terminal {
            let mut from_guest = ours.try_clone().map_err(failed("connect"))?;
            screen = Some(thread::spawn(move || forward(&mut from_guest, &mut io::stdout())));
            before = io::stdin().is_terminal().then(raw).transpose().map_err(failed("set the terminal of"))?;
        }
        Ok(Open { before, screen, _stream: Some(ours) })
    }
}

/// Passes the input on as it arrives, to its end; returns the number of bytes.
fn forward(from: &mut dyn Read, to: &mut dyn Write) -> io::Result<u64> {
    let mut buffer = [0; 1 << 12];
    let mut passed_on = 0;
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(passed_on),
            Ok(bytes) => {
                to.write_all(&buffer[..bytes]).and_then(|()| to.flush())?;
                passed_on += bytes as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Every key to the guest, Ctrl-C too; returns how it was.
fn raw() -> io::Result<Termios> {
    let before = termios::tcgetattr(io::stdin())?;
    let mut raw = before.clone();
    raw.make_raw();
    termios::tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
    Ok(before)
}

impl Drop for Open {
    fn drop(&mut self) {
        if let Some(screen) = self.screen.take() {
            let _ = screen.join();
        }
        if let Some(before) = &self.before {
            let _ = termios::tcsetattr(io::stdin(), OptionalActions::Now, before);
        }
    }
}

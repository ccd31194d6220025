//! Waits.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use quell_model::{Nanos, Wake};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;
use rustix::time::Timespec;

use super::LinuxHost;
use crate::LinuxError;
use crate::clock::now;

/// Ends a host's wait from another thread.
#[derive(Clone, Debug)]
pub struct Waker {
    event: Arc<OwnedFd>,
}

impl Waker {
    pub(super) fn new() -> Result<Waker, LinuxError> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|errno| LinuxError::io("make", "an eventfd")(errno.into()))?;
        Ok(Waker { event: Arc::new(event) })
    }

    /// Ends the wait that is under way, or else the next one.
    pub fn wake(&self) {
        // It fails only when the counter is full, and then the host wakes anyway.
        let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
    }

    /// Waits until woken or until that time; true if woken.
    fn wait(&self, until: Nanos) -> Result<bool, LinuxError> {
        let failed = |errno: Errno| LinuxError::io("wait for", "the host's eventfd")(errno.into());
        loop {
            let left = until - now();
            let left = Timespec { tv_sec: (left.0 / 1_000_000_000) as i64, tv_nsec: (left.0 % 1_000_000_000) as i64 };
            let mut fds = [PollFd::from_borrowed_fd(self.event.as_fd(), PollFlags::IN)];
            match poll(&mut fds, Some(&left)) {
                Ok(0) if now() < until => {}
                Ok(0) => return Ok(false),
                Ok(_) => {
                    let mut count = [0; 8];
                    return match rustix::io::read(&self.event, &mut count) {
                        Ok(_) | Err(Errno::AGAIN) => Ok(true),
                        Err(errno) => Err(failed(errno)),
                    };
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(failed(errno)),
            }
        }
    }
}

impl LinuxHost {
    /// Waits, scans for new threads in between, and ends a solo run when its time is over. Returns early at an event or
    /// when the waker was used.
    pub(super) fn wait_for(&mut self, until: Wake) -> Result<(), LinuxError> {
        let until = match until {
            Wake::At(time) => time,
            Wake::OnEvent => Nanos::MAX,
        };
        loop {
            let start = now();
            self.end_solo_if_over(start);
            self.take_samples();
            if self.members.scan_due(start) {
                self.scan(start)?;
            }
            if !self.pending.is_empty() || start >= until {
                return Ok(());
            }
            let scan = self.members.next_scan().unwrap_or(start);
            let next = until.min(scan).min(self.standing.solo.ends_at()).min(self.sensors.next_sample());
            if self.waker.wait(next)? {
                return Ok(());
            }
        }
    }
}

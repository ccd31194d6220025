//! Waiting for sockets, to the nanosecond: a thin cover of epoll.

use std::mem::MaybeUninit;
use std::os::fd::AsFd;

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::time::Timespec;

use crate::{Error, Result};

/// Sockets looked at in one round.
pub(crate) const READY_PER_ROUND: usize = 64;

/// A socket that has something to say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ready {
    /// The number it was added with.
    pub number: usize,
    /// There is something to read, an end or an error among it.
    pub readable: bool,
    /// There is room to write.
    pub writable: bool,
}

/// A set of sockets to wait for.
#[derive(Debug)]
pub(crate) struct Poller(OwnedFd);

impl Poller {
    pub fn new() -> Result<Self> {
        epoll::create(CreateFlags::CLOEXEC).map(Self).map_err(Error::system("create an epoll instance", "generator"))
    }

    /// Watches a socket for something to read.
    pub fn add(&self, socket: impl AsFd, number: usize) -> rustix::io::Result<()> {
        epoll::add(&self.0, socket, data(number), EventFlags::IN)
    }

    /// Watches a socket for something to read and, if asked, for room to write.
    pub fn change(&self, socket: impl AsFd, number: usize, writable: bool) -> rustix::io::Result<()> {
        let flags = if writable { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN };
        epoll::modify(&self.0, socket, data(number), flags)
    }

    /// Watches a socket no longer.
    pub fn remove(&self, socket: impl AsFd) -> rustix::io::Result<()> {
        epoll::delete(&self.0, socket)
    }

    /// Replaces `ready` by the sockets that are ready; sleeps up to `sleep_ns` when none is. Allocates nothing when
    /// `ready` has room for [`READY_PER_ROUND`].
    pub fn wait(&self, sleep_ns: u64, ready: &mut Vec<Ready>) -> Result<()> {
        ready.clear();
        let sleep = Timespec { tv_sec: (sleep_ns / 1_000_000_000) as i64, tv_nsec: (sleep_ns % 1_000_000_000) as i64 };
        let mut events = [MaybeUninit::<Event>::uninit(); READY_PER_ROUND];
        match epoll::wait(&self.0, &mut events[..], Some(&sleep)) {
            Ok((events, _)) => {
                ready.extend(events.iter().map(|event| {
                    let (flags, data) = (event.flags, event.data);
                    Ready {
                        number: data.u64() as usize,
                        readable: flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR),
                        writable: flags.contains(EventFlags::OUT),
                    }
                }));
                Ok(())
            }
            Err(Errno::INTR) => Ok(()),
            Err(error) => Err(Error::system("wait for answers", "epoll")(error)),
        }
    }
}

fn data(number: usize) -> EventData {
    EventData::new_u64(number as u64)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;
    use quell_thread::clock;

    #[test]
    fn a_ready_socket_is_named() {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let poller = Poller::new().unwrap();
        poller.add(&theirs, 7).unwrap();
        let mut ready = Vec::with_capacity(READY_PER_ROUND);
        poller.wait(0, &mut ready).unwrap();
        assert!(ready.is_empty());
        ours.write_all(b"x").unwrap();
        poller.wait(1_000_000_000, &mut ready).unwrap();
        assert_eq!(ready.len(), 1);
        assert!(ready[0].number == 7 && ready[0].readable && !ready[0].writable);
        poller.change(&theirs, 7, true).unwrap();
        poller.wait(0, &mut ready).unwrap();
        assert!(ready[0].writable);
        poller.remove(&theirs).unwrap();
        poller.wait(0, &mut ready).unwrap();
        assert!(ready.is_empty());
    }

    /// A wait in whole milliseconds would never end before the first one.
    #[test]
    fn waits_are_shorter_than_a_millisecond_where_asked() {
        let poller = Poller::new().unwrap();
        let mut ready = Vec::with_capacity(READY_PER_ROUND);
        let shortest = (0..200)
            .map(|_| {
                let before = clock::now().0;
                poller.wait(100_000, &mut ready).unwrap();
                clock::now().0 - before
            })
            .min()
            .unwrap();
        assert!((100_000..900_000).contains(&shortest), "{shortest} ns");
    }
}

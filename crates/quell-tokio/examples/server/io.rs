//! Sockets for the work-stealing runtime: edge-triggered, so that a poll takes an event once, by whichever worker.

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, RwLock, Weak};
use std::task::{Poll, Waker};
use std::{future, io};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

/// Events that are taken at once.
const EVENTS: usize = 64;
const BELL: u64 = u64::MAX;
/// Marks the poller of a worker that left.
const OTHER: u64 = 1 << 62;

/// Who waits for a socket.
#[derive(Default)]
struct Interest {
    waker: Mutex<Option<Waker>>,
    /// Events that came, ever.
    came: AtomicUsize,
}

/// A worker's epoll.
pub struct Poller {
    own: Arc<Inner>,
}

struct Inner {
    epoll: OwnedFd,
    bell: OwnedFd,
    sockets: RwLock<HashMap<u64, Arc<Interest>>>,
    next: AtomicU64,
    /// Pollers of workers that left.
    others: Mutex<Vec<Arc<Inner>>>,
}

impl Poller {
    pub fn new() -> io::Result<Poller> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &bell, EventData::new_u64(BELL), EventFlags::IN)?;
        let (sockets, next, others) = Default::default();
        Ok(Poller { own: Arc::new(Inner { epoll, bell, sockets, next, others }) })
    }

    /// Ends the sleep of the worker.
    pub fn wake(&self) {
        let _ = rustix::io::write(&self.own.bell, &1_u64.to_ne_bytes());
    }

    /// Takes events for at most this many milliseconds (-1: however long), and wakes their tasks, whose waiting `line` exports.
    pub fn poll(&self, wait: i32, line: Option<quell::Worker>) {
        self.own.poll(wait, line);
    }

    /// Sleeps without a look at sockets.
    pub fn sleep(&self, most: i32) {
        let most = Timespec { tv_sec: 0, tv_nsec: i64::from(most) * 1_000_000 };
        let _ = poll(&mut [PollFd::new(&self.own.bell, PollFlags::IN)], Some(&most));
        let _ = rustix::io::read(&self.own.bell, &mut [0; 8]);
    }

    /// Takes over the events of another poller, whose worker left.
    pub fn watch(&self, other: &Poller) -> io::Result<()> {
        self.own.others.lock().unwrap().push(Arc::clone(&other.own));
        Ok(epoll::add(&self.own.epoll, &other.own.epoll, EventData::new_u64(OTHER), EventFlags::IN)?)
    }

    pub fn watch_no_more(&self, other: &Poller) {
        let _ = epoll::delete(&self.own.epoll, &other.own.epoll);
        self.own.others.lock().unwrap().retain(|one| !Arc::ptr_eq(one, &other.own));
    }
}

impl Inner {
    fn poll(&self, wait: i32, line: Option<quell::Worker>) {
        let mut events = Vec::with_capacity(EVENTS);
        let most = (wait >= 0).then_some(Timespec { tv_sec: 0, tv_nsec: i64::from(wait) * 1_000_000 });
        if epoll::wait(&self.epoll, spare_capacity(&mut events), most.as_ref()).is_err() {
            return;
        }
        for (at, event) in events.iter().enumerate() {
            if let Some(line) = line {
                line.events((events.len() - at) as u32);
            }
            match event.data.u64() {
                BELL => _ = rustix::io::read(&self.bell, &mut [0; 8]),
                OTHER => {
                    let others = self.others.lock().unwrap().clone();
                    others.iter().for_each(|other| other.poll(0, None));
                }
                number => {
                    let found = self.sockets.read().unwrap().get(&number).cloned();
                    found.iter().for_each(|interest| interest.came());
                }
            }
        }
        if let Some(line) = line
            && !events.is_empty()
        {
            line.events(0);
        }
    }
}

impl Interest {
    fn came(&self) {
        self.came.fetch_add(1, AcqRel);
        let waker = self.waker.lock().unwrap().take();
        waker.into_iter().for_each(Waker::wake);
    }
}

/// A socket of a poller.
pub struct Socket<S: AsFd> {
    socket: S,
    interest: Arc<Interest>,
    number: u64,
    poller: Weak<Inner>,
}

impl<S: AsFd + AsRawFd> Socket<S> {
    pub fn new(socket: S, poller: &Poller) -> io::Result<Socket<S>> {
        let (own, interest) = (&poller.own, Arc::<Interest>::default());
        let number = own.next.fetch_add(1, Relaxed);
        own.sockets.write().unwrap().insert(number, Arc::clone(&interest));
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        epoll::add(&own.epoll, &socket, EventData::new_u64(number), flags)?;
        Ok(Socket { socket, interest, number, poller: Arc::downgrade(own) })
    }

    /// Does this when it does not have to wait.
    async fn ready<T>(&self, mut attempt: impl FnMut(&S) -> io::Result<T>) -> io::Result<T> {
        future::poll_fn(|context| {
            loop {
                let before = self.interest.came.load(Acquire);
                match attempt(&self.socket) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                    done => return Poll::Ready(done),
                }
                *self.interest.waker.lock().unwrap() = Some(context.waker().clone());
                // An event that came meanwhile woke nothing.
                if self.interest.came.load(Acquire) == before {
                    return Poll::Pending;
                }
            }
        })
        .await
    }
}

impl Socket<TcpStream> {
    pub async fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        self.ready(|mut socket| socket.read(into)).await
    }

    pub async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = self.ready(|mut socket| socket.write(bytes)).await?;
            bytes = &bytes[written..];
        }
        Ok(())
    }
}

impl<S: AsFd> Drop for Socket<S> {
    fn drop(&mut self) {
        if let Some(own) = self.poller.upgrade() {
            let _ = epoll::delete(&own.epoll, &self.socket);
            own.sockets.write().unwrap().remove(&self.number);
        }
    }
}

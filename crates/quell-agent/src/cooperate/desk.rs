//! The thread that answers programs: connections that ask, and those that have pages, which last as long as the pages do.

use std::collections::VecDeque;
use std::io::{ErrorKind, IoSlice, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError};
use std::time::Duration;

use quell_linux::pages::{Memory, Pages};
use quell_model::WorkloadId;
use quell_page::{Answer, Hello, VERSION, Verdict};
use quell_thread::clock;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::time::Timespec;

use super::bounds::{Counted, Left, Pace};
use super::peer::Peer;
use super::{ToDesk, ToLoop};
use crate::api::socket::Socket;

/// Connections that have no pages yet; a further one takes the place of the oldest that is silent.
const GUESTS: usize = 64;
/// Connections that are accepted at once, before those that are there are looked at.
const AT_ONCE: usize = 16;
/// Between two looks at memory that was given up.
const LOOK: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
/// After a lack of descriptors.
const PAUSE: Duration = Duration::from_millis(100);

const OUTSIDE: &str = "this process is in no workload of Quell's: select it in the configuration (`quell check --example`), or start it \
                       with `quell exec`; it is asked for again by itself";

pub struct Desk {
    socket: Socket,
    proc: PathBuf,
    to_loop: SyncSender<ToLoop>,
    answers: Receiver<ToDesk>,
    bell: Arc<OwnedFd>,
    next: u64,
    pace: Pace,
    /// How often each user's processes connect.
    connects: Pace,
    /// Memory of pages that were given up, as far as processes have it yet.
    left: Left,
    /// Oldest first.
    guests: VecDeque<Guest>,
    held: Vec<Held>,
}

/// A connection that has no pages.
struct Guest {
    number: u64,
    stream: UnixStream,
    peer: Peer,
    /// Has it said hello, so that the loop was asked?
    spoke: bool,
}

/// A connection that has pages.
struct Held {
    number: u64,
    stream: UnixStream,
    peer: Peer,
    counted: Counted,
    memory: Memory,
}

/// What is ready.
struct Ready {
    bell: bool,
    newcomers: bool,
    /// By number.
    guests: Vec<u64>,
    held: Vec<u64>,
}

impl Desk {
    pub fn new(
        socket: Socket,
        proc: PathBuf,
        to_loop: SyncSender<ToLoop>,
        answers: Receiver<ToDesk>,
        bell: Arc<OwnedFd>,
    ) -> Desk {
        Desk {
            socket,
            proc,
            to_loop,
            answers,
            bell,
            next: 0,
            pace: Pace::of_questions(),
            connects: Pace::of_connections(),
            left: Left::default(),
            guests: VecDeque::new(),
            held: Vec::new(),
        }
    }

    /// Answers until the loop's end is gone.
    pub fn run(&mut self) {
        while let Some(ready) = self.wait() {
            if ready.bell {
                let _ = rustix::io::read(&self.bell, &mut [0; 8]);
            }
            if !self.take_answers() {
                return;
            }
            self.left.look(clock::now());
            // Nothing is said there after the hello: the program ended, closed it, or speaks another language.
            ready.held.iter().for_each(|number| self.let_go(*number));
            ready.guests.iter().for_each(|number| self.listen(*number));
            if ready.newcomers {
                self.welcome();
            }
        }
    }

    /// None: it cannot wait.
    fn wait(&self) -> Option<Ready> {
        let of = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
        let streams = self
            .guests
            .iter()
            .map(|guest| guest.stream.as_fd())
            .chain(self.held.iter().map(|held| held.stream.as_fd()));
        let first: [BorrowedFd<'_>; 2] = [self.bell.as_fd(), self.socket.listener.as_fd()];
        let mut all: Vec<PollFd<'_>> = first.into_iter().chain(streams).map(of).collect();
        let most = (!self.left.is_empty()).then_some(LOOK);
        loop {
            match poll(&mut all, most.as_ref()) {
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => {
                    tracing::error!("programs that cooperate are answered no more: {error}");
                    return None;
                }
                Ok(_) => break,
            }
        }
        let is_ready = |at: usize| !all[at].revents().is_empty();
        let (guests, held) = (self.guests.iter().enumerate(), self.held.iter().enumerate());
        let after = 2 + self.guests.len();
        Some(Ready {
            bell: is_ready(0),
            newcomers: is_ready(1),
            guests: guests.filter(|(at, _)| is_ready(2 + at)).map(|(_, guest)| guest.number).collect(),
            held: held.filter(|(at, _)| is_ready(after + at)).map(|(_, held)| held.number).collect(),
        })
    }

    /// Accepts those who wait, up to a number.
    fn welcome(&mut self) {
        for _ in 0..AT_ONCE {
            let stream = match self.socket.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => return std::thread::sleep(PAUSE),
            };
            // One who connects without end costs no look at its process.
            if !Peer::user_of(&stream).is_some_and(|user| self.connects.allows(user, clock::now())) {
                continue;
            }
            let Some(peer) = Peer::of(&stream, &self.proc).filter(|_| stream.set_nonblocking(true).is_ok()) else {
                continue;
            };
            if self.guests.len() >= GUESTS {
                let silent = self.guests.iter().position(|guest| !guest.spoke);
                self.guests.remove(silent.unwrap_or(0));
            }
            let number = self.next;
            self.next += 1;
            self.guests.push_back(Guest { number, stream, peer, spoke: false });
        }
    }

    /// Reads what a guest says.
    fn listen(&mut self, number: u64) {
        let Some(at) = self.guests.iter().position(|guest| guest.number == number) else { return };
        let guest = &mut self.guests[at];
        let mut bytes = [0; Hello::SIZE + 1];
        let said = match guest.stream.read(&mut bytes) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return,
            Err(_) => None,
            Ok(size) => Hello::read(&bytes[..size]).filter(|_| !guest.spoke),
        };
        let goes_on = match said {
            None => false,
            Some(hello) if hello.version != VERSION => {
                let words = format!(
                    "this agent knows version {VERSION} of the pages: link the program with the libquell of its release"
                );
                send(&guest.stream, &Answer::new(Verdict::Version, &words), &[]);
                false
            }
            Some(_) => {
                guest.spoke = true;
                let Peer { process, parent, user, .. } = guest.peer;
                let cgroup = guest.peer.cgroup(&self.proc);
                // A program that is turned away, or whose loop is behind, asks again.
                self.pace.allows(user, clock::now())
                    && self.to_loop.try_send(ToLoop::Whose { number, process, parent, cgroup }).is_ok()
            }
        };
        if !goes_on {
            self.guests.remove(at);
        }
    }

    /// Takes the loop's answers; false: it is gone.
    fn take_answers(&mut self) -> bool {
        loop {
            match self.answers.try_recv() {
                Ok(ToDesk::Owner { number, owner }) => self.answer(number, owner),
                Ok(ToDesk::Ended { number }) => self.give_up(number),
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    fn answer(&mut self, number: u64, owner: Option<(WorkloadId, String)>) {
        let Some(at) = self.guests.iter().position(|guest| guest.number == number) else { return };
        let Some(guest) = self.guests.remove(at).filter(|guest| guest.peer.is_alive()) else { return };
        let Some((id, name)) = owner else { return send(&guest.stream, &Answer::new(Verdict::Outside, OUTSIDE), &[]) };
        // One set of pages a process: the last one that it asked for.
        let before = self.held.iter().find(|held| held.peer.process == guest.peer.process).map(|held| held.number);
        before.into_iter().for_each(|before| self.let_go(before));
        let counted = Counted { workload: id, user: guest.peer.user };
        let held = self.held.iter().map(|held| held.counted);
        if let Some(why) = counted.objection(held.chain(self.left.counted())) {
            return send(&guest.stream, &Answer::new(Verdict::Full, &why), &[]);
        }
        match Pages::new(clock::now()) {
            Ok((pages, memory, theirs)) => {
                let given = ToLoop::Given { number, id, process: guest.peer.process, pages };
                if self.to_loop.try_send(given).is_ok() {
                    let words = format!("attached to workload '{name}'");
                    send(&guest.stream, &Answer::new(Verdict::Attached, &words), &theirs);
                    self.held.push(Held { number, stream: guest.stream, peer: guest.peer, counted, memory });
                }
            }
            Err(error) => tracing::warn!(workload = %name, "a program that cooperates has no pages: {error}"),
        }
    }

    /// Its connection ends; what processes have of its memory counts on.
    fn give_up(&mut self, number: u64) {
        let Some(at) = self.held.iter().position(|held| held.number == number) else { return };
        let Held { counted, memory, .. } = self.held.swap_remove(at);
        self.left.take(counted, memory, clock::now());
    }

    fn let_go(&mut self, number: u64) {
        self.give_up(number);
        let mut gone = ToLoop::Gone { number };
        // The loop takes messages each turn; only here is it waited for, or the program's pages would be read for ever.
        while let Err(TrySendError::Full(again)) = self.to_loop.try_send(gone) {
            gone = again;
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Sends an answer with these descriptors. A program that does not take it loses it.
fn send(stream: &UnixStream, answer: &Answer, memory: &[OwnedFd]) {
    let fds: Vec<BorrowedFd<'_>> = memory.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&fds));
    }
    let bytes = answer.bytes();
    let _ = sendmsg(stream, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
}

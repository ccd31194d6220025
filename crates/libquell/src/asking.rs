//! The agent's socket: asked at the start, and again with pauses that double while no agent answers. One thread asks at a time;
//! the others go on with what is there.

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU64};

use quell_page::{Answer, Hello, Verdict};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType, connect, recv, recvmsg, send, socket_with,
};
use rustix::time::Timespec;

use crate::{now, shared};

const SOCKET: &str = "/run/quell/runtime/quell.sock";
const WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 250_000_000 };
const SHORTEST: u64 = 1_000_000_000;
const LONGEST: u64 = 60 * SHORTEST;

static BUSY: AtomicBool = AtomicBool::new(false);
/// The connection; -1: none.
static CONNECTION: AtomicI32 = AtomicI32::new(-1);
static IS_ATTACHED: AtomicBool = AtomicBool::new(false);
/// When it is asked or looked at next, and the pause after that.
static NEXT: AtomicU64 = AtomicU64::new(0);
static PAUSE: AtomicU64 = AtomicU64::new(SHORTEST);
static WORDS: [AtomicU8; Answer::SIZE] = [const { AtomicU8::new(0) }; Answer::SIZE];

/// Why a program has no pages of the agent's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unattached {
    /// No agent answers.
    NoAgent,
    /// It has not answered yet.
    NotYet,
    /// It refuses.
    Refused,
    /// It is of another version.
    Version,
    /// The system has no memory.
    System,
}

impl Unattached {
    /// Its number in `quell.h`.
    #[must_use]
    pub fn errno(self) -> i32 {
        match self {
            Unattached::NoAgent => libc::ENOENT,
            Unattached::NotYet => libc::ETIMEDOUT,
            Unattached::Refused => libc::EPERM,
            Unattached::Version => libc::EPROTO,
            Unattached::System => libc::ENOMEM,
        }
    }
}

/// Runs this if no other thread asks.
fn alone<T>(work: impl FnOnce() -> T) -> Option<T> {
    (!BUSY.swap(true, AcqRel)).then(|| {
        let done = work();
        BUSY.store(false, Release);
        done
    })
}

pub fn ask_and_wait() -> Result<(), Unattached> {
    let done = alone(|| {
        if IS_ATTACHED.load(Acquire) && is_connected() {
            return Ok(());
        }
        // What was asked before may be answered yet.
        if IS_ATTACHED.load(Acquire) || connection().is_none() {
            ask()?;
        }
        let answered = connection().is_some_and(|socket| {
            poll(&mut [PollFd::from_borrowed_fd(socket, PollFlags::IN)], Some(&WAIT)).is_ok_and(|ready| ready > 0)
        });
        if answered { receive() } else { Err(Unattached::NotYet) }
    });
    done.unwrap_or(Err(Unattached::NotYet))
}

/// At its time: looks whether the agent is still there, and asks for pages if there are none.
pub fn ask_again() {
    let time = now();
    // Before the first attachment there is nothing to ask again.
    if time < NEXT.load(Relaxed) || address().is_none() {
        return;
    }
    alone(|| {
        NEXT.store(time + PAUSE.load(Relaxed), Relaxed);
        match (IS_ATTACHED.load(Acquire), connection().is_some()) {
            (true, true) if is_connected() => return,
            (false, true) => _ = receive(),
            _ => _ = ask().and_then(|()| receive()),
        }
        if !IS_ATTACHED.load(Acquire) {
            PAUSE.store((PAUSE.load(Relaxed) * 2).min(LONGEST), Relaxed);
        }
    });
}

/// In the child of a fork.
pub extern "C" fn begin_anew() {
    shared::leave_parent();
    close();
    BUSY.store(false, Release);
}

/// Bytes that end with a zero.
pub fn text() -> *const libc::c_char {
    WORDS.as_ptr().cast()
}

pub fn words() -> String {
    let bytes: Vec<u8> = WORDS.iter().map(|byte| byte.load(Relaxed)).take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn say(words: &str) {
    let bytes = words.bytes().chain(std::iter::repeat(0));
    WORDS[..WORDS.len() - 1].iter().zip(bytes).for_each(|(place, byte)| place.store(byte, Relaxed));
}

static ADDRESS: OnceLock<Option<SocketAddrUnix>> = OnceLock::new();

/// Where the agent answers; None: not asked yet.
fn address() -> Option<&'static SocketAddrUnix> {
    ADDRESS.get()?.as_ref()
}

fn connection() -> Option<BorrowedFd<'static>> {
    let number = CONNECTION.load(Acquire);
    // SAFETY: only the thread that asks closes it, and only that one calls this.
    (number >= 0).then(|| unsafe { BorrowedFd::borrow_raw(number) })
}

fn close() {
    IS_ATTACHED.store(false, Release);
    let number = CONNECTION.swap(-1, AcqRel);
    if number >= 0 {
        // SAFETY: it was this library's, and is used no more.
        drop(unsafe { OwnedFd::from_raw_fd(number) });
    }
}

/// An agent that ends, or that gave the pages up, closes the connection; it says nothing there otherwise.
fn is_connected() -> bool {
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    connection().is_some_and(|socket| recv(socket, &mut [0; 1], flags) == Err(rustix::io::Errno::AGAIN))
}

/// Sends the request.
fn ask() -> Result<(), Unattached> {
    if IS_ATTACHED.load(Acquire) {
        shared::forget_answers();
    }
    close();
    let named = || std::env::var_os("QUELL_RUNTIME").unwrap_or_else(|| SOCKET.into());
    let address = ADDRESS.get_or_init(|| SocketAddrUnix::new(std::path::Path::new(&named())).ok());
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).map_err(|_| Unattached::System)?;
    let asked = address.as_ref().is_some_and(|address| {
        connect(&socket, address).is_ok() && send(&socket, &Hello::default().bytes(), SendFlags::NOSIGNAL).is_ok()
    });
    if !asked {
        say("no Quell agent answers; the program runs without: start one (systemctl start quell)");
        return Err(Unattached::NoAgent);
    }
    CONNECTION.store(socket.into_raw_fd(), Release);
    Ok(())
}

/// Takes the answer, if it is there.
fn receive() -> Result<(), Unattached> {
    let mut bytes = [0; Answer::SIZE];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let socket = connection().ok_or(Unattached::NoAgent)?;
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let received = match recvmsg(socket.as_fd(), &mut [IoSliceMut::new(&mut bytes)], &mut control, flags) {
        Err(rustix::io::Errno::AGAIN) => return Err(Unattached::NotYet),
        Err(_) => 0,
        Ok(message) => message.bytes,
    };
    let mut given: [Option<OwnedFd>; 2] = [None, None];
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            given.iter_mut().zip(rights).for_each(|(place, right)| *place = Some(right));
        }
    }
    let refused = match Answer::read(&bytes[..received]) {
        None => Unattached::NoAgent,
        Some(answer) => {
            say(answer.words());
            match (answer.verdict, given) {
                (Verdict::Attached, [Some(program), Some(quell)]) if shared::exchange(&program, &quell) => {
                    IS_ATTACHED.store(true, Release);
                    PAUSE.store(SHORTEST, Relaxed);
                    return Ok(());
                }
                (Verdict::Attached | Verdict::Version, _) => Unattached::Version,
                (Verdict::Outside | Verdict::Full, _) => Unattached::Refused,
            }
        }
    };
    close();
    Err(refused)
}

//! What a worker leaves for the next one, whatever kills it: bytes and open descriptors.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use rustix::{cmsg_space, io};
use tracing::info;

/// The longest message, in bytes.
const LONGEST: usize = 32 * 1024;
/// The most descriptors that the kernel passes with one message (`SCM_MAX_FD`).
const MOST: usize = 253;

/// A place for one message, in the queue of a socket of which the guardian and its workers have both ends. It goes with the
/// last of them; no other process can reach it.
#[derive(Debug)]
pub struct Store(Option<Sockets>);

#[derive(Debug)]
struct Sockets {
    entry: OwnedFd,
    exit: OwnedFd,
}

impl Store {
    /// An empty one.
    ///
    /// # Errors
    /// If the system gives no sockets.
    pub fn new() -> io::Result<Store> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (entry, exit) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        Ok(Store(Some(Sockets { entry, exit })))
    }

    /// An empty one; where the system gives no sockets one that takes nothing, with a line in the log: all goes on without.
    #[must_use]
    pub fn or_none() -> Store {
        Store::new().unwrap_or_else(|error| {
            info!("a worker cannot hand anything to the next one, which verifies Quell's scheduler again: no sockets: {error}");
            Store(None)
        })
    }

    /// Can it hold something?
    #[must_use]
    pub fn is_usable(&self) -> bool {
        self.0.is_some()
    }

    /// Drops what is there.
    pub fn clear(&self) {
        drop(self.take());
    }

    /// From now on the calling thread has descriptors of its own: the standard streams and the store's. What other threads close,
    /// however they end, is closed then; what this one opens goes with it. It must use none that it had before.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn part_from_other_descriptors(&self) -> io::Result<()> {
        let mut kept: Vec<u32> = vec![0, 1, 2];
        let own = self.0.iter().flat_map(|sockets| [&sockets.entry, &sockets.exit]);
        kept.extend(own.map(|socket| socket.as_raw_fd() as u32));
        kept.sort_unstable();
        kept.dedup();
        // SAFETY: no values, and the table is this thread's own afterwards.
        if unsafe { libc::unshare(libc::CLONE_FILES) } != 0 {
            return Err(last_error());
        }
        let ends = kept.iter().copied().skip(1).chain([u32::MAX]);
        for (before, after) in kept.iter().zip(ends) {
            let (first, last) = (before + 1, after.saturating_sub(u32::from(after != u32::MAX)));
            // SAFETY: numbers alone. What is closed is open in the table of the other threads, where its owners are.
            if first <= last && unsafe { libc::close_range(first, last, 0) } != 0 {
                return Err(last_error());
            }
        }
        Ok(())
    }

    /// Leaves this in place of what is there. The store has descriptors of its own from then on.
    ///
    /// # Errors
    /// [`io::Errno::MSGSIZE`] for more than it holds; what the system refuses.
    pub fn put(&self, bytes: &[u8], descriptors: &[OwnedFd]) -> io::Result<()> {
        if bytes.is_empty() || bytes.len() > LONGEST || descriptors.len() > MOST {
            return Err(io::Errno::MSGSIZE);
        }
        let Some(sockets) = &self.0 else { return Err(io::Errno::NOTCONN) };
        self.clear();
        let descriptors: Vec<BorrowedFd<'_>> = descriptors.iter().map(AsFd::as_fd).collect();
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MOST))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)) {
            return Err(io::Errno::MSGSIZE);
        }
        sendmsg(&sockets.entry, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL).map(drop)
    }

    /// Takes out what is there; None if it is empty.
    #[must_use]
    pub fn take(&self) -> Option<(Vec<u8>, Vec<OwnedFd>)> {
        let sockets = self.0.as_ref()?;
        let mut bytes = vec![0; LONGEST];
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MOST))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let came = io::retry_on_intr(|| {
            recvmsg(&sockets.exit, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)
        });
        let length = came.ok()?.bytes;
        let descriptors = ancillary.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        });
        let descriptors = descriptors.flatten().collect();
        bytes.truncate(length);
        Some((bytes, descriptors))
    }
}

fn last_error() -> io::Errno {
    io::Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(io::Errno::INVAL)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Write};

    use rustix::pipe::{PipeFlags, pipe_with};

    use super::*;

    #[test]
    fn what_was_put_in_last_is_taken_once_with_descriptors_that_still_work() {
        let store = Store::new().unwrap();
        assert!(store.take().is_none());
        store.put(b"first", &[]).unwrap();
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        store.put(b"second", &[writer]).unwrap();
        let (bytes, descriptors) = store.take().unwrap();
        assert_eq!((&bytes[..], descriptors.len()), (&b"second"[..], 1));
        assert!(store.take().is_none());
        for mut writer in descriptors.into_iter().map(File::from) {
            writer.write_all(b"!").unwrap();
        }
        // To its end: the store has kept no other descriptor of the pipe.
        let mut read = String::new();
        File::from(reader).read_to_string(&mut read).unwrap();
        assert_eq!(read, "!");
    }

    #[test]
    fn it_survives_a_process_that_put_something_in_and_was_killed() {
        let store = Store::new().unwrap();
        // SAFETY: the child calls no allocator and no lock: it sends bytes and is killed.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let put = sendmsg(
                &store.0.as_ref().unwrap().entry,
                &[IoSlice::new(b"left")],
                &mut SendAncillaryBuffer::default(),
                SendFlags::empty(),
            );
            // SAFETY: ends the child at once, by a signal if it worked.
            unsafe { if put.is_ok() { libc::raise(libc::SIGKILL) } else { libc::_exit(1) } };
        }
        let child = rustix::process::Pid::from_raw(child).unwrap();
        rustix::process::waitpid(Some(child), rustix::process::WaitOptions::empty()).unwrap();
        assert_eq!(store.take().unwrap().0, b"left");
    }

    /// As a worker's spare does: what the other threads close is closed while it is still at work.
    #[test]
    fn a_thread_that_parted_holds_none_of_the_others_descriptors() {
        let store = std::sync::Arc::new(Store::new().unwrap());
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let (parted, has_parted) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = {
            let store = std::sync::Arc::clone(&store);
            std::thread::spawn(move || {
                store.part_from_other_descriptors().unwrap();
                parted.send(std::fs::read_dir("/proc/thread-self/fd").unwrap().count()).unwrap();
                let _ = ended.recv();
                store.put(b"spare", &[File::open("/dev/null").unwrap().into()]).unwrap();
            })
        };
        // The standard streams, the store's two, and the directory that is read.
        assert!(has_parted.recv().unwrap() <= 6);
        drop(writer);
        let mut read = String::new();
        File::from(reader).read_to_string(&mut read).unwrap();
        drop(end);
        thread.join().unwrap();
        assert_eq!(store.take().map(|(bytes, descriptors)| (bytes, descriptors.len())), Some((b"spare".to_vec(), 1)));
    }

    #[test]
    fn more_than_it_holds_is_refused_and_leaves_what_is_there() {
        let store = Store::new().unwrap();
        store.put(b"small", &[]).unwrap();
        assert_eq!(store.put(&vec![0; LONGEST + 1], &[]), Err(io::Errno::MSGSIZE));
        assert_eq!(store.put(b"", &[]), Err(io::Errno::MSGSIZE));
        assert_eq!(store.take().unwrap().0, b"small");
    }
}

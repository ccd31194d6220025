//! The process at the other end of a connection.

use std::ffi::c_int;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::{fs, io};

use quell_linux::procfs::ProcFs;
use quell_model::ThreadId;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::time::Timespec;

/// A process that connected.
#[derive(Debug)]
pub struct Peer {
    pub process: ThreadId,
    pub parent: i32,
    pub user: u32,
    /// It refers to this process for ever, whatever becomes of its number.
    pidfd: OwnedFd,
}

impl Peer {
    /// The user of the process that made this connection, without a look at the process.
    pub fn user_of(stream: &UnixStream) -> Option<u32> {
        option(stream, libc::SO_PEERCRED).ok().map(|credentials: libc::ucred| credentials.uid)
    }

    /// The process that made this connection; None: it has ended, or is of a pid namespace that is not seen from here.
    pub fn of(stream: &UnixStream, proc: &Path) -> Option<Peer> {
        let credentials: libc::ucred = option(stream, libc::SO_PEERCRED).ok()?;
        let pid = Pid::from_raw(credentials.pid)?;
        let pidfd = match option::<c_int>(stream, libc::SO_PEERPIDFD) {
            // SAFETY: the kernel has just made it for this process.
            Ok(fd) => unsafe { OwnedFd::from_raw_fd(fd) },
            // Before Linux 6.5: the number may be another process's since the connection was made, but not one of another user.
            Err(_) => pidfd_open(pid, PidfdFlags::empty()).ok()?,
        };
        let mut files = ProcFs::open(proc).ok()?;
        let stat = files.stat(credentials.pid, credentials.pid).ok()??;
        let is_users = files.user(credentials.pid).ok()? == Some(credentials.uid);
        let process = ThreadId { tid: credentials.pid, start: stat.start };
        let peer = Peer { process, parent: stat.parent, user: credentials.uid, pidfd };
        (is_users && peer.is_alive()).then_some(peer)
    }

    /// Its cgroup of version 2, as the kernel names it; None: it has none, or has ended.
    pub fn cgroup(&self, proc: &Path) -> Option<PathBuf> {
        let text = fs::read_to_string(proc.join(format!("{}/cgroup", self.process.tid))).ok()?;
        let path = text.lines().find_map(|line| line.strip_prefix("0::"))?;
        // One that is outside of this cgroup namespace, and the root, is no workload's.
        let is_below = path != "/" && !path.split('/').any(|part| part == "..");
        (is_below && self.is_alive()).then(|| path.into())
    }

    pub fn is_alive(&self) -> bool {
        let mut ended = [PollFd::from_borrowed_fd(self.pidfd.as_fd(), PollFlags::IN)];
        poll(&mut ended, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) == Ok(0)
    }
}

/// An option of a socket that is plain data.
fn option<T: Copy>(stream: &UnixStream, name: c_int) -> io::Result<T> {
    let (mut value, mut size) = (MaybeUninit::<T>::zeroed(), size_of::<T>() as libc::socklen_t);
    // SAFETY: the kernel writes at most `size` bytes there.
    let status = unsafe {
        libc::getsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, name, value.as_mut_ptr().cast(), &raw mut size)
    };
    if status != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is plain integers, all of which are there.
    Ok(unsafe { value.assume_init() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peer_of_a_connection_of_its_own_is_this_process() {
        let (one, _other) = UnixStream::pair().unwrap();
        let peer = Peer::of(&one, Path::new("/proc")).unwrap();
        assert_eq!(peer.process.tid, std::process::id().cast_signed());
        assert!(peer.is_alive() && peer.user == rustix::process::geteuid().as_raw());
    }
}

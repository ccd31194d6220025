//! Child processes that end with this one, whatever ends it.

use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};

use command_fds::{CommandFdExt, FdMapping};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};

use crate::error::{LabError, Result};

/// The virtiofsd's listening socket, as it finds it.
const LISTENER: i32 = 3;
/// A reader that a busy host delays must not delay the guest: room for the output meanwhile.
const PIPE_BYTES: usize = 1 << 20;

/// A running child; dropped, it is killed and waited for.
pub(super) struct Process {
    child: Child,
}

impl Process {
    /// Starts `command` with `files` open under the given numbers; `package` is named if the program is missing.
    pub(super) fn spawn(mut command: Command, files: Vec<(OwnedFd, i32)>, package: &'static str) -> Result<Self> {
        let failed = |command: &Command, error: &io::Error| match error.kind() {
            io::ErrorKind::NotFound => {
                LabError::MissingTool { tool: command.get_program().to_string_lossy().into(), package }
            }
            _ => LabError::Tool { command: crate::tool::line(command), detail: error.to_string() },
        };
        let mappings = files.into_iter().map(|(parent_fd, child_fd)| FdMapping { parent_fd, child_fd }).collect();
        command.fd_mappings(mappings).expect("each number is given once");
        command.stderr(Stdio::piped()).process_group(0);
        let parent = rustix::process::getpid();
        // SAFETY: between fork and exec only two system calls are made, which are async-signal-safe.
        unsafe {
            command.pre_exec(move || {
                rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
                // It may have died before the call above.
                if rustix::process::getppid() == Some(parent) { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
            });
        }
        let mut child = command.spawn().map_err(|error| failed(&command, &error))?;
        if let Some(stderr) = &child.stderr {
            let set = fcntl_setfl(stderr.as_fd(), OFlags::NONBLOCK);
            if let Err(error) = set {
                let _ = child.kill();
                return Err(failed(&command, &error.into()));
            }
        }
        Ok(Self { child })
    }

    /// The process's number.
    pub(super) fn pid(&self) -> rustix::process::Pid {
        rustix::process::Pid::from_child(&self.child)
    }

    /// Its error output, once.
    pub(super) fn take_messages(&mut self) -> Option<ChildStderr> {
        self.child.stderr.take()
    }

    /// Kills it, if it still runs, and returns its exit status.
    pub(super) fn end(&mut self) -> io::Result<ExitStatus> {
        let _ = self.child.kill();
        self.child.wait()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// A pipe: our end, which never blocks, and the other's, which has plenty of room.
pub(super) fn pipe() -> Result<(OwnedFd, OwnedFd)> {
    let failed = |error: rustix::io::Errno| LabError::io("create", Path::new("pipe"))(error.into());
    let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC).map_err(failed)?;
    fcntl_setfl(&ours, OFlags::NONBLOCK).map_err(failed)?;
    // A user's pipes may be limited to less; then less has to do.
    let _ = fcntl_setpipe_size(&ours, PIPE_BYTES);
    Ok((ours, theirs))
}

/// Starts virtiofsd for the host's root directory; returns it and the connected socket for QEMU. The daemon sees the host's
/// files read-only, whatever the guest mounts.
///
/// The socket has a name of the kernel's choice, takes one connection, which is ours, and is gone with the daemon.
pub(super) fn connect_virtiofsd(mut command: Command) -> Result<(Process, OwnedFd)> {
    let failed = |error| LabError::io("connect", Path::new("virtiofsd"))(error);
    let name = abstract_name().map_err(failed)?;
    let address = SocketAddr::from_abstract_name(name).map_err(failed)?;
    let listener = UnixListener::bind_addr(&address).map_err(failed)?;
    let socket = UnixStream::connect_addr(&address).map_err(failed)?;
    command.args([&format!("--fd={LISTENER}"), "--thread-pool-size=1"]);
    command.args(["-o", "source=/,sandbox=chroot,cache=always,no_posix_lock"]);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    // SAFETY: between fork and exec only three system calls are made, which are async-signal-safe.
    unsafe { command.pre_exec(see_all_read_only) };
    let mut process = Process::spawn(command, vec![(listener.into(), LISTENER)], "qemu-system-common")?;
    discard(process.take_messages());
    Ok((process, socket.into()))
}

/// This process has mounts of its own from now on, all of them read-only. The host's stay as they are.
fn see_all_read_only() -> io::Result<()> {
    let attributes = libc::mount_attr { attr_set: libc::MOUNT_ATTR_RDONLY, attr_clr: 0, propagation: 0, userns_fd: 0 };
    let done = |result: libc::c_long| if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
    // SAFETY: a flag only.
    done(unsafe { libc::unshare(libc::CLONE_NEWNS) }.into())?;
    // SAFETY: the path is a string that lives as long as the process; the other pointers may be null.
    let private = unsafe {
        libc::mount(
            std::ptr::null(),
            c"/".as_ptr(),
            std::ptr::null(),
            libc::MS_REC | libc::MS_PRIVATE,
            std::ptr::null(),
        )
    };
    done(private.into())?;
    // SAFETY: as above; the structure lives during the call, which gets its size.
    done(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            c"/".as_ptr(),
            libc::AT_RECURSIVE,
            &raw const attributes,
            size_of_val(&attributes),
        )
    })
}

fn abstract_name() -> io::Result<String> {
    let mut random = [0; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut random)?;
    Ok(format!("quell-lab-{:032x}", u128::from_ne_bytes(random)))
}

/// Reads a child's messages away, so that it never waits for a reader.
fn discard(messages: Option<ChildStderr>) {
    if let Some(mut messages) = messages {
        let _ = fcntl_setfl(messages.as_fd(), OFlags::empty());
        std::thread::spawn(move || io::copy(&mut messages, &mut io::sink()));
    }
}

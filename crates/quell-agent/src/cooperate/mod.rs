//! Hands out the pages of programs that cooperate (`quell_page`): a thread of its own answers on a socket in a directory that holds
//! nothing else. Any process may connect, so nothing is made for one before the loop has found it in a workload, and everything is
//! bounded: the connections by number, the pages by workload and user. The loop is never woken by a stranger: it answers
//! in its turns, and in each a bounded number.

mod bounds;
mod desk;
mod peer;

use std::fs::{self, Permissions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

use quell_linux::pages::Pages;
use quell_linux::{LinuxHost, Roots};
use quell_model::{ThreadId, WorkloadId};
use rustix::event::{EventfdFlags, eventfd};

use self::desk::Desk;
use crate::AgentError;
use crate::api::socket::Socket;
use crate::guardian::RunDir;

/// The socket's name in its directory.
const SOCKET: &str = "quell.sock";
/// Messages to the loop that it has not taken.
const WAITING: usize = 64;

/// From the thread to the loop.
enum ToLoop {
    /// Whose is this process?
    Whose { number: u64, process: ThreadId, parent: i32, cgroup: Option<PathBuf> },
    /// It has these pages.
    Given { number: u64, id: WorkloadId, process: ThreadId, pages: Pages },
    /// It has none any more.
    Gone { number: u64 },
}

/// From the loop to the thread.
enum ToDesk {
    /// The workload of the process, and its name; None: it is in none.
    Owner { number: u64, owner: Option<(WorkloadId, String)> },
    /// The process ended, or left its workload.
    Ended { number: u64 },
}

/// The loop's end. The thread ends with it, and the socket goes.
pub struct Cooperation {
    asked: Receiver<ToLoop>,
    answers: Sender<ToDesk>,
    /// Wakes the thread.
    bell: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Cooperation {
    /// Answers in this directory from now on; it is made if it is not there.
    ///
    /// # Errors
    /// If another user could write into the directory, or another agent answers there.
    pub fn start(directory: &Path, roots: &Roots) -> Result<Cooperation, AgentError> {
        let directory = RunDir::at(directory.to_owned())?;
        // Whatever the umask: programs of any user connect.
        let open = |source| AgentError::System { operation: "open the programs' directory to all users", source };
        fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).map_err(open)?;
        let socket = Socket::bind_for_all(&directory.path().join(SOCKET))?;
        let failed = |source| AgentError::System { operation: "start the thread for programs that cooperate", source };
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|errno| failed(errno.into()))?;
        let bell = Arc::new(bell);
        let (to_loop, asked): (SyncSender<ToLoop>, _) = sync_channel(WAITING);
        let (answers, answered) = channel();
        let mut desk = Desk::new(socket, roots.proc.clone(), to_loop, answered, Arc::clone(&bell));
        let thread = std::thread::Builder::new().name("quell-programs".into()).spawn(move || desk.run());
        Ok(Cooperation { asked, answers, bell, thread: Some(thread.map_err(failed)?) })
    }

    /// Once a turn: answers what was asked, and lets the host read what was handed out.
    pub fn turned(&mut self, host: &mut LinuxHost) {
        let mut has_answers = false;
        for message in self.asked.try_iter().take(WAITING) {
            match message {
                ToLoop::Whose { number, process, parent, cgroup } => {
                    let owner = host.owner_of(process, parent, cgroup.as_deref());
                    let owner = owner.map(|(id, name)| (id, name.to_owned()));
                    has_answers |= self.answers.send(ToDesk::Owner { number, owner }).is_ok();
                }
                ToLoop::Given { number, id, process, pages } => host.take_program(number, id, process, pages),
                ToLoop::Gone { number } => host.let_program_go(number),
            }
        }
        for number in host.ended_programs() {
            has_answers |= self.answers.send(ToDesk::Ended { number }).is_ok();
        }
        if has_answers {
            self.ring();
        }
    }

    fn ring(&self) {
        // It fails only when the counter is full, and then the thread wakes anyway.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }
}

impl Drop for Cooperation {
    fn drop(&mut self) {
        // Without a sender the thread ends when it wakes.
        (self.answers, self.asked) = (channel().0, sync_channel(1).1);
        self.ring();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

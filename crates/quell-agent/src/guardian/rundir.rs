//! The run directory: one lock and one journal for each agent or command that changes the machine.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::kept::is_same;
use crate::AgentError;
use crate::api::socket;
use crate::lock::{self, Holder};

/// The agent's name.
const AGENT: &str = "agent";
/// Its socket.
const SOCKET: &str = "api.sock";
/// The environment variable that names another run directory.
pub const VARIABLE: &str = "QUELL_RUN_DIR";
/// The run directory unless another one is named.
pub(super) const USUAL: &str = "/run/quell";
/// One Quell at a time claims names in a directory: the lock for that, which no earlier version made readable for others.
const TURNSTILE: &str = ".claims";
/// A claim takes a moment: number of tries to get that lock …
const TRIES: u32 = 100;
/// … with this pause in between.
const PAUSE: Duration = Duration::from_millis(10);
/// Tries to get a lock whose holder may be ending, with the same pause.
const ENDING: u32 = 5;
/// The machine's processes.
const PROC: &str = "/proc";

/// Directory of the agent's files, which live as long as the machine is up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunDir {
    path: PathBuf,
}

/// The right to change the machine under a name, held until it is dropped.
#[derive(Debug)]
pub struct Claim {
    directory: RunDir,
    name: String,
    /// Locked. The worker inherits it: no other Quell can claim it as long as one of the two lives.
    lock: File,
}

/// A journal whose writer may be gone.
#[derive(Debug)]
pub enum Stale {
    /// Its writer is gone: it is ours now.
    Ours(Claim),
    /// Its writer lives.
    Held {
        /// The name that it was claimed under.
        name: String,
        /// Its process number, or its guardian's.
        pid: i32,
    },
    /// Its lock is held, and it cannot be decided whether by a living Quell.
    Unclear {
        /// The name that it was claimed under.
        name: String,
        /// The reason.
        why: String,
    },
}

impl RunDir {
    /// The directory `asked` for; else the one of QUELL_RUN_DIR; else `/run/quell`, or for ordinary users `quell` in
    /// their own XDG_RUNTIME_DIR. It is created if it does not exist.
    ///
    /// # Errors
    /// If it cannot be created, or another user could write into it.
    pub fn locate(asked: Option<&Path>) -> Result<RunDir, AgentError> {
        RunDir::at(RunDir::path_of(asked))
    }

    /// The path that [`RunDir::locate`] would choose; nothing is created.
    #[must_use]
    pub fn path_of(asked: Option<&Path>) -> PathBuf {
        let path = asked.map(Path::to_owned).or_else(|| variable(VARIABLE)).or_else(|| {
            let own = (!rustix::process::geteuid().is_root()).then(|| variable("XDG_RUNTIME_DIR")).flatten();
            own.map(|own| own.join("quell"))
        });
        path.unwrap_or_else(|| USUAL.into())
    }

    /// The directory as [`RunDir::locate`] finds it, but only if it exists. None: the usual one does not exist, so no
    /// Quell has run since the machine booted.
    ///
    /// # Errors
    /// If a directory that was named does not exist, or another user could write into it.
    pub fn existing(asked: Option<&Path>) -> Result<Option<RunDir>, AgentError> {
        let path = RunDir::path_of(asked);
        if path.symlink_metadata().is_ok() {
            return RunDir::at(path).map(Some);
        }
        if asked.is_none() && variable(VARIABLE).is_none() {
            return Ok(None);
        }
        let fix = format!("give the agent's directory, with --run-dir or {VARIABLE}");
        Err(AgentError::RunDirectory { op: "use", path, why: "there is no such directory".into(), fix })
    }

    /// Looks at this directory, and makes none: does an agent run in it?
    ///
    /// # Errors
    /// As [`RunDir::at`].
    pub fn look(path: &Path) -> Result<bool, AgentError> {
        match fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
                let may = rustix::fs::access(parent, rustix::fs::Access::WRITE_OK);
                may.map(|()| false).map_err(|errno| failed("make", path, io::Error::from(errno).to_string()))
            }
            _ => {
                let directory = RunDir::usable(path)?;
                Ok(lock::is_watched(&directory.path.join("agent.lock"), PROC.as_ref()))
            }
        }
    }

    /// This directory, created if it does not exist.
    ///
    /// # Errors
    /// If it cannot be created, or another user could write into it.
    pub fn at(path: PathBuf) -> Result<RunDir, AgentError> {
        match DirBuilder::new().mode(0o755).create(&path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed("make", &path, error.to_string())),
        }
        RunDir::usable(&path)
    }

    fn usable(path: &Path) -> Result<RunDir, AgentError> {
        let found = fs::symlink_metadata(path).map_err(|error| failed("look at", path, error.to_string()))?;
        let own = rustix::process::geteuid().as_raw();
        if !found.is_dir() || found.uid() != own || found.mode() & 0o022 != 0 {
            let why = "it must be owned by this user, and no one else may write into it".to_owned();
            return Err(failed("use", path, why));
        }
        Ok(RunDir { path: path.to_owned() })
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Claims a name: `agent`, or one of its own for each command. The journal of a writer that died under the same
    /// name is kept; restore it first ([`super::put_back_journal`]).
    ///
    /// # Errors
    /// [`AgentError::Running`] if another process holds it.
    pub fn claim(&self, name: &str) -> Result<Claim, AgentError> {
        match self.try_claim(name)? {
            Stale::Ours(claim) => {
                self.drop_locks_of_the_dead();
                Ok(claim)
            }
            Stale::Held { pid, .. } => Err(AgentError::Running { pid, path: self.path.clone() }),
            Stale::Unclear { name, why } => Err(AgentError::Unclear { lock: self.lock_of(&name), why }),
        }
    }

    /// All journals, claimed where their writers are gone. An empty one has nothing to put back.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn journals(&self) -> Result<Vec<Stale>, AgentError> {
        let names = self.names(".journal").map_err(|source| self.failed("list", source))?;
        names.iter().map(|name| self.try_claim(name)).collect()
    }

    /// Removes the locks of commands that were killed and have no journal: none will be claimed again. What cannot be removed is left
    /// until the next time.
    pub fn drop_locks_of_the_dead(&self) {
        // Only beside a claim could a lock be free that is about to be taken.
        let Some(_turn) = self.turn() else { return };
        for name in self.names(".lock").unwrap_or_default() {
            let (path, journal) = (self.lock_of(&name), self.path.join(format!("{name}.journal")));
            let is_free = || File::open(&path).is_ok_and(|file| lock::try_take(&file).unwrap_or(false));
            if name != "agent" && !journal.exists() && is_free() {
                let _ = fs::remove_file(&path);
            }
        }
    }

    /// What precedes this ending in names of files here, sorted.
    fn names(&self, ending: &str) -> io::Result<Vec<String>> {
        let names = fs::read_dir(&self.path)?
            .filter_map(|entry| Some(entry.ok()?.file_name().to_str()?.strip_suffix(ending)?.to_owned()));
        let mut names: Vec<String> = names.collect();
        names.sort();
        Ok(names)
    }

    fn try_claim(&self, name: &str) -> Result<Stale, AgentError> {
        let _turn = self.turn();
        let path = self.lock_of(name);
        let opened = || lock::open(&path).map_err(|source| self.failed("open a lock in", source));
        let taken = |file: &File| lock::try_take(file).map_err(|source| self.failed("lock a file in", source));
        let mut file = opened()?;
        // A holder that was killed may be ending.
        let free =
            (0..ENDING).try_fold(false, |free, _| Ok(free || taken(&file)? || (std::thread::sleep(PAUSE), false).1))?;
        if !free {
            match lock::holder(&file, PROC.as_ref()) {
                Holder::Lives(pid) => return Ok(Stale::Held { name: name.to_owned(), pid }),
                Holder::Unclear(why) => return Ok(Stale::Unclear { name: name.to_owned(), why }),
                // Another program opened it when others could. It keeps the lock of a file that is gone then.
                Holder::None => fs::remove_file(&path).map_err(|source| self.failed("replace a lock in", source))?,
            }
            file = opened()?;
            if !taken(&file)? {
                return Ok(Stale::Unclear { name: name.to_owned(), why: "another process took it just now".into() });
            }
        }
        lock::sign(&file, PROC.as_ref(), None).map_err(|source| self.failed("write into", source))?;
        Ok(Stale::Ours(Claim { directory: self.clone(), name: name.to_owned(), lock: file }))
    }

    /// The right to claim names here. `None`: it could not be had (a full file system), and two Quells that find a lock at the
    /// same moment of which another program has the file could both take it.
    fn turn(&self) -> Option<File> {
        let turnstile = lock::open(&self.path.join(TURNSTILE)).ok()?;
        for _ in 0..TRIES {
            if lock::try_take(&turnstile).ok()? {
                return Some(turnstile);
            }
            std::thread::sleep(PAUSE);
        }
        None
    }

    fn lock_of(&self, name: &str) -> PathBuf {
        self.path.join(format!("{name}.lock"))
    }

    fn failed(&self, op: &'static str, source: io::Error) -> AgentError {
        failed(op, &self.path, source.to_string())
    }
}

/// The socket in a run directory at which the Quell that claimed this name answers: the agent at `api.sock`, a command at one of
/// its name.
#[must_use]
pub fn socket_of(directory: &Path, name: &str) -> PathBuf {
    directory.join(if name == AGENT { SOCKET.to_owned() } else { format!("{name}.sock") })
}

/// Claims of commands that manage by themselves begin with these.
const COMMANDS: [&str; 2] = ["exec-", "protect-"];

/// The sockets in a run directory of commands that manage by themselves, and answer; those of killed ones are removed if this user
/// may do that. In the order of their names.
#[must_use]
pub fn commands_in(directory: &Path) -> Vec<(String, PathBuf)> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let mut found: Vec<(String, PathBuf)> = entries
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let name = path.file_name()?.to_str()?.strip_suffix(".sock")?.to_owned();
            (COMMANDS.iter().any(|command| name.starts_with(command))
                && matches!(socket::remove_dead(&path), Ok(false)))
            .then_some((name, path))
        })
        .collect();
    found.sort();
    found
}

fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

fn failed(op: &'static str, path: &Path, why: String) -> AgentError {
    let fix = format!("run as root, or name another directory with --run-dir or {VARIABLE}");
    AgentError::RunDirectory { op, path: path.to_owned(), why, fix }
}

impl Claim {
    /// The directory that it is in.
    #[must_use]
    pub fn directory(&self) -> &RunDir {
        &self.directory
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its journal.
    #[must_use]
    pub fn journal(&self) -> PathBuf {
        self.directory.path.join(format!("{}.journal", self.name))
    }

    /// Is the locked file the one in the directory? Another program may have removed it.
    pub(super) fn stands(&self) -> bool {
        fs::metadata(self.directory.lock_of(&self.name)).is_ok_and(|found| is_same(&self.lock, &found))
    }

    /// Makes the directory again, if it is gone, and claims the name in it.
    pub(super) fn make_again(&mut self) -> Result<(), AgentError> {
        if self.stands() {
            return Ok(());
        }
        let directory = RunDir::at(self.directory.path.clone())?;
        match directory.try_claim(&self.name)? {
            Stale::Ours(claim) => *self = claim,
            Stale::Held { pid, .. } => return Err(AgentError::Running { pid, path: directory.path }),
            Stale::Unclear { name, why } => return Err(AgentError::Unclear { lock: directory.lock_of(&name), why }),
        }
        Ok(())
    }

    /// Names this process, the worker, as a holder beside its guardian. If it cannot be written, the guardian stays the only one.
    pub(super) fn sign_as_worker(&self, guardian: i32) {
        if let Err(error) = lock::sign(&self.lock, PROC.as_ref(), Some(guardian)) {
            tracing::debug!(%error, "the lock does not name the worker");
        }
    }

    /// The socket at which its holder answers.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        socket_of(&self.directory.path, &self.name)
    }

    /// Takes the claim's files away: there is nothing left to put back.
    pub fn clear(&self) {
        let _ = fs::remove_file(self.journal());
        if self.name != AGENT {
            // A worker that was killed leaves it behind; another program's file stays.
            let _ = socket::remove_dead(&self.socket());
            let _ = fs::remove_file(self.directory.lock_of(&self.name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_name_is_claimed_once() {
        let directory = tempfile::tempdir().unwrap();
        let run_dir = RunDir::at(directory.path().join("quell")).unwrap();
        let claim = run_dir.claim("agent").unwrap();
        let error = run_dir.claim("agent").unwrap_err().to_string();
        assert!(error.contains(&format!("process {}", std::process::id())), "{error}");
        assert!(run_dir.claim("exec-1").is_ok());
        fs::write(claim.journal(), "").unwrap();
        assert!(matches!(&run_dir.journals().unwrap()[..], [Stale::Held { name, .. }] if name == "agent"));
        drop(claim);
        assert!(matches!(&run_dir.journals().unwrap()[..], [Stale::Ours(claim)] if claim.name() == "agent"));
    }

    #[test]
    fn the_lock_of_a_command_that_was_killed_is_removed_by_the_next_quell() {
        let directory = tempfile::tempdir().unwrap();
        let run_dir = RunDir::at(directory.path().join("quell")).unwrap();
        let alive = run_dir.claim("exec-1").unwrap();
        // As after kill -9: no process holds it.
        drop(run_dir.claim("exec-2").unwrap());
        let killed_at_work = run_dir.claim("exec-3").unwrap();
        fs::write(killed_at_work.journal(), "").unwrap();
        drop(killed_at_work);
        drop(run_dir.claim("agent").unwrap());
        let locks = || run_dir.names(".lock").unwrap();
        assert_eq!(locks(), ["agent", "exec-1", "exec-3"], "one with a journal is to be put back first");
        drop(alive);
        run_dir.drop_locks_of_the_dead();
        assert_eq!(locks(), ["agent", "exec-3"]);
    }

    /// Before: the stranger's lock counted.
    #[test]
    fn a_lock_that_another_program_holds_does_not_count() {
        let directory = tempfile::tempdir().unwrap();
        let run_dir = RunDir::at(directory.path().join("quell")).unwrap();
        let path = run_dir.path().join("agent.lock");
        for text in ["", "1", "999999999 1 0\n"] {
            fs::write(&path, text).unwrap();
            let strangers = File::open(&path).unwrap();
            assert!(lock::try_take(&strangers).unwrap());
            let claimed = run_dir.try_claim("agent").unwrap();
            // This process, which the test runs as, holds it: no stranger by its user.
            assert!(matches!((text, &claimed), ("", Stale::Held { .. }) | (_, Stale::Ours(_))), "{text}: {claimed:?}");
            assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
            fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn commands_that_answer_are_found_and_the_sockets_of_killed_ones_go() {
        use std::os::unix::net::UnixListener;
        let directory = tempfile::tempdir().unwrap();
        let run_dir = RunDir::at(directory.path().join("quell")).unwrap();
        let claims = ["agent", "exec-1", "protect-2"].map(|name| run_dir.claim(name).unwrap());
        let mut listeners: Vec<_> = claims.iter().map(|claim| UnixListener::bind(claim.socket()).unwrap()).collect();
        fs::write(run_dir.path().join("exec-3.sock"), "no socket").unwrap();
        let found =
            |run_dir: &RunDir| commands_in(run_dir.path()).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!(found(&run_dir), ["exec-1", "protect-2"]);
        drop(listeners.remove(1));
        assert_eq!(found(&run_dir), ["protect-2"]);
        assert!(!claims[1].socket().exists() && run_dir.path().join("exec-3.sock").exists());
        drop(listeners.remove(1));
        claims[2].clear();
        assert!(!claims[2].socket().exists(), "a claim that is cleared leaves no socket of a killed worker");
    }

    #[test]
    fn a_run_directory_that_was_named_and_is_not_there_is_refused_and_not_made() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("nowhere");
        let error = RunDir::existing(Some(&path)).unwrap_err().to_string();
        assert!(error.contains("there is no such directory") && error.contains("--run-dir"), "{error}");
        assert!(!path.exists());
        assert!(RunDir::existing(Some(directory.path())).unwrap().is_some());
    }

    #[test]
    fn a_directory_that_others_can_write_into_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(RunDir::at(directory.path().to_owned()).unwrap_err().to_string().contains("no one else"));
        let error = RunDir::at("/nowhere/at/all".into()).unwrap_err().to_string();
        assert!(error.contains("--run-dir"), "{error}");
    }
}

//! The socket file: created where there is none, or in place of a dead agent's socket, and removed only if it is still
//! the same one.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use crate::AgentError;

/// Present state of a socket's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Nothing.
    Nothing,
    /// A socket on which no one answers: its agent was killed.
    Dead,
    /// A socket on which someone answers.
    Answered,
}

/// Checks the path of a socket, and changes nothing.
///
/// # Errors
/// If no socket can be made there: another file exists there, or its directory does not.
pub fn look(path: &Path) -> Result<Standing, AgentError> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let parent = directory(path);
            return match fs::metadata(parent) {
                Ok(found) if found.is_dir() => Ok(Standing::Nothing),
                Ok(_) => Err(failed(path, io::ErrorKind::NotADirectory.into(), "name a socket in a directory")),
                Err(cause) => {
                    let fix = format!("make its directory first: mkdir -p {}", parent.display());
                    Err(failed(path, cause, &fix))
                }
            };
        }
        Err(cause) => return Err(failed(path, cause, "name a path that this user may read")),
    };
    if !found.file_type().is_socket() {
        let cause = io::Error::other(format!("the path exists and is {}", kind(&found)));
        return Err(failed(path, cause, "only a socket is replaced: name another path, or remove it yourself"));
    }
    match UnixStream::connect(path) {
        Ok(_) => Ok(Standing::Answered),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(Standing::Dead),
        // It is gone meanwhile.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Standing::Nothing),
        // A full queue: it lives.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Standing::Answered),
        Err(cause) => Err(failed(path, cause, "another program's socket is there: name another path")),
    }
}

/// Removes a socket that a killed agent left behind; any other file stays. Is the path free now?
///
/// # Errors
/// As [`look`], and if it cannot be removed.
pub fn remove_dead(path: &Path) -> Result<bool, AgentError> {
    match look(path)? {
        Standing::Nothing => Ok(true),
        Standing::Answered => Ok(false),
        Standing::Dead => {
            fs::remove_file(path).map_err(|cause| failed(path, cause, ROOT))?;
            Ok(true)
        }
    }
}

/// Looks for a group, for the socket.
///
/// # Errors
/// If there is no such group.
pub fn look_for_group(name: &str) -> Result<u32, AgentError> {
    group_id(name).map_err(|cause| AgentError::File {
        operation: "give the socket to the group",
        path: name.into(),
        cause,
        fix: "create it (groupadd --system NAME), or omit api.group".to_owned(),
    })
}

const ROOT: &str = "run the agent as root, or give it a socket in a directory of its user";

fn failed(path: &Path, cause: io::Error, fix: &str) -> AgentError {
    AgentError::File { operation: "listen on", path: path.to_owned(), cause, fix: fix.to_owned() }
}

fn kind(found: &Metadata) -> &'static str {
    let kind = found.file_type();
    match () {
        () if kind.is_symlink() => "a symbolic link",
        () if kind.is_dir() => "a directory",
        () if kind.is_fifo() => "a pipe",
        () if kind.is_file() => "a file",
        () => "a device",
    }
}

fn directory(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The socket file, removed at the end.
pub(crate) struct Socket {
    path: PathBuf,
    /// Device and inode: the file at the path may be another's in the end.
    identity: (u64, u64),
    pub(crate) listener: UnixListener,
}

impl Socket {
    /// Listens on a socket file that root and this group can use. The file appears with its final owner and mode: it
    /// is made beside and moved, never over something else.
    pub(super) fn bind(path: &Path, group: Option<&str>) -> Result<Socket, AgentError> {
        let group = group.map(look_for_group).transpose()?;
        Socket::bind_with(path, group, if group.is_some() { 0o660 } else { 0o600 })
    }

    /// As [`Socket::bind`], for all users.
    pub(crate) fn bind_for_all(path: &Path) -> Result<Socket, AgentError> {
        Socket::bind_with(path, None, 0o666)
    }

    fn bind_with(path: &Path, group: Option<u32>, mode: u32) -> Result<Socket, AgentError> {
        let taken = || {
            let cause = io::ErrorKind::AddrInUse.into();
            failed(path, cause, "another agent answers there: stop it, or give this one another socket")
        };
        if !remove_dead(path)? {
            return Err(taken());
        }
        let beside = directory(path).join(format!(".quell-{}", std::process::id()));
        remove_dead(&beside)?;
        let listener = UnixListener::bind(&beside).map_err(|cause| failed(path, cause, ROOT))?;
        let finish = || {
            if group.is_some() {
                std::os::unix::fs::chown(&beside, None, group)?;
            }
            fs::set_permissions(&beside, fs::Permissions::from_mode(mode))?;
            listener.set_nonblocking(true)?;
            // Unlike a renaming, a link replaces nothing.
            fs::hard_link(&beside, path)?;
            identity(path)
        };
        let finished = finish();
        let _ = fs::remove_file(&beside);
        let identity = finished.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => taken(),
            _ => failed(path, error, ROOT),
        })?;
        Ok(Socket { path: path.to_owned(), identity, listener })
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|found| found == self.identity) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|found| (found.dev(), found.ino()))
}

/// The number of a group, from /etc/group (group(5)).
fn group_id(name: &str) -> io::Result<u32> {
    let groups = fs::read_to_string("/etc/group")?;
    let number = groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok()).flatten()
    });
    number.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "there is no such group"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_live_socket_is_not_taken_over_and_a_dead_one_is() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("api.sock");
        let first = Socket::bind(&path, None).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let text = Socket::bind(&path, None).err().unwrap().to_string();
        assert!(text.contains("another agent"), "{text}");
        assert_eq!(look(&path).unwrap(), Standing::Answered);
        drop(first);
        assert!(!path.exists());
        drop(UnixListener::bind(&path).unwrap());
        assert_eq!(look(&path).unwrap(), Standing::Dead);
        assert!(Socket::bind(&path, None).is_ok(), "no one listens on the file that is there");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "nothing is left beside it");
    }

    #[test]
    fn what_is_no_socket_stays_as_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("precious");
        let link = directory.path().join("link");
        fs::write(&path, "data").unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        for (place, what) in [(&path, "a file"), (&link, "a symbolic link"), (&directory.path().into(), "a directory")]
        {
            for error in [Socket::bind(place, None).err().unwrap(), remove_dead(place).unwrap_err()] {
                let text = error.to_string();
                assert!(text.contains(&format!("the path exists and is {what}; only a socket is replaced")), "{text}");
            }
        }
        assert_eq!(fs::read_to_string(&link).unwrap(), "data");
        // Not even a dead socket behind a link.
        fs::remove_file(&path).unwrap();
        drop(UnixListener::bind(&path).unwrap());
        assert!(remove_dead(&link).is_err());
        assert!(path.exists());
    }

    #[test]
    fn no_directory_is_made_for_a_socket() {
        let directory = tempfile::tempdir().unwrap();
        let text = Socket::bind(&directory.path().join("sub/api.sock"), None).err().unwrap().to_string();
        assert!(text.contains("mkdir") && text.contains("sub"), "{text}");
        assert!(!directory.path().join("sub").exists());
    }

    #[test]
    fn another_file_at_its_place_is_not_removed_at_the_end() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("api.sock");
        let socket = Socket::bind(&path, None).unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, "data").unwrap();
        drop(socket);
        assert_eq!(fs::read_to_string(&path).unwrap(), "data");
    }

    #[test]
    fn groups_are_named() {
        assert_eq!(group_id("root").unwrap(), 0);
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("api.sock");
        let text = Socket::bind(&path, Some("no-such-group")).err().unwrap().to_string();
        assert!(text.contains("group no-such-group: there is no such group; create it"), "{text}");
        let socket = Socket::bind(&path, Some("root")).unwrap();
        assert_eq!(fs::metadata(&socket.path).unwrap().permissions().mode() & 0o777, 0o660);
    }
}

//! The agent's own resources on the machine: its directory, its socket, the metrics' port, the record. Only checks, and
//! changes nothing.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Access, access};
use rustix::net::sockopt::set_socket_reuseaddr;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};

use super::{Config, Place, Problems};
use crate::AgentError;
use crate::api::socket::{self, Standing};
use crate::api::token::Token;
use crate::guardian::RunDir;

/// Options of an agent's start.
#[derive(Clone, Debug, Default)]
pub struct Start {
    /// The socket of the command line.
    pub socket: Option<PathBuf>,
    /// The run directory of the command line.
    pub run_dir: Option<PathBuf>,
    /// The file to record in.
    pub record: Option<PathBuf>,
    /// Nothing starts here: the configuration is checked, by an ordinary user perhaps for an agent of root. Rights that this
    /// user lacks are warnings.
    pub only_checks: bool,
    /// It changes nothing (`--dry-run`, `--shadow`): it has no run directory, and listens only where asked to.
    pub only_looks: bool,
}

impl Start {
    /// Will another user than this one, which is not root, start the agent?
    #[must_use]
    pub fn is_anothers(&self) -> bool {
        self.only_checks && !rustix::process::geteuid().is_root()
    }
}

/// Obstacles to the start of an agent with this configuration. The resources of an agent that runs already count as
/// free.
#[must_use]
pub fn look(config: &Config, start: &Start) -> Problems {
    let mut problems = Problems::default();
    let mut usual = None;
    let mut runs = false;
    let anothers = start.is_anothers();
    if !start.only_looks {
        let directory = RunDir::path_of(start.run_dir.as_deref());
        match RunDir::look(&directory) {
            Ok(held) => runs = held,
            Err(error) if anothers => {
                let what = format!("this user cannot start an agent here, although the file is valid: {error}");
                problems.warning(&Place::file(&directory), what);
            }
            Err(error) => problems.error(&Place::file(&directory), error.to_string()),
        }
        // A directory that is still to be made has room for a socket.
        usual = Some(directory).filter(|directory| directory.exists()).map(|directory| directory.join("api.sock"));
    }
    let place_of = |place: &Option<Place>, otherwise: &str| place.clone().unwrap_or_else(|| Place::file(otherwise));
    if let Some(group) = &config.api.group
        && let Err(error) = socket::look_for_group(group)
    {
        problems.error(&place_of(&config.places.group, "[api]"), error.to_string());
    }
    let configured = config.api.socket.as_ref().filter(|_| !start.only_looks);
    let asked = match (&start.socket, configured) {
        (Some(asked), _) => Some((asked.clone(), Place::file("--socket"))),
        (None, Some(path)) => Some((path.clone(), place_of(&config.places.socket, "[api]"))),
        (None, None) => usual.map(|path| (path.clone(), Place::file(path))),
    };
    let api = asked.as_ref().map(|(path, _)| path.clone());
    if let Some((path, place)) = asked
        && let Err(why) = look_at_socket(&path, runs, anothers)
    {
        problems.error(&place, why);
    }
    if let Some(path) = config.metrics.socket.as_ref().filter(|_| !start.only_looks) {
        let place = place_of(&config.places.metrics_socket, "[metrics]");
        if api.as_ref() == Some(path) {
            problems.error(&place, "the API uses this socket; write another path, such as \"/run/quell/metrics.sock\"");
        } else if let Err(why) = look_at_socket(path, runs, anothers) {
            problems.error(&place, why);
        }
    }
    if let Some(path) = config.metrics.token.as_ref().filter(|_| !start.only_looks)
        && let Err(why) = look_at_token(path, anothers)
    {
        problems.error(&place_of(&config.places.token, "[metrics]"), why);
    }
    if let Some(address) = config.metrics.listen.filter(|_| !start.only_looks)
        && let Err(why) = look_at_port(address, runs || anothers)
    {
        problems.error(&place_of(&config.places.listen, "[metrics]"), why);
    }
    if let Some(record) = &start.record
        && let Err(why) = look_at_file(record)
    {
        problems.error(&Place::file("--record"), why);
    }
    problems
}

fn look_at_socket(path: &Path, runs: bool, anothers: bool) -> Result<(), String> {
    let standing = match socket::look(path) {
        Err(AgentError::File { cause, .. }) if anothers && cause.kind() == ErrorKind::PermissionDenied => return Ok(()),
        other => other.map_err(|error| error.to_string())?,
    };
    match standing {
        Standing::Answered if !runs => {
            Err(format!("another process listens on {}; stop it, or name another socket", path.display()))
        }
        Standing::Answered => Ok(()),
        _ if anothers => Ok(()),
        Standing::Nothing | Standing::Dead => may_write(directory_of(path)),
    }
}

fn look_at_token(path: &Path, anothers: bool) -> Result<(), String> {
    match Token::read(path) {
        Err(AgentError::File { cause, .. }) if anothers && cause.kind() == ErrorKind::PermissionDenied => Ok(()),
        read => read.map(drop).map_err(|error| error.to_string()),
    }
}

fn look_at_port(address: SocketAddr, runs: bool) -> Result<(), String> {
    match try_port(address) {
        Ok(()) => Ok(()),
        Err(_) if runs && is_quell(address) => Ok(()),
        Err(error) => Err(format!("cannot serve metrics on {address}: {error}; choose another port")),
    }
}

/// Binds the port as a server does, but does not listen: several checks may run at once.
fn try_port(address: SocketAddr) -> std::io::Result<()> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    set_socket_reuseaddr(&socket, true)?;
    Ok(bind(&socket, &address)?)
}

/// Are there metrics of an agent? One that asks for a token says whose it is.
fn is_quell(address: SocketAddr) -> bool {
    let patience = Some(Duration::from_secs(2));
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(2))?;
        stream.set_read_timeout(patience)?;
        stream.set_write_timeout(patience)?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: quell\r\nconnection: close\r\n\r\n")?;
        let mut text = Vec::new();
        stream.take(1 << 20).read_to_end(&mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    };
    ask().is_ok_and(|text| text.contains("quell_"))
}

/// Can this file be written, replacing its content?
fn look_at_file(path: &Path) -> Result<(), String> {
    match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => Err(format!("{} is a directory; name a file in it", path.display())),
        Ok(_) => may_write(path),
        Err(_) => may_write(directory_of(path)),
    }
}

fn may_write(path: &Path) -> Result<(), String> {
    access(path, Access::WRITE_OK).map_err(|errno| {
        format!(
            "cannot write {}: {}; name a path that this user may write to",
            path.display(),
            std::io::Error::from(errno)
        )
    })
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::os::unix::net::UnixListener;

    const TEXT: &str =
        "[[policy]]\nname = \"none\"\n[[workload]]\nname = \"a\"\nclass = \"be\"\nmatch = [{ unit = \"a\" }]\n";

    fn said(more: &str, start: &Start) -> String {
        let config = super::super::read_text(Path::new("q.toml"), &format!("{more}\n{TEXT}")).unwrap();
        look(&config, start).to_string()
    }

    #[test]
    fn what_an_agent_could_not_take_is_told_before_it_starts() {
        let scene = tempfile::tempdir().unwrap();
        let at = |name: &str| scene.path().join(name);
        let start = Start { run_dir: Some(at("run")), ..Start::default() };
        assert_eq!(said("", &start), "");
        assert!(!at("run").exists(), "nothing is made");
        std::fs::write(at("file"), "").unwrap();
        let socket = |name: &str| format!("api.socket = '{}'", at(name).display());
        let text = said(&socket("file"), &start);
        assert!(text.starts_with("q.toml:1:14: error: ") && text.contains("the path exists and is a file"), "{text}");
        let text = said(&socket("no/socket"), &start);
        assert!(text.contains("mkdir"), "{text}");
        let listener = UnixListener::bind(at("live")).unwrap();
        assert!(said(&socket("live"), &start).contains("another process listens"));
        drop(listener);
        assert_eq!(said(&socket("live"), &start), "", "it is dead");
        let text = said("api.group = \"no-such-group\"", &start);
        assert!(text.starts_with("q.toml:1:13: error: ") && text.contains("groupadd"), "{text}");
        std::fs::create_dir(at("run")).unwrap();
        let metrics = |name: &str| format!("metrics.socket = '{}'", at(name).display());
        assert_eq!(said(&metrics("run/metrics.sock"), &start), "");
        assert!(said(&metrics("run/api.sock"), &start).contains("the API uses this socket"));
        assert!(said(&metrics("file"), &start).contains("the path exists and is a file"));
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let listen = format!("metrics.listen = \"{}\"", taken.local_addr().unwrap());
        assert!(said(&listen, &start).contains("choose another port"));
        let token = format!("metrics.token = '{}'", at("token").display());
        assert!(said(&token, &start).contains("umask 077"), "{}", said(&token, &start));
        std::fs::write(at("token"), "0123456789abcdef\n").unwrap();
        let mode = |mode| std::fs::set_permissions(at("token"), std::os::unix::fs::PermissionsExt::from_mode(mode));
        mode(0o644).unwrap();
        let text = said(&token, &start);
        assert!(text.starts_with("q.toml:1:17: error: ") && text.contains("chmod 0600"), "{text}");
        mode(0o600).unwrap();
        assert_eq!(said(&token, &start), "");
        let looks = Start { only_looks: true, ..start.clone() };
        assert_eq!(said(&format!("{listen}\n{}", socket("file")), &looks), "", "it listens nowhere");
        let looks = Start { socket: Some(at("file")), record: Some(at("no/record")), ..looks };
        let text = said("", &looks);
        assert!(text.contains("--socket: error: ") && text.contains("--record: error: cannot write"), "{text}");
    }

    #[test]
    fn what_a_running_agent_has_taken_is_free() {
        let scene = tempfile::tempdir().unwrap();
        let run_dir = RunDir::at(scene.path().join("run")).unwrap();
        let start = Start { run_dir: Some(run_dir.path().to_owned()), ..Start::default() };
        let _listener = UnixListener::bind(run_dir.path().join("api.sock")).unwrap();
        assert!(said("", &start).contains("another process listens"));
        let _claim = run_dir.claim("agent").unwrap();
        assert_eq!(said("", &start), "");
    }
}

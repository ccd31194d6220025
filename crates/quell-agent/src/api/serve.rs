//! The socket: who may connect, how many at once, and for how long.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::router::Peer;
use crate::AgentError;

/// Connections of root and of the agent's own user at once.
const WRITERS: usize = 16;
/// Connections of everybody else at once, so that readers cannot keep root out.
const READERS: usize = 32;
/// A connection is closed after this time, whatever it does.
const LONGEST: Duration = Duration::from_secs(15);
/// A request's header must have arrived within this time.
const HEADER: Duration = Duration::from_secs(5);
/// Bytes of a request's header, and of what is buffered for a connection.
const BUFFER: usize = 16 * 1024;

/// The socket file, removed at the end.
pub(super) struct Socket {
    path: PathBuf,
    pub(super) listener: UnixListener,
}

impl Socket {
    /// Listens on a socket file that root and this group can use. The file appears with its final owner and mode: it
    /// is made beside and renamed.
    pub(super) fn bind(path: &Path, group: Option<&str>) -> Result<Socket, AgentError> {
        let fail = |operation, mend: &str| {
            let (path, mend) = (path.to_owned(), mend.to_owned());
            move |cause| AgentError::File { operation, path, cause, mend }
        };
        if UnixStream::connect(path).is_ok() {
            let taken = io::Error::from(io::ErrorKind::AddrInUse);
            return Err(fail("listen on", "another agent answers there: stop it, or give this one another socket")(
                taken,
            ));
        }
        let root = "run the agent as root, or give it a socket in a directory of its user";
        let group =
            group.map(|name| group_id(name).map_err(fail("find the group of", "create the group, or leave it out")));
        let group = group.transpose()?;
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(fail("make the directory of", root))?;
        }
        let beside = path.with_extension(format!("{}.new", std::process::id()));
        let _ = std::fs::remove_file(&beside);
        let listener = UnixListener::bind(&beside).map_err(fail("listen on", root))?;
        let finish = || {
            let mode = if group.is_some() { 0o660 } else { 0o600 };
            if group.is_some() {
                std::os::unix::fs::chown(&beside, None, group)?;
            }
            std::fs::set_permissions(&beside, std::fs::Permissions::from_mode(mode))?;
            listener.set_nonblocking(true)?;
            std::fs::rename(&beside, path)
        };
        finish().map_err(|error| {
            let _ = std::fs::remove_file(&beside);
            fail("set up", root)(error)
        })?;
        Ok(Socket { path: path.to_owned(), listener })
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The number of a group, from /etc/group (group(5)).
fn group_id(name: &str) -> io::Result<u32> {
    let groups = std::fs::read_to_string("/etc/group")?;
    let number = groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok()).flatten()
    });
    number.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("there is no group '{name}'")))
}

/// Listens on this address of the loopback interface.
pub(super) fn bind_metrics(address: SocketAddr) -> Result<std::net::TcpListener, AgentError> {
    let fail = |cause: io::Error, mend: &str| AgentError::File {
        operation: "serve metrics on",
        path: address.to_string().into(),
        cause,
        mend: mend.to_owned(),
    };
    if !address.ip().is_loopback() {
        let refused = io::Error::new(io::ErrorKind::InvalidInput, "not a loopback address");
        return Err(fail(refused, "anybody could read it; use 127.0.0.1 and have a local collector fetch it"));
    }
    let listen = || {
        let listener = std::net::TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    };
    listen().map_err(|error| fail(error, "choose another port"))
}

/// How many connections there may be.
#[derive(Clone)]
struct Seats {
    writers: Arc<Semaphore>,
    readers: Arc<Semaphore>,
}

impl Seats {
    fn new() -> Seats {
        Seats { writers: Arc::new(Semaphore::new(WRITERS)), readers: Arc::new(Semaphore::new(READERS)) }
    }

    /// A seat, or none at once: who finds none is turned away, and the queue of the kernel stays short.
    fn take(&self, peer: Peer) -> Option<OwnedSemaphorePermit> {
        let seats = if peer.may_write { &self.writers } else { &self.readers };
        Arc::clone(seats).try_acquire_owned().ok()
    }
}

/// Answers on the socket for ever.
pub(super) async fn serve(listener: tokio::net::UnixListener, router: Router) {
    let seats = Seats::new();
    let own = rustix::process::geteuid().as_raw();
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                pause_after(&error).await;
                continue;
            }
        };
        let Ok(credentials) = stream.peer_cred() else { continue };
        let peer = Peer { may_write: credentials.uid() == 0 || credentials.uid() == own };
        answer(&seats, stream, peer, &router);
    }
}

/// Answers on the loopback address for ever.
pub(super) async fn serve_metrics(listener: tokio::net::TcpListener, router: Router) {
    let seats = Seats::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => answer(&seats, stream, Peer { may_write: false }, &router),
            Err(error) => pause_after(&error).await,
        }
    }
}

/// Out of file descriptors: they come back when connections end.
async fn pause_after(error: &io::Error) {
    tracing::warn!("a connection to the API failed: {error}");
    tokio::time::sleep(Duration::from_millis(100)).await;
}

/// One request, then the connection ends.
fn answer<S>(seats: &Seats, stream: S, peer: Peer, router: &Router)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Some(seat) = seats.take(peer) else { return };
    let service = TowerToHyperService::new(router.clone().layer(Extension(peer)));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .keep_alive(false)
        .header_read_timeout(HEADER)
        .max_buf_size(BUFFER)
        .serve_connection(TokioIo::new(stream), service);
    tokio::spawn(async move {
        let _ = tokio::time::timeout(LONGEST, connection).await;
        drop(seat);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_live_socket_is_not_taken_over_and_a_dead_one_is() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("sub/api.sock");
        let first = Socket::bind(&path, None).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let text = Socket::bind(&path, None).err().unwrap().to_string();
        assert!(text.contains("another agent"), "{text}");
        std::mem::forget(first.listener.try_clone().unwrap());
        drop(first);
        assert!(!path.exists());
        drop(UnixListener::bind(&path).unwrap());
        assert!(Socket::bind(&path, None).is_ok(), "nobody listens on the file that is there");
    }

    #[test]
    fn groups_are_named() {
        assert_eq!(group_id("root").unwrap(), 0);
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("api.sock");
        let text = Socket::bind(&path, Some("no-such-group")).err().unwrap().to_string();
        assert!(text.contains("'no-such-group'") && text.contains("create the group"), "{text}");
        let socket = Socket::bind(&path, Some("root")).unwrap();
        assert_eq!(std::fs::metadata(&socket.path).unwrap().permissions().mode() & 0o777, 0o660);
    }

    #[test]
    fn metrics_stay_on_the_loopback_interface() {
        assert!(bind_metrics("0.0.0.0:0".parse().unwrap()).unwrap_err().to_string().contains("loopback"));
        assert!(bind_metrics("127.0.0.1:0".parse().unwrap()).is_ok());
    }
}

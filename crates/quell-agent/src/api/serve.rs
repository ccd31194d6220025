//! The listeners, with their bounds on users, connections and time.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::extract::Request;
use axum::{Extension, Router, middleware};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};

use super::lasting::Lasting;
use super::router::Peer;
use super::seats::Seats;
use crate::AgentError;

/// Connections of root and of the agent's own user at once.
const WRITERS: usize = 16;
/// Connections of all other users at once, so that readers cannot keep root out.
const READERS: usize = 32;

/// Seats of one listener.
#[derive(Clone)]
struct Room {
    writers: Seats,
    readers: Seats,
}

impl Room {
    fn new() -> Room {
        Room { writers: Seats::of(WRITERS), readers: Seats::of(READERS) }
    }
}

/// A connection is closed after this time, whatever it does.
const LONGEST: Duration = Duration::from_secs(15);
/// A request's header must have arrived within this time.
const HEADER: Duration = Duration::from_secs(5);
/// Bytes of a request's header, and of a connection's buffer.
const BUFFER: usize = 16 * 1024;

/// Listens on this address, which other machines reach only where a token is asked for.
pub(super) fn bind_metrics(address: SocketAddr, has_token: bool) -> Result<std::net::TcpListener, AgentError> {
    let fail = |cause: io::Error, fix: &str| AgentError::File {
        operation: "serve metrics on",
        path: address.to_string().into(),
        cause,
        fix: fix.to_owned(),
    };
    if !address.ip().is_loopback() && !has_token {
        let refused = io::Error::new(io::ErrorKind::InvalidInput, "not a loopback address");
        return Err(fail(refused, "other machines could read it: give metrics.token, or listen on 127.0.0.1"));
    }
    let listen = || {
        let listener = std::net::TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    };
    listen().map_err(|error| fail(error, "choose another port"))
}

/// Answers on the socket for ever.
pub(super) async fn serve(listener: tokio::net::UnixListener, router: Router) {
    let room = Room::new();
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
        let is = credentials.pid().map(|pid| (credentials.uid(), pid));
        let peer = Peer { may_write: credentials.uid() == 0 || credentials.uid() == own, is };
        answer(&room, stream, peer, &router);
    }
}

/// Answers on the metrics' own socket for ever. Root's connections count as any other's: it has nothing to write there.
pub(super) async fn serve_metrics_socket(listener: tokio::net::UnixListener, router: Router) {
    let room = Room::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => answer(&room, stream, Peer { may_write: false, is: None }, &router),
            Err(error) => pause_after(&error).await,
        }
    }
}

/// Answers on the address for ever.
pub(super) async fn serve_metrics(listener: tokio::net::TcpListener, router: Router) {
    let room = Room::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => answer(&room, stream, Peer { may_write: false, is: None }, &router),
            Err(error) => pause_after(&error).await,
        }
    }
}

/// Out of file descriptors: they come back when connections end.
async fn pause_after(error: &io::Error) {
    tracing::warn!("a connection to the API failed: {error}");
    tokio::time::sleep(Duration::from_millis(100)).await;
}

/// One request, then the connection ends; a lease lasts longer.
fn answer<S>(room: &Room, stream: S, peer: Peer, router: &Router)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let seats = if peer.may_write { &room.writers } else { &room.readers };
    seats.give(|spoke, lasts| {
        let observed = middleware::map_request(move |request: Request| {
            spoke.store(true, Ordering::Relaxed);
            async move { request }
        });
        let lasting = Lasting(lasts);
        let router = router.clone().layer(Extension(peer)).layer(Extension(lasting.clone())).layer(observed);
        let service = TowerToHyperService::new(router);
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .keep_alive(false)
            .header_read_timeout(HEADER)
            .max_buf_size(BUFFER)
            .serve_connection(TokioIo::new(stream), service);
        async move {
            tokio::pin!(connection);
            if tokio::time::timeout(LONGEST, &mut connection).await.is_err() && lasting.is_set() {
                let _ = connection.await;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_without_a_token_stay_on_the_loopback_interface() {
        let bind = |address: &str, has_token| bind_metrics(address.parse().unwrap(), has_token);
        assert!(bind("0.0.0.0:0", false).unwrap_err().to_string().contains("give metrics.token"));
        assert!(bind("[::]:0", false).is_err() && bind("127.0.0.1:0", false).is_ok());
        assert!(bind("0.0.0.0:0", true).is_ok());
    }
}

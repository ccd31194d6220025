//! One page over HTTP, within bounds of time and size.

use std::net::SocketAddr;
use std::time::Duration;

use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// A page has arrived within this time.
pub const PATIENCE: Duration = Duration::from_secs(1);
/// A page is this long at most.
pub const LONGEST: usize = 1024 * 1024;

/// Gets a page.
///
/// # Errors
/// The reason, in words.
pub async fn page(address: SocketAddr, path: &str) -> Result<Bytes, String> {
    match tokio::time::timeout(PATIENCE, exchange(address, path)).await {
        Ok(page) => page,
        Err(_) => Err(format!("no whole answer within {} s", PATIENCE.as_secs())),
    }
}

async fn exchange(address: SocketAddr, path: &str) -> Result<Bytes, String> {
    let words = |error: hyper::Error| error.to_string();
    let stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(words)?;
    let driver = Driver(tokio::spawn(connection));
    let request = Request::get(path)
        .header("host", address.to_string())
        .header("accept", "text/plain;version=0.0.4")
        .body(Empty::<Bytes>::new())
        .map_err(|error| error.to_string())?;
    let response = sender.send_request(request).await.map_err(words)?;
    if response.status() != StatusCode::OK {
        return Err(format!("status {}", response.status()));
    }
    let body = Limited::new(response.into_body(), LONGEST).collect().await;
    let body = body.map_err(|error| format!("no page of at most {LONGEST} bytes: {error}"))?.to_bytes();
    drop(driver);
    Ok(body)
}

/// Ends the connection whatever became of the page.
struct Driver<T>(tokio::task::JoinHandle<T>);

impl<T> Drop for Driver<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

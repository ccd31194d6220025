//! One body over HTTP, to a collector.

use std::net::SocketAddr;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::Request;
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use thiserror::Error;
use tokio::net::TcpStream;

/// A collector has answered within this time.
const PATIENCE: Duration = Duration::from_secs(10);
/// Of a refusal, what goes beyond this is not shown.
const SHOWN: usize = 200;
/// Of an answer, what goes beyond this is not read.
const READ: usize = 16 << 10;

/// Why a body did not arrive.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum NotSent {
    /// There is no connection, or no answer.
    #[error("no answer: {0}")]
    Unreachable(String),
    /// The status is none of success.
    #[error("refused: status {0}")]
    Refused(String),
}

/// Posts JSON to the first of these addresses that can be connected to. Returns the answer's body when it was accepted, empty where
/// that is longer than 16 KiB.
///
/// # Errors
/// [`NotSent`].
pub fn json(addresses: &[SocketAddr], host: &str, path: &str, body: Vec<u8>) -> Result<Vec<u8>, NotSent> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| NotSent::Unreachable(error.to_string()))?;
    runtime.block_on(async {
        match tokio::time::timeout(PATIENCE, exchange(addresses, host, path, body)).await {
            Ok(answer) => answer,
            Err(_) => Err(NotSent::Unreachable(format!("none within {} s", PATIENCE.as_secs()))),
        }
    })
}

/// The first of these that answers, each within its part of half the time.
async fn connect(addresses: &[SocketAddr]) -> Result<TcpStream, String> {
    let mut why = "no address".to_owned();
    for address in addresses {
        let part = PATIENCE / 2 / u32::try_from(addresses.len()).unwrap_or(u32::MAX);
        match tokio::time::timeout(part, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => why = error.to_string(),
            Err(_) => why = format!("none from {address} within {} ms", part.as_millis()),
        }
    }
    Err(why)
}

async fn exchange(addresses: &[SocketAddr], host: &str, path: &str, body: Vec<u8>) -> Result<Vec<u8>, NotSent> {
    let words = |error: hyper::Error| NotSent::Unreachable(error.to_string());
    let stream = connect(addresses).await.map_err(NotSent::Unreachable)?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(words)?;
    let driver = tokio::spawn(connection);
    let request = Request::post(path)
        .header("host", host)
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body)))
        .map_err(|error| NotSent::Unreachable(error.to_string()))?;
    let answer = async {
        let response = sender.send_request(request).await.map_err(words)?;
        let status = response.status();
        let body = Limited::new(response.into_body(), READ).collect().await;
        let body = body.map(|body| body.to_bytes().to_vec()).unwrap_or_default();
        if status.is_success() {
            return Ok(body);
        }
        let text: String = String::from_utf8_lossy(&body).chars().take(SHOWN).collect();
        Err(NotSent::Refused(format!("{status} {}", quell_model::foreign::text(text.trim()))))
    };
    let answer = answer.await;
    driver.abort();
    answer
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    fn nowhere() -> SocketAddr {
        TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
    }

    /// A collector of one request, that answers so; what it was sent.
    fn sent(answer: &'static str) -> (Result<Vec<u8>, NotSent>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let collector = std::thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            let (mut text, mut bytes) = (String::new(), [0; 4096]);
            while !text.ends_with("{\"a\":1}") {
                let length = stream.read(&mut bytes).unwrap();
                text += &String::from_utf8_lossy(&bytes[..length]);
            }
            stream.write_all(answer.as_bytes()).unwrap();
            text
        });
        // The first one refuses connections.
        let addresses = [nowhere(), address];
        (json(&addresses, "collector:4318", "/v1/metrics", b"{\"a\":1}".to_vec()), collector.join().unwrap())
    }

    #[test]
    fn it_is_posted_and_a_refusal_is_an_error_of_one_line() {
        let (answer, text) = sent("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}");
        assert_eq!(answer, Ok(b"{}".to_vec()));
        assert!(text.starts_with("POST /v1/metrics HTTP/1.1\r\nhost: collector:4318\r\n"), "{text}");
        assert!(text.contains("content-type: application/json\r\n"), "{text}");
        let (answer, _) = sent("HTTP/1.1 400 Bad Request\r\ncontent-length: 6\r\n\r\nbad\nit");
        assert_eq!(answer, Err(NotSent::Refused("400 Bad Request bad\\nit".into())));
    }

    #[test]
    fn a_collector_that_is_not_there_is_an_error() {
        let why = json(&[nowhere()], "x", "/", Vec::new()).unwrap_err();
        assert!(matches!(&why, NotSent::Unreachable(why) if why.contains("refused")), "{why}");
    }
}

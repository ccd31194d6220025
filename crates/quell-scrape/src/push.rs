//! One body over HTTP, to a collector.

use std::net::SocketAddr;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::Request;
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// A collector has answered within this time.
const PATIENCE: Duration = Duration::from_secs(10);
/// What an answer says beyond this is not shown.
const SHOWN: usize = 200;

/// Posts JSON. Returns when it was accepted.
///
/// # Errors
/// The reason, in words.
pub fn json(address: SocketAddr, host: &str, path: &str, body: Vec<u8>) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    runtime.block_on(async {
        match tokio::time::timeout(PATIENCE, exchange(address, host, path, body)).await {
            Ok(answer) => answer,
            Err(_) => Err(format!("no answer within {} s", PATIENCE.as_secs())),
        }
    })
}

async fn exchange(address: SocketAddr, host: &str, path: &str, body: Vec<u8>) -> Result<(), String> {
    let words = |error: hyper::Error| error.to_string();
    let stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(words)?;
    let driver = tokio::spawn(connection);
    let request = Request::post(path)
        .header("host", host)
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body)))
        .map_err(|error| error.to_string())?;
    let answer = async {
        let response = sender.send_request(request).await.map_err(words)?;
        if response.status().is_success() {
            return Ok(());
        }
        let status = response.status();
        let body = Limited::new(response.into_body(), SHOWN * 4).collect().await;
        let text = body.map(|body| String::from_utf8_lossy(&body.to_bytes()).chars().take(SHOWN).collect::<String>());
        Err(format!("status {status} {}", quell_model::foreign::text(text.unwrap_or_default().trim())))
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

    /// A collector of one request, that answers so; what it was sent.
    fn sent(answer: &'static str) -> (Result<(), String>, String) {
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
        (json(address, "collector:4318", "/v1/metrics", b"{\"a\":1}".to_vec()), collector.join().unwrap())
    }

    #[test]
    fn it_is_posted_and_a_refusal_is_an_error_of_one_line() {
        let (answer, text) = sent("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}");
        assert_eq!(answer, Ok(()));
        assert!(text.starts_with("POST /v1/metrics HTTP/1.1\r\nhost: collector:4318\r\n"), "{text}");
        assert!(text.contains("content-type: application/json\r\n"), "{text}");
        let (answer, _) = sent("HTTP/1.1 400 Bad Request\r\ncontent-length: 6\r\n\r\nbad\nit");
        assert_eq!(answer, Err("status 400 Bad Request bad\\nit".into()));
    }

    #[test]
    fn a_collector_that_is_not_there_is_an_error() {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        assert!(json(address, "x", "/", Vec::new()).unwrap_err().contains("refused"));
    }
}

//! Answers every GET after some work, on tokio's threads: `tokioserver PORT`.

use std::hash::{DefaultHasher, Hash, Hasher};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let port: u16 = std::env::args().nth(1).and_then(|text| text.parse().ok()).expect("tokioserver PORT");
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(serve(stream));
    }
}

/// Until the other end closes the connection.
async fn serve(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut request = Vec::new();
    loop {
        if stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
        while let Some(end) = request.windows(4).position(|four| four == b"\r\n\r\n") {
            request.drain(..end + 4);
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: 16\r\n\r\n{:016x}", work());
            stream.write_all(answer.as_bytes()).await?;
        }
    }
}

fn work() -> u64 {
    (0..20_000_u64).fold(0, |sum, round| {
        let mut hasher = DefaultHasher::new();
        (sum, round).hash(&mut hasher);
        hasher.finish()
    })
}

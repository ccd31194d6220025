//! One server of memcached's protocol three times: on a work-stealing runtime that cooperates with Quell, on tokio, and with a
//! thread a connection. `server stealing|tokio|threads [ADDRESS [MICROSECONDS OF WORK]]`; it prints its address.

mod io;
mod stealing;
mod store;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;
use std::{env, thread};

use store::Store;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// CLOCK_MONOTONIC, in nanoseconds.
fn now() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn main() -> std::io::Result<()> {
    let mut words = env::args().skip(1);
    let (kind, address) = (words.next().unwrap_or_default(), words.next().unwrap_or("127.0.0.1:0".into()));
    let work = words.next().and_then(|work| work.parse().ok()).unwrap_or(0);
    let store = Arc::new(Store::new(Duration::from_micros(work)));
    let listener = TcpListener::bind(address)?;
    println!("{}", listener.local_addr()?);
    match kind.as_str() {
        "stealing" => on_stealing(listener, store),
        "tokio" => on_tokio(listener, store),
        "threads" => on_threads(listener, store),
        _ => Err(std::io::Error::other("server stealing|tokio|threads [ADDRESS [MICROSECONDS]]")),
    }
}

fn on_stealing(listener: TcpListener, store: Arc<Store>) -> std::io::Result<()> {
    if quell::attach().is_err() {
        eprintln!("{}", quell::words());
    }
    let runtime = stealing::Runtime::new(quell::cpus_most() as usize)?;
    listener.set_nonblocking(true)?;
    // A thread that only accepts: connections go round the workers.
    let mut at = 0;
    loop {
        let mut ready = [rustix::event::PollFd::new(&listener, rustix::event::PollFlags::IN)];
        let _ = rustix::event::poll(&mut ready, None);
        let Ok((stream, _)) = listener.accept() else { continue };
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        at = (at + 1) % runtime.workers();
        let (socket, store) = (io::Socket::new(stream, runtime.poller(at))?, Arc::clone(&store));
        let serve = async move {
            let (mut input, mut output, mut bytes) = (Vec::new(), Vec::new(), [0; 16 << 10]);
            while let Ok(size @ 1..) = socket.read(&mut bytes).await {
                input.extend_from_slice(&bytes[..size]);
                let goes_on = store.answer(&mut input, &mut output);
                if socket.write_all(&output).await.is_err() || goes_on.is_none() {
                    break;
                }
                output.clear();
            }
        };
        runtime.spawn(serve).detach();
    }
}

fn on_tokio(listener: TcpListener, store: Arc<Store>) -> std::io::Result<()> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = quell_tokio::install(&mut builder).enable_io().build()?;
    listener.set_nonblocking(true)?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        loop {
            let Ok((mut stream, _)) = listener.accept().await else { continue };
            stream.set_nodelay(true)?;
            let store = Arc::clone(&store);
            tokio::spawn(quell_tokio::instrument(async move {
                let (mut input, mut output) = (Vec::new(), Vec::new());
                while let Ok(1..) = stream.read_buf(&mut input).await {
                    let goes_on = store.answer(&mut input, &mut output);
                    if stream.write_all(&output).await.is_err() || goes_on.is_none() {
                        break;
                    }
                    output.clear();
                }
            }));
        }
    })
}

fn on_threads(listener: TcpListener, store: Arc<Store>) -> std::io::Result<()> {
    fn serve(mut stream: TcpStream, store: &Store) {
        let (mut input, mut output, mut bytes) = (Vec::new(), Vec::new(), [0; 16 << 10]);
        while let Ok(size @ 1..) = stream.read(&mut bytes) {
            input.extend_from_slice(&bytes[..size]);
            let goes_on = store.answer(&mut input, &mut output);
            if stream.write_all(&output).is_err() || goes_on.is_none() {
                return;
            }
            output.clear();
        }
    }
    for stream in listener.incoming().flatten() {
        stream.set_nodelay(true)?;
        let store = Arc::clone(&store);
        thread::Builder::new().spawn(move || serve(stream, &store))?;
    }
    Ok(())
}

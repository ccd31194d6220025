//! A service of known behaviour, inside the test's process: HTTP with a histogram of its own, or memcached.

use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// What it does, and what it was asked for.
#[derive(Default)]
pub struct Service {
    pub address: String,
    /// How long each answer takes; a histogram's requests count as that slow.
    pub delay_ms: Arc<AtomicU64>,
    /// Pages of metrics are errors.
    pub is_silent: Arc<AtomicBool>,
    /// Lines of memcached's protocol.
    pub asked: Arc<Mutex<Vec<String>>>,
    counts: Arc<[AtomicU64; 3]>,
    streams: Arc<Mutex<Vec<TcpStream>>>,
    has_stopped: Arc<AtomicBool>,
}

/// Counts requests until it is dropped.
pub struct Counting(Arc<AtomicBool>);

impl Drop for Counting {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

impl Service {
    pub fn start() -> Service {
        Service::listen(Service::http)
    }

    pub fn memcached() -> Service {
        Service::listen(Service::text)
    }

    fn listen(answer: fn(&Service, TcpStream) -> std::io::Result<()>) -> Service {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let service = Service { address: listener.local_addr().unwrap().to_string(), ..Service::default() };
        let shared = service.shared();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if shared.has_stopped.load(Relaxed) {
                    return;
                }
                let _ = stream.set_nodelay(true);
                shared.streams.lock().unwrap().push(stream.try_clone().unwrap());
                let service = shared.shared();
                thread::spawn(move || answer(&service, stream));
            }
        });
        service
    }

    /// The same service, for another thread.
    fn shared(&self) -> Service {
        Service {
            address: self.address.clone(),
            delay_ms: Arc::clone(&self.delay_ms),
            is_silent: Arc::clone(&self.is_silent),
            asked: Arc::clone(&self.asked),
            counts: Arc::clone(&self.counts),
            streams: Arc::clone(&self.streams),
            has_stopped: Arc::clone(&self.has_stopped),
        }
    }

    /// No connection any more, and none that is new.
    pub fn stop(&self) {
        self.has_stopped.store(true, Relaxed);
        // The listener ends with this one.
        drop(TcpStream::connect(&self.address));
        while TcpStream::connect(&self.address).is_ok() {
            thread::yield_now();
        }
        self.streams.lock().unwrap().drain(..).for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
    }

    /// Requests that only its histogram knows, a thousand a second or so.
    pub fn counts_up(&self) -> Counting {
        let (service, ends) = (self.shared(), Arc::new(AtomicBool::new(false)));
        let counting = Counting(Arc::clone(&ends));
        thread::spawn(move || {
            while !ends.load(Relaxed) {
                let bucket = if service.delay_ms.load(Relaxed) == 0 { 0 } else { 2 };
                service.counts[bucket].fetch_add(5, Relaxed);
                thread::sleep(Duration::from_millis(5));
            }
        });
        counting
    }

    fn http(&self, stream: TcpStream) -> std::io::Result<()> {
        let mut lines = BufReader::new(stream.try_clone()?).lines();
        let mut out = stream;
        loop {
            let Some(request) = lines.next().transpose()? else { return Ok(()) };
            while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
            if request.starts_with("GET /metrics") {
                let (status, body) =
                    if self.is_silent.load(Relaxed) { ("500 No", String::new()) } else { ("200 OK", self.metrics()) };
                write!(out, "HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len())?;
            } else {
                thread::sleep(Duration::from_millis(self.delay_ms.load(Relaxed)));
                out.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")?;
            }
        }
    }

    fn metrics(&self) -> String {
        let (mut text, mut upto) = (String::new(), 0);
        for (bound, count) in ["0.001", "0.01", "0.1"].iter().zip(self.counts.iter()) {
            upto += count.load(Relaxed);
            text += &format!("took_seconds_bucket{{le=\"{bound}\"}} {upto}\n");
        }
        text + &format!("took_seconds_bucket{{le=\"+Inf\"}} {upto}\n")
    }

    fn text(&self, stream: TcpStream) -> std::io::Result<()> {
        let mut out = stream.try_clone()?;
        for line in BufReader::new(stream).lines() {
            let line = line?;
            out.write_all(if line == "version" { b"VERSION 1.6.0\r\n".as_slice() } else { b"END\r\n" })?;
            self.asked.lock().unwrap().push(line);
        }
        Ok(())
    }
}

//! The connection: what goes out, calls that wait for their answers, and the thread that reads.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use prost::Message;

use crate::dispatch::{INVALID, RESOURCE_EXHAUSTED, status};
use crate::ended::Ended;
use crate::error::{Error, is_gone};
use crate::message::service::{Request, Response};
use crate::queue::{Arrived, Queue};
use crate::wire::frame::{PLUGIN, REQUEST, RESPONSE, RUNTIME};
use crate::wire::{Decoder, Frame};

/// The runtime's service.
const SERVICE: &str = "nri.pkg.api.v1alpha1.Runtime";
/// Longest time for which a write may block.
const WRITE_LIMIT: Duration = Duration::from_secs(2);

/// The connection, shared by the thread that reads, the one that handles, and those that call the runtime.
#[derive(Debug)]
pub struct Link {
    socket: UnixStream,
    /// Held while a frame is written: the number of the next call, odd and rising on the wire.
    next: Mutex<u32>,
    /// By stream; None once the connection has ended.
    calls: Mutex<Option<BTreeMap<u32, SyncSender<Response>>>>,
    pub queue: Queue,
    handler: OnceLock<ThreadId>,
    is_closed_here: AtomicBool,
}

impl Link {
    pub fn new(socket: UnixStream) -> io::Result<Link> {
        socket.set_nonblocking(false)?;
        socket.set_read_timeout(None)?;
        socket.set_write_timeout(Some(WRITE_LIMIT))?;
        Ok(Link {
            socket,
            next: Mutex::new(1),
            calls: Mutex::new(Some(BTreeMap::new())),
            queue: Queue::default(),
            handler: OnceLock::new(),
            is_closed_here: AtomicBool::new(false),
        })
    }

    pub fn socket(&self) -> &UnixStream {
        &self.socket
    }

    /// From now on this thread handles requests.
    pub fn handle_here(&self) {
        let _ = self.handler.set(thread::current().id());
    }

    /// Closes the connection; idempotent.
    pub fn close(&self) {
        self.is_closed_here.store(true, Ordering::Release);
        self.shut();
    }

    fn shut(&self) {
        // It may be closed already, by either side.
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    /// Calls the runtime.
    pub fn call<Q: Message, A: Message + Default>(
        &self,
        method: &'static str,
        request: &Q,
        limit: Duration,
    ) -> Result<A, Error> {
        if self.handler.get() == Some(&thread::current().id()) && lock(&self.calls).is_some() {
            return Err(Error::WithinRequest { method });
        }
        let timeout_nano = i64::try_from(limit.as_nanos()).unwrap_or(i64::MAX);
        let payload = request.encode_to_vec();
        let body = Request { service: SERVICE.into(), method: method.into(), payload, timeout_nano }.encode_to_vec();
        let (sender, answer) = sync_channel(1);
        let stream = self.send_call(method, body, sender)?;
        let answer = match answer.recv_timeout(limit) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout) => {
                lock(&self.calls).as_mut().map(|calls| calls.remove(&stream));
                return Err(Error::Late { method, limit });
            }
            Err(RecvTimeoutError::Disconnected) => return Err(Error::Gone { method }),
        };
        let refused = |code, message| Error::Refused { method, code, message };
        match answer.status.filter(|status| status.code != 0) {
            Some(status) => Err(refused(status.code, status.message)),
            None => A::decode(&*answer.payload).map_err(|error| refused(INVALID, error.to_string())),
        }
    }

    fn send_call(&self, method: &'static str, body: Vec<u8>, sender: SyncSender<Response>) -> Result<u32, Error> {
        let mut next = lock(&self.next);
        let stream = *next;
        let after = stream.checked_add(2).ok_or(Error::Gone { method })?;
        let frame = Frame { connection: RUNTIME, stream, kind: REQUEST, flags: 0, body };
        let bytes = frame.encode().map_err(|source| Error::TooLong { method, source })?;
        lock(&self.calls).as_mut().ok_or(Error::Gone { method })?.insert(stream, sender);
        *next = after;
        self.write(&bytes).map_err(|source| match is_gone(&source) {
            true => Error::Gone { method },
            false => Error::Socket { operation: "write to", source },
        })?;
        Ok(stream)
    }

    /// Answers a request.
    pub fn answer(&self, stream: u32, response: &Response) -> io::Result<()> {
        let frame = |body| Frame { connection: PLUGIN, stream, kind: RESPONSE, flags: 0, body };
        let bytes = frame(response.encode_to_vec()).encode().or_else(|long| {
            let status = Some(status(RESOURCE_EXHAUSTED, format!("the plug-in's answer is too long: {long}")));
            frame(Response { status, payload: Vec::new() }.encode_to_vec()).encode()
        });
        let _next = lock(&self.next);
        self.write(&bytes.map_err(io::Error::other)?)
    }

    /// Writes with `next` locked. A frame of which a part is written cannot be taken back: then the connection ends.
    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        (&self.socket).write_all(bytes).inspect_err(|_| self.shut())
    }

    /// Reads until the connection ends, and ends what waits for it.
    pub fn read(&self) {
        let why = self.read_on();
        self.shut();
        *lock(&self.calls) = None;
        self.queue.end(why);
    }

    fn read_on(&self) -> Result<Ended, Error> {
        let (mut decoder, mut buffer) = (Decoder::default(), vec![0; 64 << 10]);
        loop {
            let length = match (&self.socket).read(&mut buffer) {
                Ok(0) => return Ok(self.end()),
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if is_gone(&error) => return Ok(self.end()),
                Err(source) => return Err(Error::Socket { operation: "read from", source }),
            };
            let mut bytes = &buffer[..length];
            while let Some(frame) = decoder.next(&mut bytes)? {
                self.arrive(frame)?;
            }
        }
    }

    fn end(&self) -> Ended {
        if self.is_closed_here.load(Ordering::Acquire) { Ended::Closed } else { Ended::Runtime }
    }

    fn arrive(&self, frame: Frame) -> Result<(), Error> {
        match (frame.connection, frame.kind) {
            (PLUGIN, REQUEST) => {
                let request = Request::decode(&*frame.body).map_err(|error| status(INVALID, error.to_string()));
                self.queue.put(Arrived { stream: frame.stream, at: Instant::now(), request })
            }
            (RUNTIME, RESPONSE) => {
                let call = lock(&self.calls).as_mut().and_then(|calls| calls.remove(&frame.stream));
                // Without a call it was given up, or never made.
                if let (Some(call), Ok(response)) = (call, Response::decode(&*frame.body)) {
                    let _ = call.try_send(response);
                }
                Ok(())
            }
            // Data of streams, of which NRI has none, and kinds to come.
            _ => Ok(()),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! A connected plug-in.

use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use std::{env, io, thread};

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use crate::dispatch::{Dispatch, Waited, is_void_when_late, late};
use crate::ended::Ended;
use crate::error::{Error, is_gone};
use crate::link::Link;
use crate::message::FailurePolicy;
use crate::message::service::{Empty, RegisterPlugin, Response};
use crate::plugin::Plugin;
use crate::queue::Arrived;
use crate::registration::Registration;
use crate::runtime::Runtime;

/// Longest time until a runtime accepts the connection, and until it answers the registration.
const REGISTRATION_LIMIT: Duration = Duration::from_secs(5);
/// Set by a runtime that starts plug-ins.
const SOCKET: &str = "NRI_PLUGIN_SOCKET";
const NAME: &str = "NRI_PLUGIN_NAME";
const INDEX: &str = "NRI_PLUGIN_IDX";

/// A plug-in that is registered with a runtime. Dropping it closes the connection.
#[derive(Debug)]
pub struct Stub {
    link: Arc<Link>,
    reader: Option<JoinHandle<()>>,
    policy: FailurePolicy,
}

impl Stub {
    /// Connects to the socket at this path and registers.
    pub fn connect(path: impl AsRef<Path>, registration: Registration) -> Result<Stub, Error> {
        let path = path.as_ref();
        let stream = dial(path).map_err(|source| Error::Connect { path: path.into(), source })?;
        Stub::from_stream(stream, registration)
    }

    /// Registers over a connection that is there already.
    pub fn from_stream(stream: UnixStream, registration: Registration) -> Result<Stub, Error> {
        let set_up = |source| Error::Socket { operation: "set up", source };
        let link = Arc::new(Link::new(stream).map_err(set_up)?);
        let reading = Arc::clone(&link);
        let reader = thread::Builder::new().name("nri".into()).spawn(move || reading.read()).map_err(set_up)?;
        let Registration { name, index, failure_policy: policy } = registration;
        let stub = Stub { link, reader: Some(reader), policy };
        let register = RegisterPlugin { name, index, nri_version: crate::NRI_VERSION.into() };
        let _: Empty = stub.link.call("RegisterPlugin", &register, REGISTRATION_LIMIT)?;
        Ok(stub)
    }

    /// Registers over the connection that a runtime made when it started this program as a plug-in: `NRI_PLUGIN_SOCKET` in the environment is
    /// its descriptor, `NRI_PLUGIN_NAME` and `NRI_PLUGIN_IDX` are name and index. `None`: no runtime started it. A program has one such
    /// connection: the second call fails.
    pub fn from_environment(policy: FailurePolicy) -> Result<Option<Stub>, Error> {
        let Some(value) = env::var_os(SOCKET) else { return Ok(None) };
        let value = value.to_string_lossy().into_owned();
        let wrong = |reason: &str| Error::Environment { variable: SOCKET, value: value.clone(), reason: reason.into() };
        let descriptor: RawFd = value.parse().map_err(|_| wrong("no number"))?;
        let word = |variable| env::var(variable).unwrap_or_default();
        let registration = Registration::new(word(NAME), word(INDEX))?.failure_policy(policy);
        let stream = inherited(descriptor).map_err(wrong)?;
        Stub::from_stream(stream, registration).map(Some)
    }

    /// The runtime at the other end.
    pub fn runtime(&self) -> Runtime {
        Runtime::new(Arc::clone(&self.link))
    }

    /// Hands the runtime's requests to the plug-in, one by one, until the connection ends.
    pub fn run<P: Plugin + ?Sized>(self, plugin: &mut P) -> Result<Ended, Error> {
        self.link.handle_here();
        let mut dispatch = Dispatch::new(self.policy);
        loop {
            let Arrived { stream, at, request } = match self.link.queue.take() {
                Ok(arrived) => arrived,
                Err(why) => return why,
            };
            let mut report = None;
            let answer = request.and_then(|request| {
                let nanos = u64::try_from(request.timeout_nano).ok().filter(|nanos| *nanos > 0);
                let waited = || Waited { since: at.elapsed(), allowed: nanos.map(Duration::from_nanos) };
                let before = waited();
                let answer = dispatch.answer(plugin, &request, before);
                let was_handled = !(before.is_late() && is_void_when_late(&request.method));
                report = late(&request, if was_handled { waited() } else { before }, was_handled);
                answer
            });
            let response = match answer {
                Ok(payload) => Response { status: None, payload },
                Err(status) => Response { status: Some(status), payload: Vec::new() },
            };
            match self.link.answer(stream, &response) {
                Ok(()) => {}
                // The reading thread says how it ended.
                Err(error) if is_gone(&error) => {}
                Err(source) => return Err(Error::Socket { operation: "answer over", source }),
            }
            if let Some(report) = report {
                plugin.late(report);
            }
        }
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        self.link.close();
        if let Some(reader) = self.reader.take() {
            // It has nothing to say beyond what it left in the queue.
            let _ = reader.join();
        }
    }
}

/// Connects within the time that registration may take: a listener that accepts nothing would block for ever.
fn dial(path: &Path) -> io::Result<UnixStream> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    set_socket_timeout(&socket, Timeout::Send, Some(REGISTRATION_LIMIT))?;
    connect(&socket, &SocketAddrUnix::new(path)?).map_err(|error| match error {
        rustix::io::Errno::AGAIN => io::Error::new(io::ErrorKind::TimedOut, "its listener accepts no connection"),
        other => other.into(),
    })?;
    Ok(socket.into())
}

/// The socket that this descriptor is: taken once, and not passed on to programs that this one starts.
fn inherited(descriptor: RawFd) -> Result<UnixStream, &'static str> {
    static IS_TAKEN: AtomicBool = AtomicBool::new(false);
    if descriptor < 3 {
        return Err("that is standard input or output");
    }
    if !is_socket(descriptor) {
        return Err("that descriptor is no open socket");
    }
    if IS_TAKEN.swap(true, Ordering::AcqRel) {
        return Err("the connection is in use already");
    }
    // SAFETY: it is an open socket, the environment says that it was opened for this plug-in, and it is taken once.
    let socket = unsafe { OwnedFd::from_raw_fd(descriptor) };
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC).map_err(|_| "its flags cannot be set")?;
    Ok(socket.into())
}

/// Is this an open descriptor of a socket? Read from /proc, since it is not this program's yet.
fn is_socket(descriptor: RawFd) -> bool {
    std::fs::read_link(format!("/proc/self/fd/{descriptor}"))
        .is_ok_and(|target| target.to_string_lossy().starts_with("socket:"))
}

#[cfg(test)]
#[path = "stub_tests.rs"]
mod tests;

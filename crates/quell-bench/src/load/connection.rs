//! One connection: bytes out, bytes in, and the numbers of its requests that are due, sent and answered.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use super::protocol::{Answer, Parser, Protocol, Requests};
use super::schedule::Slot;
use super::spec::Target;
use crate::{Error, Result};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A stream socket of either family, and its peer: a socket that was reset no longer knows it.
#[derive(Debug)]
enum Stream {
    Tcp(TcpStream, SocketAddr),
    Unix(UnixStream, PathBuf),
}

/// Result of one read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// A piece of the stream.
    Bytes,
    /// Nothing yet; on a blocking socket: nothing for a long time.
    Nothing,
    /// The server closed the connection.
    End,
}

/// A connection to the server. Its requests are numbered from 0; the counters give its progress.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: Stream,
    protocol: Protocol,
    parser: Parser,
    out: Vec<u8>,
    out_done: usize,
    /// Requests whose time has come.
    pub due: usize,
    /// Requests written, at least into `out`.
    pub encoded: usize,
    /// Requests answered.
    pub answered: usize,
    /// Requests answered when the socket was connected.
    answered_before: usize,
    /// Does the connection still work?
    pub open: bool,
    /// Is the kernel's socket buffer full?
    pub blocked: bool,
}

impl Connection {
    /// Connects; the socket blocks until [`Connection::set_nonblocking`].
    pub fn open(target: &Target, protocol: Protocol, buffer_bytes: usize) -> Result<Self> {
        let stream =
            Stream::connect(target).map_err(|reason| Error::Connect { address: target.to_string(), reason })?;
        Ok(Self {
            stream,
            protocol,
            parser: Parser::new(protocol),
            out: Vec::with_capacity(buffer_bytes),
            out_done: 0,
            due: 0,
            encoded: 0,
            answered: 0,
            answered_before: 0,
            open: true,
            blocked: false,
        })
    }

    pub fn set_nonblocking(&self) -> io::Result<()> {
        self.stream.set_nonblocking()
    }

    /// Connects again where the server ended the connection in between, as HTTP servers do after some number of
    /// requests. Unanswered requests are sent again. False where that would be of no use.
    pub fn renew(&mut self) -> bool {
        if self.protocol != Protocol::Http || self.answered == self.answered_before {
            return false;
        }
        if self.stream.renew().is_err() {
            return false;
        }
        self.parser.reset();
        self.out.clear();
        (self.out_done, self.blocked) = (0, false);
        (self.encoded, self.answered_before) = (self.answered, self.answered);
        true
    }

    /// May the next request be sent?
    pub fn may_encode(&self) -> bool {
        self.encoded < self.due && self.encoded - self.answered < self.protocol.under_way()
    }

    /// Does another request fit into the buffer without growing it?
    pub fn has_room(&self, request_bytes: usize) -> bool {
        self.out.capacity() - self.out.len() >= request_bytes
    }

    /// Puts a request into the buffer.
    pub fn encode(&mut self, slot: Slot, requests: &Requests) {
        requests.encode(slot, &mut self.out);
        self.encoded += 1;
    }

    /// Puts something else into the buffer.
    pub fn put(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.out);
    }

    /// Reads once, as it comes; nothing more where the server closed the connection.
    pub fn read_raw(&mut self, answer: &mut Vec<u8>) -> io::Result<()> {
        let mut piece = [0; 4096];
        match self.stream.read(&mut piece) {
            Ok(bytes) => {
                answer.extend_from_slice(&piece[..bytes]);
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                Err(io::Error::new(ErrorKind::TimedOut, "it says nothing"))
            }
            Err(error) => Err(error),
        }
    }

    /// Writes the buffer, as much as the socket takes.
    pub fn flush(&mut self) -> io::Result<()> {
        self.blocked = false;
        while self.out_done < self.out.len() {
            match self.stream.write(&self.out[self.out_done..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => self.out_done += written,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.blocked = true;
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.out.clear();
        self.out_done = 0;
        Ok(())
    }

    /// Reads once.
    pub fn receive(&mut self, buffer: &mut [u8], answered: impl FnMut(Answer)) -> io::Result<Received> {
        match self.stream.read(buffer) {
            Ok(0) => Ok(Received::End),
            Ok(bytes) => {
                self.parser
                    .feed(&buffer[..bytes], answered)
                    .map_err(|malformed| io::Error::new(ErrorKind::InvalidData, malformed))?;
                Ok(Received::Bytes)
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                Ok(Received::Nothing)
            }
            Err(error) => Err(error),
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.stream {
            Stream::Tcp(stream, _) => stream.as_fd(),
            Stream::Unix(stream, _) => stream.as_fd(),
        }
    }
}

impl Stream {
    fn connect(target: &Target) -> io::Result<Self> {
        let stream = match target {
            Target::Unix(path) => Self::Unix(UnixStream::connect(path)?, path.clone()),
            Target::Tcp(address) => {
                let (stream, peer) = connect_tcp(address)?;
                stream.set_nodelay(true)?;
                Self::Tcp(stream, peer)
            }
        };
        // Outside the generator's loop the socket blocks: a server that says nothing must not hang the run.
        match &stream {
            Self::Tcp(stream, _) => stream.set_read_timeout(Some(CONNECT_TIMEOUT))?,
            Self::Unix(stream, _) => stream.set_read_timeout(Some(CONNECT_TIMEOUT))?,
        }
        Ok(stream)
    }

    /// Connects to the same peer again, for the generator's loop.
    fn renew(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(stream, peer) => {
                *stream = TcpStream::connect(*peer)?;
                stream.set_nodelay(true)?;
            }
            Self::Unix(stream, path) => *stream = UnixStream::connect(path)?,
        }
        self.set_nonblocking()
    }

    fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream, _) => stream.set_nonblocking(true),
            Self::Unix(stream, _) => stream.set_nonblocking(true),
        }
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream, _) => stream.read(buffer),
            Self::Unix(stream, _) => stream.read(buffer),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream, _) => stream.write(bytes),
            Self::Unix(stream, _) => stream.write(bytes),
        }
    }
}

fn connect_tcp(address: &str) -> io::Result<(TcpStream, SocketAddr)> {
    let mut failure = io::Error::new(ErrorKind::NotFound, "the host has no address");
    for resolved in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&resolved, CONNECT_TIMEOUT) {
            Ok(stream) => return Ok((stream, resolved)),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

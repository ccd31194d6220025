//! HTTP/1.1: `GET` of one path, and answers with a length or in chunks.

use httparse::{EMPTY_HEADER, Response, Status};

use super::super::spec::{LoadSpec, Target};
use super::lines::Lines;
use super::{Answer, Greeting, Malformed, first_line};

/// The longest head of an answer that is understood.
const HEAD_BYTES: usize = 16 * 1024;
/// Header fields of an answer at most.
const MOST_FIELDS: usize = 64;

/// The request.
pub(super) fn request(spec: &LoadSpec) -> Vec<u8> {
    let host = match &spec.target {
        Target::Tcp(address) => address,
        Target::Unix(_) => "localhost",
    };
    let (path, version) = (&spec.path, env!("CARGO_PKG_VERSION"));
    format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: quell-load/{version}\r\nAccept: */*\r\n\r\n")
        .into_bytes()
}

/// Facts of an answer's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    status: u16,
    body: Body,
    /// Bytes in the head.
    bytes: usize,
}

/// Length of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Body {
    Bytes(u64),
    Chunks,
}

/// A complete head at the beginning of these bytes; none where it is not complete.
fn head(bytes: &[u8]) -> Result<Option<Head>, Malformed> {
    let mut fields = [EMPTY_HEADER; MOST_FIELDS];
    let mut response = Response::new(&mut fields);
    let Status::Complete(length) = response.parse(bytes).map_err(|_| Malformed)? else {
        return Ok(None);
    };
    let status = response.code.ok_or(Malformed)?;
    let field = |name: &str| {
        let mut named = response.headers.iter().filter(|field| field.name.eq_ignore_ascii_case(name));
        named.next().map(|field| field.value.trim_ascii())
    };
    let chunked = field("transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case(b"chunked"));
    let body = match field("content-length") {
        _ if (100..200).contains(&status) || matches!(status, 204 | 304) => Body::Bytes(0),
        _ if chunked => Body::Chunks,
        Some(digits) => Body::Bytes(super::number(digits).map(u64::from).ok_or(Malformed)?),
        // Its body would end with the connection.
        None => return Err(Malformed),
    };
    Ok(Some(Head { status, body, bytes: length }))
}

pub(super) fn greeting(answer: &[u8]) -> Greeting {
    if !answer.is_empty() && !b"HTTP/1.".starts_with(&answer[..answer.len().min(7)]) {
        return Greeting::Foreign(format!("answers {} to an HTTP request", first_line(answer)));
    }
    let mut fields = [EMPTY_HEADER; MOST_FIELDS];
    let mut response = Response::new(&mut fields);
    match response.parse(answer) {
        Ok(Status::Partial) => return Greeting::Unfinished,
        Ok(Status::Complete(_)) => {}
        Err(error) => return Greeting::Foreign(format!("answers {}: {error}", first_line(answer))),
    }
    let status = response.code.unwrap_or(0);
    if status >= 400 {
        return Greeting::Foreign(format!("answers {} to this path", first_line(answer)));
    }
    if head(answer).is_err() {
        return Greeting::Foreign("answers without a length: its connections cannot be kept".into());
    }
    let named = response.headers.iter().find(|field| field.name.eq_ignore_ascii_case("server"));
    let server = named.map_or("an HTTP server".into(), |field| String::from_utf8_lossy(field.value).into_owned());
    Greeting::Welcome(server)
}

/// Position of the stream in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Head,
    /// This many bytes of the body are to come.
    Body(u64),
    ChunkSize,
    /// This many bytes of the chunk, with its end of line.
    Chunk(u64),
    /// Fields behind the last chunk.
    Trailer,
}

/// Reads answers from a stream of pieces.
#[derive(Clone, Debug)]
pub(crate) struct Parser {
    at: At,
    status: u16,
    /// Bytes in the body so far.
    bytes: u64,
    /// The beginning of a head that is not complete.
    head: Vec<u8>,
    lines: Lines,
}

impl Default for Parser {
    fn default() -> Self {
        Self { at: At::Head, status: 0, bytes: 0, head: Vec::with_capacity(HEAD_BYTES), lines: Lines::default() }
    }
}

impl Parser {
    /// Takes the next piece of the stream and calls `answered` for every answer that it completes.
    pub fn feed(&mut self, mut piece: &[u8], mut answered: impl FnMut(Answer)) -> Result<(), Malformed> {
        while !piece.is_empty() {
            match self.at {
                At::Head => self.read_head(&mut piece)?,
                At::Body(left) => self.at = At::Body(left - skip(&mut piece, left)),
                At::Chunk(left) => match left - skip(&mut piece, left) {
                    0 => self.at = At::ChunkSize,
                    left => self.at = At::Chunk(left),
                },
                At::ChunkSize => {
                    let Some(line) = self.lines.next(&mut piece)? else { return Ok(()) };
                    match chunk_size(line)? {
                        0 => self.at = At::Trailer,
                        size => {
                            self.bytes = self.bytes.saturating_add(size);
                            self.at = At::Chunk(size.checked_add(2).ok_or(Malformed)?);
                        }
                    }
                }
                At::Trailer => {
                    let Some(line) = self.lines.next(&mut piece)? else { return Ok(()) };
                    if line.is_empty() {
                        self.at = At::Body(0);
                    }
                }
            }
            if self.at == At::Body(0) {
                self.at = At::Head;
                // 100 Continue and the like: the answer itself is to come.
                if self.status >= 200 {
                    answered(match self.status {
                        400.. => Answer::Error,
                        _ => Answer::Hit { bytes: u32::try_from(self.bytes).unwrap_or(u32::MAX) },
                    });
                }
            }
        }
        Ok(())
    }

    /// Begins anew, with the memory that is there.
    pub fn reset(&mut self) {
        self.head.clear();
        (self.at, self.lines) = (At::Head, Lines::default());
    }

    fn read_head(&mut self, piece: &mut &[u8]) -> Result<(), Malformed> {
        let kept = self.head.len();
        let found = if kept == 0 {
            head(piece)?
        } else {
            let more = piece.len().min(HEAD_BYTES - kept);
            self.head.extend_from_slice(&piece[..more]);
            head(&self.head)?
        };
        let Some(head) = found else {
            if kept == 0 {
                self.head.extend_from_slice(piece.get(..piece.len().min(HEAD_BYTES)).unwrap_or_default());
            }
            *piece = &[];
            return if self.head.len() == HEAD_BYTES { Err(Malformed) } else { Ok(()) };
        };
        *piece = &piece[head.bytes - kept..];
        self.head.clear();
        self.status = head.status;
        (self.at, self.bytes) = match head.body {
            Body::Bytes(bytes) => (At::Body(bytes), bytes),
            Body::Chunks => (At::ChunkSize, 0),
        };
        Ok(())
    }
}

/// Takes up to `most` bytes off the piece; returns their number.
fn skip(piece: &mut &[u8], most: u64) -> u64 {
    let skipped = most.min(piece.len() as u64);
    *piece = &piece[skipped as usize..];
    skipped
}

/// The size in a chunk's first line, which may have an extension.
fn chunk_size(line: &[u8]) -> Result<u64, Malformed> {
    let digits = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    let text = std::str::from_utf8(digits).map_err(|_| Malformed)?;
    if text.starts_with('+') {
        return Err(Malformed);
    }
    u64::from_str_radix(text, 16).map_err(|_| Malformed)
}

//! The protocols that the load generator speaks: requests written into a caller's buffer, and parsers for answers that may be cut at
//! any byte. Neither allocates.

mod http;
mod lines;
pub mod memcached;
mod redis;

use serde::{Deserialize, Serialize};

use super::schedule::{Operation, Slot};
use super::spec::LoadSpec;

/// Length of every key: `quell` and ten digits.
pub const KEY_BYTES: usize = 15;

/// Protocol of the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// The memcached text protocol: `get` and `set`.
    #[default]
    Memcached,
    /// RESP, Redis's protocol: `GET` and `SET`.
    Redis,
    /// The same with a hash of one field under each key: `HGET` and `HSET`.
    #[serde(rename = "redis-hash")]
    RedisHash,
    /// HTTP/1.1: `GET` of one path over connections that are kept.
    Http,
}

impl Protocol {
    /// Its name on the command line and in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Memcached => "memcached",
            Self::Redis => "redis",
            Self::RedisHash => "redis-hash",
            Self::Http => "http",
        }
    }

    /// It in words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Memcached => "the memcached text protocol",
            Self::Redis | Self::RedisHash => "RESP, Redis's protocol",
            Self::Http => "HTTP/1.1",
        }
    }

    /// Usual port of such servers.
    #[must_use]
    pub fn usual_port(self) -> u16 {
        match self {
            Self::Memcached => 11211,
            Self::Redis | Self::RedisHash => 6379,
            Self::Http => 80,
        }
    }

    /// Requests that may be under way on one connection. HTTP servers answer one after the other, and few of them
    /// accept the next one before; requests that become due meanwhile wait, and their latency counts from then.
    pub(crate) fn under_way(self) -> usize {
        match self {
            Self::Memcached | Self::Redis | Self::RedisHash => usize::MAX,
            Self::Http => 1,
        }
    }
}

/// Writes requests.
#[derive(Clone, Debug)]
pub struct Requests {
    protocol: Protocol,
    value: Vec<u8>,
    /// HTTP's only request.
    get: Vec<u8>,
}

impl Requests {
    /// Those of a (checked) spec.
    #[must_use]
    pub fn new(spec: &LoadSpec) -> Self {
        let get = match spec.protocol {
            Protocol::Http => http::request(spec),
            Protocol::Memcached | Protocol::Redis | Protocol::RedisHash => Vec::new(),
        };
        Self { protocol: spec.protocol, value: vec![b'q'; spec.value_bytes as usize], get }
    }

    /// Upper bound of one request, bytes.
    #[must_use]
    pub fn longest(&self) -> usize {
        match self.protocol {
            // Words, numbers and ends of lines take less than 64 bytes.
            Protocol::Memcached | Protocol::Redis | Protocol::RedisHash => KEY_BYTES + 64 + self.value.len(),
            Protocol::Http => self.get.len(),
        }
    }

    /// Appends a request. The buffer must have [`Requests::longest`] of capacity left, then nothing is allocated.
    pub fn encode(&self, slot: Slot, out: &mut Vec<u8>) {
        match (self.protocol, slot.operation()) {
            (Protocol::Memcached, Operation::Get) => memcached::get(slot.key(), out),
            (Protocol::Memcached, Operation::Set) => memcached::set(slot.key(), &self.value, out),
            (Protocol::Redis, Operation::Get) => redis::get(slot.key(), out),
            (Protocol::Redis, Operation::Set) => redis::set(slot.key(), &self.value, out),
            (Protocol::RedisHash, Operation::Get) => redis::hget(slot.key(), out),
            (Protocol::RedisHash, Operation::Set) => redis::hset(slot.key(), &self.value, out),
            (Protocol::Http, _) => out.extend_from_slice(&self.get),
        }
    }

    /// Appends a request that deletes a key.
    pub(crate) fn encode_delete(&self, key: u32, out: &mut Vec<u8>) {
        match self.protocol {
            Protocol::Memcached => memcached::delete(key, out),
            Protocol::Redis | Protocol::RedisHash => redis::delete(key, out),
            Protocol::Http => {}
        }
    }

    /// Appends the question that every server of the protocol answers and that changes nothing.
    pub(crate) fn encode_greeting(&self, out: &mut Vec<u8>) {
        match self.protocol {
            Protocol::Memcached => out.extend_from_slice(b"version\r\n"),
            Protocol::Redis | Protocol::RedisHash => out.extend_from_slice(b"*2\r\n$4\r\nINFO\r\n$6\r\nserver\r\n"),
            Protocol::Http => out.extend_from_slice(&self.get),
        }
    }
}

/// Result of the greeting, from the bytes so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Greeting {
    /// More has to come.
    Unfinished,
    /// It is such a server; its name and version.
    Welcome(String),
    /// It is another one, or it refuses; its answer, in words.
    Foreign(String),
}

impl Protocol {
    /// Reads the answer to [`Requests::encode_greeting`].
    pub(crate) fn greeting(self, answer: &[u8]) -> Greeting {
        match self {
            Self::Memcached => memcached::greeting(answer),
            Self::Redis | Self::RedisHash => redis::greeting(answer),
            Self::Http => http::greeting(answer),
        }
    }

    /// The protocol that an answer looks like.
    pub(crate) fn of_answer(answer: &[u8]) -> Option<Self> {
        let begins = |words: &[&[u8]]| words.iter().any(|word| answer.starts_with(word));
        if begins(&[b"HTTP/"]) {
            Some(Self::Http)
        } else if begins(&[b"-ERR", b"-NOAUTH", b"-DENIED", b"-NOPERM", b"$", b"+OK"]) {
            Some(Self::Redis)
        } else if begins(&[b"ERROR\r\n", b"CLIENT_ERROR", b"SERVER_ERROR", b"VERSION "]) {
            Some(Self::Memcached)
        } else {
            None
        }
    }
}

/// One complete answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A `get` that found its key, with the value's length; a good HTTP answer, with the body's.
    Hit {
        /// Bytes in the value.
        bytes: u32,
    },
    /// A `get` that found nothing.
    Miss,
    /// A `set` that was stored.
    Stored,
    /// A `set` that was refused (`NOT_STORED`).
    NotStored,
    /// A key that is gone. (Of a hash this answer is [`Answer::Stored`]: a number means both.)
    Deleted,
    /// An error: `SERVER_ERROR …`, `-ERR …`, an HTTP status of 400 or above.
    Error,
}

impl Answer {
    /// Is this a good answer to such a request? A miss is: the server did its work.
    #[must_use]
    pub fn suits(self, operation: Operation) -> bool {
        match operation {
            Operation::Get => matches!(self, Self::Hit { .. } | Self::Miss),
            Operation::Set => self == Self::Stored,
        }
    }
}

/// The stream is not the protocol; its position is lost for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an answer that is not the protocol asked for")]
pub struct Malformed;

/// Reads answers from a stream of pieces.
#[derive(Clone, Debug)]
pub(crate) enum Parser {
    Memcached(memcached::Parser),
    Redis(redis::Parser),
    Http(http::Parser),
}

impl Parser {
    pub fn new(protocol: Protocol) -> Self {
        match protocol {
            Protocol::Memcached => Self::Memcached(memcached::Parser::default()),
            Protocol::Redis => Self::Redis(redis::Parser::counting(Answer::Deleted)),
            Protocol::RedisHash => Self::Redis(redis::Parser::counting(Answer::Stored)),
            Protocol::Http => Self::Http(http::Parser::default()),
        }
    }

    /// Begins anew, on a new connection.
    pub fn reset(&mut self) {
        match self {
            Self::Memcached(parser) => *parser = memcached::Parser::default(),
            Self::Redis(parser) => *parser = redis::Parser::counting(parser.counted()),
            Self::Http(parser) => parser.reset(),
        }
    }

    /// Takes the next piece of the stream and calls `answered` for every answer that it completes.
    pub fn feed(&mut self, piece: &[u8], answered: impl FnMut(Answer)) -> Result<(), Malformed> {
        match self {
            Self::Memcached(parser) => parser.feed(piece, answered),
            Self::Redis(parser) => parser.feed(piece, answered),
            Self::Http(parser) => parser.feed(piece, answered),
        }
    }
}

fn push_key(key: u32, out: &mut Vec<u8>) {
    let mut text = *b"quell0000000000";
    let mut rest = key;
    for digit in text[5..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    out.extend_from_slice(&text);
}

fn push_number(number: usize, out: &mut Vec<u8>) {
    let mut digits = [0u8; 20];
    let mut start = digits.len();
    let mut rest = number;
    loop {
        start -= 1;
        digits[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[start..]);
}

/// A number in decimal digits.
fn number(digits: &[u8]) -> Option<u32> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u32, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u32::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

/// The first line of an answer, with printable characters only.
fn first_line(answer: &[u8]) -> String {
    let line = answer.split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
    let shown: String = line.iter().take(60).map(|byte| char::from(*byte)).flat_map(char::escape_default).collect();
    format!("`{shown}`")
}

#[cfg(test)]
mod tests;

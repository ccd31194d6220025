//! Frames: two logical connections share one socket, and each carries messages of ttRPC.
//!
//! A frame of the multiplexer is a logical connection's number and a length (two words, big-endian), then that many bytes. The bytes of
//! one logical connection, in order, are messages of ttRPC: length, stream, kind, flags (10 bytes), then the body. Frames may cut a
//! message anywhere.

/// The logical connection on which the runtime calls the plug-in.
pub const PLUGIN: u32 = 1;
/// The logical connection on which the plug-in calls the runtime.
pub const RUNTIME: u32 = 2;
/// Kind of a message: a call.
pub const REQUEST: u8 = 1;
/// Kind of a message: the answer to a call.
pub const RESPONSE: u8 = 2;
/// Longest body of a message, in bytes.
pub const MOST_BODY: usize = 4 << 20;

const HEAD: usize = 8;
const MESSAGE_HEAD: usize = 10;
const MOST_PAYLOAD: usize = MESSAGE_HEAD + MOST_BODY;
/// Go's side reads through a buffer of this size, and fails on a frame that begins a message and is longer.
const FIRST: usize = 4096;

/// A whole message of one logical connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The logical connection.
    pub connection: u32,
    /// The call that it belongs to.
    pub stream: u32,
    /// [`REQUEST`], [`RESPONSE`] or another.
    pub kind: u8,
    /// Flags of the kind.
    pub flags: u8,
    /// Body.
    pub body: Vec<u8>,
}

/// Bytes that are no frame.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// A frame of the multiplexer is too long.
    #[error("a frame of {0} bytes, {MOST_PAYLOAD} at most are allowed")]
    Payload(usize),
    /// A message is too long.
    #[error("a message of {0} bytes, {MOST_BODY} at most are allowed")]
    Body(usize),
}

impl Frame {
    /// The message as bytes: one frame, or two where it is longer than Go's buffer.
    pub fn encode(&self) -> Result<Vec<u8>, Malformed> {
        if self.body.len() > MOST_BODY {
            return Err(Malformed::Body(self.body.len()));
        }
        let first = self.body.len().min(FIRST - MESSAGE_HEAD);
        let mut bytes = Vec::with_capacity(2 * HEAD + MESSAGE_HEAD + self.body.len());
        self.begin(&mut bytes, MESSAGE_HEAD + first);
        bytes.extend((self.body.len() as u32).to_be_bytes());
        bytes.extend(self.stream.to_be_bytes());
        bytes.extend([self.kind, self.flags]);
        bytes.extend(&self.body[..first]);
        if first < self.body.len() {
            self.begin(&mut bytes, self.body.len() - first);
            bytes.extend(&self.body[first..]);
        }
        Ok(bytes)
    }

    fn begin(&self, bytes: &mut Vec<u8>, length: usize) {
        bytes.extend(self.connection.to_be_bytes());
        bytes.extend((length as u32).to_be_bytes());
    }
}

/// Makes messages of bytes, in whatever pieces these come. Holds at most two unfinished messages, and no more memory than has arrived.
#[derive(Debug, Default)]
pub struct Decoder {
    head: Vec<u8>,
    connection: u32,
    /// Bytes of the current frame still to come.
    left: usize,
    plugin: Unfinished,
    runtime: Unfinished,
}

impl Decoder {
    /// Takes bytes off the front of `input`, up to the end of the next message. `None`: `input` is used up. After an error the rest of
    /// the connection has no meaning.
    pub fn next(&mut self, input: &mut &[u8]) -> Result<Option<Frame>, Malformed> {
        while !input.is_empty() {
            if self.left == 0 {
                self.read_head(input)?;
                continue;
            }
            let here = &input[..self.left.min(input.len())];
            let unfinished = match self.connection {
                PLUGIN => Some(&mut self.plugin),
                RUNTIME => Some(&mut self.runtime),
                _ => None,
            };
            let (used, message) = match unfinished {
                Some(unfinished) => unfinished.take(here)?,
                None => (here.len(), None),
            };
            self.left -= used;
            *input = &input[used..];
            if let Some((head, body)) = message {
                let stream = word(&head[4..8]);
                let frame = Frame { connection: self.connection, stream, kind: head[8], flags: head[9], body };
                return Ok(Some(frame));
            }
        }
        Ok(None)
    }

    fn read_head(&mut self, input: &mut &[u8]) -> Result<(), Malformed> {
        let used = (HEAD - self.head.len()).min(input.len());
        self.head.extend(&input[..used]);
        *input = &input[used..];
        if self.head.len() < HEAD {
            return Ok(());
        }
        self.connection = word(&self.head[..4]);
        self.left = word(&self.head[4..]) as usize;
        self.head.clear();
        if self.left > MOST_PAYLOAD { Err(Malformed::Payload(self.left)) } else { Ok(()) }
    }
}

/// Head and body of a message.
type Parts = (Vec<u8>, Vec<u8>);

/// A message of which a part has come.
#[derive(Debug, Default)]
struct Unfinished(Vec<u8>);

impl Unfinished {
    /// Bytes used, and head and body once they are whole.
    fn take(&mut self, input: &[u8]) -> Result<(usize, Option<Parts>), Malformed> {
        let mut used = 0;
        loop {
            let whole = if self.0.len() < MESSAGE_HEAD {
                MESSAGE_HEAD
            } else {
                let body = word(&self.0[..4]) as usize;
                if body > MOST_BODY {
                    return Err(Malformed::Body(body));
                }
                MESSAGE_HEAD + body
            };
            if self.0.len() >= MESSAGE_HEAD && self.0.len() == whole {
                let mut head = std::mem::take(&mut self.0);
                let body = head.split_off(MESSAGE_HEAD);
                return Ok((used, Some((head, body))));
            }
            if used == input.len() {
                return Ok((used, None));
            }
            let more = (whole - self.0.len()).min(input.len() - used);
            self.0.extend(&input[used..used + more]);
            used += more;
        }
    }
}

fn word(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |word, byte| word << 8 | u32::from(*byte))
}

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;

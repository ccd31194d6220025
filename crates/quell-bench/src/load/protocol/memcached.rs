//! The memcached text protocol.

use super::lines::Lines;
use super::{Answer, Greeting, Malformed, first_line, number, push_key, push_number};

/// Appends a `get`.
pub fn get(key: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(b"get ");
    push_key(key, out);
    out.extend_from_slice(b"\r\n");
}

/// Appends a `set`.
pub fn set(key: u32, value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"set ");
    push_key(key, out);
    out.extend_from_slice(b" 0 0 ");
    push_number(value.len(), out);
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

pub(super) fn delete(key: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(b"delete ");
    push_key(key, out);
    out.extend_from_slice(b"\r\n");
}

pub(super) fn greeting(answer: &[u8]) -> Greeting {
    if !answer.contains(&b'\n') {
        return Greeting::Unfinished;
    }
    match answer.strip_prefix(b"VERSION ") {
        Some(version) => Greeting::Welcome(format!("memcached {}", first_line(version).trim_matches('`'))),
        None => Greeting::Foreign(format!("answers {} to `version`", first_line(answer))),
    }
}

/// Reads answers from a stream of pieces.
#[derive(Clone, Debug, Default)]
pub struct Parser {
    lines: Lines,
    /// Bytes of a value (with its end of line) that are still to come.
    value_left: u64,
    /// The value seen since the last `END`.
    hit: Option<u32>,
}

impl Parser {
    /// Takes the next piece of the stream and calls `answered` for every answer that it completes.
    ///
    /// # Errors
    /// [`Malformed`] when the piece cannot be part of the protocol.
    pub fn feed(&mut self, mut piece: &[u8], mut answered: impl FnMut(Answer)) -> Result<(), Malformed> {
        while !piece.is_empty() {
            if self.value_left > 0 {
                let skipped = self.value_left.min(piece.len() as u64);
                self.value_left -= skipped;
                piece = &piece[skipped as usize..];
                continue;
            }
            let Some(line) = self.lines.next(&mut piece)? else { return Ok(()) };
            if let Some(header) = line.strip_prefix(b"VALUE ") {
                // KEY FLAGS BYTES [CAS]
                let bytes = header.split(|byte| *byte == b' ').nth(2).and_then(number).ok_or(Malformed)?;
                self.value_left = u64::from(bytes) + 2;
                self.hit = Some(bytes);
                continue;
            }
            answered(answer(line, self.hit.take())?);
        }
        Ok(())
    }
}

fn answer(line: &[u8], within_get: Option<u32>) -> Result<Answer, Malformed> {
    match (line, within_get) {
        (b"END", Some(bytes)) => Ok(Answer::Hit { bytes }),
        (_, Some(_)) => Err(Malformed),
        (b"END", None) => Ok(Answer::Miss),
        (b"STORED", None) => Ok(Answer::Stored),
        (b"NOT_STORED", None) => Ok(Answer::NotStored),
        (b"DELETED" | b"NOT_FOUND", None) => Ok(Answer::Deleted),
        (b"ERROR", None) => Ok(Answer::Error),
        _ if line.starts_with(b"CLIENT_ERROR ") || line.starts_with(b"SERVER_ERROR ") => Ok(Answer::Error),
        _ => Err(Malformed),
    }
}

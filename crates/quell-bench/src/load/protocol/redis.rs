//! RESP, Redis's protocol (version 2, which every server speaks until it is asked for 3).

use super::lines::Lines;
use super::{Answer, Greeting, KEY_BYTES, Malformed, first_line, number, push_key, push_number};

pub(super) fn get(key: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(b"*2\r\n$3\r\nGET\r\n");
    push_key_argument(key, out);
}

pub(super) fn set(key: u32, value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"*3\r\n$3\r\nSET\r\n");
    push_key_argument(key, out);
    push_value(value, out);
}

fn push_value(value: &[u8], out: &mut Vec<u8>) {
    out.push(b'$');
    push_number(value.len(), out);
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// The only field of a key's hash.
const FIELD: &[u8] = b"$1\r\nf\r\n";

pub(super) fn hget(key: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(b"*3\r\n$4\r\nHGET\r\n");
    push_key_argument(key, out);
    out.extend_from_slice(FIELD);
}

pub(super) fn hset(key: u32, value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"*4\r\n$4\r\nHSET\r\n");
    push_key_argument(key, out);
    out.extend_from_slice(FIELD);
    push_value(value, out);
}

pub(super) fn delete(key: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(b"*2\r\n$3\r\nDEL\r\n");
    push_key_argument(key, out);
}

fn push_key_argument(key: u32, out: &mut Vec<u8>) {
    out.push(b'$');
    push_number(KEY_BYTES, out);
    out.extend_from_slice(b"\r\n");
    push_key(key, out);
    out.extend_from_slice(b"\r\n");
}

/// The answer to `INFO server`: one text, in which a line says `redis_version:7.0.15`. Descendants say it, too, and their own.
pub(super) fn greeting(answer: &[u8]) -> Greeting {
    let Some(end) = answer.iter().position(|byte| *byte == b'\n') else {
        return Greeting::Unfinished;
    };
    let length = answer.strip_prefix(b"$").and_then(|rest| number(rest.split(|byte| *byte == b'\r').next()?));
    let Some(length) = length else {
        return Greeting::Foreign(format!("answers {} to `INFO server`", first_line(answer)));
    };
    let text = &answer[end + 1..];
    if text.len() < length as usize {
        return Greeting::Unfinished;
    }
    let text = String::from_utf8_lossy(text);
    let named = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix("_version:"));
        line.map(|version| format!("{name} {version}"))
    };
    match ["valkey", "redis"].into_iter().find_map(named) {
        Some(server) => Greeting::Welcome(server),
        None => Greeting::Welcome("a server that speaks RESP".into()),
    }
}

/// Reads answers from a stream of pieces.
#[derive(Clone, Debug)]
pub(crate) struct Parser {
    /// What a number answers.
    counted: Answer,
    lines: Lines,
    /// Bytes of a value (with its end of line) that are still to come.
    value_left: u64,
    /// The present value's length.
    bytes: u32,
}

impl Parser {
    /// A parser for which a number is this answer.
    pub fn counting(counted: Answer) -> Parser {
        Parser { counted, lines: Lines::default(), value_left: 0, bytes: 0 }
    }

    /// What a number answers.
    pub fn counted(&self) -> Answer {
        self.counted
    }

    /// Takes the next piece of the stream and calls `answered` for every answer that it completes.
    pub fn feed(&mut self, mut piece: &[u8], mut answered: impl FnMut(Answer)) -> Result<(), Malformed> {
        while !piece.is_empty() {
            if self.value_left > 0 {
                let skipped = self.value_left.min(piece.len() as u64);
                self.value_left -= skipped;
                piece = &piece[skipped as usize..];
                if self.value_left == 0 {
                    answered(Answer::Hit { bytes: self.bytes });
                }
                continue;
            }
            let Some(line) = self.lines.next(&mut piece)? else { return Ok(()) };
            match line {
                b"+OK" => answered(Answer::Stored),
                b"$-1" | b"_" => answered(Answer::Miss),
                [b':', ..] => answered(self.counted),
                [b'+' | b'-', ..] => answered(Answer::Error),
                [b'$', digits @ ..] => {
                    self.bytes = number(digits).ok_or(Malformed)?;
                    self.value_left = u64::from(self.bytes) + 2;
                }
                _ => return Err(Malformed),
            }
        }
        Ok(())
    }
}

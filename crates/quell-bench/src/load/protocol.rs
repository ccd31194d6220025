//! The memcached text protocol, as far as a load generator speaks it: requests written into a caller's buffer, and
//! a parser for answers that may be cut at any byte. Neither allocates.

use super::schedule::{Operation, Slot};

/// Length of every key: `quell` and ten digits.
pub const KEY_BYTES: usize = 15;
/// The longest answer line that is understood.
const LINE_BYTES: usize = 512;

/// Upper bound of one encoded request, bytes.
#[must_use]
pub fn request_bytes(value_bytes: u32) -> usize {
    // "set KEY 0 0 1048576\r\n" and the value with its end of line.
    KEY_BYTES + 32 + value_bytes as usize
}

/// Appends a request. The buffer must have [`request_bytes`] of capacity left, then nothing is allocated.
pub fn encode(slot: Slot, value: &[u8], out: &mut Vec<u8>) {
    match slot.operation() {
        Operation::Get => {
            out.extend_from_slice(b"get ");
            push_key(slot.key(), out);
        }
        Operation::Set => {
            out.extend_from_slice(b"set ");
            push_key(slot.key(), out);
            out.extend_from_slice(b" 0 0 ");
            push_number(value.len(), out);
            out.extend_from_slice(b"\r\n");
            out.extend_from_slice(value);
        }
    }
    out.extend_from_slice(b"\r\n");
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

/// One complete answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A `get` that found its key, with the value's length.
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
    /// `ERROR`, `CLIENT_ERROR …` or `SERVER_ERROR …`.
    Error,
}

impl Answer {
    /// Whether this is a good answer to such a request. A miss is: the server did its work.
    #[must_use]
    pub fn suits(self, operation: Operation) -> bool {
        match operation {
            Operation::Get => matches!(self, Self::Hit { .. } | Self::Miss),
            Operation::Set => self == Self::Stored,
        }
    }
}

/// The stream is not the memcached text protocol; its position is lost for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an answer that is not the memcached text protocol")]
pub struct Malformed;

/// Reads answers from a stream of pieces.
#[derive(Clone, Debug)]
pub struct Parser {
    line: [u8; LINE_BYTES],
    line_len: usize,
    /// Bytes of a value (with its end of line) that are still to come.
    value_left: u64,
    /// The value seen since the last `END`.
    hit: Option<u32>,
}

impl Default for Parser {
    fn default() -> Self {
        Self { line: [0; LINE_BYTES], line_len: 0, value_left: 0, hit: None }
    }
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
            let Some(end) = piece.iter().position(|byte| *byte == b'\n') else {
                return self.keep(piece);
            };
            let (line, rest) = piece.split_at(end + 1);
            piece = rest;
            let answer = if self.line_len == 0 {
                self.complete(line)?
            } else {
                self.keep(line)?;
                let (kept, len) = (self.line, self.line_len);
                self.line_len = 0;
                self.complete(&kept[..len])?
            };
            if let Some(answer) = answer {
                answered(answer);
            }
        }
        Ok(())
    }

    fn keep(&mut self, piece: &[u8]) -> Result<(), Malformed> {
        let end = self.line_len + piece.len();
        self.line.get_mut(self.line_len..end).ok_or(Malformed)?.copy_from_slice(piece);
        self.line_len = end;
        Ok(())
    }

    fn complete(&mut self, line: &[u8]) -> Result<Option<Answer>, Malformed> {
        let line = line.strip_suffix(b"\r\n").ok_or(Malformed)?;
        if let Some(header) = line.strip_prefix(b"VALUE ") {
            let bytes = value_length(header).ok_or(Malformed)?;
            self.value_left = u64::from(bytes) + 2;
            self.hit = Some(bytes);
            return Ok(None);
        }
        let within_get = self.hit.take();
        let answer = match (line, within_get) {
            (b"END", Some(bytes)) => Answer::Hit { bytes },
            (_, Some(_)) => return Err(Malformed),
            (b"END", None) => Answer::Miss,
            (b"STORED", None) => Answer::Stored,
            (b"NOT_STORED", None) => Answer::NotStored,
            (b"ERROR", None) => Answer::Error,
            _ if line.starts_with(b"CLIENT_ERROR ") || line.starts_with(b"SERVER_ERROR ") => Answer::Error,
            _ => return Err(Malformed),
        };
        Ok(Some(answer))
    }
}

/// The length in `KEY FLAGS BYTES [CAS]`.
fn value_length(header: &[u8]) -> Option<u32> {
    let digits = header.split(|byte| *byte == b' ').nth(2)?;
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u32, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u32::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(answer: Answer) -> Vec<u8> {
        match answer {
            Answer::Hit { bytes } => {
                let mut text = format!("VALUE quell0000000001 0 {bytes}\r\n").into_bytes();
                // A value full of what looks like protocol.
                text.extend(b"END\r\nVALUE x\r\n".iter().cycle().take(bytes as usize));
                text.extend_from_slice(b"\r\nEND\r\n");
                text
            }
            Answer::Miss => b"END\r\n".to_vec(),
            Answer::Stored => b"STORED\r\n".to_vec(),
            Answer::NotStored => b"NOT_STORED\r\n".to_vec(),
            Answer::Error => b"SERVER_ERROR out of memory storing object\r\n".to_vec(),
        }
    }

    fn any_answer() -> impl Strategy<Value = Answer> {
        prop_oneof![
            (0u32..300).prop_map(|bytes| Answer::Hit { bytes }),
            Just(Answer::Miss),
            Just(Answer::Stored),
            Just(Answer::NotStored),
            Just(Answer::Error),
        ]
    }

    proptest! {
        #[test]
        fn answers_survive_any_cut(
            answers in prop::collection::vec(any_answer(), 1..20),
            cuts in prop::collection::vec(1usize..40, 1..200),
        ) {
            let stream: Vec<u8> = answers.iter().flat_map(|a| text(*a)).collect();
            let mut parser = Parser::default();
            let mut seen = Vec::new();
            let mut rest = stream.as_slice();
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (piece, later) = rest.split_at((*cut).min(rest.len()));
                parser.feed(piece, |answer| seen.push(answer)).unwrap();
                rest = later;
            }
            prop_assert_eq!(seen, answers);
        }

        #[test]
        fn any_bytes_are_survived(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..700), 0..8)) {
            let mut parser = Parser::default();
            for piece in &pieces {
                if parser.feed(piece, |_| ()).is_err() {
                    break;
                }
            }
        }
    }

    #[test]
    fn every_single_cut_of_one_stream() {
        let answers = [Answer::Hit { bytes: 5 }, Answer::Stored, Answer::Miss, Answer::Error];
        let stream: Vec<u8> = answers.iter().flat_map(|a| text(*a)).collect();
        for cut in 0..=stream.len() {
            let mut parser = Parser::default();
            let mut seen = Vec::new();
            parser.feed(&stream[..cut], |a| seen.push(a)).unwrap();
            parser.feed(&stream[cut..], |a| seen.push(a)).unwrap();
            assert_eq!(seen, answers, "cut at {cut}");
        }
    }

    #[test]
    fn what_is_not_the_protocol_is_refused() {
        for stream in [
            &b"HTTP/1.1 400 Bad Request\r\n"[..],
            b"END\n",
            b"VALUE key 0\r\n",
            b"VALUE key 0 -1\r\n",
            b"VALUE key 0 99999999999\r\n",
            b"VALUE key 0 1\r\nx\r\nSTORED\r\n",
            &[b'x'; LINE_BYTES + 1],
        ] {
            let mut parser = Parser::default();
            assert_eq!(parser.feed(stream, |_| ()), Err(Malformed), "{:?}", String::from_utf8_lossy(stream));
        }
    }

    #[test]
    fn requests_are_as_memcached_documents_them() {
        let mut out = Vec::new();
        encode(Slot::new(0, Operation::Get, 42), b"abc", &mut out);
        encode(Slot::new(0, Operation::Set, 2_147_483_647), b"abc", &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), "get quell0000000042\r\nset quell2147483647 0 0 3\r\nabc\r\n");
    }

    #[test]
    fn an_encoded_request_fits_its_bound() {
        for bytes in [1, 9, 10, 1000, 1 << 20] {
            let mut out = Vec::new();
            let value = vec![b'v'; bytes as usize];
            encode(Slot::new(0, Operation::Set, 7), &value, &mut out);
            assert!(out.len() <= request_bytes(bytes));
        }
    }
}

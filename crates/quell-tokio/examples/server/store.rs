//! What the three servers do for a request: memcached's text protocol (get, set, delete, version, quit), and work.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::Mutex;
use std::time::{Duration, Instant};

const SHARDS: usize = 64;
/// The longest value, and the longest line.
const LONGEST: usize = 1 << 20;

type Shard = Mutex<HashMap<Vec<u8>, (Vec<u8>, Vec<u8>)>>;

/// What is stored, with its flags, and the work of a request.
pub struct Store {
    hasher: RandomState,
    shards: Vec<Shard>,
    work: Duration,
}

impl Store {
    pub fn new(work: Duration) -> Store {
        Store { hasher: RandomState::new(), shards: (0..SHARDS).map(|_| Shard::default()).collect(), work }
    }

    fn shard(&self, key: &[u8]) -> &Shard {
        &self.shards[self.hasher.hash_one(key) as usize % SHARDS]
    }

    /// Answers the requests that are there as a whole, and takes them out. None: the connection ends.
    pub fn answer(&self, input: &mut Vec<u8>, output: &mut Vec<u8>) -> Option<()> {
        let mut begin = 0;
        while let Some(used) = self.one(&input[begin..], output)? {
            begin += used;
            let work = Instant::now();
            while work.elapsed() < self.work {
                std::hint::spin_loop();
            }
        }
        input.drain(..begin);
        (input.len() <= 2 * LONGEST).then_some(())
    }

    /// Answers one request; its length, or None: it is not there as a whole.
    fn one(&self, input: &[u8], output: &mut Vec<u8>) -> Option<Option<usize>> {
        let Some(end) = input.iter().position(|byte| *byte == b'\n') else { return Some(None) };
        let mut words = input[..end].trim_ascii().split(|byte| *byte == b' ');
        let mut used = end + 1;
        match (words.next().unwrap_or_default(), words.next()) {
            (b"get", Some(first)) => {
                for key in std::iter::once(first).chain(words) {
                    if let Some((flags, value)) = self.shard(key).lock().unwrap().get(key) {
                        let size = value.len().to_string();
                        let parts: [&[u8]; 9] =
                            [b"VALUE ", key, b" ", flags, b" ", size.as_bytes(), b"\r\n", value, b"\r\n"];
                        parts.iter().for_each(|part| output.extend_from_slice(part));
                    }
                }
                output.extend_from_slice(b"END\r\n");
            }
            (b"set", Some(key)) => {
                let (flags, _expires) = (words.next()?, words.next()?);
                let size = std::str::from_utf8(words.next()?).ok()?.parse().ok().filter(|size| *size <= LONGEST)?;
                let Some(value) = input.get(used..used + size + 2) else { return Some(None) };
                used += size + 2;
                self.shard(key).lock().unwrap().insert(key.to_vec(), (flags.to_vec(), value[..size].to_vec()));
                if words.next() != Some(b"noreply") {
                    output.extend_from_slice(b"STORED\r\n");
                }
            }
            (b"delete", Some(key)) => {
                let was_there = self.shard(key).lock().unwrap().remove(key).is_some();
                output.extend_from_slice(if was_there { b"DELETED\r\n" } else { b"NOT_FOUND\r\n" });
            }
            (b"version", _) => output.extend_from_slice(b"VERSION quell-example\r\n"),
            (b"quit", _) => return None,
            _ => output.extend_from_slice(b"ERROR\r\n"),
        }
        Some(Some(used))
    }
}

//! The keys that a run writes: stored before it, deleted after it, over a connection of their own.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::connection::{Connection, Received};
use super::protocol::{Answer, Requests};
use super::schedule::{Operation, Schedule, Slot};
use super::spec::LoadSpec;
use crate::{Error, Result};

/// Requests written before their answers are read.
const BATCH: usize = 64;
const READ_BYTES: usize = 64 * 1024;

/// The keys that are on the server by this run.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// Number of keys that were stored beforehand, from the first on.
    first: u32,
}

impl Written {
    /// Stores every key of the spec once, until asked to stop.
    ///
    /// # Errors
    /// No server, or one that refuses a key; the number of keys stored until then is known.
    pub fn store(&mut self, spec: &LoadSpec, stop: &AtomicBool) -> Result<()> {
        let mut line = Line::open(spec)?;
        let mut keys = 0..spec.keys;
        while !keys.is_empty() && !stop.load(Relaxed) {
            let batch: Vec<u32> = keys.by_ref().take(BATCH).collect();
            // Some of a batch that fails may be there.
            self.first = batch[batch.len() - 1] + 1;
            line.exchange("storing the keys", &batch, |requests, key, out| {
                requests.encode(Slot::new(0, Operation::Set, key), out);
            })
            .and_then(|answers| match answers.iter().find(|answer| **answer != Answer::Stored) {
                Some(answer) => Err(line.failed(format!("refused to store a key ({answer:?})"))),
                None => Ok(()),
            })?;
        }
        Ok(())
    }

    /// Deletes the stored keys, and those set by the sent part of a schedule; returns their number.
    ///
    /// # Errors
    /// No server, or one that refuses.
    pub fn delete(&self, spec: &LoadSpec, schedule: &Schedule, sent: usize) -> Result<u64> {
        let sets = schedule.slots[..sent].iter().filter(|slot| slot.operation() == Operation::Set);
        let mut keys: Vec<u32> = sets.map(|slot| slot.key()).filter(|key| *key >= self.first).collect();
        keys.sort_unstable();
        keys.dedup();
        let count = u64::from(self.first) + keys.len() as u64;
        if count == 0 {
            return Ok(0);
        }
        let mut line = Line::open(spec)?;
        let mut all = (0..self.first).chain(keys);
        loop {
            let batch: Vec<u32> = all.by_ref().take(BATCH).collect();
            if batch.is_empty() {
                return Ok(count);
            }
            let answers = line.exchange("deleting the keys", &batch, Requests::encode_delete)?;
            // Of hashes a number is taken for "stored".
            let is_gone = |answer: &Answer| matches!(answer, Answer::Deleted | Answer::Stored);
            if let Some(answer) = answers.iter().find(|answer| !is_gone(answer)) {
                return Err(line.failed(format!("refused to delete a key ({answer:?})")));
            }
        }
    }
}

/// A connection on which a batch of requests goes out before its answers are read.
struct Line<'a> {
    spec: &'a LoadSpec,
    requests: Requests,
    connection: Connection,
    buffer: Vec<u8>,
}

impl<'a> Line<'a> {
    fn open(spec: &'a LoadSpec) -> Result<Line<'a>> {
        let requests = Requests::new(spec);
        let connection = Connection::open(&spec.target, spec.protocol, 4 * requests.longest())?;
        Ok(Line { spec, requests, connection, buffer: vec![0; READ_BYTES] })
    }

    fn failed(&self, problem: String) -> Error {
        let fix = format!("check that it is a server that speaks {}", self.spec.protocol.words());
        Error::Protocol { address: self.spec.target.to_string(), problem, fix }
    }

    fn exchange(
        &mut self,
        what: &'static str,
        keys: &[u32],
        encode: impl Fn(&Requests, u32, &mut Vec<u8>),
    ) -> Result<Vec<Answer>> {
        let broken = |line: &Self, error: std::io::Error| line.failed(format!("{what}: {error}"));
        for key in keys {
            if !self.connection.has_room(self.requests.longest()) {
                self.connection.flush().map_err(|error| broken(self, error))?;
            }
            self.connection.put(|out| encode(&self.requests, *key, out));
        }
        self.connection.flush().map_err(|error| broken(self, error))?;
        let mut answers = Vec::with_capacity(keys.len());
        while answers.len() < keys.len() {
            match self.connection.receive(&mut self.buffer, |answer| answers.push(answer)) {
                Ok(Received::Bytes) => {}
                Ok(Received::Nothing) => return Err(self.failed(format!("{what}: it says nothing"))),
                Ok(Received::End) => return Err(self.failed(format!("{what}: it closed the connection"))),
                Err(error) => return Err(broken(self, error)),
            }
        }
        Ok(answers)
    }
}

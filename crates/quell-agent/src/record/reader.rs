//! Reading a record turn by turn.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use quell_model::Topology;
use serde::de::DeserializeOwned;

use super::format::{Header, Turn, VERSION};
use super::shape::misfit;
use crate::AgentError;

/// Bytes of the longest turn; a longer one is no record.
const LONGEST_TURN: u64 = 256 * 1024 * 1024;
/// zstd's window is this large at most (2^27 bytes; the writer's is far smaller).
const WINDOW_LOG: u32 = 27;

/// A record being read.
pub struct Record<R: Read> {
    input: BufReader<zstd::Decoder<'static, BufReader<R>>>,
    header: Header,
    /// The machine's CPUs as of the last turn.
    topology: Arc<Topology>,
    name: String,
    turns: u64,
    torn: bool,
}

impl Record<File> {
    /// Opens a record.
    ///
    /// # Errors
    /// If the file cannot be read, or is no record of a version that this program knows.
    pub fn open(path: &Path) -> Result<Record<File>, AgentError> {
        let file = File::open(path).map_err(|cause| AgentError::File {
            operation: "open",
            path: path.to_owned(),
            cause,
            fix: "name a file that `quell run --record FILE` wrote".to_owned(),
        })?;
        Record::read(file, &path.display().to_string())
    }
}

impl<R: Read> Record<R> {
    /// Reads a record from anywhere; the name is for messages.
    ///
    /// # Errors
    /// As [`Record::open`].
    pub fn read(input: R, name: &str) -> Result<Record<R>, AgentError> {
        let bad = |why: String| AgentError::Record { record: name.to_owned(), why };
        let not_a_record = |error: io::Error| bad(format!("it is not a Quell record ({error})"));
        let mut decoder = zstd::Decoder::new(input).map_err(not_a_record)?;
        decoder.window_log_max(WINDOW_LOG).map_err(not_a_record)?;
        let mut input = BufReader::new(decoder);
        let header: Header = match next(&mut input) {
            Ok(Some(header)) => header,
            Ok(None) => return Err(bad("it is empty".to_owned())),
            Err(Broken::Torn) => return Err(bad("it ends within its header".to_owned())),
            Err(Broken::Odd(why)) => return Err(bad(format!("it is not a Quell record ({why})"))),
        };
        if !(1..=VERSION).contains(&header.quell_record) {
            return Err(bad(format!(
                "it has version {}, and this program reads versions up to {VERSION}; use Quell {}, which wrote it",
                header.quell_record, header.quell
            )));
        }
        let topology = Arc::clone(&header.topology);
        Ok(Record { input, header, topology, name: name.to_owned(), turns: 0, torn: false })
    }

    /// Its start.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Did it end in the middle of a turn, as the record of a killed agent does?
    #[must_use]
    pub fn is_torn(&self) -> bool {
        self.torn
    }

    /// The next turn; None at the end.
    ///
    /// # Errors
    /// If the record is damaged.
    pub fn turn(&mut self) -> Result<Option<Turn<'static>>, AgentError> {
        if self.torn {
            return Ok(None);
        }
        let read = next::<Turn<'static>>(&mut self.input);
        if let Ok(Some(Turn { topology: Some(topology), .. })) = &read {
            self.topology.clone_from(topology);
        }
        let read = read.and_then(|turn| match turn.as_ref().and_then(|turn| misfit(turn, &self.topology)) {
            None => Ok(turn),
            Some(misfit) => Err(Broken::Odd(misfit)),
        });
        match read {
            Ok(mut turn) => {
                self.turns += u64::from(turn.is_some());
                turn.as_mut().into_iter().for_each(Turn::upgrade);
                Ok(turn)
            }
            Err(Broken::Torn) => {
                self.torn = true;
                Ok(None)
            }
            Err(Broken::Odd(why)) => {
                let why = format!("it is damaged after turn {}: {why}", self.turns);
                Err(AgentError::Record { record: self.name.clone(), why })
            }
        }
    }
}

enum Broken {
    /// It ends within a value.
    Torn,
    /// The content makes no sense.
    Odd(String),
}

fn next<T: DeserializeOwned>(input: &mut impl BufRead) -> Result<Option<T>, Broken> {
    let unexpected_end = |error: &io::Error| error.kind() == io::ErrorKind::UnexpectedEof;
    match input.fill_buf() {
        Ok([]) => return Ok(None),
        Ok(_) => {}
        Err(error) if unexpected_end(&error) => return Err(Broken::Torn),
        Err(error) => return Err(Broken::Odd(error.to_string())),
    }
    let mut limited = input.take(LONGEST_TURN);
    rmp_serde::from_read(&mut limited).map(Some).map_err(|error| match &error {
        rmp_serde::decode::Error::InvalidMarkerRead(source) | rmp_serde::decode::Error::InvalidDataRead(source)
            if unexpected_end(source) =>
        {
            Broken::Torn
        }
        _ => Broken::Odd(error.to_string()),
    })
}

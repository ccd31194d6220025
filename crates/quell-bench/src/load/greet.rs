//! Asking the server for its identity before any load: another kind of server gets none.

use super::connection::Connection;
use super::protocol::{Greeting, Protocol, Requests};
use super::spec::LoadSpec;
use crate::{Error, Result};

/// An answer is this long at most.
const LONGEST_ANSWER: usize = 64 * 1024;

/// Asks for the server's version (HTTP: for the path, once); returns its name and version.
///
/// # Errors
/// A bad spec, no server, one that speaks another protocol or refuses.
pub fn greet(spec: &LoadSpec) -> Result<String> {
    spec.check()?;
    let requests = Requests::new(spec);
    let mut connection = Connection::open(&spec.target, spec.protocol, requests.longest() + 64)?;
    let failed = |error: std::io::Error| foreign(spec, format!("{error} where it is asked for its version"), &[]);
    connection.put(|out| requests.encode_greeting(out));
    connection.flush().map_err(failed)?;
    let mut answer = Vec::new();
    loop {
        let before = answer.len();
        connection.read_raw(&mut answer).map_err(failed)?;
        match spec.protocol.greeting(&answer) {
            Greeting::Welcome(server) => return Ok(server),
            Greeting::Foreign(said) => return Err(foreign(spec, said, &answer)),
            Greeting::Unfinished if answer.len() == before => {
                return Err(foreign(spec, "closes the connection where it is asked for its version".into(), &answer));
            }
            Greeting::Unfinished if answer.len() > LONGEST_ANSWER => {
                return Err(foreign(spec, "answers without end".into(), &answer));
            }
            Greeting::Unfinished => {}
        }
    }
}

fn foreign(spec: &LoadSpec, problem: String, answer: &[u8]) -> Error {
    let asked = spec.protocol;
    let address = spec.target.to_string();
    let fix = match Protocol::of_answer(answer) {
        Some(other) if other != asked => return Error::OtherProtocol { address, problem, speaks: other.name() },
        Some(Protocol::Http) => "correct the path".into(),
        _ if answer.starts_with(b"-NOAUTH") => "load one without a password".into(),
        _ => format!("check that it is a server that speaks {}", asked.words()),
    };
    Error::Protocol { address, problem, fix }
}

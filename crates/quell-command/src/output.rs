//! Standard output: results as JSON, and the end of a command after a failed write.

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Result;
use serde::Serialize;

/// The status of a wrong command line.
pub const WRONG_COMMAND_LINE: u8 = 2;

/// An error of the command line itself: words that do not go together, or that would have no effect.
#[derive(Debug)]
pub struct WrongCommandLine(pub String);

impl fmt::Display for WrongCommandLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for WrongCommandLine {}

/// The status of a command whose reader closed the pipe, as of one that SIGPIPE ended.
const READER_GONE: u8 = 141;

/// An object with the version of the Quell that wrote it.
#[derive(Serialize)]
pub struct Stamped<T> {
    version: &'static str,
    #[serde(flatten)]
    content: T,
}

/// The object with this Quell's version.
pub fn stamped<T: Serialize>(content: T) -> Stamped<T> {
    Stamped { version: env!("CARGO_PKG_VERSION"), content }
}

/// Writes an object, with this Quell's version, as one line of JSON.
pub fn json_line<T: Serialize>(object: T) -> Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, &stamped(object))?;
    writeln!(out)?;
    Ok(())
}

/// Writes an object, with this Quell's version, as JSON for people.
pub fn json<T: Serialize>(object: T) -> Result<()> {
    let text = serde_json::to_string_pretty(&stamped(object))?;
    Ok(writeln!(io::stdout().lock(), "{text}")?)
}

/// Everything is written, or the command has failed.
pub fn flushed(code: ExitCode) -> Result<ExitCode> {
    io::stdout().flush()?;
    Ok(code)
}

/// The line for people and the exit status of an error; no line where the reader has closed the pipe.
pub fn ending(program: &str, error: &anyhow::Error) -> (Option<String>, ExitCode) {
    let broken = |kind: io::ErrorKind| kind == io::ErrorKind::BrokenPipe;
    let is_broken_pipe = error.chain().any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(|error| broken(error.kind()))
            || cause.downcast_ref::<serde_json::Error>().and_then(serde_json::Error::io_error_kind).is_some_and(broken)
    });
    if is_broken_pipe {
        return (None, ExitCode::from(READER_GONE));
    }
    let code = match error.is::<WrongCommandLine>() {
        true => ExitCode::from(WRONG_COMMAND_LINE),
        false => ExitCode::FAILURE,
    };
    (Some(format!("{program}: {}", with_causes(error))), code)
}

/// The error and its causes, but for those that an error before them says already.
fn with_causes(error: &anyhow::Error) -> String {
    error.chain().skip(1).map(ToString::to_string).fold(error.to_string(), |said, cause| match said.contains(&cause) {
        true => said,
        false => format!("{said}: {cause}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An error that says its cause itself.
    #[derive(Debug)]
    struct Fault(io::Error);

    impl std::fmt::Display for Fault {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "cannot start a thread: {}", self.0)
        }
    }

    impl std::error::Error for Fault {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            Some(&self.0)
        }
    }

    #[test]
    fn a_cause_that_an_error_says_itself_is_said_once() {
        let error = || Fault(io::Error::other("too many"));
        assert_eq!(with_causes(&error().into()), "cannot start a thread: too many");
        let error = anyhow::Error::new(error()).context("the agent");
        assert_eq!(with_causes(&error), "the agent: cannot start a thread: too many");
        assert_eq!(with_causes(&anyhow::anyhow!("inner").context("outer")), "outer: inner");
    }
}

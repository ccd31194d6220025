//! Work that a program has another process of itself do: a typed request goes in, a typed answer comes out.
//!
//! The process is started with one word, reads the request as a line of JSON from its standard input and prints the answer as
//! a line of JSON. Both carry the version: a process of another build answers nothing.

use std::ffi::OsString;
use std::io::{self, BufRead, Read, Write};
use std::marker::PhantomData;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitCode, ExitStatus, Stdio};

use anyhow::{Context, Result, bail};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The word with which such a process is started.
pub const WORD: &str = "answer-request";

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What can be asked for.
pub trait Request: Serialize + DeserializeOwned {
    /// Its name, unique in a program.
    const NAME: &'static str;
    /// What comes back.
    type Answer: Serialize + DeserializeOwned;

    /// Does it, in the process that was started for it. Further lines of the standard input are its own.
    ///
    /// # Errors
    /// Whatever could not be done; the asking process prints it as the other one's.
    fn answer(self) -> Result<Self::Answer>;
}

#[derive(Serialize, Deserialize)]
struct Line<T> {
    version: String,
    #[serde(default)]
    name: String,
    content: T,
}

/// A kind of request that a program answers.
pub struct Kind {
    name: &'static str,
    answer: fn(Value) -> Result<Value>,
}

/// The kind of these requests.
#[must_use]
pub fn kind<R: Request>() -> Kind {
    let answer = |content| Ok(serde_json::to_value(serde_json::from_value::<R>(content)?.answer()?)?);
    Kind { name: R::NAME, answer }
}

/// Answers a request, if this process was started for that.
#[must_use]
pub fn answered(kinds: &[Kind]) -> Option<Result<ExitCode>> {
    let is_asked = std::env::args_os().nth(1).is_some_and(|word| word == WORD);
    is_asked.then(|| answer(kinds).map(|()| ExitCode::SUCCESS))
}

fn answer(kinds: &[Kind]) -> Result<()> {
    let mut text = String::new();
    io::stdin().lock().read_line(&mut text).context("read a request")?;
    let Line { version, name, content } = serde_json::from_str(&text).context("read a request")?;
    if version != VERSION {
        bail!("a request of version {version} cannot be answered by version {VERSION}");
    }
    let kind = kinds.iter().find(|kind| kind.name == name);
    let content = (kind.with_context(|| format!("there is no request '{name}'"))?.answer)(content)?;
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, &Line { version, name, content })?;
    Ok(writeln!(out)?)
}

/// A request as the line that the process reads.
///
/// # Errors
/// If it cannot be written as JSON.
pub fn line<R: Request>(request: &R) -> Result<String> {
    let line = Line { version: VERSION.into(), name: R::NAME.into(), content: request };
    Ok(serde_json::to_string(&line)? + "\n")
}

/// The answer in what the process printed.
///
/// # Errors
/// If it is none, or another version's.
pub fn read<R: Request>(printed: &[u8]) -> Result<R::Answer> {
    let line: Line<R::Answer> =
        serde_json::from_slice(printed).with_context(|| format!("read the answer to request '{}'", R::NAME))?;
    if line.version != VERSION {
        bail!("the answer to request '{}' is of version {}, this is {VERSION}", R::NAME, line.version);
    }
    Ok(line.content)
}

/// This program's own file.
///
/// # Errors
/// If the system does not name it.
pub fn own_file() -> Result<PathBuf> {
    std::env::current_exe().context("find this program's own file")
}

/// A shell's words that have this program answer a request, where it cannot be written to: in a guest. The request is in the
/// environment, beside what is returned.
///
/// # Errors
/// If there is no file of this program, or the request cannot be written as JSON.
pub fn in_a_shell<R: Request>(request: &R) -> Result<(Vec<OsString>, (OsString, OsString))> {
    let script = format!("printf '%s\\n' \"$QUELL_REQUEST\" | exec \"$0\" {WORD}");
    let words = vec!["sh".into(), "-c".into(), script.into(), own_file()?.into()];
    Ok((words, ("QUELL_REQUEST".into(), line(request)?.trim_end().into())))
}

/// A process that answers. It is killed when this value is dropped.
pub struct Asked<R> {
    child: Child,
    input: Option<ChildStdin>,
    request: PhantomData<R>,
}

impl<R: Request> Asked<R> {
    /// Starts a process of this program that answers; `start` starts the command, whose standard input and output are taken.
    ///
    /// # Errors
    /// If it cannot be started or written to.
    pub fn start(request: &R, start: impl FnOnce(&mut Command) -> Result<Child>) -> Result<Asked<R>> {
        let mut command = Command::new(own_file()?);
        command.arg(WORD).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = start(&mut command)?;
        let input = child.stdin.take();
        let mut asked = Asked { child, input, request: PhantomData };
        let input = asked.input.as_mut().context("a process without input")?;
        input.write_all(line(request)?.as_bytes()).with_context(|| format!("send request '{}'", R::NAME))?;
        Ok(asked)
    }

    /// Its number.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a further line, and no more after that.
    ///
    /// # Errors
    /// If it does not read any more.
    pub fn send(&mut self, line: &str) -> Result<()> {
        let mut input = self.input.take().context("nothing can be sent any more")?;
        input.write_all(line.as_bytes()).with_context(|| format!("send to the process of request '{}'", R::NAME))
    }

    /// The status with which it ended, if it has.
    ///
    /// # Errors
    /// The system's.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Waits for its answer.
    ///
    /// # Errors
    /// If it fails: its own message is on standard error.
    pub fn answer(mut self) -> Result<R::Answer> {
        drop(self.input.take());
        let mut text = Vec::new();
        self.child.stdout.take().context("a process without output")?.read_to_end(&mut text)?;
        let status = self.child.wait()?;
        if !status.success() {
            bail!("the process of request '{}' ended: {status}", R::NAME);
        }
        read::<R>(&text)
    }
}

impl<R> Drop for Asked<R> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

//! Runs a helper program to its end.

use std::ffi::OsStr;
use std::io;
use std::process::{Command, Output};

use crate::error::{LabError, Result};

/// Runs `command` and returns its output, whatever its exit status; `package` is named if the program is missing.
pub fn output(command: &mut Command, package: &'static str) -> Result<Output> {
    command.output().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            LabError::MissingTool { tool: command.get_program().to_string_lossy().into(), package }
        }
        _ => LabError::Tool { command: line(command), detail: error.to_string() },
    })
}

/// Runs `command`, which must succeed, and returns its output.
pub fn stdout(command: &mut Command, package: &'static str) -> Result<String> {
    let output = output(command, package)?;
    if !output.status.success() {
        return Err(LabError::Tool { command: line(command), detail: complaint(&output) });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Complaint of a failed program: its standard error, else its exit status.
pub fn complaint(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    match text.trim() {
        "" => output.status.to_string(),
        text => text.to_string(),
    }
}

/// The command line, for messages.
pub fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}

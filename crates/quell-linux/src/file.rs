//! Small text files, as pseudo-filesystems have them.

use std::fs;
use std::io::Write;
use std::path::Path;

use crate::LinuxError;
use crate::error::is_gone;

/// Result of a write: was there anything to write to?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// Done.
    Done,
    /// The place is gone.
    Vanished,
}

/// The file's text without surrounding white space; None if it does not exist (any more).
pub(crate) fn read(path: &Path) -> Result<Option<String>, LinuxError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(error) if is_gone(&error) || error.raw_os_error() == Some(libc::ENOTDIR) => Ok(None),
        Err(error) => Err(LinuxError::io("read", path)(error)),
    }
}

/// Replaces the file's content by one `write`, as pseudo-files want it, without creating the file.
pub(crate) fn write(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).truncate(true).open(path)?;
    file.write_all(format!("{text}\n").as_bytes())
}

/// The file's text parsed; None if the file does not exist.
pub(crate) fn parse<T: std::str::FromStr>(path: &Path, expected: &'static str) -> Result<Option<T>, LinuxError> {
    let Some(text) = read(path)? else { return Ok(None) };
    text.parse().map(Some).map_err(|_| LinuxError::parse(path, &text, expected))
}

/// The names in a directory, sorted; none if it does not exist.
pub(crate) fn names(directory: &Path) -> Result<Vec<String>, LinuxError> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if is_gone(&error) => return Ok(Vec::new()),
        Err(error) => return Err(LinuxError::io("list", directory)(error)),
    };
    let mut names: Vec<String> = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    Ok(names)
}

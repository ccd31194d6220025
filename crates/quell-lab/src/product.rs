//! The program `quell`, which the laboratory observes: beside this one, or in PATH.

use std::path::PathBuf;

use anyhow::{Context, Result};
use quell_command::request::own_file;

const NAME: &str = "quell";

/// Its file.
///
/// # Errors
/// If there is none.
pub fn file() -> Result<PathBuf> {
    let beside = own_file()?.with_file_name(NAME);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = [beside].into_iter().chain(std::env::split_paths(&path).map(|folder| folder.join(NAME)));
    let found = found.into_iter().find(|file| file.is_file());
    found.context(
        "the program quell is neither beside this one nor in PATH: install the package quell, or build both with `cargo build`",
    )
}

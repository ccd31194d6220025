//! What is found once and kept in a file.

use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// What the file has; if it is not there, what `run` finds, written whole or not at all.
pub fn once<T: Serialize + DeserializeOwned>(path: &Path, run: impl FnOnce() -> Result<T>) -> Result<T> {
    if let Ok(text) = std::fs::read(path) {
        return serde_json::from_slice(&text).with_context(|| format!("read {}", path.display()));
    }
    let found = run()?;
    let whole = path.with_extension("part");
    std::fs::write(&whole, serde_json::to_vec(&found)?)
        .and_then(|()| std::fs::rename(&whole, path))
        .with_context(|| format!("write {}", path.display()))?;
    Ok(found)
}

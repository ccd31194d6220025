//! A scenario by its file, or by the name of one that comes with Quell.

use std::path::Path;

use anyhow::{Context, Result};
use quell_sim::scenario::SHIPPED;

/// A scenario's text: of a file, or of one that comes with Quell.
pub fn text(path: &Path) -> Result<String> {
    let shipped = SHIPPED.iter().find(|shipped| Path::new(shipped.name) == path);
    match shipped {
        Some(shipped) if !path.exists() => Ok(shipped.text.to_owned()),
        _ => std::fs::read_to_string(path).with_context(|| {
            let names: Vec<&str> = SHIPPED.iter().map(|shipped| shipped.name).collect();
            format!("read scenario {} (give a file, or one of: {})", path.display(), names.join(", "))
        }),
    }
}

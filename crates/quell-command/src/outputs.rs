//! Files that a command writes at its end, tried before its work begins.

use std::fs::{self, OpenOptions};
use std::path::Path;

use anyhow::{Context, Result};

/// Can this file be written? Its content stays, and a file that did not exist does not exist afterwards.
pub fn check(path: &Path) -> Result<()> {
    let is_new = !path.exists();
    let mut options = OpenOptions::new();
    options.append(true).create(is_new);
    options.open(path).with_context(|| {
        format!("write {} (nothing was run; name a file in a folder that is there)", path.display())
    })?;
    if is_new {
        fs::remove_file(path).with_context(|| format!("remove {}, which was made to try", path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_written_is_refused_and_nothing_is_changed_by_trying() {
        let folder = tempfile::tempdir().unwrap();
        let (new, old) = (folder.path().join("new"), folder.path().join("old"));
        fs::write(&old, "text").unwrap();
        check(&new).unwrap();
        check(&old).unwrap();
        assert!(!new.exists());
        assert_eq!(fs::read_to_string(&old).unwrap(), "text");
        let error = check(&folder.path().join("none/new")).unwrap_err().to_string();
        assert!(error.contains("none/new") && error.contains("nothing was run"), "{error}");
        assert!(check(folder.path()).is_err());
    }
}

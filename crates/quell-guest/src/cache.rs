//! The lab's cache of fetched and built files.
//!
//! An entry is a directory that is either complete or absent: it is made under another name and renamed.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::error::{LabError, Result};

/// Prefix of directories that are still being made.
const UNFINISHED: &str = ".unfinished-";

/// A directory of complete entries.
#[derive(Clone, Debug)]
pub struct Cache {
    root: PathBuf,
}

impl Cache {
    /// The user's cache: `$QUELL_LAB_CACHE`, else `$XDG_CACHE_HOME/quell/lab`, else `~/.cache/quell/lab`.
    ///
    /// # Errors
    /// When the directory cannot be created, or no variable names its place.
    pub fn of_user() -> Result<Self> {
        let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let root = set("QUELL_LAB_CACHE")
            .or_else(|| set("XDG_CACHE_HOME").map(|cache| cache.join("quell/lab")))
            .or_else(|| set("HOME").map(|home| home.join(".cache/quell/lab")))
            .ok_or(LabError::BadOption { option: "QUELL_LAB_CACHE", why: "set it, HOME is unset".into() })?;
        Self::at(&root)
    }

    /// A cache at `root`, which is created.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn at(root: &Path) -> Result<Self> {
        fs::create_dir_all(root).map_err(LabError::io("create", root))?;
        let root = root.canonicalize().map_err(LabError::io("resolve", root))?;
        Ok(Self { root })
    }

    /// The directory itself.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The entry's directory, if it is complete.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<PathBuf> {
        let entry = self.root.join(name);
        entry.is_dir().then_some(entry)
    }

    /// The entry's directory; `make` fills it if it is not there yet. Of several processes one makes it, the others wait.
    ///
    /// # Errors
    /// Those of `make`, after which nothing of the entry is left, and those of the file system.
    pub fn get_or_make(&self, name: &str, make: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
        if let Some(entry) = self.get(name) {
            return Ok(entry);
        }
        let lock_path = self.root.join(format!(".{name}.lock"));
        let lock = File::create(&lock_path).map_err(LabError::io("create", &lock_path))?;
        lock.lock().map_err(LabError::io("lock", &lock_path))?;
        if let Some(entry) = self.get(name) {
            return Ok(entry);
        }
        // The process that left an unfinished one under our lock is dead.
        let unfinished = self.root.join(format!("{UNFINISHED}{name}"));
        let _ = fs::remove_dir_all(&unfinished);
        fs::create_dir(&unfinished).map_err(LabError::io("create", &unfinished))?;
        let entry = self.root.join(name);
        let made = make(&unfinished)
            .and_then(|()| fs::rename(&unfinished, &entry).map_err(LabError::io("rename", &unfinished)));
        if let Err(error) = made {
            let _ = fs::remove_dir_all(&unfinished);
            return Err(error);
        }
        Ok(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_made_once() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path()).unwrap();
        let mut made = 0;
        for _ in 0..2 {
            let entry = cache
                .get_or_make("thing", |dir| {
                    made += 1;
                    fs::write(dir.join("file"), "content").map_err(LabError::io("write", dir))
                })
                .unwrap();
            assert_eq!(fs::read_to_string(entry.join("file")).unwrap(), "content");
        }
        assert_eq!(made, 1);
    }

    #[test]
    fn a_failure_leaves_no_entry() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path()).unwrap();
        let full = LabError::DiskFull { path: "x".into() };
        assert!(cache.get_or_make("thing", |_| Err(full)).is_err());
        assert!(cache.get("thing").is_none());
        let left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left, [".thing.lock"]);
        cache.get_or_make("thing", |_| Ok(())).unwrap();
    }

    #[test]
    fn what_a_killed_process_left_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path()).unwrap();
        fs::create_dir(dir.path().join(".unfinished-thing")).unwrap();
        fs::write(dir.path().join(".unfinished-thing/half"), "").unwrap();
        let entry = cache.get_or_make("thing", |_| Ok(())).unwrap();
        assert_eq!(fs::read_dir(entry).unwrap().count(), 0);
    }
}

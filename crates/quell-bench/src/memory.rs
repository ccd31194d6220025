//! The memory that this machine has to give, from procfs.

use std::fs;
use std::path::Path;

use quell_report::human;

use crate::{Error, Result};

/// Memory that new work may have without anything being swapped out, bytes, from `meminfo` under `root` (`/proc` outside tests).
/// `None` where the kernel does not report it.
///
/// # Errors
/// When the file cannot be read.
pub fn available_bytes(root: &Path) -> Result<Option<u64>> {
    let path = root.join("meminfo");
    let text = fs::read_to_string(&path).map_err(Error::file("read", &path))?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib =
        line.and_then(|rest| rest.trim().strip_suffix(" kB")).and_then(|digits| digits.trim().parse::<u64>().ok());
    Ok(kib.map(|kib| kib << 10))
}

/// Refuses a need for more memory than this machine has: the `field` that is at fault, and a valid form.
///
/// # Errors
/// [`Error::Spec`], or when `meminfo` cannot be read.
pub fn check(root: &Path, field: &'static str, needed: u64, fix: &'static str) -> Result<()> {
    match available_bytes(root)? {
        Some(available) if needed > available => Err(Error::Spec {
            field,
            problem: format!(
                "{} of memory, and this machine has {} available",
                human::bytes(needed),
                human::bytes(available)
            ),
            fix,
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_there_is_is_refused_before_it_is_touched() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("meminfo"), "MemTotal:  4194304 kB\nMemAvailable:    2097152 kB\n").unwrap();
        let check = |root: &Path, bytes| check(root, "working set", bytes, "give less");
        assert!(check(root.path(), 1 << 30).is_ok());
        let text = check(root.path(), 1 << 40).unwrap_err().to_string();
        assert_eq!(text, "working set: 1.00 TiB of memory, and this machine has 2.00 GiB available; give less");
        fs::write(root.path().join("meminfo"), "MemTotal:  4194304 kB\n").unwrap();
        assert!(check(root.path(), 1 << 40).is_ok(), "an old kernel does not report");
        assert!(check(Path::new("/nowhere"), 1).is_err());
    }
}

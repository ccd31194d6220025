//! The size of the last-level cache, from sysfs.

use std::fs;
use std::path::Path;

use crate::{Error, Result};

/// Bytes of the largest cache of CPU 0, read below a sysfs root (usually `/sys`); `None` where the machine does not
/// report.
///
/// # Errors
/// When a file is there and cannot be read, or has a size that is none.
pub fn llc_bytes(sys_root: &Path) -> Result<Option<u64>> {
    let directory = sys_root.join("devices/system/cpu/cpu0/cache");
    let entries = match fs::read_dir(&directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::file("read", &directory)(error)),
    };
    let mut largest = None;
    for entry in entries {
        let path = entry.map_err(Error::file("read", &directory))?.path().join("size");
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            // Not a cache's directory.
            Err(_) if !path.exists() => continue,
            Err(error) => return Err(Error::file("read", &path)(error)),
        };
        let bytes = parse(text.trim())
            .ok_or_else(|| Error::Format { path, problem: format!("`{}` is not a size", text.trim()) })?;
        largest = largest.max(Some(bytes));
    }
    Ok(largest)
}

/// `107520K` or `32M`.
fn parse(text: &str) -> Option<u64> {
    let (number, shift) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 10),
        b'M' => (&text[..text.len() - 1], 20),
        _ => (text, 0),
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_cache_counts() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(llc_bytes(root.path()).unwrap(), None);
        let cache = root.path().join("devices/system/cpu/cpu0/cache");
        for (index, size) in ["48K\n", "2048K\n", "105M\n"].iter().enumerate() {
            let directory = cache.join(format!("index{index}"));
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join("size"), size).unwrap();
        }
        fs::write(cache.join("uevent"), "").unwrap();
        assert_eq!(llc_bytes(root.path()).unwrap(), Some(105 << 20));
        fs::write(cache.join("index1/size"), "big").unwrap();
        let text = llc_bytes(root.path()).unwrap_err().to_string();
        assert!(text.contains("index1/size") && text.contains("big"), "{text}");
    }
}

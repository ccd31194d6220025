//! The guest's initial file system: a cpio archive in memory.

mod pack;

pub use pack::Pack;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};

use cpio::newc;

use crate::error::{LabError, Result};

const DIRECTORY: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;
const SYMLINK: u32 = 0o120_000;

/// Builds the archive; every directory above an entry is made by itself, and of two entries of one path the first stays.
pub struct Image<W: Write> {
    out: W,
    made: BTreeSet<PathBuf>,
    bytes: u64,
}

impl<W: Write> Image<W> {
    /// An empty archive that goes to `out`.
    pub fn new(out: W) -> Self {
        Self { out, made: BTreeSet::new(), bytes: 0 }
    }

    /// A directory, and those above it.
    ///
    /// # Errors
    /// When `out` cannot be written.
    pub fn directory(&mut self, path: &Path) -> Result<()> {
        let mut above = PathBuf::new();
        for part in path.components() {
            if let Component::Normal(name) = part {
                above.push(name);
                self.entry(&above.clone(), DIRECTORY | 0o755, &[])?;
            }
        }
        Ok(())
    }

    /// A file with this content.
    ///
    /// # Errors
    /// When `out` cannot be written.
    pub fn file(&mut self, path: &Path, mode: u32, content: &[u8]) -> Result<()> {
        self.parent(path)?;
        self.entry(relative(path), REGULAR | (mode & 0o7777), content)
    }

    /// The host's file `source` at `path`.
    ///
    /// # Errors
    /// When `source` cannot be read or `out` cannot be written.
    pub fn copy(&mut self, path: &Path, source: &Path) -> Result<()> {
        use std::os::unix::fs::PermissionsExt;
        let read = LabError::io("read", source);
        let mode = source.metadata().map_err(&read)?.permissions().mode();
        // A mapping would save a copy, but the file could change under it.
        let mut content = Vec::new();
        io::copy(&mut File::open(source).map_err(&read)?, &mut content).map_err(&read)?;
        self.file(path, mode, &content)
    }

    /// A symbolic link at `path` to `target`.
    ///
    /// # Errors
    /// When `out` cannot be written.
    pub fn link(&mut self, path: &Path, target: &Path) -> Result<()> {
        self.parent(path)?;
        self.entry(relative(path), SYMLINK | 0o777, target.as_os_str().as_encoded_bytes())
    }

    /// Ends the archive; returns `out` and the number of bytes in the files.
    ///
    /// # Errors
    /// When `out` cannot be written.
    pub fn finish(self) -> Result<(W, u64)> {
        let out = newc::trailer(self.out).map_err(LabError::io("write", Path::new("initramfs")))?;
        Ok((out, self.bytes))
    }

    fn parent(&mut self, path: &Path) -> Result<()> {
        path.parent().map_or(Ok(()), |parent| self.directory(parent))
    }

    fn entry(&mut self, path: &Path, mode: u32, content: &[u8]) -> Result<()> {
        if !self.made.insert(path.to_path_buf()) {
            return Ok(());
        }
        let size = u32::try_from(content.len())
            .map_err(|_| LabError::BadOption { option: "--pack", why: format!("{} is over 4 GiB", path.display()) })?;
        let ino = self.made.len() as u32;
        let links = if mode & DIRECTORY == DIRECTORY { 2 } else { 1 };
        let builder = newc::Builder::new(&path.to_string_lossy()).ino(ino).mode(mode).nlink(links);
        let mut entry = builder.write(&mut self.out, size);
        let written = entry.write_all(content).and_then(|()| entry.finish().map(drop));
        self.bytes += u64::from(size);
        written.map_err(LabError::io("write", Path::new("initramfs")))
    }
}

fn relative(path: &Path) -> &Path {
    path.strip_prefix("/").unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(archive: &[u8]) -> Vec<(String, u32)> {
        let mut names = Vec::new();
        let mut rest = archive;
        loop {
            let reader = newc::Reader::new(rest).unwrap();
            if reader.entry().is_trailer() {
                return names;
            }
            names.push((reader.entry().name().to_owned(), reader.entry().mode()));
            rest = reader.finish().unwrap();
        }
    }

    #[test]
    fn directories_come_by_themselves_and_once() {
        let mut image = Image::new(Vec::new());
        image.file(Path::new("/a/b/one"), 0o755, b"1").unwrap();
        image.file(Path::new("/a/b/two"), 0o644, b"22").unwrap();
        image.link(Path::new("/a/link"), Path::new("b/one")).unwrap();
        image.file(Path::new("/a/b/one"), 0o644, b"other").unwrap();
        let (archive, bytes) = image.finish().unwrap();
        let expected = [
            ("a", 0o040_755),
            ("a/b", 0o040_755),
            ("a/b/one", 0o100_755),
            ("a/b/two", 0o100_644),
            ("a/link", 0o120_777),
        ];
        assert_eq!(entries(&archive), expected.map(|(name, mode)| (name.to_owned(), mode)));
        assert_eq!(bytes, 3 + "b/one".len() as u64);
    }
}

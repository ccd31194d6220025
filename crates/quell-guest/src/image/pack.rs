//! Files that a program needs: itself, its loader and its shared libraries.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Component, Path, PathBuf};

use lddtree::DependencyAnalyzer;

use super::Image;
use crate::error::{LabError, Result};

/// Files of the host, each at the path that it has in the guest.
#[derive(Debug, Default)]
pub struct Pack {
    files: BTreeMap<PathBuf, PathBuf>,
}

impl Pack {
    /// Adds a file or a directory with all below it, at its absolute path; for programs also their libraries.
    ///
    /// # Errors
    /// When it cannot be read, or a library that it needs is not found.
    pub fn add(&mut self, path: &Path) -> Result<()> {
        let guest_path = normalised(&std::path::absolute(path).map_err(LabError::io("resolve", path))?);
        if path.is_dir() {
            for entry in fs::read_dir(path).map_err(LabError::io("list", path))? {
                self.add(&entry.map_err(LabError::io("list", path))?.path())?;
            }
            return Ok(());
        }
        let host_path = path.canonicalize().map_err(LabError::io("read", path))?;
        if self.files.insert(guest_path, host_path.clone()).is_none() && is_elf(&host_path)? {
            self.add_libraries(&host_path)?;
        }
        Ok(())
    }

    /// Writes the files into `image`.
    ///
    /// # Errors
    /// When one of them cannot be read, or `image` cannot be written.
    pub fn write<W: Write>(&self, image: &mut Image<W>) -> Result<()> {
        self.files.iter().try_for_each(|(guest, host)| image.copy(guest, host))
    }

    fn add_libraries(&mut self, program: &Path) -> Result<()> {
        let malformed = |why: String| LabError::Malformed { path: program.to_path_buf(), why };
        let tree = DependencyAnalyzer::default().analyze(program).map_err(|error| malformed(error.to_string()))?;
        let loader = tree.interpreter.map(PathBuf::from);
        for library in tree.libraries.into_values() {
            // The loader is among the libraries of some, by its name alone.
            let found = library.realpath.is_some().then_some(library.path.clone());
            let path =
                found.ok_or_else(|| malformed(format!("the library {} that it needs is not there", library.name)))?;
            self.add_file(&path)?;
        }
        loader.map_or(Ok(()), |loader| self.add_file(&loader))
    }

    fn add_file(&mut self, path: &Path) -> Result<()> {
        let host_path = path.canonicalize().map_err(LabError::io("read", path))?;
        self.files.insert(normalised(path), host_path);
        Ok(())
    }
}

fn is_elf(path: &Path) -> Result<bool> {
    use std::io::Read;
    let mut magic = Vec::new();
    let file = fs::File::open(path).map_err(LabError::io("read", path))?;
    file.take(4).read_to_end(&mut magic).map_err(LabError::io("read", path))?;
    Ok(magic == b"\x7fELF")
}

/// The path without `.` and `..`, which an archive cannot have. Symbolic links among its directories stay.
fn normalised(path: &Path) -> PathBuf {
    let mut result = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                result.pop();
            }
            Component::CurDir => {}
            part => result.push(part),
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_brings_its_libraries_and_loader() {
        let mut pack = Pack::default();
        let program = std::env::current_exe().unwrap();
        pack.add(&program).unwrap();
        let names: Vec<_> = pack.files.keys().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
        assert!(names.contains(&program.file_name().unwrap().to_str().unwrap()));
        assert!(names.contains(&"libc.so.6"), "{names:?}");
        assert!(names.iter().any(|name| name.starts_with("ld-linux")), "{names:?}");
    }

    #[test]
    fn directories_are_packed_whole() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("sub")).unwrap();
        fs::write(dir.path().join("one"), "1").unwrap();
        fs::write(dir.path().join("sub/two"), "2").unwrap();
        let mut pack = Pack::default();
        pack.add(dir.path()).unwrap();
        let expected = ["one", "sub/two"].map(|name| dir.path().join(name));
        assert_eq!(pack.files.into_keys().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = Pack::default().add(Path::new("/no/such/file")).unwrap_err();
        assert!(error.to_string().contains("/no/such/file"), "{error}");
    }

    #[test]
    fn paths_lose_their_dots() {
        assert_eq!(normalised(Path::new("/a/./b/../c")), Path::new("/a/c"));
    }
}

//! Reads the file and its drop-ins, merges them, and makes all checks that need no machine.

use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use quell_policy::AnyPolicy;
use toml::de::DeTable;

use super::keys::{Source, one_line};
use super::{Config, Place, Problems, entries, tables};

/// Greatest length of a file, in bytes.
const LONGEST: u64 = 1 << 20;

/// The directory of a configuration file's drop-ins: `quell.d` beside `quell.toml`.
#[must_use]
pub fn drop_in_directory(file: &Path) -> PathBuf {
    file.with_extension("d")
}

/// Reads a configuration file and, in the order of their names, the files `*.toml` in its [`drop_in_directory`].
///
/// # Errors
/// Every problem that was found: files that cannot be read, and whatever does not fit together.
pub fn read(path: &Path) -> Result<Config, Problems> {
    let (config, problems) = read_all(path);
    if problems.are_fatal() { Err(problems) } else { Ok(config) }
}

/// As [`read`], but with the valid parts of a faulty configuration, so that the rest can be checked, too.
#[must_use]
pub fn read_all(path: &Path) -> (Config, Problems) {
    read_with(path, None)
}

/// As [`read_all`], as if a drop-in had this text, or were not there.
#[must_use]
pub fn read_with(path: &Path, other: Option<(&Path, Option<&str>)>) -> (Config, Problems) {
    let mut problems = Problems::default();
    let mut texts = Vec::new();
    let mut files = drop_ins(path, &mut problems);
    if let Some((file, text)) = other {
        files.retain(|known| known != file);
        files.extend(text.map(|_| file.to_owned()));
        files.sort();
    }
    // Drop-ins can be all that there is.
    if files.is_empty() || path.symlink_metadata().is_ok() {
        files.insert(0, path.to_owned());
    }
    for path in files {
        let as_if = other.filter(|(file, _)| *file == path).and_then(|(_, text)| text.map(str::to_owned));
        match as_if.map_or_else(|| text_of(&path), Ok) {
            Ok(text) => texts.push((path, text)),
            Err(error) => problems.error(&Place::file(path), format!("cannot read it: {error}")),
        }
    }
    if problems.are_fatal() {
        return (Config::default(), problems);
    }
    merge(&texts)
}

/// Reads a configuration from one text; `path` is its name in messages.
///
/// # Errors
/// As [`read`].
pub fn read_text(path: &Path, text: &str) -> Result<Config, Problems> {
    let (config, problems) = merge(&[(path.to_owned(), text.to_owned())]);
    if problems.are_fatal() { Err(problems) } else { Ok(config) }
}

/// What one text says by itself, and what is wrong with that: what it lacks another file may have.
#[must_use]
pub fn read_one(path: &Path, text: &str) -> (Config, Problems) {
    merge(&[(path.to_owned(), text.to_owned())])
}

/// A file's text, or a pipe's: a device may have no end.
fn text_of(path: &Path) -> io::Result<String> {
    let found = fs::metadata(path)?.file_type();
    if !(found.is_file() || found.is_fifo()) {
        return Err(io::Error::other("it is neither a file nor a pipe; name a file"));
    }
    let mut text = String::new();
    fs::File::open(path)?.take(LONGEST + 1).read_to_string(&mut text)?;
    if text.len() as u64 > LONGEST {
        return Err(io::Error::other("it is longer than 1 MiB, which no configuration is; name another file"));
    }
    Ok(text)
}

fn drop_ins(path: &Path, problems: &mut Problems) -> Vec<PathBuf> {
    let directory = drop_in_directory(path);
    let entries = match fs::read_dir(&directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Vec::new(),
        Err(error) => {
            problems.error(&Place::file(directory), format!("cannot list it: {error}"));
            return Vec::new();
        }
    };
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    files.sort();
    files
}

/// Reads as much of a file as possible: after a mistake in its syntax, the parser's recovered rest; faults of that rest
/// on the same line are not reported.
fn parse<'a>(path: &Path, text: &'a str, problems: &mut Problems, broken: &mut Vec<Place>) -> Source<'a> {
    let (values, errors) = DeTable::parse_recoverable(text);
    let source = Source { path: Arc::new(path.to_owned()), text, values: values.into_inner() };
    for error in &errors {
        let place = source.at(error.span().map_or(0, |span| span.start));
        problems.error(&place, one_line(error.message()));
        broken.push(place);
    }
    source
}

fn merge(texts: &[(PathBuf, String)]) -> (Config, Problems) {
    let mut config = Config { files: texts.iter().map(|(path, _)| path.clone()).collect(), ..Config::default() };
    let (mut problems, mut broken) = (Problems::default(), Vec::new());
    let sources: Vec<Source> = texts.iter().map(|(path, text)| parse(path, text, &mut problems, &mut broken)).collect();
    let mut found = Problems::default();
    for source in &sources {
        tables::override_with(&mut config, source, &mut found);
        entries::add_workloads(&mut config, source, &mut found);
    }
    for source in &sources {
        entries::add_policies(&mut config, source, &mut found);
    }
    let is_broken = |place: &Place| broken.iter().any(|other| other.file == place.file && other.line == place.line);
    problems.0.extend(found.0.into_iter().filter(|problem| !is_broken(&problem.place)));
    if config.policies.is_empty() && !problems.are_fatal() {
        let place = Place::file(texts.first().map(|(path, _)| path.clone()).unwrap_or_default());
        let text = format!("there is no [[policy]], so nothing would be done; add one of: {}", AnyPolicy::names());
        problems.error(&place, text);
    }
    problems.sort(&config.files);
    (config, problems)
}

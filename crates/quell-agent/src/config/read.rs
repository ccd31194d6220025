//! Reads the file and its drop-ins, merges them, and makes all checks that need no machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use quell_model::{KnobKind, Policy as _};
use quell_pods::Mode;
use quell_policy::AnyPolicy;
use toml::de::DeTable;

use super::keys::{Source, one_line};
use super::text::{text_of, text_of_file};
use super::{Config, Place, Problems, entries, tables};

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
    let (config, problems) = merged(path, other);
    (Config { main: Some(path.to_owned()), ..config }, problems)
}

/// What drop-ins without a main file have for a policy, where none of them names one.
const ASSUMED: &str = "[[policy]]\nname = \"guard\"\n";

fn merged(path: &Path, other: Option<(&Path, Option<&str>)>) -> (Config, Problems) {
    let mut problems = Problems::default();
    let mut texts = Vec::new();
    let mut files = drop_ins(path, &mut problems);
    if let Some((file, text)) = other {
        files.retain(|known| known != file);
        files.extend(text.map(|_| file.to_owned()));
        files.sort();
    }
    // Drop-ins can be all that there is, until the last one is taken out.
    let directory = drop_in_directory(path);
    if files.is_empty() && path.symlink_metadata().is_err() && directory.is_dir() && !problems.are_fatal() {
        let (config, mut problems) = merge(&[(directory.clone(), ASSUMED.to_owned())]);
        let nothing = "nothing is kept here, so that no workload is managed; `quell protect NAME --keep` keeps one";
        problems.warning(&Place::file(directory), nothing);
        return (Config { files: Vec::new(), ..config }, problems);
    }
    if files.is_empty() || path.symlink_metadata().is_ok() {
        files.insert(0, path.to_owned());
    }
    for file in files {
        let as_if = other.filter(|(known, _)| *known == file).and_then(|(_, text)| text.map(str::to_owned));
        let read = || if file == path { text_of(&file) } else { text_of_file(&file) };
        match as_if.map_or_else(read, Ok) {
            Ok(text) => texts.push((file, text)),
            Err(error) => problems.error(&Place::file(file), format!("cannot read it: {error}")),
        }
    }
    if problems.are_fatal() {
        return (Config::default(), problems);
    }
    let read = merge(&texts);
    if read.0.policies.is_empty() && path.symlink_metadata().is_err() {
        texts.push((directory, ASSUMED.to_owned()));
        let (mut config, problems) = merge(&texts);
        config.files.pop();
        return (config, problems);
    }
    read
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

/// Metrics that other machines reach without a token. The two keys may be in two files.
fn reachable(config: &Config, problems: &mut Problems) {
    let metrics = &config.metrics;
    let (Some(address), Some(place)) = (metrics.listen, &config.places.listen) else { return };
    if !address.ip().is_loopback() && metrics.token.is_none() {
        let what = format!(
            "other machines can read metrics on {address}: write \"127.0.0.1:{port}\", or give a token too: \
             token = \"/etc/quell/metrics.token\"",
            port = address.port()
        );
        problems.error(place, what);
    }
}

/// A policy that decides about CPUs does not know those that strict pods have.
fn one_hands_out(config: &Config, problems: &mut Problems) {
    if config.kubernetes.as_ref().is_none_or(|kubernetes| kubernetes.mode == Mode::Observe) {
        return;
    }
    for layer in &config.policies {
        let about = layer.policy.describe();
        if about.grants || about.knobs.iter().any(|need| matches!(need.what, KnobKind::Cpus | KnobKind::Partition)) {
            let what = format!(
                "policy '{}' gives CPUs away, and strict pods would have the same ones; write mode = \"observe\" below \
                 [kubernetes], or use guard",
                about.name
            );
            problems.error(&layer.place, what);
        }
    }
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
    // Pods bring a policy of their own.
    if config.policies.is_empty() && config.kubernetes.is_none() && !problems.are_fatal() {
        let place = Place::file(texts.first().map(|(path, _)| path.clone()).unwrap_or_default());
        let text = format!("there is no [[policy]], so nothing is managed; add one of: {}", AnyPolicy::names());
        problems.error(&place, text);
    }
    reachable(&config, &mut problems);
    one_hands_out(&config, &mut problems);
    problems.sort(&config.files);
    (config, problems)
}

//! Reads the file and its drop-ins, merges them, and checks what can be checked without a machine.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use quell_model::{LeaseLimits, Nanos, Selector};
use quell_policy::{AnyPolicy, PolicyError};
use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use super::raw::{RawFile, RawOwned, RawPolicy, RawWorkload};
use super::{Agent, Config, Layer, Machine, Member, Place, Problems};

/// A loop that turns more often than this would use a whole CPU.
const LOWEST_FLOOR: Nanos = Nanos::from_micros(5);

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
    let mut problems = Problems::default();
    let mut texts = Vec::new();
    for path in std::iter::once(path.to_owned()).chain(drop_ins(path, &mut problems)) {
        match fs::read_to_string(&path) {
            Ok(text) => texts.push((path, text)),
            Err(error) => problems.error(&Place::file(path), format!("cannot read it: {error}")),
        }
    }
    if problems.are_fatal() {
        return Err(problems);
    }
    merge(&texts)
}

/// Reads a configuration that stands in one text; `path` is its name in messages.
///
/// # Errors
/// As [`read`].
pub fn read_text(path: &Path, text: &str) -> Result<Config, Problems> {
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

/// One parsed file: its shape, and its values with their places.
struct Source<'a> {
    path: Arc<PathBuf>,
    text: &'a str,
    raw: RawFile,
    values: Spanned<DeTable<'a>>,
}

impl Source<'_> {
    fn at(&self, byte: usize) -> Place {
        Place::at(&self.path, self.text, byte)
    }
}

fn parse<'a>(path: &Path, text: &'a str, problems: &mut Problems) -> Option<Source<'a>> {
    let path = Arc::new(path.to_owned());
    let mut report = |error: &toml::de::Error| {
        let byte = error.span().map_or(0, |span| span.start);
        problems.error(&Place::at(&path, text, byte), one_line(error.message()));
    };
    let (values, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        errors.iter().for_each(report);
        return None;
    }
    match RawFile::deserialize(toml::de::Deserializer::from(values.clone())) {
        Ok(raw) => Some(Source { path, text, raw, values }),
        Err(error) => {
            report(&error);
            None
        }
    }
}

fn one_line(message: &str) -> String {
    message.trim().replace('\n', ", ").replace('`', "'")
}

fn merge(texts: &[(PathBuf, String)]) -> Result<Config, Problems> {
    let mut problems = Problems::default();
    let sources: Vec<Source> = texts.iter().filter_map(|(path, text)| parse(path, text, &mut problems)).collect();
    if problems.are_fatal() {
        return Err(problems);
    }
    let mut config = Config {
        files: texts.iter().map(|(path, _)| path.clone()).collect(),
        machine: Machine::default(),
        agent: Agent::default(),
        api: super::Api::default(),
        metrics: super::Metrics::default(),
        policies: Vec::new(),
        workloads: Vec::new(),
    };
    for source in &sources {
        override_tables(&mut config, source, &mut problems);
        for workload in &source.raw.workload {
            add_workload(&mut config, source, workload, &mut problems);
        }
    }
    for source in &sources {
        for (index, policy) in source.raw.policy.iter().enumerate() {
            add_policy(&mut config, source, index, policy, &mut problems);
        }
    }
    if config.policies.is_empty() && !problems.are_fatal() {
        let place = Place::file(texts.first().map(|(path, _)| path.clone()).unwrap_or_default());
        let text = format!("there is no [[policy]], so nothing would be done; add one of: {}", AnyPolicy::names());
        problems.error(&place, text);
    }
    if problems.are_fatal() { Err(problems) } else { Ok(config) }
}

fn override_tables(config: &mut Config, source: &Source, problems: &mut Problems) {
    let RawFile { machine, agent, api, metrics, .. } = &source.raw;
    if let Some(cpus) = &machine.cpus {
        if cpus.get_ref().is_empty() {
            problems
                .error(&source.at(cpus.span().start), "no CPU to manage; name some, such as \"0-3\", or leave it out");
        }
        config.machine.cpus = Some(*cpus.get_ref());
    }
    let solo = &mut config.machine.solo_runs;
    *solo = LeaseLimits {
        longest: machine.solo_runs.longest.unwrap_or(solo.longest),
        duty_per_mille: machine.solo_runs.duty_per_mille.unwrap_or(solo.duty_per_mille),
    };
    if solo.duty_per_mille > 1000 {
        let place = source.at(source.values.span().start);
        let what = format!("solo runs of {} thousandths of the time: at most 1000 are possible", solo.duty_per_mille);
        problems.error(&find(source, &["machine", "solo_runs", "duty_per_mille"]).unwrap_or(place), what);
    }
    config.machine.partition = machine.partition.unwrap_or(config.machine.partition);
    config.machine.preemption = machine.preemption.unwrap_or(config.machine.preemption);
    let enable_controllers = machine.enable_controllers;
    config.machine.enable_controllers = enable_controllers.unwrap_or(config.machine.enable_controllers);
    config.agent.realtime = agent.realtime.unwrap_or(config.agent.realtime);
    let floor = agent.interval_floor.map(|floor| floor.max(LOWEST_FLOOR));
    config.agent.interval_floor = floor.or(config.agent.interval_floor);
    config.agent.poll = agent.poll.unwrap_or(config.agent.poll);
    config.machine.scheduler = machine.scheduler.unwrap_or(config.machine.scheduler);
    if let Some(hung_after) = &agent.hung_after {
        if *hung_after.get_ref() < Nanos::from_millis(500) {
            let what = "the loop looks every 100 ms whether it shall stop: take at least 500ms";
            problems.error(&source.at(hung_after.span().start), what);
        }
        config.agent.hung_after = *hung_after.get_ref();
    }
    if let Some(api) = api {
        config.api.socket = api.socket.clone().or(config.api.socket.take());
        config.api.group = api.group.clone().or(config.api.group.take());
    }
    if let Some(metrics) = metrics {
        config.metrics.listen = metrics.get_ref().listen.or(config.metrics.listen);
        if config.metrics.listen.is_some_and(|address| !address.ip().is_loopback()) {
            let what = "metrics are served on loopback only, for a collector on this machine; write \"127.0.0.1:9464\"";
            problems.error(&source.at(metrics.span().start), what);
        }
    }
}

/// Where a value stands that is reached by these keys.
fn find(source: &Source, keys: &[&str]) -> Option<Place> {
    let mut table = source.values.get_ref();
    let (last, path) = keys.split_last()?;
    for key in path {
        match table.get(*key)?.get_ref() {
            DeValue::Table(inner) => table = inner,
            _ => return None,
        }
    }
    table.get(*last).map(|value| source.at(value.span().start))
}

fn add_workload(config: &mut Config, source: &Source, raw: &RawWorkload, problems: &mut Problems) {
    let place = source.at(raw.name.span().start);
    let workload = raw.workload();
    if let Some(other) = config.workloads.iter().find(|other| other.workload.name == workload.name) {
        let what = format!("workload '{}' is already there, at {}; give one another name", workload.name, other.place);
        problems.error(&place, what);
    }
    if let Err(error) = workload.check() {
        problems.error(&source.at(raw.culprit()), error.to_string());
    }
    if workload.selectors.is_empty() {
        let what = format!(
            "workload '{}' matches nothing: say where its threads are, such as match = [{{ unit = \"web.service\" }}], \
             or with cgroup, pid or command",
            workload.name
        );
        problems.error(&place, what);
    }
    for selector in &raw.selectors {
        let at = source.at(selector.span().start);
        if let Some(what) = impossible(selector.get_ref()) {
            problems.error(&at, what);
        }
        for other in &config.workloads {
            if other.workload.selectors.iter().any(|theirs| same(theirs, selector.get_ref())) {
                let what = format!(
                    "workloads '{}' and '{}' both match {}: a thread belongs to one workload",
                    other.workload.name,
                    workload.name,
                    selector.get_ref()
                );
                problems.error(&at, what);
            }
        }
    }
    config.workloads.push(Member { workload, place });
}

fn impossible(selector: &Selector) -> Option<&'static str> {
    match selector {
        Selector::Pid(pid) if *pid <= 0 => Some("a process has a number above 0"),
        Selector::Command(text) if text.trim().is_empty() => {
            Some("an empty text is in every command line; name the program")
        }
        Selector::Unit(name) if name.is_empty() || name.contains('/') => {
            Some("a unit has a name such as \"web.service\", as systemctl list-units shows it")
        }
        Selector::Cgroup(path) if path.components().all(|part| part.as_os_str() == "/" || part.as_os_str() == ".") => {
            Some("the root cgroup is the whole machine; name one below it, such as \"system.slice/web.service\"")
        }
        Selector::Cgroup(path) if path.components().any(|part| part.as_os_str() == "..") => {
            Some("a cgroup's path has no ..; name it from the root, such as \"system.slice/web.service\"")
        }
        _ => None,
    }
}

fn same(a: &Selector, b: &Selector) -> bool {
    let path = |path: &Path| path.strip_prefix("/").unwrap_or(path).components().collect::<PathBuf>();
    let unit = |name: &str| if name.contains('.') { name.to_owned() } else { format!("{name}.service") };
    match (a, b) {
        (Selector::Cgroup(a), Selector::Cgroup(b)) => path(a) == path(b),
        (Selector::Unit(a), Selector::Unit(b)) => unit(a) == unit(b),
        _ => a == b,
    }
}

fn add_policy(config: &mut Config, source: &Source, index: usize, raw: &RawPolicy, problems: &mut Problems) {
    let place = source.at(raw.name.span().start);
    let workloads = match &raw.workloads {
        RawOwned::All => None,
        RawOwned::Some(names) => Some(owned(config, source, names, problems)),
    };
    let (parameters, span) = parameters(source, index, raw.name.span());
    match AnyPolicy::build(raw.name.get_ref(), parameters) {
        Ok(policy) => config.policies.push(Layer { policy, workloads, place }),
        Err(error @ PolicyError::Unknown { .. }) => problems.error(&place, error.to_string()),
        Err(PolicyError::Parameters { name, problem: error }) => {
            let byte = error.span().map_or(span.start, |span| span.start);
            problems
                .error(&source.at(byte), format!("the parameters of policy '{name}': {}", one_line(error.message())));
        }
    }
}

fn owned(config: &Config, source: &Source, names: &[Spanned<String>], problems: &mut Problems) -> Vec<String> {
    let mut seen = BTreeMap::new();
    for name in names {
        let place = source.at(name.span().start);
        let name = name.get_ref();
        if config.workload(name).is_none() {
            let known: Vec<&str> = config.workloads.iter().map(|member| member.workload.name.as_str()).collect();
            let known = if known.is_empty() { "none at all".into() } else { known.join(", ") };
            problems.error(&place, format!("there is no workload '{name}'; there are: {known}"));
        }
        if seen.insert(name, ()).is_some() {
            problems.error(&place, format!("workload '{name}' is named twice"));
        }
    }
    names.iter().map(|name| name.get_ref().clone()).collect()
}

/// The parameters of a file's policy with their places in the file.
fn parameters<'a>(source: &Source<'a>, index: usize, name: Range<usize>) -> (ValueDeserializer<'a>, Range<usize>) {
    let policy = match source.values.get_ref().get("policy").map(Spanned::get_ref) {
        Some(DeValue::Array(policies)) => policies.get(index).map(Spanned::get_ref),
        _ => None,
    };
    let found = match policy {
        Some(DeValue::Table(policy)) => policy.get("parameters").cloned(),
        _ => None,
    };
    let value = found.unwrap_or_else(|| Spanned::new(name, DeValue::Table(DeTable::new())));
    let span = value.span();
    (ValueDeserializer::from(value), span)
}

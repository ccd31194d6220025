//! The entries of the lists: workloads and policies.

use std::collections::BTreeSet;
use std::ops::Range;

use quell_model::suggest::unknown;
use quell_model::{Class, CpuCount, Grace, Reservation, Slo, Workload};
use quell_policy::{AnyPolicy, PolicyError};
use quell_scrape::Unit;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use super::keys::{Form, Key, Keys, Source, key, kind, one_line, wrong_form};
use super::selector::{same, selectors};
use super::{Config, Layer, Member, Problems};

const WORKLOAD: &[Key] = &[
    key("name", Form::Text, "\"web\""),
    key("class", Form::Text, "\"lc\" or \"be\""),
    key("slo", Form::Table, "{ quantile = 0.99, bound = \"1ms\" }"),
    key("cpus", Form::Cpus, "1.5"),
    key("limit", Form::Cpus, "2"),
    key("reservation", Form::Text, "\"strict\""),
    key("pausable", Form::Switch, "true"),
    key("grace", Form::Table, "{ signal = \"usr1\", time = \"20us\" }"),
    key("demand", Form::Table, "{ budget = \"3ms\", period = \"10ms\" }"),
    key("latency", Form::Table, "{ address = \"127.0.0.1:9102\", metric = \"request_duration_seconds\" }"),
    key("match", Form::Any, "[{ unit = \"web.service\" }]"),
];
const SLO: &[Key] = &[key("quantile", Form::Number, "0.99"), key("bound", Form::Any, "\"1ms\"")];
const GRACE: &[Key] = &[key("signal", Form::Text, "\"usr1\""), key("time", Form::Any, "\"20us\"")];
const LATENCY: &[Key] = &[
    key("address", Form::Text, "\"127.0.0.1:9102\""),
    key("metric", Form::Text, "\"request_duration_seconds\""),
    key("path", Form::Text, "\"/metrics\""),
    key("unit", Form::Text, "\"ms\""),
];
const POLICY: &[Key] = &[
    key("name", Form::Text, "\"guard\""),
    key("workloads", Form::Any, "\"all\""),
    key("parameters", Form::Any, "{ interval = \"20ms\" }"),
];

/// The tables of a list; an entry that is no table, or in single brackets, is a problem.
fn entries<'s, 'a>(
    source: &'s Source<'a>,
    name: &str,
    problems: &mut Problems,
) -> Vec<(&'s DeTable<'a>, Range<usize>)> {
    let Some(value) = source.values.get(name) else { return Vec::new() };
    let at = |span: Range<usize>| source.at(span.start);
    let list: Vec<&Spanned<DeValue>> = match value.get_ref() {
        DeValue::Array(list) => list.iter().collect(),
        DeValue::Table(_) => {
            let what = format!("[{name}] is a single table; write [[{name}]], in double brackets, before each");
            problems.error(&at(value.span()), what);
            vec![value]
        }
        other => {
            let what =
                format!("{name} is {}; write [[{name}]] on a line of its own, and its keys below it", kind(other));
            problems.error(&at(value.span()), what);
            return Vec::new();
        }
    };
    let mut tables = Vec::new();
    for entry in list {
        match entry.get_ref() {
            DeValue::Table(table) => tables.push((table, entry.span())),
            other => {
                let what = format!("this {name} is {}; write [[{name}]], and its keys below it", kind(other));
                problems.error(&at(entry.span()), what);
            }
        }
    }
    tables
}

/// Adds a file's workloads.
pub(super) fn add_workloads(config: &mut Config, source: &Source, problems: &mut Problems) {
    for (table, span) in entries(source, "workload", problems) {
        let keys = Keys::of(source, "[[workload]]", table, WORKLOAD, problems);
        add_workload(config, &keys, span, problems);
    }
}

fn add_workload(config: &mut Config, keys: &Keys, span: Range<usize>, problems: &mut Problems) {
    let before = problems.0.len();
    let source = keys.source;
    let Some((name, byte)) = required::<String>(keys, "name", "[[workload]]", &span, problems) else {
        // The rest of it is read to find its faults.
        values(keys, String::new(), span, problems);
        selectors(keys, problems);
        return;
    };
    let place = source.at(byte);
    if let Some(other) = config.workloads.iter().find(|other| other.workload.name == name) {
        let what = format!("workload '{name}' is already defined, at {}; rename one of them", other.place);
        problems.error(&place, what);
    }
    let mut workload = values(keys, name, span, problems);
    let selectors = selectors(keys, problems);
    if problems.0.len() == before
        && let Err(error) = workload.check()
    {
        problems.error(&source.at(culprit(keys, &workload).unwrap_or(byte)), error.to_string());
    }
    let none = keys.raw("match").is_none_or(|value| value.get_ref().as_array().is_some_and(|list| list.is_empty()));
    if none {
        let what = format!(
            "workload '{}' matches nothing: say where its threads are, such as match = [{{ unit = \"web.service\" }}], \
             or with cgroup, container, pod, command or pid",
            workload.name
        );
        problems.error(&place, what);
    }
    for (selector, byte) in selectors {
        for other in &config.workloads {
            if other.workload.selectors.iter().any(|theirs| same(theirs, &selector)) {
                let (other, own) = (&other.workload.name, &workload.name);
                let what = format!(
                    "workloads '{other}' and '{own}' both match {selector}: a thread belongs to one workload; remove it \
                     from one"
                );
                problems.error(&source.at(byte), what);
            }
        }
        workload.selectors.push(selector);
    }
    let latency = latency(keys, &workload, problems);
    config.workloads.push(Member { workload, latency, leased_by: None, place });
}

/// A key without which an entry means nothing.
fn required<T: serde::de::DeserializeOwned>(
    keys: &Keys,
    name: &str,
    title: &str,
    entry: &Range<usize>,
    problems: &mut Problems,
) -> Option<(T, usize)> {
    if keys.raw(name).is_none() {
        let example = keys.example(name);
        let what = format!("this {title} has no {name}; write {name} = {example}");
        problems.error(&keys.source.at(entry.start), what);
        return None;
    }
    keys.take(name, problems)
}

/// Everything of a workload but its selectors.
fn values(keys: &Keys, name: String, span: Range<usize>, problems: &mut Problems) -> Workload {
    let class = required(keys, "class", "[[workload]]", &span, problems).map_or(Class::BestEffort, |(class, _)| class);
    let mut workload = Workload::new(name, class, CpuCount::ZERO);
    if let Some((keys, byte)) = keys.inner("slo", "slo", SLO, problems) {
        let span = byte..byte;
        let quantile = required(&keys, "quantile", "slo", &span, problems);
        let bound = required(&keys, "bound", "slo", &span, problems);
        workload.slo = quantile.zip(bound).map(|((quantile, _), (bound, _))| Slo { quantile, bound });
    }
    if let Some((cpus, _)) = keys.cpus("cpus", problems) {
        workload.cpus = cpus;
    }
    workload.limit = keys.cpus("limit", problems).map(|(limit, _)| limit);
    if let Some((reservation, _)) = keys.take("reservation", problems) {
        workload.reservation = reservation;
    }
    if let Some((pausable, _)) = keys.take("pausable", problems) {
        workload.pausable = pausable;
    }
    if let Some((keys, byte)) = keys.inner("grace", "grace", GRACE, problems) {
        let span = byte..byte;
        let signal = required(&keys, "signal", "grace", &span, problems);
        let time = required(&keys, "time", "grace", &span, problems);
        workload.grace = signal.zip(time).map(|((signal, _), (time, _))| Grace { signal, time });
    }
    workload.demand = keys.take("demand", problems).map(|(demand, _)| demand);
    workload
}

/// Where its latency is read.
fn latency(keys: &Keys, workload: &Workload, problems: &mut Problems) -> Option<quell_scrape::Source> {
    let (keys, byte) = keys.inner("latency", "latency", LATENCY, problems)?;
    let span = byte..byte;
    let address = required::<String>(&keys, "address", "latency", &span, problems);
    let metric = required::<String>(&keys, "metric", "latency", &span, problems);
    let path = keys.take::<String>("path", problems).map_or("/metrics".into(), |(path, _)| path);
    let unit = keys.take::<String>("unit", problems);
    let ((address, at), (metric, metric_at)) = address.zip(metric)?;
    let mut wrong = |byte: usize, what: String| problems.error(&keys.source.at(byte), what);
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == ':';
    if metric.is_empty() || !metric.chars().all(is_name) {
        wrong(metric_at, format!("'{metric}' is not a valid metric name; write that of a histogram, without _bucket"));
    }
    if !path.starts_with('/') || !path.bytes().all(|byte| byte.is_ascii_graphic()) {
        wrong(byte, format!("the path '{path}' is not valid; write what follows the address, such as \"/metrics\""));
    }
    let unit = match &unit {
        Some((word, at)) => Unit::named(word)
            .ok_or_else(|| (*at, format!("'{word}' is not a valid unit of time; write \"s\", \"ms\", \"us\" or \"ns\""))),
        None => Unit::of_metric(&metric).ok_or_else(|| {
            let metric = &metric;
            (
                metric_at,
                format!(
                    "the name {metric} does not include the unit of its bounds; write unit = \"ms\" beside it, or s, us, ns"
                ),
            )
        }),
    };
    let unit = unit.map_err(|(byte, what)| wrong(byte, what)).ok();
    let Ok(address) = address.parse() else {
        wrong(at, format!("'{address}' is not a valid address; write an IP address and a port, \"127.0.0.1:9102\""));
        return None;
    };
    let (workload, selectors) = (workload.name.clone(), workload.selectors.clone());
    Some(quell_scrape::Source { workload, selectors, address, path, metric, unit: unit? })
}

/// Place of the key that makes the workload impossible: the one without which it is possible.
fn culprit(keys: &Keys, workload: &Workload) -> Option<usize> {
    let without = [
        ("slo", Workload { slo: None, ..workload.clone() }),
        ("limit", Workload { limit: None, ..workload.clone() }),
        ("reservation", Workload { reservation: Reservation::Standard, ..workload.clone() }),
        ("grace", Workload { grace: None, ..workload.clone() }),
        ("demand", Workload { demand: None, ..workload.clone() }),
    ];
    let possible = without.into_iter().filter(|(_, other)| other.check().is_ok());
    possible.filter_map(|(name, _)| keys.raw(name)).map(|value| value.span().start).next()
}

/// Adds a file's policies.
pub(super) fn add_policies(config: &mut Config, source: &Source, problems: &mut Problems) {
    for (table, span) in entries(source, "policy", problems) {
        let keys = Keys::of(source, "[[policy]]", table, POLICY, problems);
        add_policy(config, &keys, &span, problems);
    }
}

fn add_policy(config: &mut Config, keys: &Keys, span: &Range<usize>, problems: &mut Problems) {
    let source = keys.source;
    let name = required::<String>(keys, "name", "[[policy]]", span, problems);
    let workloads = keys.raw("workloads").and_then(|value| owned(config, source, value, problems));
    let Some((name, byte)) = name else { return };
    let place = source.at(byte);
    let value = keys.raw("parameters").cloned();
    if let Some(value) = value.as_ref().filter(|value| !value.get_ref().is_table()) {
        let what = wrong_form(&POLICY[2], value.get_ref());
        return problems.error(&source.at(value.span().start), what);
    }
    let parameters = value.unwrap_or_else(|| Spanned::new(byte..byte, DeValue::Table(DeTable::new())));
    let span = parameters.span();
    match AnyPolicy::build(&name, ValueDeserializer::from(parameters)) {
        Ok(policy) => config.policies.push(Layer { policy, workloads, place }),
        Err(error @ PolicyError::Unknown { .. }) => problems.error(&place, error.to_string()),
        Err(PolicyError::Parameters { name, problem: error }) => {
            let byte = error.span().map_or(span.start, |span| span.start);
            problems
                .error(&source.at(byte), format!("the parameters of policy '{name}': {}", one_line(error.message())));
        }
    }
}

/// The workloads of a policy: `"all"` (None), or a list of names.
fn owned(config: &Config, source: &Source, value: &Spanned<DeValue>, problems: &mut Problems) -> Option<Vec<String>> {
    let expected = "write \"all\", or a list of names of workloads such as [\"web\", \"db\"]";
    let at = |value: &Spanned<DeValue>| source.at(value.span().start);
    let list = match value.get_ref() {
        DeValue::String(text) if &**text == "all" => return None,
        DeValue::Array(list) => list,
        other => {
            problems.error(&at(value), format!("workloads is {}; {expected}", kind(other)));
            return None;
        }
    };
    let known: Vec<&str> = config.workloads.iter().map(|member| member.workload.name.as_str()).collect();
    let mut seen = BTreeSet::new();
    let mut names = Vec::new();
    for entry in list {
        let DeValue::String(name) = entry.get_ref() else {
            problems.error(&at(entry), format!("{} is not a name; {expected}", kind(entry.get_ref())));
            continue;
        };
        if !known.contains(&&**name) {
            problems.error(&at(entry), unknown("workload", name, &known));
        }
        if !seen.insert(name.to_string()) {
            problems.error(&at(entry), format!("workload '{name}' is listed twice; remove one"));
        }
        names.push(name.to_string());
    }
    Some(names)
}

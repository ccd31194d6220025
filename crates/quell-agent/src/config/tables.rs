//! The tables: a later file's values override those of earlier files.

use std::net::SocketAddr;
use std::path::PathBuf;

use quell_model::suggest::unknown;
use quell_model::{CpuSet, Nanos};
use toml::de::DeValue;

use super::keys::{Form, Key, Keys, Source, key, kind};
use super::kubernetes::{self, KUBERNETES};
use super::{Config, Problems};

/// A loop that turns more often than this would use a whole CPU.
const LOWEST_FLOOR: Nanos = Nanos::from_micros(5);
/// A loop with longer turns sees nothing in time.
const HIGHEST_FLOOR: Nanos = Nanos::from_secs(1);
/// A guardian that waits longer guards nothing.
const LATEST_HUNG: Nanos = Nanos::from_secs(3600);
/// More would be a cause of its own.
const MOST_OF_A_CPU: f64 = 0.5;
/// Others would stand still for longer.
const LONGEST_SOLO_RUN: Nanos = Nanos::from_secs(60);

const MACHINE: &[Key] = &[
    key("cpus", Form::Text, "\"0-3,8\""),
    key("scheduler", Form::Text, "\"auto\""),
    key("partition", Form::Switch, "true"),
    key("preemption", Form::Switch, "true"),
    key("cache", Form::Switch, "true"),
    key("gpu", Form::Switch, "true"),
    key("enable_controllers", Form::Switch, "true"),
    key("solo_runs", Form::Table, "{ longest = \"2s\", duty_per_mille = 50 }"),
];
const SOLO_RUNS: &[Key] = &[key("longest", Form::Any, "\"2s\""), key("duty_per_mille", Form::Number, "50")];
const AGENT: &[Key] = &[
    key("min_interval", Form::Any, "\"100us\""),
    key("poll", Form::Text, "\"adaptive\""),
    key("realtime", Form::Switch, "true"),
    key("watchdog_timeout", Form::Any, "\"5s\""),
];
const API: &[Key] = &[key("socket", Form::Text, "\"/run/quell/api.sock\""), key("group", Form::Text, "\"adm\"")];
const METRICS: &[Key] = &[
    key("listen", Form::Text, "\"127.0.0.1:9464\""),
    key("token", Form::Text, "\"/etc/quell/metrics.token\""),
    key("socket", Form::Text, "\"/run/quell/metrics.sock\""),
];

const ATTRIBUTION: &[Key] = &[key("enabled", Form::Switch, "true"), key("cost", Form::Number, "0.005")];

/// The tables and lists that a file has, and how each begins.
const TABLES: [&str; 6] = ["machine", "agent", "api", "metrics", "attribution", "kubernetes"];
const LISTS: [&str; 2] = ["policy", "workload"];

/// Takes a file's tables over.
pub(super) fn override_with(config: &mut Config, source: &Source, problems: &mut Problems) {
    let known: Vec<&str> = TABLES.into_iter().chain(LISTS).collect();
    for (name, _) in source.values.iter().filter(|(name, _)| !known.contains(&&**name.get_ref())) {
        problems.error(&source.at(name.span().start), unknown("table", name.get_ref(), &known));
    }
    if let Some(keys) = open(source, "machine", MACHINE, problems) {
        machine(config, &keys, problems);
    }
    if let Some(keys) = open(source, "agent", AGENT, problems) {
        agent(config, &keys, problems);
    }
    if let Some(keys) = open(source, "api", API, problems) {
        api(config, &keys, problems);
    }
    if let Some(keys) = open(source, "metrics", METRICS, problems) {
        metrics(config, &keys, problems);
    }
    if let Some(keys) = open(source, "attribution", ATTRIBUTION, problems) {
        attribution(config, &keys, problems);
    }
    if let Some(keys) = open(source, "kubernetes", KUBERNETES, problems) {
        kubernetes::read(config.kubernetes.get_or_insert_default(), &keys, problems);
    }
}

fn open<'s, 'a>(
    source: &'s Source<'a>,
    name: &str,
    known: &'static [Key],
    problems: &mut Problems,
) -> Option<Keys<'s, 'a>> {
    let value = source.values.get(name)?;
    let title = format!("[{name}]");
    let mut wrong = |what: String| problems.error(&source.at(value.span().start), what);
    let table = match value.get_ref() {
        DeValue::Table(table) => table,
        DeValue::Array(list) => {
            wrong(format!("[[{name}]] is a list; write [{name}], in single brackets: there is one"));
            list.iter().find_map(|entry| entry.get_ref().as_table())?
        }
        other => {
            wrong(format!("{name} is {}; write [{name}] on a line of its own, and its keys below it", kind(other)));
            return None;
        }
    };
    Some(Keys::of(source, &title, table, known, problems))
}

fn machine(config: &mut Config, keys: &Keys, problems: &mut Problems) {
    let machine = &mut config.machine;
    if let Some((cpus, byte)) = keys.take::<CpuSet>("cpus", problems) {
        if cpus.is_empty() {
            let what = "no CPU to manage; name some, such as \"0-3\", or leave it out";
            problems.error(&keys.source.at(byte), what);
        }
        machine.cpus = Some(cpus);
        config.places.cpus = Some(keys.source.at(byte));
    }
    set(&mut machine.scheduler, keys.take("scheduler", problems));
    set(&mut machine.partition, keys.take("partition", problems));
    set(&mut machine.preemption, keys.take("preemption", problems));
    set(&mut machine.cache, keys.take("cache", problems));
    set(&mut machine.gpu, keys.take("gpu", problems));
    set(&mut machine.enable_controllers, keys.take("enable_controllers", problems));
    if let Some((keys, _)) = keys.inner("solo_runs", "[machine.solo_runs]", SOLO_RUNS, problems) {
        if let Some((longest, byte)) = keys.take("longest", problems) {
            at_most(&keys, "machine.solo_runs.longest", longest, byte, LONGEST_SOLO_RUN, problems);
            machine.solo_runs.longest = longest;
        }
        if let Some((duty, byte)) = keys.take::<u32>("duty_per_mille", problems) {
            if duty > 1000 {
                let what = format!("{duty} per mille of the time in solo runs; give at most 1000");
                problems.error(&keys.source.at(byte), what);
            }
            machine.solo_runs.duty_per_mille = duty;
        }
    }
}

fn agent(config: &mut Config, keys: &Keys, problems: &mut Problems) {
    let agent = &mut config.agent;
    if let Some((floor, byte)) = keys.take::<Nanos>("min_interval", problems) {
        at_most(keys, "agent.min_interval", floor, byte, HIGHEST_FLOOR, problems);
        agent.min_interval = Some(floor.max(LOWEST_FLOOR));
    }
    set(&mut agent.poll, keys.take("poll", problems));
    set(&mut agent.realtime, keys.take("realtime", problems));
    if let Some((watchdog_timeout, byte)) = keys.take::<Nanos>("watchdog_timeout", problems) {
        if watchdog_timeout < Nanos::from_millis(500) {
            let what = "the loop checks every 100 ms whether to stop; give at least 500ms";
            problems.error(&keys.source.at(byte), what);
        }
        at_most(keys, "agent.watchdog_timeout", watchdog_timeout, byte, LATEST_HUNG, problems);
        agent.watchdog_timeout = watchdog_timeout;
    }
}

fn at_most(keys: &Keys, name: &str, time: Nanos, byte: usize, longest: Nanos, problems: &mut Problems) {
    if time > longest {
        let what = format!("{name} of {time} is too long: give at most {longest}");
        problems.error(&keys.source.at(byte), what);
    }
}

fn api(config: &mut Config, keys: &Keys, problems: &mut Problems) {
    if let Some((socket, byte)) = keys.take::<PathBuf>("socket", problems) {
        if socket.as_os_str().is_empty() {
            let what = "an empty path; write \"/run/quell/api.sock\", or leave it out";
            problems.error(&keys.source.at(byte), what);
        }
        config.api.socket = Some(socket);
        config.places.socket = Some(keys.source.at(byte));
    }
    if let Some((group, byte)) = keys.take::<String>("group", problems) {
        config.api.group = Some(group);
        config.places.group = Some(keys.source.at(byte));
    }
}

fn metrics(config: &mut Config, keys: &Keys, problems: &mut Problems) {
    if let Some((socket, byte)) = keys.take::<PathBuf>("socket", problems) {
        if socket.as_os_str().is_empty() {
            let what = "an empty path; write \"/run/quell/metrics.sock\", or leave it out";
            problems.error(&keys.source.at(byte), what);
        }
        config.metrics.socket = Some(socket);
        config.places.metrics_socket = Some(keys.source.at(byte));
    }
    if let Some((token, byte)) = keys.take::<PathBuf>("token", problems) {
        config.metrics.token = Some(token);
        config.places.token = Some(keys.source.at(byte));
    }
    let Some((text, byte)) = keys.take::<String>("listen", problems) else { return };
    let place = keys.source.at(byte);
    let Ok(address) = text.parse::<SocketAddr>() else {
        let port = text.rsplit(':').next().and_then(|port| port.parse::<u16>().ok()).unwrap_or(9464);
        let what = format!("'{text}' is not a valid address; write an IP address and a port, \"127.0.0.1:{port}\"");
        return problems.error(&place, what);
    };
    config.metrics.listen = Some(address);
    config.places.listen = Some(place);
}

fn attribution(config: &mut Config, keys: &Keys, problems: &mut Problems) {
    set(&mut config.attribution.enabled, keys.take("enabled", problems));
    if let Some((cost, byte)) = keys.take::<f64>("cost", problems) {
        if !(cost > 0.0 && cost <= MOST_OF_A_CPU) {
            let what = format!(
                "attribution.cost of {cost} is not between 0 and {MOST_OF_A_CPU}: it is the part of one CPU that may be used; \
                 write 0.005, or enabled = false"
            );
            problems.error(&keys.source.at(byte), what);
        }
        config.attribution.cost = cost;
    }
}

fn set<T>(to: &mut T, read: Option<(T, usize)>) {
    if let Some((value, _)) = read {
        *to = value;
    }
}

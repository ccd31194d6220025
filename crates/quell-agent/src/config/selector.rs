//! Selectors as a file has them: each in a table of its own.

use std::path::{Path, PathBuf};

use quell_model::suggest::unknown;
use quell_model::{CommandLine, Selector};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::keys::{Form, Key, Keys, Source, key, kind, wrong_form};
use super::{Config, Problems};

/// Kinds of selectors.
const KINDS: [Key; 7] = [
    key("unit", Form::Text, "\"web.service\""),
    key("cgroup", Form::Text, "\"batch.slice/job\""),
    key("container", Form::Text, "\"4f66ad9a\""),
    key("label", Form::Text, "\"app=web\""),
    key("pod", Form::Text, "\"6f1c2d9e-0b57-4c4a-9d0e-3a8d6f1b2c3d\""),
    key("command", Form::Text, "\"nginx\""),
    key("pid", Form::Number, "4711"),
];

/// What may stand beside `command`.
const OF_COMMAND: [Key; 2] = [key("user", Form::Text, "\"www-data\""), key("exe", Form::Text, "\"/usr/sbin/nginx\"")];

/// The selectors of a workload with their places; their faults are among the problems.
pub(super) fn selectors(keys: &Keys, problems: &mut Problems) -> Vec<(Selector, usize)> {
    let Some(value) = keys.raw("match") else { return Vec::new() };
    let mut found = Vec::new();
    match value.get_ref() {
        DeValue::Array(list) => {
            list.iter().for_each(|entry| found.extend(entry_of(keys.source, entry, problems)));
        }
        DeValue::Table(_) => {
            let what = "match is a table; write a list of tables, such as match = [{ unit = \"web.service\" }]";
            problems.error(&keys.source.at(value.span().start), what);
            found.extend(entry_of(keys.source, value, problems));
        }
        other => {
            let what = format!("match is {}; write {}", kind(other), meant(other, "match = [", "]"));
            problems.error(&keys.source.at(value.span().start), what);
        }
    }
    found
}

/// A text is taken for a part of a command line.
fn meant(value: &DeValue, before: &str, after: &str) -> String {
    let example = match value {
        DeValue::String(text) => format!("{{ command = {text:?} }}"),
        DeValue::Integer(pid) => format!("{{ pid = {pid} }}"),
        _ => "{ unit = \"web.service\" }".into(),
    };
    format!("{before}{example}{after}")
}

fn entry_of(source: &Source, entry: &Spanned<DeValue>, problems: &mut Problems) -> Vec<(Selector, usize)> {
    let at = source.at(entry.span().start);
    let DeValue::Table(table) = entry.get_ref() else {
        problems
            .error(&at, format!("a selector is {}; write {}", kind(entry.get_ref()), meant(entry.get_ref(), "", "")));
        return Vec::new();
    };
    let names: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
    let is_beside = |name: &str| OF_COMMAND.iter().any(|key| key.name == name);
    let mut found = Vec::new();
    for (name, value) in table.iter().filter(|(name, _)| !is_beside(name.get_ref())) {
        let Some(kind) = KINDS.iter().find(|kind| kind.name == &**name.get_ref()) else {
            problems.error(&source.at(name.span().start), unknown("selector", name.get_ref(), &names));
            continue;
        };
        let byte = value.span().start;
        match read(kind, value.get_ref()) {
            Ok(mut selector) => {
                if let Selector::Command(line) = &mut selector {
                    beside(source, table, line, problems);
                }
                if let Some(what) = impossible(&selector) {
                    problems.error(&source.at(byte), what);
                }
                found.push((selector, entry.span().start));
            }
            Err(what) => problems.error(&source.at(byte), what),
        }
    }
    if table.is_empty() {
        problems.error(
            &at,
            format!("an empty selector; write one of {}, such as {}", names.join(", "), "{ unit = \"web.service\" }"),
        );
    }
    let alone: Vec<&str> = table.keys().map(|name| &**name.get_ref()).filter(|name| !is_beside(name)).collect();
    if alone.len() > 1 {
        let each: Vec<String> = alone.iter().map(|name| format!("{{ {name} = … }}")).collect();
        let what = format!(
            "{} selectors in one table; write a table for each: {}: a thread that one of them matches belongs to the \
             workload",
            alone.len(),
            each.join(", ")
        );
        problems.error(&at, what);
    }
    let is_known = alone.iter().all(|name| names.contains(name));
    if alone.len() < table.len() && is_known && !alone.contains(&"command") {
        problems.error(&at, "user and exe stand beside command: { command = \"nginx\", user = \"www-data\" }");
    }
    found
}

/// User and file of a command line.
fn beside(source: &Source, table: &DeTable, line: &mut CommandLine, problems: &mut Problems) {
    for key in &OF_COMMAND {
        let Some((_, value)) = table.iter().find(|(name, _)| &**name.get_ref() == key.name) else { continue };
        let at = source.at(value.span().start);
        let DeValue::String(text) = value.get_ref() else {
            problems.error(&at, wrong_form(key, value.get_ref()));
            continue;
        };
        match key.name {
            "user" => line.user = Some(text.to_string()),
            _ if !Path::new(&**text).is_absolute() => {
                problems
                    .error(&at, format!("'{text}' is not an absolute path, as readlink -f $(which NAME) prints it"));
            }
            _ => line.exe = Some(PathBuf::from(&**text)),
        }
    }
}

/// The selectors that any user's process can match, as problems: the agent would give it what the workload has. `users` are
/// those of the processes that match now.
pub fn forbid_disguises(config: &Config, users: &mut dyn FnMut(&Selector) -> Vec<String>, problems: &mut Problems) {
    for member in &config.workloads {
        for selector in &member.workload.selectors {
            let Selector::Command(line) = selector else { continue };
            if line.is_safe() {
                continue;
            }
            let users = users(selector);
            // Of several users one may be a stranger, or the one that started the service.
            let (user, several) = match &users[..] {
                [only] => (only.clone(), String::new()),
                [] => ("NAME".to_owned(), String::new()),
                [others @ .., last] => {
                    let several = format!(" (it matches processes of {} and {last} now)", others.join(", "));
                    ("NAME".to_owned(), several)
                }
            };
            let what = format!(
                "any user's process can have this command line, and would match workload '{}'; write its user, match = [{{ \
                 command = {:?}, user = {user:?} }}]{several}, or its program, exe = \"/usr/bin/…\"",
                member.workload.name, line.text
            );
            problems.error(&member.place, what);
        }
    }
}

fn read(kind: &Key, value: &DeValue) -> Result<Selector, String> {
    match (kind.name, value) {
        ("pid", DeValue::Integer(number)) => {
            let number = i32::from_str_radix(number.as_str(), number.radix()).ok().filter(|pid| *pid > 0);
            Ok(Selector::Pid(number.ok_or("a process has a number above 0 and below 4194304; see pgrep -a NAME")?))
        }
        ("cgroup", DeValue::String(text)) => Ok(Selector::Cgroup(PathBuf::from(&**text))),
        ("unit", DeValue::String(text)) => Ok(Selector::Unit(text.to_string())),
        ("container", DeValue::String(text)) => Ok(Selector::Container(text.to_string())),
        ("label", DeValue::String(text)) => Ok(Selector::Label(text.to_string())),
        ("pod", DeValue::String(text)) => Ok(Selector::Pod(text.to_string())),
        ("command", DeValue::String(text)) => Ok(Selector::Command(CommandLine::from(&**text))),
        _ => Err(wrong_form(kind, value)),
    }
}

pub(super) fn impossible(selector: &Selector) -> Option<String> {
    let pattern = match selector {
        Selector::Cgroup(path) => path.to_str(),
        Selector::Unit(name) => Some(name.as_str()),
        _ => None,
    };
    if let Some(error) = pattern.and_then(quell_linux::cgroup::pattern_error) {
        return Some(error);
    }
    let why = match selector {
        Selector::Command(line) if line.text.trim().is_empty() || line.text.chars().all(|letter| letter == '*') => {
            "this text matches every command line; name the program"
        }
        Selector::Unit(name) if name.is_empty() || name.contains('/') => {
            "a unit has a name such as \"web.service\", as systemctl list-units shows it"
        }
        Selector::Cgroup(path) if is_root(path) => {
            "the root cgroup is the whole machine; name one below it, such as \"system.slice/web.service\""
        }
        Selector::Cgroup(path) if path.components().any(|part| part.as_os_str() == "..") => {
            "a cgroup's path has no ..; name it from the root, such as \"system.slice/web.service\""
        }
        Selector::Container(id) if !is_hex(id, 4..=64) && !is_containers_name(id) => {
            "a container is named by its id, the first 4 digits of it or more, or its name (docker ps, podman ps)"
        }
        Selector::Label(label) if label.split('=').next().is_none_or(|key| key.trim().is_empty()) => {
            "a label is a key and a value, such as \"app=web\", or a key alone (docker inspect NAME)"
        }
        Selector::Pod(uid) if uid.len() < 8 || !is_hex(&uid.replace(['-', '_'], ""), 8..=64) => {
            "a pod is named by its uid (kubectl get pod NAME -o jsonpath='{.metadata.uid}'), not by namespace and \
             name, which the kernel does not know"
        }
        _ => return None,
    };
    let text = match selector {
        Selector::Command(line) => &line.text,
        Selector::Unit(text) | Selector::Container(text) | Selector::Label(text) | Selector::Pod(text) => text,
        Selector::Cgroup(_) | Selector::Pid(_) => return Some(why.to_owned()),
    };
    Some(if text.trim().is_empty() { format!("an empty text: {why}") } else { format!("'{text}': {why}") })
}

/// Does a path, or a pattern of paths, mean everything there is?
fn is_root(path: &Path) -> bool {
    path.components().all(|part| ["/", ".", "*", "**"].iter().any(|all| part.as_os_str() == *all))
}

/// A name as engines allow it.
fn is_containers_name(text: &str) -> bool {
    let mut letters = text.chars();
    letters.next().is_some_and(|first| first.is_ascii_alphanumeric())
        && letters.all(|letter| letter.is_ascii_alphanumeric() || "_.-".contains(letter))
}

fn is_hex(text: &str, length: std::ops::RangeInclusive<usize>) -> bool {
    length.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Do two selectors mean the same?
pub(super) fn same(a: &Selector, b: &Selector) -> bool {
    let path = |path: &Path| path.strip_prefix("/").unwrap_or(path).components().collect::<PathBuf>();
    let unit = |name: &str| if name.contains('.') { name.to_owned() } else { format!("{name}.service") };
    match (a, b) {
        (Selector::Cgroup(a), Selector::Cgroup(b)) => path(a) == path(b),
        (Selector::Unit(a), Selector::Unit(b)) => unit(a) == unit(b),
        _ => a == b,
    }
}

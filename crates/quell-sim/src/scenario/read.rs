//! Scenarios from text, with changes from the command line. What is wrong is said with file and line.

use std::ops::Range;
use std::path::Path;

use toml::de::{DeTable, DeValue, ValueDeserializer};
use toml::{Spanned, Table, Value};

use super::{Scenario, like};
use crate::SimError;

impl Scenario {
    /// Reads a scenario, changes it, and checks it. A change is `key=value` with a dotted key; an element of a list is
    /// named by its `name` (`workload.db.weight=300`) or its number. A value that is no TOML is a text.
    ///
    /// # Errors
    /// [`SimError`] with file and line.
    pub fn read(path: &Path, changes: &[String]) -> Result<Scenario, SimError> {
        let text = std::fs::read_to_string(path).map_err(|source| SimError::Read { path: path.into(), source })?;
        Scenario::parse(path, &text, changes)
    }

    /// The same from a text; `path` is what messages call it.
    ///
    /// # Errors
    /// [`SimError`] with file and line.
    pub fn parse(path: &Path, text: &str, changes: &[String]) -> Result<Scenario, SimError> {
        let changes = changes.iter().map(|change| Change::set(change)).collect::<Result<Vec<_>, _>>()?;
        Scenario::parse_changed(path, text, &changes)
    }

    pub(super) fn parse_changed(path: &Path, text: &str, changes: &[Change]) -> Result<Scenario, SimError> {
        let parsed = |problem| parse_error(path, text, &problem);
        // Read as it is first: places in the file are known only then.
        let mut scenario: Scenario = toml::from_str(text).map_err(parsed)?;
        if !changes.is_empty() || scenario.kernel.like.is_some() {
            scenario = changed(&toml::from_str(text).map_err(parsed)?, changes)?;
        }
        let placed = |error| match error {
            SimError::Scenario(why) => SimError::Scenario(format!("{}{}: {why}", path.display(), line(text, &why))),
            other => other,
        };
        let scenario = scenario.expand().map_err(placed)?;
        scenario.check().map_err(placed)?;
        Ok(scenario)
    }
}

/// What the parser says, in one line and with the place.
pub(super) fn parse_error(path: &Path, text: &str, problem: &toml::de::Error) -> SimError {
    SimError::Parse { place: place(path, text, problem.span()), problem: one_line(problem.message()) }
}

/// `file:line:column`, as far as it is known.
pub(super) fn place(path: &Path, text: &str, span: Option<Range<usize>>) -> String {
    let before = span.and_then(|span| text.get(..span.start));
    before.map_or(path.display().to_string(), |before| {
        let line_begins = before.rfind('\n').map_or(0, |at| at + 1);
        let (line, column) = (before.matches('\n').count() + 1, before[line_begins..].chars().count() + 1);
        format!("{}:{line}:{column}", path.display())
    })
}

/// A parser's message in one line, in Quell's quotes.
#[must_use]
pub fn one_line(message: &str) -> String {
    message.trim().replace('\n', ", ").replace('`', "'")
}

/// The parameters of a policy as they stand in a scenario's text, with their places there, and where the policy stands.
#[must_use]
pub fn parameters_in<'a>(path: &Path, text: &'a str, policy: &str) -> Option<(ValueDeserializer<'a>, String)> {
    let table = DeTable::parse(text).ok()?;
    let listed = |table: &DeTable<'a>| match table.get("policy").map(Spanned::get_ref) {
        Some(DeValue::Array(policies)) => policies.iter().cloned().collect(),
        _ => Vec::new(),
    };
    let stacks = match table.get_ref().get("stack").map(Spanned::get_ref) {
        Some(DeValue::Array(stacks)) => stacks.iter().filter_map(|stack| stack.get_ref().as_table()).collect(),
        _ => Vec::new(),
    };
    let policies: Vec<Spanned<DeValue<'a>>> = std::iter::once(table.get_ref()).chain(stacks).flat_map(listed).collect();
    let of = |entry: &Spanned<DeValue<'a>>| match entry.get_ref() {
        DeValue::Table(entry) if entry.get("name")?.get_ref().as_str() == Some(policy) => Some(entry.clone()),
        _ => None,
    };
    let entry = policies.iter().find_map(of)?;
    let name = entry.get("name")?.span();
    let nothing = || Spanned::new(name.clone(), DeValue::Table(DeTable::new()));
    let parameters = entry.get("parameters").cloned().unwrap_or_else(nothing);
    Some((ValueDeserializer::from(parameters), place(path, text, Some(name))))
}

/// Where in the text a problem with [`parameters_in`] stands.
#[must_use]
pub fn place_of(path: &Path, text: &str, problem: &toml::de::Error) -> String {
    place(path, text, problem.span())
}

/// A key that is set.
pub(super) struct Change {
    /// Where somebody wrote this, for messages.
    pub said: String,
    /// Dotted.
    pub key: String,
    /// What it becomes.
    pub value: Value,
}

impl Change {
    /// `key=value`, as `--set` takes it.
    pub fn set(change: &str) -> Result<Change, SimError> {
        let said = format!("--set {change}");
        match change.split_once('=') {
            Some((key, text)) => Ok(Change { said, key: key.into(), value: value(text) }),
            None => Err(SimError::Scenario(format!("{said}: write KEY=VALUE"))),
        }
    }
}

/// What is no TOML is a text.
pub(super) fn value(text: &str) -> Value {
    let parsed = format!("v = {text}").parse::<Table>().ok().and_then(|mut table| table.remove("v"));
    parsed.unwrap_or_else(|| Value::String(text.to_owned()))
}

fn changed(original: &Table, changes: &[Change]) -> Result<Scenario, SimError> {
    let after = |changes: &[Change]| {
        let mut table = original.clone();
        for change in changes {
            let broken = |why: String| SimError::Scenario(format!("{}: {why}", change.said));
            set(&mut table, &change.key, change.value.clone()).map_err(broken)?;
        }
        let last = changes.last().map_or("", |change| change.said.as_str());
        let broken = |problem: toml::de::Error| SimError::Scenario(format!("{last}: {}", one_line(problem.message())));
        like::fill(&mut table).map_err(broken)?;
        Value::Table(table).try_into::<Scenario>().map_err(broken)
    };
    // Of several changes the first is to blame after which it is no scenario any more.
    after(changes)
        .or_else(|error| (1..changes.len()).find_map(|count| after(&changes[..count]).err()).map_or(Err(error), Err))
}

fn set(table: &mut Table, key: &str, value: Value) -> Result<(), String> {
    let (path, last) = key.rsplit_once('.').map_or((None, key), |(path, last)| (Some(path), last));
    let mut at = table;
    let mut parts = path.into_iter().flat_map(|path| path.split('.'));
    while let Some(part) = parts.next() {
        let entry = at.entry(part).or_insert_with(|| Value::Table(Table::new()));
        at = match entry {
            Value::Table(below) => below,
            Value::Array(list) => {
                let which = parts.next().ok_or_else(|| format!("'{part}' is a list: name the one to change"))?;
                let named = |element: &Value| element.get("name").and_then(Value::as_str) == Some(which);
                let place = list.iter().position(named).or(which.parse().ok());
                let element = place.and_then(|place| list.get_mut(place)).and_then(Value::as_table_mut);
                element.ok_or_else(|| format!("there is no '{which}' in '{part}'"))?
            }
            _ => return Err(format!("'{part}' has nothing below it")),
        };
    }
    at.insert(last.into(), value);
    Ok(())
}

/// Where the file speaks of what a message is about: the line that gives what it names in quotes its name, or else
/// the first that has it in quotes. What the file does not have is a role in a pool, or a copy, which has a number.
/// Without a name it is the line that sets what the message speaks of.
fn line(text: &str, why: &str) -> String {
    let name = why.split('\'').nth(1).unwrap_or_default();
    let workload = name.split_once('.').map_or(name, |(workload, _)| workload);
    let original = workload.trim_end_matches(|digit: char| digit.is_ascii_digit()).trim_end_matches('-');
    let find = |wanted: String| text.lines().position(|line| line.contains(&wanted));
    let of = |name: &str| find(format!("name = \"{name}\"")).or_else(|| find(format!("\"{name}\"")));
    let found = [name, workload, original].into_iter().filter(|name| !name.is_empty()).find_map(of);
    let sets = |word: &str| {
        let is_set =
            |line: &str| line.trim_start().strip_prefix(word).is_some_and(|rest| rest.trim_start().starts_with('='));
        text.lines().position(is_set).filter(|_| !word.is_empty())
    };
    let found = found.or_else(|| why.split(|letter: char| !letter.is_alphabetic()).find_map(sets));
    found.map_or(String::new(), |line| format!(":{}", line + 1))
}

/// Where a word first stands after the line that begins with `heading`; else that line.
pub(super) fn line_within(text: &str, heading: &str, word: &str) -> String {
    let begins = text.lines().position(|line| line.trim_start().starts_with(heading));
    let found =
        begins.and_then(|from| text.lines().skip(from).position(|line| line.contains(word)).map(|at| from + at));
    found.or(begins).map_or(String::new(), |line| format!(":{}", line + 1))
}

#[cfg(test)]
mod tests {
    use quell_model::Nanos;

    use super::*;

    const TEXT: &str = r#"
duration = "1s"
machine = { cores = 4 }

[[workload]]
name = "db"
class = "lc"
threads = 2
server = { arrivals = { poisson = 1000.0 }, service = { exponential = "100us" } }

[[workload]]
name = "batch"
class = "be"
batch = {}
"#;

    fn parse(changes: &[&str]) -> Result<Scenario, String> {
        let changes: Vec<String> = changes.iter().map(|&change| change.to_owned()).collect();
        Scenario::parse(Path::new("s.toml"), TEXT, &changes).map_err(|error| error.to_string())
    }

    #[test]
    fn changes_reach_into_lists_by_name() {
        let scenario =
            parse(&["workload.db.weight=300", "workload.1.threads=7", "duration=2s", "kernel.preemption=full"]);
        let scenario = scenario.unwrap();
        assert_eq!((scenario.workloads[0].weight, scenario.workloads[1].threads), (300, 7));
        assert_eq!(scenario.duration, Nanos::from_secs(2));
        assert_eq!(scenario.kernel.preemption, quell_model::PreemptionMode::Full);
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_its_place() {
        let refused = |text: String, parts: &[&str]| {
            let error = Scenario::parse(Path::new("s.toml"), &text, &[]).unwrap_err().to_string();
            assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        };
        refused(TEXT.replace("threads", "treads"), &["s.toml:8:1: unknown field 'treads'"]);
        refused(TEXT.replace("\"1s\"", "1"), &["s.toml:2:12: 1 is not a time", "\"1ms\""]);
        refused(TEXT.replace("\"100us\"", "100"), &["s.toml:9:71: 100 is not a time: add a unit", "\"100us\""]);
        refused(TEXT.replace("\"100us\"", "0.5"), &["s.toml:9:71: 0.5 is not a time: add a unit"]);
        refused(TEXT.replace("\"1s\"", "\"1s\"\nkernel.tick = 1000000"), &["s.toml:3:15: 1000000 is not a time"]);
        refused(TEXT.replace("1000.0", "1e6"), &["s.toml:6", "'db'", "without end"]);
        refused(TEXT.replace("1000.0", "-1.0"), &["s.toml:6", "-1 requests/s"]);
        refused(TEXT.replace("batch = {}", ""), &["s.toml:12", "exactly one of"]);
        refused(TEXT.replace("{ cores = 4 }", "\"pdp11\""), &["s.toml:3", "'pdp11'", "caladan"]);
        refused(TEXT.replace("{ cores = 4 }", "{ cores = 0 }"), &["s.toml:3", "1 to 1024 CPUs"]);
        refused(TEXT.replace("\"1s\"", "\"1s\"\nrepetitions = 0"), &["s.toml:3", "0 repetitions", "give 1 to 10000"]);
        refused(TEXT.replace("threads = 2", "cpuset = \"9\""), &["'db'", "0-3"]);
        assert!(parse(&["workload.nothere.weight=1"]).unwrap_err().contains("nothere"));
        assert!(parse(&["duration=2"]).unwrap_err().contains("--set duration=2: 2 is not a time: add a unit"));
        assert!(parse(&["duration=2 fortnights"]).unwrap_err().contains("'fortnights' is not one of ns, us"));
        assert!(parse(&["warm_up=0"]).is_ok());
        assert!(parse(&["duration"]).unwrap_err().contains("KEY=VALUE"));
        assert!(parse(&["workload.db.wait=1"]).unwrap_err().contains("wait"));
    }
}

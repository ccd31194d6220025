//! Sweeps: one scenario for every combination of some keys' values.

use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::Scenario;
use super::read::{Change, line_within, parse_error, value};
use crate::SimError;

/// No sweep has more points, or more runs.
const MOST: usize = 5_000;

/// A swept key and its values.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// Dotted, as `--set` takes it.
    pub key: String,
    /// What it is set to.
    pub values: Vec<Value>,
    /// Where somebody wrote this, for messages.
    said: String,
}

/// A combination: each swept key with its value.
pub type Point = Vec<(String, Value)>;

/// A scenario's text with what is changed in all of its runs, and with the keys that are swept.
#[derive(Clone, Debug)]
pub struct Sweep {
    path: PathBuf,
    text: String,
    changes: Vec<String>,
    axes: Vec<Axis>,
}

impl Sweep {
    /// What the file sweeps, and then what the command line does (`key=v1,v2,v3`), which goes before the same key in
    /// the file. A change of a key ends its sweep.
    ///
    /// # Errors
    /// [`SimError`] with the place, for a sweep without values or with too many, or a text that is no scenario.
    pub fn parse(path: &Path, text: &str, changes: &[String], sweeps: &[String]) -> Result<Sweep, SimError> {
        let scenario: Scenario = toml::from_str(text).map_err(|problem| parse_error(path, text, &problem))?;
        let mut axes = Vec::new();
        in_file(path, text, "", &scenario.sweep, &mut axes)?;
        let given: Vec<Axis> = sweeps.iter().map(|sweep| on_command_line(sweep)).collect::<Result<_, _>>()?;
        if let Some(at) = (1..given.len()).find(|&at| given[..at].iter().any(|other| other.key == given[at].key)) {
            return Err(SimError::Scenario(format!("{} is swept twice: give all its values once", given[at].said)));
        }
        let is_set = |key: &str| changes.iter().any(|change| change.split_once('=').is_some_and(|(set, _)| set == key));
        axes.retain(|axis| !is_set(&axis.key) && given.iter().all(|other| other.key != axis.key));
        axes.extend(given);
        let points = axes.iter().try_fold(1usize, |product, axis| product.checked_mul(axis.values.len()));
        if points.is_none_or(|points| points > MOST) {
            let points = points.map_or("too many".to_owned(), |points| points.to_string());
            return Err(SimError::Scenario(format!(
                "a sweep of {points} combinations: {MOST} are possible; give fewer values"
            )));
        }
        Ok(Sweep { path: path.into(), text: text.into(), changes: changes.to_vec(), axes })
    }

    /// The swept keys.
    #[must_use]
    pub fn axes(&self) -> &[Axis] {
        &self.axes
    }

    /// The scenario's text as it is in its file.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// A scenario for each combination; the last key's values change fastest. Without a sweep it is the one scenario.
    ///
    /// # Errors
    /// [`SimError`] for the first combination that makes no sense, with what it sets.
    pub fn scenarios(&self) -> Result<Vec<(Point, Scenario)>, SimError> {
        let mut points: Vec<Point> = vec![Vec::new()];
        for axis in &self.axes {
            let with = |point: &Point, value: &Value| {
                point.iter().cloned().chain([(axis.key.clone(), value.clone())]).collect::<Point>()
            };
            points = points.iter().flat_map(|point| axis.values.iter().map(move |value| with(point, value))).collect();
        }
        points.into_iter().map(|point| Ok((point.clone(), self.scenario(&point)?))).collect()
    }

    fn scenario(&self, point: &Point) -> Result<Scenario, SimError> {
        let mut changes = self.changes.iter().map(|change| Change::set(change)).collect::<Result<Vec<_>, _>>()?;
        changes.extend(self.axes.iter().zip(point).map(|(axis, (key, value))| Change {
            said: format!("{}={}", axis.said, label(value)),
            key: key.clone(),
            value: value.clone(),
        }));
        Scenario::parse_changed(&self.path, &self.text, &changes).map_err(|error| match error {
            SimError::Scenario(why) if !point.is_empty() && !self.axes.iter().any(|axis| why.contains(&axis.said)) => {
                let at: Vec<String> = point.iter().map(|(key, value)| format!("{key}={}", label(value))).collect();
                SimError::Scenario(format!("{why} (at {})", at.join(", ")))
            }
            other => other,
        })
    }

    /// Refuses more runs than anybody would wait for.
    ///
    /// # Errors
    /// [`SimError::Scenario`] with their number.
    pub fn check_runs(&self, runs: usize) -> Result<(), SimError> {
        if self.axes.is_empty() || runs <= MOST {
            return Ok(());
        }
        Err(SimError::Scenario(format!(
            "a sweep of {runs} runs (combinations, policies, repetitions): {MOST} are possible; give fewer values"
        )))
    }
}

/// A value as people write it: a text without its quotes.
#[must_use]
pub fn label(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// `[sweep]`: lists, under dotted keys or within tables.
fn in_file(path: &Path, text: &str, above: &str, table: &Table, axes: &mut Vec<Axis>) -> Result<(), SimError> {
    for (part, value) in table {
        let key = if above.is_empty() { part.clone() } else { format!("{above}.{part}") };
        let last = key.rsplit('.').next().unwrap_or(part);
        let said = format!("{}{}: sweep {key}", path.display(), line_within(text, "[sweep", last));
        let bad = |why: &str| Err(SimError::Scenario(format!("{said}: {why}")));
        match value {
            Value::Table(below) => in_file(path, text, &key, below, axes)?,
            Value::Array(values) if values.is_empty() => return bad("no values: give at least one, or leave it out"),
            Value::Array(values) => axes.push(Axis { key, values: values.clone(), said }),
            _ => return bad("not a list: write its values as [a, b, c]"),
        }
    }
    Ok(())
}

fn on_command_line(sweep: &str) -> Result<Axis, SimError> {
    let bad = |why: &str| SimError::Scenario(format!("--sweep {sweep}: {why}"));
    let (key, values) = sweep.split_once('=').ok_or_else(|| bad("write KEY=VALUE,VALUE,…"))?;
    let values = split(values);
    if key.is_empty() || values.iter().any(|value| value.trim().is_empty()) {
        return Err(bad("a value is missing: write KEY=VALUE,VALUE,…"));
    }
    let values = values.into_iter().map(|text| value(text.trim())).collect();
    Ok(Axis { key: key.into(), values, said: format!("--sweep {key}") })
}

/// At the commas that stand in no brackets and no quotes.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut from, mut depth, mut quote) = (Vec::new(), 0, 0i32, None);
    for (at, letter) in text.char_indices() {
        match (letter, quote) {
            (_, Some(open)) => quote = (letter != open).then_some(open),
            ('"' | '\'', None) => quote = Some(letter),
            ('[' | '{', None) => depth += 1,
            (']' | '}', None) => depth -= 1,
            (',', None) if depth == 0 => {
                parts.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[from..]);
    parts
}

#[cfg(test)]
mod tests {
    use quell_model::Nanos;

    use super::*;

    const TEXT: &str = r#"
duration = "1s"
machine = { cores = 4 }

[sweep]
"workload.db.threads" = [2, 3]
kernel.tick = ["1ms", "4ms"]

[[workload]]
name = "db"
class = "lc"
server = { arrivals = { poisson = 1000.0 }, service = { exponential = "100us" } }
"#;

    fn sweep(text: &str, changes: &[&str], sweeps: &[&str]) -> Result<Vec<(Point, Scenario)>, String> {
        let owned = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        Sweep::parse(Path::new("s.toml"), text, &owned(changes), &owned(sweeps))
            .and_then(|sweep| sweep.scenarios())
            .map_err(|error| error.to_string())
    }

    fn labels(points: &[(Point, Scenario)]) -> Vec<String> {
        let text = |point: &Point| point.iter().map(|(_, value)| label(value)).collect::<Vec<_>>().join(" ");
        points.iter().map(|(point, _)| text(point)).collect()
    }

    #[test]
    fn all_combinations_are_scenarios() {
        let points = sweep(TEXT, &[], &[]).unwrap();
        assert_eq!(labels(&points), ["1ms 2", "1ms 3", "4ms 2", "4ms 3"]);
        assert_eq!(points[2].0[0].0, "kernel.tick");
        let (tick, threads) = (points[2].1.kernel.tick, points[2].1.workloads[0].threads);
        assert_eq!((tick, threads), (Nanos::from_millis(4), 2));
    }

    #[test]
    fn the_command_line_adds_replaces_and_ends_sweeps() {
        let points = sweep(TEXT, &["kernel.tick=2ms"], &["seed=1,2", "workload.db.threads=5"]).unwrap();
        assert_eq!(labels(&points), ["1 5", "2 5"]);
        assert_eq!((points[1].1.seed, points[1].1.kernel.tick), (2, Nanos::from_millis(2)));
        let whole = "workload.db.server={ arrivals = { poisson = 10.0 }, service = { constant = '1us' } },{ arrivals = \
                     { poisson = 20.0 }, service = { constant = '1us' } }";
        assert_eq!(sweep(TEXT, &["kernel.tick=2ms"], &[whole]).unwrap().len(), 4);
        let error = sweep(&TEXT.replace("[sweep]", "[policy-free]"), &[], &[]).unwrap_err();
        assert!(error.starts_with("s.toml:5:2: unknown field 'policy-free'"), "{error}");
    }

    #[test]
    fn what_cannot_be_swept_is_refused_with_its_place() {
        let file = |from: &str, to: &str| sweep(&TEXT.replace(from, to), &[], &[]).unwrap_err();
        let line = |sweep_: &str| sweep(TEXT, &[], &[sweep_]).unwrap_err();
        let cases = [
            (file("[2, 3]", "[]"), vec!["s.toml:6", "threads", "no values"]),
            (file("[2, 3]", "2"), vec!["s.toml:6", "not a list"]),
            (file("db.threads", "db.treads"), vec!["s.toml:6", "treads", "unknown field"]),
            (file("db.threads", "nothere.threads"), vec!["s.toml:6", "nothere"]),
            (file("[\"1ms\", \"4ms\"]", "[\"1ms\", \"soon\"]"), vec!["s.toml:7", "kernel.tick=soon", "such as 10us"]),
            (file("\"4ms\"]", "4]"), vec!["s.toml:7", "kernel.tick=4", "4 is not a time: add a unit"]),
            (file("[2, 3]", "[2, 0]"), vec!["s.toml:10", "1 to 100000 threads", "workload.db.threads=0"]),
            (line("seed"), vec!["--sweep seed", "KEY=VALUE"]),
            (line("seed="), vec!["--sweep seed=", "missing"]),
            (line("seed=1,,2"), vec!["missing"]),
            (line("kernel.tick=1ms,4"), vec!["--sweep kernel.tick=4", "4 is not a time: add a unit"]),
            (line("sed=1,2"), vec!["--sweep sed=1", "unknown field 'sed'"]),
            (line("workload.db.wait=1"), vec!["--sweep workload.db.wait=1", "'wait'"]),
        ];
        for (error, parts) in cases {
            assert!(parts.iter().all(|part| error.contains(part)), "{error}: {parts:?}");
        }
        let many = |key: &str| format!("{key}={}", (1..=100).map(|n| n.to_string()).collect::<Vec<_>>().join(","));
        let error = sweep(TEXT, &[], &[&many("seed"), &many("repetitions")]).unwrap_err();
        assert!(error.contains("40000 combinations") && error.contains("5000"), "{error}");
        assert!(sweep(TEXT, &[], &["seed=1", "seed=2"]).unwrap_err().contains("twice"));
        let few = Sweep::parse(Path::new("s"), TEXT, &[], &[]).unwrap();
        assert!(few.check_runs(5_000).is_ok());
        assert!(few.check_runs(5_001).unwrap_err().to_string().contains("5001"));
    }
}

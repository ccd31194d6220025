//! A figure as data: a scene, what is measured in it, and what is claimed of that.

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::measure::{Found, Measure};
use crate::registry::Topic;

/// A figure: one file. Any runner that can run its scene finds its measures.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Its claims.
    pub topic: Topic,
    /// A scenario of `quell sim`, whose stacks of policies are what is compared.
    pub scene: toml::Table,
    /// What is measured, each for the claim of the same id.
    pub measures: Vec<Asked>,
}

/// A measure that is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// Its claim.
    pub id: String,
    /// Whose.
    pub workload: String,
    /// Under which stack.
    pub policy: String,
    /// What of it.
    pub value: Value,
    /// As a multiple of the same under this stack.
    #[serde(default)]
    pub over: Option<String>,
}

/// What is measured of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Value {
    /// Median latency, µs.
    P50,
    /// 99th percentile of latency, µs.
    P99,
    /// 99.9th percentile of latency, µs.
    P999,
    /// Mean latency, µs.
    Mean,
    /// Requests or jobs done a second.
    Rate,
    /// CPUs that it got, on average.
    Cpus,
    /// Threads that waited for a CPU, on average.
    Waiting,
}

/// What one run found of one workload under one stack.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// The stack.
    pub policy: String,
    /// The workload.
    pub workload: String,
    /// Latencies, µs; None where nothing was done.
    pub p50: Option<f64>,
    /// As [`Value::P99`].
    pub p99: Option<f64>,
    /// As [`Value::P999`].
    pub p999: Option<f64>,
    /// As [`Value::Mean`].
    pub mean: Option<f64>,
    /// As [`Value::Rate`].
    pub rate: f64,
    /// As [`Value::Cpus`].
    pub cpus: f64,
    /// As [`Value::Waiting`].
    pub waiting: f64,
}

impl Cell {
    fn value(&self, value: Value) -> Option<f64> {
        match value {
            Value::P50 => self.p50,
            Value::P99 => self.p99,
            Value::P999 => self.p999,
            Value::Mean => self.mean,
            Value::Rate => Some(self.rate),
            Value::Cpus => Some(self.cpus),
            Value::Waiting => Some(self.waiting),
        }
    }
}

impl Figure {
    /// A figure from the text of its file.
    ///
    /// # Errors
    /// What is wrong with it: the place in the file, or the claim or measure and why.
    pub fn read(text: &str) -> Result<Figure, String> {
        let mut file: toml::Table = toml::from_str(text).map_err(|error| error.to_string())?;
        let mut take = |key: &str| file.remove(key).ok_or(format!("a figure needs '{key}'"));
        let scene = take("scene")?.try_into().map_err(|error| format!("[scene]: {error}"))?;
        let measures: Vec<Asked> = take("measure")?.try_into().map_err(|error| format!("[[measure]]: {error}"))?;
        let topic = Topic::read(&file.to_string())?;
        for asked in &measures {
            topic.claim(&asked.id).ok_or(format!("[[measure]] {}: nothing claims it", asked.id))?;
        }
        let measured: BTreeSet<&str> = measures.iter().map(|asked| asked.id.as_str()).collect();
        let own = |id: &str| id.split_once('.').map_or(id.to_owned(), |(_, name)| name.to_owned());
        match topic.claims.iter().find(|claim| claim.missing.is_none() && !measured.contains(own(&claim.id).as_str())) {
            Some(claim) => Err(format!("{}: no [[measure]] has its id; give one, or say what is `missing`", claim.id)),
            None => Ok(Figure { topic, scene, measures }),
        }
    }

    /// The measures in what runs with different seeds found.
    ///
    /// # Errors
    /// If a measure names a workload or a stack that is not in the scene.
    pub fn found(&self, runs: &[Vec<Cell>]) -> Result<Vec<Measure>, String> {
        self.measures.iter().map(|asked| self.of(asked, runs)).collect()
    }

    fn of(&self, asked: &Asked, runs: &[Vec<Cell>]) -> Result<Measure, String> {
        let mut seeds = Vec::new();
        let mut none = None;
        for cells in runs {
            let of = |policy: &str| {
                let is = |cell: &&Cell| cell.policy == policy && cell.workload == asked.workload;
                cells.iter().find(is).ok_or(format!(
                    "[[measure]] {}: there is no workload '{}' under '{policy}' in the scene",
                    asked.id, asked.workload
                ))
            };
            let value = of(&asked.policy)?.value(asked.value);
            let over = asked.over.as_deref().map(of).transpose()?.map(|cell| cell.value(asked.value));
            match (value, over) {
                (Some(value), None) => seeds.push(value),
                (Some(value), Some(Some(over))) => seeds.push(value / over),
                _ => none = Some("a run in which nothing was done"),
            }
        }
        let found = none.map_or(Found::Seeds(seeds), |none| Found::Missing(none.into()));
        let claim = self.topic.claim(&asked.id).ok_or(format!("nothing claims {}", asked.id))?;
        Ok(Measure { id: claim.id.clone(), found, note: String::new() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIGURE: &str = r#"
topic = "example"
title = "one server"
text = "quell"

[scene]
duration = "1s"

[[measure]]
id = "p99"
workload = "server"
policy = "guard"
value = "p99"
over = "none"

[[claim]]
id = "p99"
what = "guard's p99 over Linux's"
kind = "bound"
below = 0.5
place = "an example"
"#;

    fn cell(policy: &str, p99: Option<f64>) -> Cell {
        let (policy, workload) = (policy.to_owned(), "server".to_owned());
        Cell { policy, workload, p50: None, p99, p999: None, mean: None, rate: 1.0, cpus: 1.0, waiting: 0.0 }
    }

    #[test]
    fn a_measure_is_a_value_or_its_ratio_a_seed_each() {
        let figure = Figure::read(FIGURE).unwrap();
        let run = |guard, none| vec![cell("guard", Some(guard)), cell("none", Some(none))];
        let found = figure.found(&[run(10.0, 100.0), run(30.0, 100.0)]).unwrap();
        assert_eq!((found[0].id.as_str(), &found[0].found), ("example.p99", &Found::Seeds(vec![0.1, 0.3])));
        let nothing = figure.found(&[vec![cell("guard", None), cell("none", Some(1.0))]]).unwrap();
        assert!(matches!(nothing[0].found, Found::Missing(_)));
        let error = figure.found(&[vec![cell("none", Some(1.0))]]).unwrap_err();
        assert!(error.contains("'server' under 'guard'"), "{error}");
    }

    #[test]
    fn what_does_not_fit_together_is_named() {
        for (from, to, said) in [
            ("[scene]", "[scenes]", "needs 'scene'"),
            ("id = \"p99\"\nworkload", "id = \"p98\"\nworkload", "p98: nothing claims it"),
            ("value = \"p99\"", "value = \"p97\"", "p97"),
            ("kind = \"bound\"", "kind = \"hope\"", "hope"),
            ("policy =", "stack =", "stack"),
        ] {
            let error = Figure::read(&FIGURE.replacen(from, to, 1)).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
        let unmeasured =
            format!("{FIGURE}\n{}", &FIGURE[FIGURE.find("[[claim]]").unwrap()..].replace("\"p99\"", "\"p50\""));
        assert!(Figure::read(&unmeasured).unwrap_err().contains("example.p50: no [[measure]]"));
    }
}

//! A figure as data: a scene, what is measured in it, and what is claimed of that.

use std::collections::BTreeSet;

use quell_report::stats::wasserstein;
use serde::{Deserialize, Serialize};

use crate::measure::{Found, Measure};
use crate::registry::Topic;
use crate::treatment::{self, Treatment};

/// A figure: one file. Any runner that can run its scene finds its measures.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Its claims.
    pub topic: Topic,
    /// A scenario of `quell-lab run`.
    pub scene: toml::Table,
    /// What is compared; where there is none, the scene's stacks of policies under their names.
    pub treatments: Vec<Treatment>,
    /// What is measured, each for the claim of the same id.
    pub measures: Vec<Asked>,
    /// Is the scene played by programs (`quell-lab run --on programs`)?
    pub programs: bool,
    /// CPUs beside the scene's on which its load generators run alone; 0: they run among the programs.
    pub generator_cpus: u32,
    /// Changes of the scene, KEY=VALUE each: a variant's.
    pub set: Vec<String>,
}

/// One of several machines or loads for which a figure's scene is run and its claims are judged.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Variant {
    /// What the topic's name ends in.
    name: String,
    /// What the title ends in.
    title: String,
    set: Vec<String>,
}

/// A measure that is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// Its claim.
    pub id: String,
    /// Whose.
    pub workload: String,
    /// The treatment.
    #[serde(alias = "treatment")]
    pub policy: String,
    /// What of it.
    pub value: Value,
    /// The treatment to which it is compared: the value is a multiple of the one there; a distance is to the one there.
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
    /// Wasserstein's distance between the latencies and those of `over`, µs.
    Distance,
    /// The longest time that a program was kept from running, µs: between two blocks of a thread that never rests, or, as
    /// far as can be seen, the longest latency of a server.
    Pause,
}

/// How often a workload's threads were switched and moved, a second, all together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Switching {
    /// Times they gave a CPU up to sleep, and were woken.
    pub sleeps: f64,
    /// Times they lost a CPU although they could have gone on.
    pub preemptions: f64,
    /// Times they came into the queue of another CPU.
    pub migrations: f64,
}

/// What one run found of one workload under one stack.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The treatment.
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
    /// Latencies, ns, and how often each came.
    pub latencies: Vec<(u64, u64)>,
    /// 99th percentile of the lateness of a load generator that sends the requests, µs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late: Option<f64>,
    /// As [`Value::Pause`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<f64>,
    /// As far as it was counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switching: Option<Switching>,
}

impl Cell {
    /// What it has of this; of a distance nothing.
    #[must_use]
    pub fn value(&self, value: Value) -> Option<f64> {
        match value {
            Value::P50 => self.p50,
            Value::P99 => self.p99,
            Value::P999 => self.p999,
            Value::Mean => self.mean,
            Value::Rate => Some(self.rate),
            Value::Cpus => Some(self.cpus),
            Value::Waiting => Some(self.waiting),
            Value::Pause => self.pause,
            Value::Distance => None,
        }
    }

    /// The value, or its ratio to the other cell's, or its distance.
    fn against(&self, value: Value, other: Option<&Cell>) -> Option<f64> {
        match (value, other) {
            (Value::Distance, other) => {
                let [mut own, mut its] = [self, other?].map(Cell::samples);
                Some(wasserstein(&mut own, &mut its) / 1e3).filter(|distance| distance.is_finite())
            }
            (_, None) => self.value(value),
            (_, Some(other)) => Some(self.value(value)? / other.value(value)?),
        }
    }

    fn samples(&self) -> Vec<u64> {
        let repeat = |&(ns, count): &(u64, u64)| std::iter::repeat_n(ns, count as usize);
        self.latencies.iter().flat_map(repeat).collect()
    }
}

impl Figure {
    /// A figure from the text of its file.
    ///
    /// # Errors
    /// What is wrong with it: the place in the file, or the claim or measure and why.
    pub fn read(text: &str) -> Result<Figure, String> {
        Figure::all(text)?.into_iter().next().ok_or("[[variant]]: there is none".into())
    }

    /// The same for each of its variants, a topic of its own each.
    ///
    /// # Errors
    /// As [`Figure::read`].
    pub fn all(text: &str) -> Result<Vec<Figure>, String> {
        let mut file: toml::Table = toml::from_str(text).map_err(|error| error.to_string())?;
        let Some(variants) = file.remove("variant") else { return Ok(vec![Figure::of_file(file)?]) };
        let variants: Vec<Variant> = variants.try_into().map_err(|error| format!("[[variant]]: {error}"))?;
        let varied = |variant: Variant| {
            let mut file = file.clone();
            for (key, end) in [("topic", format!("-{}", variant.name)), ("title", format!(", {}", variant.title))] {
                if let Some(toml::Value::String(text)) = file.get_mut(key) {
                    text.push_str(&end);
                }
            }
            Ok(Figure { set: variant.set, ..Figure::of_file(file)? })
        };
        variants.into_iter().map(varied).collect()
    }

    fn of_file(mut file: toml::Table) -> Result<Figure, String> {
        let treatments = treatment::taken_from(&mut file)?;
        let mut take = |key: &str| file.remove(key).ok_or(format!("a figure needs '{key}'"));
        let scene = take("scene")?.try_into().map_err(|error| format!("[scene]: {error}"))?;
        let measures: Vec<Asked> = take("measure")?.try_into().map_err(|error| format!("[[measure]]: {error}"))?;
        let programs = match file.remove("programs") {
            None => false,
            Some(value) => value.as_bool().ok_or("programs: is true or false")?,
        };
        let generator_cpus = match file.remove("generator_cpus").map(|value| value.as_integer()) {
            None => 0,
            Some(count) => {
                count.and_then(|count| count.try_into().ok()).ok_or("generator_cpus: is a number of CPUs")?
            }
        };
        let topic = Topic::read(&file.to_string())?;
        for asked in &measures {
            topic.claim(&asked.id).ok_or(format!("[[measure]] {}: nothing claims it", asked.id))?;
        }
        let measured: BTreeSet<&str> = measures.iter().map(|asked| asked.id.as_str()).collect();
        let own = |id: &str| id.split_once('.').map_or(id.to_owned(), |(_, name)| name.to_owned());
        match topic.claims.iter().find(|claim| claim.missing.is_none() && !measured.contains(own(&claim.id).as_str())) {
            Some(claim) => Err(format!("{}: no [[measure]] has its id; give one, or say what is `missing`", claim.id)),
            None => Ok(Figure { topic, scene, treatments, measures, programs, generator_cpus, set: Vec::new() }),
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
            let over = asked.over.as_deref().map(of).transpose()?;
            match of(&asked.policy)?.against(asked.value, over) {
                Some(value) => seeds.push(value),
                None => none = Some("a run in which nothing was done"),
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
        let latencies = p99.map_or(Vec::new(), |us| vec![(us as u64 * 1000, 3)]);
        Cell { policy, workload, p99, rate: 1.0, cpus: 1.0, latencies, ..Cell::default() }
    }

    #[test]
    fn each_variant_is_a_topic_of_its_own() {
        let variant = "[[variant]]\nname = 'four'\ntitle = '4 CPUs'\nset = ['machine.cores=4']\n";
        let text = format!("{FIGURE}\n{variant}{}", variant.replace("four", "two"));
        let all = Figure::all(&text).unwrap();
        let ids: Vec<_> = all.iter().map(|figure| figure.topic.id.as_str()).collect();
        assert_eq!(ids, ["example-four", "example-two"]);
        assert_eq!((all[0].topic.title.as_str(), all[1].set.len()), ("one server, 4 CPUs", 1));
        assert!(all[0].topic.claims[0].id.starts_with("example-four."));
        assert!(Figure::all(&text.replace("set =", "with =")).unwrap_err().contains("[[variant]]"));
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
    fn a_distance_is_between_two_treatments() {
        let figure = Figure::read(&FIGURE.replace("value = \"p99\"", "value = \"distance\"")).unwrap();
        let found = figure.found(&[vec![cell("guard", Some(30.0)), cell("none", Some(100.0))]]).unwrap();
        assert_eq!(found[0].found, Found::Seeds(vec![70.0]));
    }

    #[test]
    fn what_does_not_fit_together_is_named() {
        for (from, to, said) in [
            ("[scene]", "[scenes]", "needs 'scene'"),
            ("id = \"p99\"\nworkload", "id = \"p98\"\nworkload", "p98: nothing claims it"),
            ("value = \"p99\"", "value = \"p97\"", "p97"),
            ("kind = \"bound\"", "kind = \"hope\"", "hope"),
            ("policy =", "stack =", "stack"),
            ("[[measure]]", "[[treatment]]\nset = []\n[[measure]]", "name"),
        ] {
            let error = Figure::read(&FIGURE.replacen(from, to, 1)).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
        let unmeasured =
            format!("{FIGURE}\n{}", &FIGURE[FIGURE.find("[[claim]]").unwrap()..].replace("\"p99\"", "\"p50\""));
        assert!(Figure::read(&unmeasured).unwrap_err().contains("example.p50: no [[measure]]"));
    }
}

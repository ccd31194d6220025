//! Results of an experiment, before any verdict.

use serde::{Deserialize, Serialize};

use crate::verdict::Interval;

/// A value for a claim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measure {
    /// The claim's id.
    pub id: String,
    /// The result.
    pub found: Found,
    /// A note for the reader about this run.
    pub note: String,
}

/// A result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Found {
    /// A value from each run, with other random numbers.
    Seeds(Vec<f64>),
    /// A value with its interval.
    Estimate(f64, Interval),
    /// A value in which nothing is random.
    Exact(f64),
    /// None: the missing part.
    Missing(String),
}

impl Found {
    /// The value: of several seeds their mean.
    #[must_use]
    pub fn value(&self) -> Option<f64> {
        match self {
            Found::Seeds(values) if values.is_empty() => None,
            Found::Seeds(values) => Some(mean(values)),
            Found::Estimate(value, _) | Found::Exact(value) => Some(*value),
            Found::Missing(_) => None,
        }
    }

    /// The interval of 95 %: of several seeds by Student's distribution around their mean; of one seed none.
    #[must_use]
    pub fn interval(&self) -> Option<Interval> {
        match self {
            Found::Seeds(values) => of_seeds(values),
            Found::Estimate(_, interval) => Some(*interval),
            Found::Exact(value) => Some(Interval { low: *value, high: *value }),
            Found::Missing(_) => None,
        }
    }
}

impl Measure {
    /// Joins the results of runs with other random numbers: measure by measure, in the order of the first run, with its
    /// notes.
    #[must_use]
    pub fn join(runs: impl IntoIterator<Item = Vec<Measure>>) -> Vec<Measure> {
        let mut all: Vec<Measure> = Vec::new();
        for measure in runs.into_iter().flatten() {
            match all.iter_mut().find(|known| known.id == measure.id) {
                None => all.push(measure),
                Some(known) => {
                    if let (Found::Seeds(values), Found::Seeds(more)) = (&mut known.found, &measure.found) {
                        values.extend(more);
                    }
                }
            }
        }
        all
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Student's 97.5 % quantiles for 1 to 9 degrees of freedom; beyond, the last is used, which is wider than need be.
const STUDENT: [f64; 9] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262];

fn of_seeds(values: &[f64]) -> Option<Interval> {
    let freedom = values.len().checked_sub(1).filter(|freedom| *freedom > 0)?;
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    let error = (squares / freedom as f64 / values.len() as f64).sqrt();
    let half = STUDENT[freedom.min(STUDENT.len()) - 1] * error;
    Some(Interval { low: mean - half, high: mean + half })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_seeds_have_students_interval_and_one_has_none() {
        let five = Found::Seeds(vec![1.0, 2.0, 3.0, 4.0, 5.0]);
        let Interval { low, high } = five.interval().unwrap();
        // 3 ± 2.776 · √(2.5 / 5)
        assert!((low - 1.037).abs() < 1e-3 && (high - 4.963).abs() < 1e-3, "{low} to {high}");
        assert_eq!((five.value(), Found::Seeds(vec![1.0]).interval()), (Some(3.0), None));
        assert_eq!(Found::Seeds(Vec::new()).value(), None);
        assert_eq!(Found::Exact(2.0).interval(), Some(Interval { low: 2.0, high: 2.0 }));
    }

    #[test]
    fn runs_are_joined_by_id_with_the_first_ones_notes() {
        let of = |id: &str, value: f64, note: &str| Measure {
            id: id.into(),
            found: Found::Seeds(vec![value]),
            note: note.into(),
        };
        let missing = Measure { id: "c".into(), found: Found::Missing("a device".into()), note: String::new() };
        let joined = Measure::join([
            vec![of("a", 1.0, "first"), missing.clone(), of("b", 2.0, "")],
            vec![of("a", 3.0, "second"), missing, of("b", 4.0, "")],
        ]);
        let found: Vec<_> = joined.iter().map(|measure| (measure.id.as_str(), measure.found.value())).collect();
        assert_eq!(found, [("a", Some(2.0)), ("c", None), ("b", Some(3.0))]);
        assert_eq!(joined[0].note, "first");
    }
}

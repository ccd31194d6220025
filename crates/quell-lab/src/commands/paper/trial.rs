//! One run of an experiment, and its results; kept, so that an interrupted run continues where it was.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use quell_evidence::{Found, Measure, Topic};
use quell_report::page::Block;
use rayon::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::kept::once;

/// Options of one run of an experiment.
#[derive(Clone, Copy, Debug)]
pub struct Trial {
    /// Shortened.
    pub quick: bool,
    /// For whatever is random, from 1.
    pub seed: u64,
}

/// An interval needs some runs with other random numbers.
pub const SEEDS: u64 = 5;

impl Trial {
    /// All of them: a quick run has one, and so no interval and no verdict.
    fn all(quick: bool, seeds: u64) -> impl Iterator<Item = Trial> {
        (1..=if quick { 1 } else { seeds }).map(move |seed| Trial { quick, seed })
    }

    /// Figures that are only drawn or noted are run once.
    pub fn is_first(self) -> bool {
        self.seed == 1
    }
}

/// Measures, and pictures for the page.
#[derive(Default)]
pub struct Figure {
    pub measures: Vec<Measure>,
    pub blocks: Vec<Block>,
}

/// A part's name, its figures, and what measures them.
pub type Part = (&'static str, &'static [&'static str], fn(Trial) -> Result<Vec<Measure>>);

/// A value for the topic's claim of this name.
pub fn measure(topic: &Topic, name: &str, value: f64, note: impl Into<String>) -> Result<Measure> {
    found(topic, name, Found::Seeds(vec![value]), note)
}

/// The same, whatever was found.
pub fn found(topic: &Topic, name: &str, found: Found, note: impl Into<String>) -> Result<Measure> {
    let claim = topic.claim(name).with_context(|| format!("nothing claims '{name}'"))?;
    Ok(Measure { id: claim.id.clone(), found, note: note.into() })
}

/// Directory of the kept measures of a run's parts, if there is one, and the number of trials of each part.
#[derive(Clone, Debug)]
pub struct Kept {
    directory: Option<PathBuf>,
    seeds: u64,
}

impl Default for Kept {
    fn default() -> Kept {
        Kept { directory: None, seeds: SEEDS }
    }
}

impl Kept {
    /// In this directory, which is made.
    pub fn new(directory: Option<&Path>, seeds: u64) -> Result<Kept> {
        if let Some(directory) = directory {
            std::fs::create_dir_all(directory).with_context(|| format!("make {}", directory.display()))?;
        }
        Ok(Kept { directory: directory.map(Path::to_owned), seeds })
    }

    /// Where it is kept.
    fn path(&self, name: &str, trial: Trial) -> Option<PathBuf> {
        let length = if trial.quick { "-quick" } else { "" };
        Some(self.directory.as_ref()?.join(format!("{name}-{}{length}.json", trial.seed)))
    }

    /// Result of the part of this name: kept from before (without pictures), or of a run now.
    pub fn part(&self, name: &str, trial: Trial, run: impl FnOnce() -> Result<Figure>) -> Result<Figure> {
        let Some(path) = self.path(name, trial) else { return run() };
        let mut blocks = Vec::new();
        let measures = once(&path, || {
            let figure = run()?;
            blocks = figure.blocks;
            Ok(figure.measures)
        })?;
        Ok(Figure { measures, blocks })
    }

    /// The part's results with each seed, joined; the pictures are the first one's.
    pub fn trials(&self, name: &str, quick: bool, run: impl Fn(Trial) -> Result<Figure> + Sync) -> Result<Figure> {
        let trials: Vec<Trial> = Trial::all(quick, self.seeds).collect();
        let figures = trials.par_iter().with_max_len(1).map(|&trial| self.part(name, trial, || run(trial)));
        Ok(join(figures.collect::<Result<Vec<Figure>>>()?))
    }

    /// What each trial finds, one trial after the other: kept from before, or of a run now.
    pub fn each<T>(&self, name: &str, quick: bool, run: impl Fn(Trial) -> Result<T>) -> Result<Vec<T>>
    where
        T: Serialize + DeserializeOwned,
    {
        Trial::all(quick, self.seeds).map(|trial| self.one(name, trial, &run)).collect()
    }

    /// The same, trials beside each other.
    pub fn each_at_once<T>(&self, name: &str, quick: bool, run: impl Fn(Trial) -> Result<T> + Sync) -> Result<Vec<T>>
    where
        T: Serialize + DeserializeOwned + Send,
    {
        let trials: Vec<Trial> = Trial::all(quick, self.seeds).collect();
        trials.par_iter().with_max_len(1).map(|&trial| self.one(name, trial, &run)).collect()
    }

    fn one<T>(&self, name: &str, trial: Trial, run: impl Fn(Trial) -> Result<T>) -> Result<T>
    where
        T: Serialize + DeserializeOwned,
    {
        match self.path(name, trial) {
            None => run(trial),
            Some(path) => once(&path, || run(trial)),
        }
    }

    /// All parts, or those of these figures alone.
    pub fn parts(&self, parts: &[Part], quick: bool, only: &[String]) -> Result<Figure> {
        let wants = |names: &[&str]| only.is_empty() || only.iter().any(|one| names.contains(&one.as_str()));
        let chosen = parts.iter().filter(|(_, figures, _)| wants(figures));
        let run = |(name, _, measures): &Part| {
            self.trials(name, quick, |trial| Ok(Figure { measures: measures(trial)?, ..Figure::default() }))
        };
        let found = chosen.map(run).collect::<Result<Vec<Figure>>>()?;
        Ok(Figure { measures: found.into_iter().flat_map(|figure| figure.measures).collect(), ..Figure::default() })
    }

    /// The same of `trials`, one trial after the other.
    pub fn one_by_one(&self, name: &str, quick: bool, run: impl Fn(Trial) -> Result<Figure>) -> Result<Figure> {
        let figures = Trial::all(quick, self.seeds).map(|trial| self.part(name, trial, || run(trial)));
        Ok(join(figures.collect::<Result<Vec<Figure>>>()?))
    }
}

/// The joined results of trials.
fn join(mut figures: Vec<Figure>) -> Figure {
    let blocks = figures.first_mut().map(|first| std::mem::take(&mut first.blocks)).unwrap_or_default();
    Figure { measures: Measure::join(figures.into_iter().map(|figure| figure.measures)), blocks }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn what_was_kept_is_not_run_again_and_seeds_are_joined() {
        let directory = tempfile::tempdir().unwrap();
        let kept = Kept::new(Some(directory.path()), SEEDS).unwrap();
        let runs = AtomicU32::new(0);
        let run = |trial: Trial| {
            runs.fetch_add(1, Ordering::Relaxed);
            let found = Found::Seeds(vec![trial.seed as f64]);
            Ok(Figure { measures: vec![Measure { id: "x".into(), found, note: String::new() }], blocks: Vec::new() })
        };
        for _ in 0..2 {
            let all = kept.trials("t-f", false, run).unwrap();
            assert_eq!(all.measures[0].found, Found::Seeds(vec![1.0, 2.0, 3.0, 4.0, 5.0]));
        }
        assert_eq!(runs.load(Ordering::Relaxed), 5);
        // A quick run is another one.
        assert_eq!(kept.trials("t-f", true, run).unwrap().measures[0].found.interval(), None);
        assert_eq!(runs.load(Ordering::Relaxed), 6);
    }
}

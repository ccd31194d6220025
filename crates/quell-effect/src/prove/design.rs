//! What is fixed before the first block.

use std::time::Duration;

use quell_report::human;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{EffectError, Result};
use crate::quantile::{self, LEVELS, needed};

/// With fewer groups the draw says too little.
const FEWEST_GROUPS: u64 = 15;
/// A block is measured for at least this time.
const SHORTEST: f64 = 1.0;
/// And for this many times what is dropped at its beginning.
const PER_SETTLING: f64 = 4.0;
/// Values come by chance: a block is long enough for this many times as many as its quantile needs.
const SPARE: f64 = 1.25;
/// Looks in an experiment, the last one at its end.
const LOOKS: u32 = 5;

/// What is wanted, and what is known of the service.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The quantile to judge by.
    pub quantile: f64,
    /// Values that are measured per second.
    pub per_second: f64,
    /// Time in which a change takes effect.
    pub settling: Duration,
    /// Length of the experiment.
    pub length: Duration,
    /// Share of the time off, up to a half.
    pub off_share: f64,
    /// A difference up to this share does not matter.
    pub margin: f64,
    /// Fixes the draw.
    pub seed: u64,
}

/// A block of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Turn {
    /// Its group.
    pub group: u32,
    /// Is the change in effect?
    pub on: bool,
}

/// An experiment as it is fixed before it begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Design {
    /// The quantile that is judged by: the wanted one, or the highest below it that blocks have values enough for.
    pub quantile: f64,
    /// Length of a block, s.
    pub block_seconds: f64,
    /// Of it dropped at its beginning, s.
    pub dropped_seconds: f64,
    /// Blocks in a group, one of which is off.
    pub blocks_per_group: u32,
    /// Groups.
    pub groups: u32,
    /// Groups after which a verdict is possible, ascending.
    pub looks: Vec<u32>,
    /// A difference up to this share does not matter.
    pub margin: f64,
    /// Fixes the draw.
    pub seed: u64,
}

impl Design {
    /// The design for a request.
    ///
    /// # Errors
    /// If a number makes no sense, or the time is too short: with the time that is needed.
    pub fn of(request: &Request) -> Result<Design> {
        let refuse = |problem: String, fix: &str| Err(EffectError::Design { problem, fix: fix.to_owned() });
        if !(request.off_share >= 0.1 && request.off_share <= 0.5) {
            return refuse(format!("{} of the time off", request.off_share), "give a share from 0.1 to 0.5");
        }
        if !(request.per_second > 0.0 && request.per_second.is_finite()) {
            return refuse("nothing was measured".into(), "put load on the service, or give --url for a probe");
        }
        if !(request.margin > 0.0 && request.margin < 1.0) {
            return refuse(format!("a margin of {}", request.margin), "give a share above 0 and below 1");
        }
        let blocks_per_group = (1.0 / request.off_share).round() as u32;
        let (length, dropped) = (request.length.as_secs_f64(), request.settling.as_secs_f64());
        let block = |level: f64| {
            let measured = SPARE * needed(level) as f64 / request.per_second;
            dropped + measured.max(PER_SETTLING * dropped).max(SHORTEST)
        };
        let groups = |level: f64| (length / (block(level) * f64::from(blocks_per_group))) as u64;
        let levels = || LEVELS.into_iter().filter(|level| *level <= request.quantile);
        let Some(quantile) = levels().rev().find(|level| groups(*level) >= FEWEST_GROUPS) else {
            let Some(least) = levels().next() else {
                return refuse(format!("no quantile up to {}", request.quantile), "give 0.5, 0.9, 0.99 or 0.999");
            };
            let group = block(least) * f64::from(blocks_per_group);
            let mut needed = (group * FEWEST_GROUPS as f64).ceil();
            // As it is counted above.
            while ((needed / group) as u64) < FEWEST_GROUPS {
                needed += 1.0;
            }
            let is_rare = block(least) > dropped + (PER_SETTLING * dropped).max(SHORTEST);
            let rare = if is_rare {
                format!(" where {} are measured", human::rate(request.per_second))
            } else {
                String::new()
            };
            return Err(EffectError::Design {
                problem: format!(
                    "{} are too short: a verdict takes {} blocks of {}{rare}",
                    words(length),
                    FEWEST_GROUPS * u64::from(blocks_per_group),
                    seconds(block(least)),
                ),
                fix: format!("give --for {needed}s or more"),
            });
        };
        let groups = u32::try_from(groups(quantile)).unwrap_or(u32::MAX);
        Ok(Design {
            quantile,
            block_seconds: block(quantile),
            dropped_seconds: dropped,
            blocks_per_group,
            groups,
            looks: (1..=LOOKS).map(|look| (u64::from(groups) * u64::from(look) / u64::from(LOOKS)) as u32).collect(),
            margin: request.margin,
            seed: request.seed,
        })
    }

    /// All blocks, in their order.
    #[must_use]
    pub fn turns(&self) -> Vec<Turn> {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        let mut turns = Vec::new();
        for group in 0..self.groups {
            let off = random.random_range(0..self.blocks_per_group);
            turns.extend((0..self.blocks_per_group).map(|block| Turn { group, on: block != off }));
        }
        turns
    }

    /// Length of the whole, s.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.group_seconds() * f64::from(self.groups)
    }

    /// Length of a group, s.
    #[must_use]
    pub fn group_seconds(&self) -> f64 {
        self.block_seconds * f64::from(self.blocks_per_group)
    }

    /// How long the service is without the change, s.
    #[must_use]
    pub fn off_seconds(&self) -> f64 {
        self.block_seconds * f64::from(self.groups)
    }

    /// What is fixed, for people, in a few lines.
    #[must_use]
    pub fn text(&self) -> String {
        let looks: Vec<String> = self.looks.iter().map(u32::to_string).collect();
        let (last, before) = looks
            .split_last()
            .map_or((String::new(), String::new()), |(last, before)| (last.clone(), before.join(", ")));
        format!(
            "Off for {} of {}: one block of each {} in a row, drawn at random (seed {}); {} groups, blocks of {}, the first {} of \
             each dropped.\nJudged by {}; a verdict after {before} or {last} groups, wrong in 5 of 100 where there is no \
             difference, and none between.",
            words(self.off_seconds()),
            words(self.seconds()),
            self.blocks_per_group,
            self.seed,
            self.groups,
            seconds(self.block_seconds),
            seconds(self.dropped_seconds),
            quantile::name(self.quantile),
        )
    }
}

fn seconds(seconds: f64) -> String {
    human::nanoseconds((seconds * 1e9) as u64)
}

/// `45 s`, `3 min 20 s`
pub(super) fn words(seconds: f64) -> String {
    let seconds = seconds.round().max(0.0) as u64;
    match (seconds / 60, seconds % 60) {
        (0, rest) => format!("{rest} s"),
        (minutes, 0) => format!("{minutes} min"),
        (minutes, rest) => format!("{minutes} min {rest} s"),
    }
}

//! The analysis of an experiment: a pure function of its design and of what was measured.

use quell_model::foreign;
use quell_report::human;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::design::Design;
use super::draws::Draws;
use super::series::{Group, Measured, groups, logarithm};
use super::verdict::Verdict;
use super::{DRAWS, WRONG};
use crate::phase::{Measure, Phase};
use crate::quantile;
use crate::report::Figures;

/// A load that differs by more than this share is said.
const OTHER_LOAD: f64 = 0.1;

/// Does a block begin as the one before it was?
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CarryOver {
    /// The first half of a block over its second where it is on after off, and the reverse where it is off after on, a mean of
    /// logarithms as a ratio: 1 without carry-over.
    pub ratio: f64,
    /// Is it more than chance would have (5 %)?
    pub is_found: bool,
}

/// What was found up to now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Found {
    /// The answer.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// The quantile that is judged by.
    pub quantile: f64,
    /// Groups that are complete, those set aside included.
    pub groups: u32,
    /// Of these set aside: nothing was measured in one of their blocks.
    pub empty_groups: u32,
    /// On over off, at the last look.
    pub ratio: Option<f64>,
    /// Its 95 % interval, which holds over all looks together.
    pub interval: Option<(f64, f64)>,
    /// The blocks that were off.
    pub off: Figures,
    /// Those that were on.
    pub on: Figures,
    /// What a block has from the one before it; absent with fewer than two changes.
    pub carry_over: Option<CarryOver>,
    /// Values per second in the second half over those in the first.
    pub load_drift: Option<f64>,
}

/// Analyses the blocks that are complete, in their order.
#[must_use]
pub fn analyse(design: &Design, blocks: &[Measured]) -> Found {
    let per_group = design.blocks_per_group as usize;
    let complete = &blocks[..blocks.len() - blocks.len() % per_group.max(1)];
    let (series, empty_groups) = groups(complete, per_group, design.quantile);
    let done = (complete.len() / per_group.max(1)) as u32;
    let next = design.looks.iter().find(|look| **look > done);
    let until_next = next.map(|look| f64::from(look - done) * design.group_seconds());
    let figures = |on: bool| Figures::of(&merged(complete.iter().filter(|block| block.turn.on == on)));
    let mut found = Found {
        verdict: Verdict::CannotTell { more_seconds: until_next },
        quantile: design.quantile,
        groups: done,
        empty_groups,
        ratio: None,
        interval: None,
        off: figures(false),
        on: figures(true),
        carry_over: carry_over(design, complete),
        load_drift: load_drift(complete),
    };
    let looks = looks(design, &series, done);
    let Some(&(used, _)) = looks.last().filter(|look| look.0 > 0) else { return found };
    let draws = Draws::of(&series, looks, design.seed);
    let (estimate, interval) = (draws.estimate(), draws.interval());
    found.ratio = Some(estimate.exp());
    found.interval = interval.map(|(low, high)| (low.exp(), high.exp()));
    found.verdict = verdict(&draws, interval, design, used, until_next);
    found
}

/// The looks after this number of groups: how many of the groups are used, and the share of the experiment.
pub(super) fn looks(design: &Design, series: &[Group], done: u32) -> Vec<(usize, f64)> {
    let used = |look: u32| series.partition_point(|group| group.number < look);
    let reached = design.looks.iter().filter(|look| **look <= done);
    reached.map(|&look| (used(look), f64::from(look) / f64::from(design.groups))).collect()
}

fn verdict(
    draws: &Draws<'_>,
    interval: Option<(f64, f64)>,
    design: &Design,
    groups: usize,
    until_next: Option<f64>,
) -> Verdict {
    let estimate = draws.estimate();
    if !draws.is_possible(0.0) {
        return if estimate < 0.0 { Verdict::Helps } else { Verdict::Harms };
    }
    let Some((low, high)) = interval else { return Verdict::CannotTell { more_seconds: until_next } };
    let widest = high.max(-low);
    let margin = design.margin.ln_1p();
    if widest <= margin {
        return Verdict::NoDifference { larger_than: widest.exp_m1() };
    }
    // An interval narrows with the root of the number of groups.
    let half = (high - low) / 2.0;
    let factor = (half / estimate.abs().max(margin - estimate.abs()).max(1e-3)).powi(2);
    let more = (factor - 1.0).max(0.0) * groups as f64 * design.group_seconds();
    Verdict::CannotTell { more_seconds: Some(more.max(until_next.unwrap_or(design.group_seconds()))) }
}

fn merged<'a>(blocks: impl Iterator<Item = &'a Measured>) -> Phase {
    let mut phases = blocks.map(|block| &block.phase);
    let Some(mut merged) = phases.next().cloned() else {
        return Phase::new(Measure::Probe, Vec::new());
    };
    phases.for_each(|phase| merged.slices.extend(phase.slices.iter().cloned()));
    merged
}

/// The second half of the blocks against the first, by values per second.
fn load_drift(blocks: &[Measured]) -> Option<f64> {
    let (first, second) = blocks.split_at(blocks.len() / 2);
    let [first, second] = [first, second].map(|blocks| merged(blocks.iter()).per_second());
    (first > 0.0 && second > 0.0).then(|| second / first)
}

/// Within a block nothing changes but what is left of the one before it. So the difference of its halves is the same whatever was
/// drawn, and only its sign goes with the draw.
fn carry_over(design: &Design, blocks: &[Measured]) -> Option<CarryOver> {
    let difference = |block: &Measured| {
        let halves = block.phase.halves();
        let has_both = halves.iter().all(|half| half.count() > 0);
        has_both.then(|| logarithm(&halves[0], design.quantile) - logarithm(&halves[1], design.quantile))
    };
    let differences: Vec<Option<f64>> = blocks.iter().map(difference).collect();
    let mean = |on: &[bool]| {
        let (mut sum, mut changes) = (0.0, 0);
        for (at, difference) in differences.iter().enumerate().skip(1) {
            if let Some(difference) = difference.filter(|_| on[at] != on[at - 1]) {
                sum += if on[at] { difference } else { -difference };
                changes += 1;
            }
        }
        (changes >= 2).then(|| sum / f64::from(changes))
    };
    let mut on: Vec<bool> = blocks.iter().map(|block| block.turn.on).collect();
    let true_mean = mean(&on)?;
    let mut random = ChaCha8Rng::seed_from_u64(design.seed);
    random.set_stream(2);
    let mut as_large = 1;
    for _ in 0..DRAWS {
        for group in on.chunks_mut(design.blocks_per_group as usize) {
            let off = random.random_range(0..group.len());
            (0..).zip(group).for_each(|(block, on)| *on = block != off);
        }
        as_large += usize::from(mean(&on).is_some_and(|mean| mean.abs() >= true_mean.abs()));
    }
    Some(CarryOver { ratio: true_mean.exp(), is_found: (as_large as f64) < WRONG * (DRAWS + 1) as f64 })
}

/// What is compared, in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arms<'a> {
    /// What is measured.
    pub measure: Measure,
    /// Without the change: `off`, or the policy that is compared with.
    pub off: &'a str,
    /// With it.
    pub on: &'a str,
}

impl Arms<'_> {
    /// Its name where it is compared with nothing.
    pub const ON: &'static str = "on";
}

impl Found {
    /// The answer in a line: `web: helps: p99 6.1 ms off, 410 µs on (0.07 × off by blocks, 95 % interval 0.05 to 0.09)`.
    #[must_use]
    pub fn headline(&self, target: &str, arms: &Arms<'_>) -> String {
        let name = format!("{}{}", arms.measure.prefix(), quantile::name(self.quantile));
        let Arms { off: off_name, on: on_name, .. } = arms;
        let values = [&self.off, &self.on].map(|figures| {
            let found = figures.quantiles.iter().find(|found| found.quantile == self.quantile);
            found.map(|found| human::nanoseconds(found.ns))
        });
        let what = if *on_name == Arms::ON { String::new() } else { format!("{on_name} against {off_name} ") };
        let mut line = format!("{}: {what}{}", foreign::text(target), self.verdict.words());
        if let [Some(off), Some(on)] = values {
            line += &format!(": {name} {off} {off_name}, {on} {on_name}");
        }
        if let (Some(ratio), Some((low, high))) = (self.ratio, self.interval) {
            line += &format!(
                " ({} × {off_name} by blocks, 95 % interval {} to {})",
                factor(ratio),
                factor(low),
                factor(high)
            );
        }
        line
    }

    /// What the reader should know beside it, a sentence each.
    #[must_use]
    pub fn caveats(&self) -> Vec<String> {
        let mut caveats = Vec::new();
        if let Some(drift) = self.load_drift.filter(|drift| (drift - 1.0).abs() > OTHER_LOAD) {
            caveats.push(format!(
                "The load drifted: {} × in the second half. Only neighbouring blocks are compared.",
                factor(drift)
            ));
        }
        let (off, on) = (self.off.per_second, self.on.per_second);
        if off > 0.0 && (on / off - 1.0).abs() > OTHER_LOAD {
            caveats.push(format!("The load differs: {} off, {} on.", human::rate(off), human::rate(on)));
        }
        if self.carry_over.is_some_and(|carry_over| carry_over.is_found) {
            caveats.push(
                "Blocks begin as the one before them was: the change settles later than taken, and the difference is larger than \
                 shown. Give a longer settling time."
                    .into(),
            );
        }
        if self.empty_groups > 0 {
            caveats.push(format!(
                "{} of {} groups are left out: nothing was measured in one of their blocks.",
                self.empty_groups, self.groups
            ));
        }
        caveats
    }
}

fn factor(factor: f64) -> String {
    let decimals = if factor < 0.1 { 3 } else { 2 };
    format!("{factor:.decimals$}")
}

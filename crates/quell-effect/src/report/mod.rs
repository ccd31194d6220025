//! A comparison for people and programs: a headline, bars, caveats, and the same as JSON.

mod caveats;
mod headline;
#[cfg(test)]
mod tests;

use std::time::Duration;

use quell_model::foreign;
use quell_report::bars::{Bar, log_bars};
use quell_report::human;
use quell_report::screen::Screen;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::compare::{Comparison, compare};
use crate::phase::{Measure, Phase};
use crate::quantile;

/// What is to be compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Question<'a> {
    /// The service's name.
    pub target: &'a str,
    /// What it is called with the change: `protected`.
    pub changed: &'a str,
    /// The quantile that is wanted.
    pub quantile: f64,
    /// Time after the change that is left out: what it sets takes effect, and requests from before it end.
    pub settling: Duration,
}

/// A quantile.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Quantile {
    /// 0 to 1.
    pub quantile: f64,
    /// Its value, ns.
    pub ns: u64,
}

/// A phase in numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figures {
    /// How long was measured, s.
    pub seconds: f64,
    /// Number of values.
    pub count: u64,
    /// Values per second.
    pub per_second: f64,
    /// The quantiles that this number of values is enough for.
    pub quantiles: Vec<Quantile>,
}

/// What a change did to a service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Effect {
    /// The service's name.
    pub target: String,
    /// What was measured.
    pub measure: Measure,
    /// What the service is called with the change.
    pub changed: String,
    /// Before the change.
    pub before: Figures,
    /// With it, without the time in which it settled.
    pub after: Figures,
    /// One against the other; absent where a phase has too few values for any quantile.
    pub comparison: Option<Comparison>,
    /// All of that in a line.
    pub headline: String,
    /// What the reader has to know beside it, a sentence each; those of the source ([`crate::Source::caveats`]) are its caller's to
    /// add.
    pub caveats: Vec<String>,
    /// The last bound of the source's buckets, ns: a value above it is only known to be above it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_bound_ns: Option<u64>,
}

impl Figures {
    /// The figures of a phase.
    #[must_use]
    pub fn of(phase: &Phase) -> Figures {
        let quantiles = phase.quantiles().into_iter().map(|(quantile, ns)| Quantile { quantile, ns }).collect();
        Figures { seconds: phase.seconds(), count: phase.count(), per_second: phase.per_second(), quantiles }
    }
}

impl Effect {
    /// Compares both phases; the second one begins with the change.
    #[must_use]
    pub fn of(question: &Question<'_>, before: &Phase, after: &Phase) -> Effect {
        let after = after.after(question.settling);
        let mut effect = Effect {
            target: question.target.to_owned(),
            measure: before.measure,
            changed: question.changed.to_owned(),
            before: Figures::of(before),
            after: Figures::of(&after),
            comparison: compare(before, &after, question.quantile),
            headline: String::new(),
            caveats: caveats::of(question, before, &after),
            last_bound_ns: before.edges.last().copied(),
        };
        effect.headline = headline::of(&effect, question.quantile);
        effect
    }

    /// The headline, a bar for each phase, and the caveats.
    #[must_use]
    pub fn text(&self, screen: &Screen) -> String {
        let mut text = screen.wrap(&self.headline) + "\n";
        if let Some(comparison) = &self.comparison {
            text.push('\n');
            text += &log_bars(&self.bars(comparison), screen);
        }
        for caveat in &self.caveats {
            text += &screen.wrap(caveat);
            text.push('\n');
        }
        text
    }

    fn bars(&self, comparison: &Comparison) -> [Bar; 2] {
        let bar = |label: &str, ns| Bar { label: foreign::text(label).into_owned(), ns, text: self.duration(ns) };
        [bar("before", comparison.before_ns), bar(&self.changed, comparison.after_ns)]
    }

    /// A value as it is known.
    fn duration(&self, ns: u64) -> String {
        match self.last_bound_ns.filter(|last| ns > *last) {
            Some(last) => format!("over {}", human::nanoseconds(last)),
            None => human::nanoseconds(ns),
        }
    }

    /// The quantile's name with its measure: `p99`, `queueing delay p99`.
    fn quantile_name(&self, quantile: f64) -> String {
        format!("{}{}", self.measure.prefix(), quantile::name(quantile))
    }
}

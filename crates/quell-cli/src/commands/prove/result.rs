//! What was found, for programs and for the page.

use quell_effect::Measure;
use quell_effect::Phase;
use quell_effect::prove::{CarryOver, Design, Found};
use serde::Serialize;

use super::block::Block;
use super::used::Used;

/// An experiment that has ended.
pub struct Outcome {
    /// The analysis of all complete groups.
    pub found: Found,
    /// Every block.
    pub blocks: Vec<Block>,
    /// Why it ended before its time, if not by a verdict.
    pub cut: Option<String>,
    /// What the reader should know of the source.
    pub caveats: Vec<String>,
}

/// `quell prove --json`.
#[derive(Serialize)]
pub struct Proved<'a> {
    pub workload: &'a str,
    pub target: &'a str,
    pub policy: &'a str,
    pub against: &'a str,
    /// `agent`, or `this process`.
    pub by: &'a str,
    pub measure: Measure,
    pub headline: &'a str,
    pub design: &'a Design,
    pub result: &'a Found,
    pub used_off: Used,
    pub used_on: Used,
    pub blocks: Vec<OneBlock>,
    pub caveats: &'a [String],
    pub interrupted: Option<&'a str>,
    pub kept: bool,
}

/// A block for programs.
#[derive(Serialize)]
pub struct OneBlock {
    pub group: u32,
    pub on: bool,
    pub at_seconds: f64,
    pub seconds: f64,
    pub count: u64,
    /// At the quantile that is judged by; null: nothing was measured.
    pub ns: Option<u64>,
    pub aborted: bool,
}

impl Outcome {
    /// CPU time in the blocks of an arm.
    pub fn used(&self, on: bool) -> Used {
        Used::sum(
            self.blocks.iter().filter(|block| block.measured.turn.on == on).filter_map(|block| block.used.as_ref()),
        )
    }

    /// All that was measured in the blocks of an arm.
    pub fn phase(&self, on: bool) -> Option<Phase> {
        let mut phases = self.blocks.iter().map(|block| &block.measured).filter(|block| block.turn.on == on);
        let mut all = phases.next()?.phase.clone();
        phases.for_each(|block| all.slices.extend(block.phase.slices.iter().cloned()));
        Some(all)
    }

    /// The blocks for programs.
    pub fn list(&self) -> Vec<OneBlock> {
        let one = |block: &Block| OneBlock {
            group: block.measured.turn.group,
            on: block.measured.turn.on,
            at_seconds: block.at_seconds,
            seconds: block.measured.phase.seconds(),
            count: block.measured.phase.count(),
            ns: (block.measured.phase.count() > 0).then(|| block.measured.phase.at(self.found.quantile)),
            aborted: block.is_aborted,
        };
        self.blocks.iter().map(one).collect()
    }

    /// Sentences beside the answer.
    pub fn remarks(&self, measure: Measure) -> Vec<String> {
        let mut remarks = self.found.caveats();
        let aborted = self.blocks.iter().filter(|block| block.is_aborted).count();
        if aborted > 0 {
            let blocks = quell_model::amount(aborted, "block", "blocks");
            remarks.push(format!("{blocks} ended at once: the objective was missed by far. They count as they stand."));
        }
        if measure == Measure::QueueingDelay {
            remarks.push(
                "Queueing delay is how long its threads waited for a CPU, not how long a request takes: for that, give --url or \
                 --histogram."
                    .into(),
            );
        }
        match &self.found.carry_over {
            Some(CarryOver { is_found: false, .. }) => {
                remarks.push("No effect of a block on the next one was found.".into());
            }
            Some(_) => {}
            None => remarks.push("Too few changes to look for carry-over.".into()),
        }
        remarks.extend(self.caveats.iter().cloned());
        if let Some(cut) = &self.cut {
            remarks.push(format!("It ended before its time: {cut}."));
        }
        remarks
    }
}

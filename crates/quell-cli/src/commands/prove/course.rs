//! The blocks, one after the other, until the last one, a verdict or an interruption.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, bail};
use quell_effect::Source;
use quell_effect::prove::{Found, Measured, Turn, analyse};
use quell_effect::quantile;
use quell_model::{Workload, amount};
use quell_report::human;
use quell_thread::clock;

use super::Arguments;
use super::block::{self, Abort, Block};
use super::plan::Plan;
use super::result::Outcome;
use super::used::Uses;
use crate::commands::protect::before;
use crate::commands::protect::target::Subject;

/// What lasts as long as a block; it gets the question whether to go on.
pub type Work<'a> = &'a mut dyn FnMut(&mut dyn FnMut() -> bool) -> Result<()>;

/// Switches protection on and off.
pub trait Switched {
    /// Does the work while it is on, or off; it begins when that is in force.
    ///
    /// # Errors
    /// If that cannot be.
    fn during(&mut self, on: bool, work: Work<'_>) -> Result<()>;

    /// Why the work was asked to end; None: nothing but this command's own end.
    fn lost(&self) -> Option<String> {
        None
    }

    /// CPU seconds that the agent has used so far.
    fn cost(&self) -> f64 {
        0.0
    }
}

/// The experiment.
pub struct Course<'a> {
    /// What was asked for.
    pub arguments: &'a Arguments,
    /// The target.
    pub subject: &'a Subject,
    /// As a workload.
    pub workload: Workload,
    /// What is fixed.
    pub plan: Plan,
    /// Is it to end?
    pub stop: Arc<AtomicBool>,
}

impl<'a> Course<'a> {
    /// All together.
    pub fn new(
        arguments: &'a Arguments,
        subject: &'a Subject,
        workload: Workload,
        plan: Plan,
        stop: Arc<AtomicBool>,
    ) -> Course<'a> {
        Course { arguments, subject, workload, plan, stop }
    }

    /// Runs it.
    ///
    /// # Errors
    /// If nothing can be measured or switched.
    pub fn run(&self, switched: &mut dyn Switched) -> Result<Outcome> {
        let Some(mut source) = before::source(&self.arguments.wanted, self.subject)? else {
            bail!("{}: nothing can be measured", self.subject.name)
        };
        let mut uses = Uses::of(self.subject.selectors.clone())?;
        let (mut blocks, mut cut, begun) = (Vec::<Block>::new(), None, clock::now());
        let turns = self.plan.design.turns();
        for (number, turn) in turns.iter().enumerate() {
            let at_seconds = clock::now().since(begun).as_secs_f64();
            match self.block(switched, source.as_mut(), &mut uses, *turn) {
                Ok(Some((measured, is_aborted, used))) => {
                    blocks.push(Block { measured, used, is_aborted, at_seconds });
                }
                Ok(None) => {
                    cut = Some(switched.lost().unwrap_or_else(|| "interrupted".into()));
                    break;
                }
                // What there is already is worth more than nothing.
                Err(error) if !blocks.is_empty() => {
                    cut = Some(format!("{error:#}"));
                    break;
                }
                Err(error) => return Err(error),
            }
            self.say(number + 1, turns.len(), &blocks[blocks.len() - 1]);
            if self.is_decided(&blocks) {
                break;
            }
        }
        let found = self.analysed(&blocks);
        Ok(Outcome { found, blocks, cut, caveats: source.caveats() })
    }

    fn block(
        &self,
        switched: &mut dyn Switched,
        source: &mut dyn Source,
        uses: &mut Uses,
        turn: Turn,
    ) -> Result<Option<(Measured, bool, Option<super::used::Used>)>> {
        if self.stop.load(Ordering::Acquire) {
            return Ok(None);
        }
        let design = &self.plan.design;
        let times = [design.block_seconds, design.dropped_seconds].map(Duration::from_secs_f64);
        let factor = self.arguments.abort_factor;
        let abort = self.plan.slo.map(|slo| Abort { slo, factor });
        let mut measured = None;
        uses.begin(switched.cost())?;
        switched.during(turn.on, &mut |lasts| {
            let mut goes_on = || lasts() && !self.stop.load(Ordering::Acquire);
            measured = block::measure(source, turn, times, abort, &mut goes_on, &|| self.subject.ended())?;
            Ok(())
        })?;
        let used = uses.end(switched.cost())?;
        Ok(measured.map(|(measured, is_aborted)| (measured, is_aborted, used)))
    }

    fn analysed(&self, blocks: &[Block]) -> Found {
        let measured: Vec<Measured> = blocks.iter().map(|block| block.measured.clone()).collect();
        analyse(&self.plan.design, &measured)
    }

    /// Is this a look, and does it have a verdict?
    fn is_decided(&self, blocks: &[Block]) -> bool {
        let design = &self.plan.design;
        let per_group = design.blocks_per_group as usize;
        let groups = (blocks.len() / per_group) as u32;
        let is_look = blocks.len().is_multiple_of(per_group) && design.looks.contains(&groups);
        is_look && self.analysed(blocks).verdict.is_final()
    }

    /// A line a block.
    fn say(&self, number: usize, of: usize, block: &Block) {
        if self.arguments.wanted.asked.say().quiet {
            return;
        }
        let (phase, arms) = (&block.measured.phase, self.plan.arms(self.arguments));
        let name = if block.measured.turn.on { arms.on } else { arms.off };
        let value = match quantile::highest_sound(self.plan.design.quantile, phase.count()) {
            Some(level) => {
                let ns = human::nanoseconds(phase.at(level));
                format!("{}{} {ns}", self.plan.measure.prefix(), quantile::name(level))
            }
            None => "too little".into(),
        };
        let aborted = if block.is_aborted { "; ended at once: the objective is missed by far" } else { "" };
        let count = amount(phase.count() as usize, "value", "values");
        eprintln!("block {number} of {of}, {name}: {value}, {count}{aborted}");
    }
}

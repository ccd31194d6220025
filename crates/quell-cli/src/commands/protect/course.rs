//! What happens while a target is protected: it is measured again, that is said, and then it goes on until an end.

use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::time::Instant;

use anyhow::Result;
use quell_command::progress;
use quell_effect::report::Question;
use quell_effect::{Effect, Phase};
use quell_model::{Nanos, Workload};

use super::Arguments;
use super::before::{Before, source, watched};
use super::output;
use super::target::Subject;
use crate::commands::managed::has_ended;

/// Requests from before the change end, and what is set takes effect, within this time.
const SETTLING: Nanos = Nanos::from_millis(500);
/// The quantile that is compared, where there is enough for it.
const QUANTILE: f64 = 0.99;

/// The whole of it.
pub struct Course<'a> {
    /// What was asked for.
    pub arguments: &'a Arguments,
    /// The target.
    pub subject: &'a Subject,
    /// As a workload.
    pub workload: &'a Workload,
    /// The policy's name.
    pub policy: &'static str,
    /// CPUs of the machine.
    pub cpus: u32,
    before: Before,
}

/// Why it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It was asked to, or cannot go on.
    Stopped,
    /// Its time is over.
    Over,
    /// The target has ended.
    Ended,
}

impl<'a> Course<'a> {
    /// From what was found before.
    pub fn new(
        arguments: &'a Arguments,
        subject: &'a Subject,
        workload: &'a Workload,
        policy: &'static str,
        before: Before,
        cpus: u32,
    ) -> Course<'a> {
        Course { arguments, subject, workload, policy, cpus, before }
    }

    /// Measures, says what that did, and waits for an end. `goes_on` is asked many times a second; `by`: what protects it.
    ///
    /// # Errors
    /// If it cannot be measured or waited for.
    pub fn run(&self, handles: &[OwnedFd], by: &str, goes_on: &mut dyn FnMut() -> bool) -> Result<End> {
        let begun = Instant::now();
        let mut end = || -> Option<End> {
            match () {
                () if !goes_on() => Some(End::Stopped),
                () if self.arguments.length.is_some_and(|length| begun.elapsed() >= length.into()) => Some(End::Over),
                () => None,
            }
        };
        if self.before.phase.is_some()
            && let Some(effect) = self.measure(&mut end)?
        {
            output::print(self, Some(&effect), by)?;
        } else if self.before.phase.is_none() {
            output::print(self, None, by)?;
        }
        let mut left: Vec<&OwnedFd> = handles.iter().collect();
        loop {
            if let Some(end) = end() {
                return Ok(end);
            }
            let Some(first) = left.first() else { return Ok(End::Ended) };
            // Waits for a moment.
            if has_ended(first)? {
                left.remove(0);
            }
        }
    }

    /// Measures again, and compares; None: it ended before.
    fn measure(&self, end: &mut dyn FnMut() -> Option<End>) -> Result<Option<Effect>> {
        let Some(before) = &self.before.phase else { return Ok(None) };
        let Some(mut source) = source(self.arguments, self.subject)? else { return Ok(None) };
        let length = self.arguments.measure.max(Nanos::from_secs(1)) + SETTLING;
        let bar = progress::of_time(length, format!("{}: measuring again, protected", self.workload.name));
        let begun = Instant::now();
        let ended = Cell::new(false);
        let mut goes_on = |_: &Phase| {
            bar.set_position(begun.elapsed().as_millis() as u64);
            ended.set(ended.get() || end().is_some());
            !ended.get()
        };
        let after = watched(source.as_mut(), length, self.subject, &mut goes_on)?;
        bar.finish_and_clear();
        let question = Question {
            target: &self.workload.name,
            changed: "protected",
            quantile: QUANTILE,
            settling: SETTLING.into(),
        };
        let mut effect = Effect::of(&question, before, &after);
        effect.caveats.extend(source.caveats());
        // What was interrupted is compared as far as it goes.
        Ok((!ended.get() || effect.comparison.is_some()).then_some(effect))
    }

    /// The last line: what stands now.
    pub fn say_end(&self, end: End) {
        if self.arguments.asked.say().quiet {
            return;
        }
        match end {
            End::Stopped => eprintln!("quell: {}: everything is put back", self.workload.name),
            End::Over => {
                let length = self.arguments.length.unwrap_or_default();
                eprintln!("quell: {}: {length} are over; everything is put back", self.workload.name);
            }
            End::Ended => eprintln!("quell: {}; everything is put back", self.subject.ended()),
        }
    }
}

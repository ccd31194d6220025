//! What happens while a target is protected: it is measured again, that is said, and then it goes on until an end.

use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
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
use crate::commands::managed::{LOOK, has_ended};

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
    /// It is measured again for this long.
    measure: Nanos,
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
        (measure, before): (Nanos, Before),
        cpus: u32,
    ) -> Course<'a> {
        Course { arguments, subject, workload, policy, cpus, measure, before }
    }

    /// Measures, says what that did, and waits for an end. `goes_on` is asked many times a second; `by`: what protects it.
    ///
    /// # Errors
    /// If it cannot be measured or waited for.
    pub fn run(&self, handles: Vec<OwnedFd>, by: &str, goes_on: &mut dyn FnMut() -> bool) -> Result<End> {
        let begun = Instant::now();
        let mut end = || -> Option<End> {
            match () {
                () if !goes_on() => Some(End::Stopped),
                () if self.arguments.length.is_some_and(|length| begun.elapsed() >= length.into()) => Some(End::Over),
                () => None,
            }
        };
        let effect = self.measure(&mut end)?;
        // A program gets its line, whatever came of it; what is over already is not said to stand.
        if effect.is_some() || self.arguments.json || end().is_none() {
            output::print(self, effect.as_ref(), by)?;
        }
        let mut left = handles;
        loop {
            if let Some(end) = end() {
                return Ok(end);
            }
            let Some(first) = left.last() else {
                left = self.subject.successors()?;
                if left.is_empty() {
                    return Ok(End::Ended);
                }
                // What has ended may be listed for a moment.
                std::thread::sleep(LOOK);
                continue;
            };
            // Waits for a moment.
            if has_ended(first)? {
                left.pop();
            }
        }
    }

    /// Measures again, and compares; None: it ended before, or cannot be measured.
    fn measure(&self, end: &mut dyn FnMut() -> Option<End>) -> Result<Option<Effect>> {
        let Some(before) = &self.before.phase else { return Ok(None) };
        let opened = match source(&self.arguments.wanted, self.subject) {
            Err(error) if self.is_there()? => {
                eprintln!("quell: {}: it cannot be measured again: {error:#}", self.workload.name);
                None
            }
            opened => opened?,
        };
        let Some(mut source) = opened else { return Ok(None) };
        let length = self.measure.max(Nanos::from_secs(1)) + SETTLING;
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
            changed: if self.sets_nothing() { "under none" } else { "protected" },
            quantile: QUANTILE,
            settling: SETTLING.into(),
        };
        let mut effect = Effect::of(&question, before, &after);
        effect.caveats.extend(source.caveats());
        // What was interrupted is compared as far as it goes.
        Ok((!ended.get() || effect.comparison.is_some()).then_some(effect))
    }

    /// Measures again what an agent protects from now on, and compares; None: it cannot be measured, or was interrupted.
    ///
    /// # Errors
    /// If it ended meanwhile.
    pub fn measure_kept(&self, stop: &AtomicBool) -> Result<Option<Effect>> {
        self.measure(&mut || stop.load(Ordering::Acquire).then_some(End::Stopped))
    }

    /// Is it the policy that leaves everything as it is?
    pub fn sets_nothing(&self) -> bool {
        self.policy == "none"
    }

    /// Are there processes of the target?
    fn is_there(&self) -> Result<bool> {
        Ok(self.subject.handles().is_ok() || !self.subject.successors()?.is_empty())
    }

    /// The last line: what stands now.
    pub fn say_end(&self, end: End) {
        if self.arguments.wanted.asked.say().quiet {
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

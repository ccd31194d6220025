//! What a command waits for in its first while. Nothing was before it, so nothing is compared, and that is said.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use quell_effect::quantile::{self, highest_sound};
use quell_effect::{EffectError, Phase, Source, watch};
use quell_linux::target::quoted;
use quell_model::{Nanos, Selector, amount};
use quell_report::human;

use crate::commands::protect::Sources;
use crate::commands::protect::before::open;

/// The quantile that is said, where there is enough for it.
const QUANTILE: f64 = 0.99;
/// A server that has just begun does not answer yet.
const PATIENCE: Duration = Duration::from_secs(30);
const EVERY: Duration = Duration::from_millis(100);

/// What is to be measured.
pub struct Measured {
    /// By what.
    pub sources: Sources,
    /// For how long.
    pub length: Nanos,
    /// The workload's name.
    pub name: String,
    /// The policy's.
    pub policy: &'static str,
    /// The command's program: what a comparison is asked for.
    pub program: String,
}

impl Measured {
    /// Measures until its time is over, or `over` is set, and says what was found.
    pub fn run(&self, over: &AtomicBool) {
        let found = match self.source(over) {
            Ok(Some(mut source)) => {
                let goes_on = |_: &Phase| !over.load(Ordering::Acquire);
                watch(source.as_mut(), self.length.into(), goes_on).map_err(anyhow::Error::from)
            }
            Ok(None) => return,
            Err(error) => Err(error),
        };
        match found {
            Ok(phase) => {
                // A command of a moment is none that anyone asks this of.
                let is_whole = phase.seconds() * 2.0 >= self.length.as_secs_f64();
                if let Some(words) = self.words(&phase).or_else(|| is_whole.then(|| self.too_few(&phase))) {
                    eprintln!("quell: {}: {words}", self.name);
                }
            }
            Err(error) if matches!(error.downcast_ref(), Some(EffectError::Ended)) => {}
            Err(error) => eprintln!("quell: {}: no latency is measured: {error:#}", self.name),
        }
    }

    /// Its source, as soon as it answers; None: it is over before.
    fn source(&self, over: &AtomicBool) -> anyhow::Result<Option<Box<dyn Source>>> {
        // What this process starts and adopts.
        let selectors = [Selector::Pid(std::process::id().cast_signed())];
        let begun = Instant::now();
        loop {
            if over.load(Ordering::Acquire) {
                return Ok(None);
            }
            match open(&self.sources, None, &self.name, &selectors) {
                Ok(source) => return Ok(Some(source)),
                Err(error) if begun.elapsed() > PATIENCE || self.sources.are_none() => return Err(error),
                Err(_) => thread::sleep(EVERY),
            }
        }
    }

    /// None: there is too little for any quantile.
    pub fn words(&self, phase: &Phase) -> Option<String> {
        let quantile = highest_sound(QUANTILE, phase.count())?;
        let value = phase.at(quantile);
        let beyond = if phase.is_beyond(value) { "over " } else { "" };
        Some(format!(
            "{}{} {beyond}{} in {} under {} ({} {}); there is no before: to compare, start it by itself, and run `quell prove {}`",
            phase.measure.prefix(),
            quantile::name(quantile),
            human::nanoseconds(value),
            human::nanoseconds((phase.seconds() * 1e9) as u64),
            self.policy,
            phase.count(),
            phase.measure.values(),
            quoted(&self.program),
        ))
    }

    fn too_few(&self, phase: &Phase) -> String {
        let values = amount(phase.count() as u32, "value", "values");
        format!("too little to measure in {}: {values}", human::nanoseconds((phase.seconds() * 1e9) as u64))
    }
}

#[cfg(test)]
pub mod tests {
    use quell_effect::{Measure, Slice};

    use super::*;

    pub fn measured() -> Measured {
        Measured {
            sources: Sources::default(),
            length: Nanos::from_secs(5),
            name: "web".into(),
            policy: "guard",
            program: "nginx".into(),
        }
    }

    pub fn phase(measure: Measure, values: u64) -> Phase {
        let mut phase = Phase::new(measure, Vec::new());
        phase.slices.push(Slice { from_ns: 0, to_ns: 5_000_000_000, cells: vec![(41_000, values)] });
        phase
    }

    #[test]
    fn a_command_has_no_before_and_that_is_said() {
        let words = measured().words(&phase(Measure::QueueingDelay, 1840)).unwrap();
        assert!(
            words.starts_with("queueing delay p99 41.0 µs in 5.00 s under guard (1840 intervals of its threads); "),
            "{words}"
        );
        assert!(words.contains("there is no before") && words.ends_with("`quell prove nginx`"), "{words}");
        crate::commands::pasted::within(&words).for_each(crate::commands::pasted::assert_taken);
    }

    #[test]
    fn a_quantile_is_said_with_ten_values_beyond_it() {
        let words = measured().words(&phase(Measure::Probe, 150)).unwrap();
        assert!(words.starts_with("p90 41.0 µs"), "{words}");
        assert_eq!(measured().words(&phase(Measure::Probe, 3)), None);
        assert_eq!(measured().too_few(&phase(Measure::Probe, 3)), "too little to measure in 5.00 s: 3 values");
    }
}

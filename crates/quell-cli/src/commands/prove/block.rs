//! One block: it is measured until its time is over, or the objective is missed by far.

use std::time::Duration;

use anyhow::{Result, bail};
use quell_effect::prove::{Measured, Turn};
use quell_effect::{EffectError, Phase, Source, watch};

use super::slo;
use super::used::Used;
use quell_model::Slo;

/// A block as it was.
#[derive(Clone, Debug)]
pub struct Block {
    /// Without what is dropped at its beginning.
    pub measured: Measured,
    /// CPU time in all of it.
    pub used: Option<Used>,
    /// Did it end early because the objective was missed by far?
    pub is_aborted: bool,
    /// Its beginning, s after the first one's.
    pub at_seconds: f64,
}

/// What ends a block early.
#[derive(Clone, Copy, Debug)]
pub struct Abort {
    /// The objective.
    pub slo: Slo,
    /// The factor by which it may be missed.
    pub factor: f64,
}

/// Measures a block; returns what was measured after the dropped time, and whether it was aborted. `goes_on` is asked many times a
/// second. None: it does not go on.
///
/// # Errors
/// If the service has ended.
pub fn measure(
    source: &mut dyn Source,
    turn: Turn,
    [length, dropped]: [Duration; 2],
    abort: Option<Abort>,
    goes_on: &mut dyn FnMut() -> bool,
    ended: &dyn Fn() -> String,
) -> Result<Option<(Measured, bool)>> {
    let (mut is_aborted, mut is_over, mut looked) = (false, false, 0);
    let empty = Phase::new(source.measure(), source.edges());
    let watched = watch(source, length, |phase| {
        is_over = is_over || !goes_on();
        if let Some(Abort { slo, factor }) = abort.filter(|_| phase.slices.len() > looked) {
            looked = phase.slices.len();
            is_aborted = slo::is_missed(&slo, factor, &phase.after(dropped)).is_some();
        }
        !is_over && !is_aborted
    });
    let phase = match watched {
        Ok(phase) => phase.after(dropped),
        // Nothing could be read in all the block.
        Err(error) if !error.is_final() => empty,
        Err(EffectError::Ended) => bail!("{}", ended()),
        Err(error) => return Err(error.into()),
    };
    Ok((!is_over).then_some((Measured { turn, phase }, is_aborted)))
}

#[cfg(test)]
mod tests {
    use quell_effect::{Measure, Slice};

    use super::*;

    /// A hundred values of this latency every 10 ms.
    struct Constant(u64, u64);

    impl Source for Constant {
        fn measure(&self) -> Measure {
            Measure::Probe
        }

        fn every(&self) -> Duration {
            Duration::from_millis(10)
        }

        fn look(&mut self) -> quell_effect::Result<Option<Slice>> {
            let from_ns = std::mem::replace(&mut self.1, quell_thread::clock::now().0);
            let slice = Slice { from_ns, to_ns: self.1, cells: vec![(self.0, 100)] };
            Ok((from_ns > 0).then_some(slice))
        }
    }

    fn measured(ms: u64, abort: Option<Abort>, goes_on: bool) -> Option<(Measured, bool)> {
        let turn = Turn { group: 0, on: false };
        let times = [Duration::from_millis(400), Duration::from_millis(100)];
        let mut source = Constant(ms * 1_000_000, 0);
        measure(&mut source, turn, times, abort, &mut || goes_on, &|| String::new()).unwrap()
    }

    #[test]
    fn a_block_ends_at_once_where_the_objective_is_missed_by_far_and_stands_as_it_is() {
        let abort = Some(Abort { slo: slo::parse("p99=5ms").unwrap(), factor: 3.0 });
        let (whole, is_aborted) = measured(14, abort, true).unwrap();
        assert!(!is_aborted && whole.phase.count() > 0);
        let (early, is_aborted) = measured(16, abort, true).unwrap();
        assert!(is_aborted && early.phase.count() > 0 && early.phase.seconds() < whole.phase.seconds());
        assert!(!measured(16, None, true).unwrap().1);
        assert!(measured(1, abort, false).is_none(), "an interrupted block is none");
    }
}

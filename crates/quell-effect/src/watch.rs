//! A phase, as long as it lasts.

use std::thread;
use std::time::Duration;

use quell_thread::clock;

use crate::error::{EffectError, Result};
use crate::phase::Phase;
use crate::source::Source;

/// Time between two questions whether to go on.
const NAP: Duration = Duration::from_millis(50);

/// Measures for a time. `goes_on` is asked many times a second, with what there is so far; it ends the phase early. A source that
/// cannot be read for a moment leaves a gap.
///
/// # Errors
/// If the source ended, or could not be read even once.
pub fn watch(source: &mut dyn Source, length: Duration, mut goes_on: impl FnMut(&Phase) -> bool) -> Result<Phase> {
    let mut phase = Phase::new(source.measure(), source.edges());
    let mut trouble = None;
    let end = clock::now().0.saturating_add(u64::try_from(length.as_nanos()).unwrap_or(u64::MAX));
    // What was since the last phase is no part of this one.
    let _ = looked(source, &mut trouble)?;
    let (mut next, mut answered) = (clock::now().0, 0);
    loop {
        next += source.every().as_nanos() as u64;
        while clock::now().0 < next.min(end) {
            if !goes_on(&phase) {
                return Ok(phase);
            }
            let left = Duration::from_nanos(next.min(end).saturating_sub(clock::now().0));
            thread::sleep(left.min(NAP));
        }
        if let Some(mut slice) = looked(source, &mut trouble)? {
            // What has no answer counts once, by how long it has waited at the last look.
            if let Some(last) = phase.slices.last_mut() {
                last.cells.truncate(answered);
            }
            answered = slice.cells.len();
            slice.cells.extend(source.unanswered());
            phase.slices.push(slice);
            phase.edges = source.edges();
        }
        if clock::now().0 >= end {
            break;
        }
        // A look that took longer than its time is not made up for.
        next = next.max(clock::now().0.saturating_sub(source.every().as_nanos() as u64));
    }
    match trouble {
        Some(error) if phase.slices.is_empty() => Err(error),
        _ => Ok(phase),
    }
}

/// A slice, or the reason why there is none, which ends the phase or not.
fn looked(source: &mut dyn Source, trouble: &mut Option<EffectError>) -> Result<Option<crate::phase::Slice>> {
    match source.look() {
        Ok(slice) => Ok(slice),
        Err(error) if error.is_final() => Err(error),
        Err(error) => {
            *trouble = Some(error);
            Ok(None)
        }
    }
}

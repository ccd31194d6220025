//! What every search says of its trial when it begins.

use quell_model::trial::{Finding, Judge, KnownBy, Resource, Then, Windows};
use quell_model::{KnobKind, Quality, Trial, WorkloadId};

/// A trial of a knob against the contention `diff` for a resource. One that gives back expects no change.
#[must_use]
pub fn begun(victim: WorkloadId, (resource, diff): (Resource, f64), knob: KnobKind, releases: bool) -> Trial {
    Trial {
        number: 0,
        victim,
        by_latency: false,
        resource,
        contention: diff as f32,
        quality: Quality::Exact,
        aggressor: None,
        known_by: KnownBy::Beside,
        knob,
        on: None,
        from: None,
        to: None,
        expected: if releases { 0.0 } else { diff.min(0.0) as f32 },
        settling_ms: knob.effect_latency().0.div_ceil(1_000_000) as u32,
        judge: Judge::default(),
        before: Windows::default(),
        after: Windows::default(),
        cost: None,
        finding: Finding::Begun,
        then: Then::Going,
    }
}

/// The technique of this number.
#[must_use]
pub fn numbered<T: Copy>(all: &[T], number: u8) -> Option<T> {
    all.get(usize::from(number)).copied()
}

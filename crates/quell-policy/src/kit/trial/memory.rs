//! What earlier trials showed: what failed, and what is kept and has to show again that it is of use.

use quell_model::trial::Resource;
use quell_model::{Nanos, WorkloadId};
use serde::{Deserialize, Serialize};

/// What failed this many times is not tried again in the victim's phase.
const FAILURES: u8 = 2;
/// What is kept is lifted to see if it is still of use after this time, then after twice as long, up to the longest.
const FIRST_CHECK: Nanos = Nanos::from_secs(10);
const LAST_CHECK: Nanos = Nanos::from_secs(320);
/// A load that fell by this part is reason enough to look at once.
const LOAD_FELL: f32 = 0.1;

/// A technique, by its number in the policy, against a resource's contention for a victim.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// The technique.
    pub technique: u8,
    /// The resource.
    pub resource: Resource,
    /// The victim.
    pub victim: WorkloadId,
}

/// A technique in force.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Kept {
    of: Attempt,
    /// The victim's load when it was kept; zero: not measured.
    load: f32,
    wait: Nanos,
    check_at: Nanos,
}

/// Failures, and what is kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    failed: Vec<(Attempt, u8)>,
    kept: Vec<Kept>,
}

/// Room for this many entries of either kind.
const ROOM: usize = 32;

impl Memory {
    /// Makes room.
    pub fn prepare(&mut self) {
        self.failed.reserve(ROOM.saturating_sub(self.failed.len()));
        self.kept.reserve(ROOM.saturating_sub(self.kept.len()));
    }

    /// It failed.
    pub fn failed(&mut self, attempt: Attempt) {
        match self.failed.iter_mut().find(|(known, _)| *known == attempt) {
            Some((_, times)) => *times += 1,
            None => self.failed.push((attempt, 1)),
        }
    }

    /// May it be tried: has it not failed twice?
    #[must_use]
    pub fn may(&self, attempt: &Attempt) -> bool {
        !self.failed.iter().any(|(known, times)| known == attempt && *times >= FAILURES)
    }

    /// It is kept, at this load of its victim. `again`: it was lifted, and was of use.
    pub fn keep(&mut self, of: Attempt, load: f32, again: bool, now: Nanos) {
        let known = self.kept.iter().position(|kept| kept.of.technique == of.technique);
        let last = known.map(|at| self.kept.swap_remove(at).wait).filter(|_| again);
        let wait = last.map_or(FIRST_CHECK, |last| (last + last).min(LAST_CHECK));
        self.kept.push(Kept { of, load, wait, check_at: now + wait });
    }

    /// It is not in force any more.
    pub fn lifted(&mut self, technique: u8) {
        self.kept.retain(|kept| kept.of.technique != technique);
    }

    /// Something kept that has to show again that it is of use; `load` is each victim's.
    #[must_use]
    pub fn due(&self, now: Nanos, load: impl Fn(WorkloadId) -> Option<f32>) -> Option<Attempt> {
        let fell = |kept: &&Kept| {
            kept.load > 0.0 && load(kept.of.victim).is_some_and(|load| load < (1.0 - LOAD_FELL) * kept.load)
        };
        self.kept.iter().find(|kept| now >= kept.check_at || fell(kept)).map(|kept| kept.of)
    }

    /// Not at once again: its load was seen.
    pub fn looked(&mut self, technique: u8, load: f32, now: Nanos) {
        for kept in self.kept.iter_mut().filter(|kept| kept.of.technique == technique) {
            (kept.load, kept.check_at) = (load, now + kept.wait);
        }
    }

    /// The victim is in another phase: what failed may be tried again. Returns what was kept for it.
    pub fn phase(&mut self, victim: WorkloadId) -> Option<u8> {
        self.failed.retain(|(attempt, _)| attempt.victim != victim);
        let at = self.kept.iter().position(|kept| kept.of.victim == victim)?;
        Some(self.kept.swap_remove(at).of.technique)
    }

    /// Everything is as at first.
    pub fn forget(&mut self) {
        self.failed.clear();
        self.kept.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAYS: Attempt = Attempt { technique: 0, resource: Resource::Llc, victim: WorkloadId(3) };

    #[test]
    fn what_failed_twice_is_left_alone_until_another_phase() {
        let mut memory = Memory::default();
        memory.failed(WAYS);
        assert!(memory.may(&WAYS));
        memory.failed(WAYS);
        assert!(!memory.may(&WAYS) && memory.may(&Attempt { resource: Resource::Cpu, ..WAYS }));
        assert_eq!(memory.phase(WorkloadId(2)), None);
        assert!(!memory.may(&WAYS), "the phase of another");
        memory.phase(WorkloadId(3));
        assert!(memory.may(&WAYS));
    }

    #[test]
    fn what_is_kept_is_looked_at_again_later_and_later_or_when_the_load_fell() {
        let mut memory = Memory::default();
        let (second, no_load) = (Nanos::from_secs(1), |_| None);
        memory.keep(WAYS, 100.0, false, Nanos::ZERO);
        assert_eq!(memory.due(FIRST_CHECK - second, no_load), None);
        assert_eq!(memory.due(FIRST_CHECK, no_load), Some(WAYS));
        assert_eq!(memory.due(second, |_| Some(95.0)), None);
        assert_eq!(memory.due(second, |_| Some(50.0)), Some(WAYS));
        memory.keep(WAYS, 50.0, true, FIRST_CHECK);
        assert_eq!(memory.due(FIRST_CHECK + FIRST_CHECK, no_load), None, "twice as long");
        assert_eq!(memory.due(FIRST_CHECK + FIRST_CHECK + FIRST_CHECK, no_load), Some(WAYS));
        assert_eq!(memory.phase(WorkloadId(3)), Some(0));
        assert_eq!(memory.due(Nanos::from_secs(1000), no_load), None);
    }
}

//! A thread that cannot run because real-time threads have its CPUs is reported by name, once.

use std::sync::atomic::Ordering::Acquire;

use quell_model::Nanos;

use super::Scx;
use crate::{ScxError, Stuck};

/// A thread that has waited for this long is reported.
const STUCK_FOR: Nanos = Nanos::from_millis(1000);
/// It is looked for so often.
const LOOK_FOR_STUCK: Nanos = Nanos::from_millis(1000);

/// The threads that cannot run because of real-time threads.
#[derive(Default)]
pub(super) struct Hogs {
    stuck: Vec<Stuck>,
    /// When they are looked for next.
    next_at: Nanos,
}

impl Scx {
    /// Threads that could not run for a second because real-time threads have every CPU that they may use, as of the last
    /// look: at most a second ago while somebody observes.
    #[must_use]
    pub fn stuck(&self) -> &[Stuck] {
        &self.hogs.stuck
    }

    /// Now and then: only if a CPU has been away for this long is one looked for.
    pub(super) fn look_for_stuck(&mut self) -> Result<(), ScxError> {
        let now = quell_linux::now();
        if now < self.hogs.next_at {
            return Ok(());
        }
        self.hogs.next_at = now + LOOK_FOR_STUCK;
        let before = now - STUCK_FOR;
        let is_hogged = |state: &crate::layout::CpuState| {
            state.away.load(Acquire) != 0 && state.away_since.load(Acquire) <= before.0
        };
        if !self.grant.cpus().any(|cpu| is_hogged(self.grant.cpu(cpu))) {
            self.hogs.stuck.clear();
            return Ok(());
        }
        let found = self.grant.stuck(before)?;
        let is_known = |stuck: &&Stuck| {
            self.hogs.stuck.iter().any(|known| (known.tid, known.behind.tid) == (stuck.tid, stuck.behind.tid))
        };
        for stuck in found.iter().filter(|stuck| !is_known(stuck)) {
            let Stuck { tid, name, cpu, behind, .. } = stuck;
            tracing::warn!(
                thread = name,
                tid,
                %cpu,
                behind = behind.name,
                hog = behind.tid,
                "a thread cannot run: real-time threads have every CPU that it may use; give them, or it, other CPUs"
            );
        }
        self.hogs.stuck = found;
        Ok(())
    }
}

//! A container and how far it has come.

use quell_model::Nanos;

use super::reservations::Place;
use crate::pod::Container;

/// How far a container has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// To be started before long.
    Created {
        /// Until then its CPUs wait for it.
        until: Nanos,
    },
    /// It was not started in time; it may be yet.
    Late,
    Running,
    Stopped,
}

impl Stage {
    /// Does it run, or is it about to?
    pub(super) fn is_live(self) -> bool {
        matches!(self, Stage::Created { .. } | Stage::Running)
    }
}

/// A container and how far it has come.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tracked {
    pub(super) container: Container,
    pub(super) stage: Stage,
}

impl Tracked {
    pub(super) fn place(&self) -> Place {
        (self.container.sandbox.clone(), self.container.name.clone())
    }

    pub(super) fn set(&mut self, stage: Stage) {
        self.stage = stage;
        self.container.is_running = stage == Stage::Running;
    }

    /// The stage of a container that the runtime lists, which does not say which were created and which have stopped.
    pub(super) fn found(container: &Container, before: Option<Tracked>, until: Nanos) -> Stage {
        match before.map(|tracked| tracked.stage) {
            _ if container.is_running => Stage::Running,
            Some(Stage::Running) => Stage::Stopped,
            Some(stage) => stage,
            None => Stage::Created { until },
        }
    }

    /// Zeros stand for what does not change.
    pub(super) fn resize(&mut self, shares: u64, quota: i64, period: u64) {
        let container = &mut self.container;
        container.shares = if shares == 0 { container.shares } else { shares };
        container.quota = if quota == 0 { container.quota } else { quota };
        container.period = if period == 0 { container.period } else { period };
    }
}

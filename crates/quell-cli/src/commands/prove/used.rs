//! CPU time while a block lasts: the service's, Quell's own, and that of everything else.

use std::path::Path;

use anyhow::Result;
use quell_linux::procfs::busy;
use quell_model::{Nanos, Selector};
use quell_thread::clock;
use serde::Serialize;

use crate::commands::managed::demand::Meter;

/// CPU time in a stretch of time, s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Used {
    /// Length of the time.
    pub seconds: f64,
    /// What all CPUs together ran.
    pub machine_cpu_seconds: f64,
    /// The service's threads.
    pub service_cpu_seconds: f64,
    /// Quell's: this command's, its probe's and the agent's.
    pub quell_cpu_seconds: f64,
}

impl Used {
    /// What neither the service nor Quell used: best-effort work, and all else.
    #[must_use]
    pub fn rest(&self) -> f64 {
        (self.machine_cpu_seconds - self.service_cpu_seconds - self.quell_cpu_seconds).max(0.0)
    }

    /// All of these together.
    #[must_use]
    pub fn sum<'a>(parts: impl Iterator<Item = &'a Used>) -> Used {
        parts.fold(Used::default(), |sum, part| Used {
            seconds: sum.seconds + part.seconds,
            machine_cpu_seconds: sum.machine_cpu_seconds + part.machine_cpu_seconds,
            service_cpu_seconds: sum.service_cpu_seconds + part.service_cpu_seconds,
            quell_cpu_seconds: sum.quell_cpu_seconds + part.quell_cpu_seconds,
        })
    }
}

/// Reads it.
pub struct Uses {
    service: Meter,
    begun: Option<(Nanos, Nanos, f64)>,
}

impl Uses {
    /// Of the service that these select.
    ///
    /// # Errors
    /// If procfs cannot be read.
    pub fn of(selectors: Vec<Selector>) -> Result<Uses> {
        Ok(Uses { service: Meter::of(selectors)?, begun: None })
    }

    /// A block begins. `agent`: CPU seconds of the agent so far.
    ///
    /// # Errors
    /// If procfs cannot be read.
    pub fn begin(&mut self, agent: f64) -> Result<()> {
        self.service.look()?;
        self.begun = Some((clock::now(), busy(Path::new("/proc"))?, own() + agent));
        Ok(())
    }

    /// It ends; None: it did not begin.
    ///
    /// # Errors
    /// If procfs cannot be read.
    pub fn end(&mut self, agent: f64) -> Result<Option<Used>> {
        let Some((began, was_busy, used)) = self.begun.take() else { return Ok(None) };
        let demand = self.service.look()?.unwrap_or_default();
        let seconds = clock::now().since(began).as_secs_f64();
        Ok(Some(Used {
            seconds,
            machine_cpu_seconds: busy(Path::new("/proc"))?.since(was_busy).as_secs_f64(),
            service_cpu_seconds: demand.ran * seconds,
            quell_cpu_seconds: (own() + agent - used).max(0.0),
        }))
    }
}

fn own() -> f64 {
    clock::process_cpu_time().as_secs_f64()
}

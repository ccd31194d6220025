//! The load that a GPU puts on the first socket's memory, and what memory's load leaves of its speed.

use super::balance::{Class, Domain, Pace};
use super::solve::{Load, Socket};

/// The GPU's part in the balance.
#[derive(Clone, Debug)]
pub(super) struct GpuPart {
    /// Its frequency as part of the highest, 0–1.
    frequency: f64,
    /// Bytes a nanosecond of what runs; None: nothing runs.
    runs: Option<f64>,
    /// What runs, by its number among the classes.
    class: Option<u32>,
    /// Classes by bytes a nanosecond and frequency.
    numbers: Vec<((f64, f64), u32)>,
    pace: Pace,
    /// Bytes moved up to `from`.
    moved: f64,
    from: u64,
}

impl Default for GpuPart {
    fn default() -> GpuPart {
        let (numbers, pace) = (Vec::new(), Pace::default());
        GpuPart { frequency: 1.0, runs: None, class: None, numbers, pace, moved: 0.0, from: 0 }
    }
}

impl GpuPart {
    /// Something else runs from now on, or nothing, or at another frequency. `add` numbers a new class.
    pub fn set(
        &mut self,
        runs: Option<f64>,
        frequency: f64,
        socket: &Socket,
        domain: &mut Domain,
        mut add: impl FnMut(Class) -> u32,
    ) {
        (self.runs, self.frequency) = (runs, frequency);
        let class = runs.map(|bytes| {
            let key = (bytes, frequency);
            if let Some((_, class)) = self.numbers.iter().find(|(known, _)| *known == key) {
                return *class;
            }
            let class = add(Class { load: Load::gpu(socket, bytes, frequency), ns_alone: 1.0 });
            self.numbers.push((key, class));
            class
        });
        if class != self.class {
            self.class.into_iter().for_each(|class| domain.remove(class));
            class.into_iter().for_each(|class| domain.add(class));
            self.class = class;
        }
    }

    /// What runs.
    pub fn runs(&self) -> Option<f64> {
        self.runs
    }

    /// Its frequency as part of the highest.
    pub fn frequency(&self) -> f64 {
        self.frequency
    }

    /// Follows the balance; returns the GPU's speed if something runs.
    pub fn settle(&mut self, domain: &Domain, now: u64) -> Option<u64> {
        self.moved = self.moved(now);
        self.from = now;
        self.pace = self.class.map_or(Pace::default(), |class| domain.pace(class));
        self.class.map(|_| self.pace.speed)
    }

    /// Bytes that it has moved up to now.
    pub fn moved(&self, now: u64) -> f64 {
        self.moved + self.pace.rates.bytes * now.saturating_sub(self.from) as f64
    }
}

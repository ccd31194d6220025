//! Counters with the values of a test.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

use quell_model::{CpuId, Nanos};

use super::counter::{Counter, Counters, Event, Reading};

/// The hardware. Copies are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bench(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    readings: BTreeMap<(Event, CpuId), Reading>,
    refusal: Option<i32>,
    refused_on: Option<CpuId>,
    opened: usize,
    open: usize,
    read: usize,
}

impl Bench {
    pub fn counters(&self) -> Box<dyn Counters> {
        Box::new(self.clone())
    }

    pub fn set(&self, event: Event, cpu: CpuId, count: u64, enabled: Nanos, running: Nanos) {
        self.0.lock().unwrap().readings.insert((event, cpu), Reading { count, enabled, running });
    }

    /// Adds `count` in `time`.
    pub fn count(&self, event: Event, cpu: CpuId, count: u64, time: Nanos) {
        let mut state = self.0.lock().unwrap();
        let reading = state.readings.entry((event, cpu)).or_default();
        reading.count += count;
        reading.enabled += time;
        reading.running += time;
    }

    pub fn restart(&self, event: Event, cpu: CpuId) {
        self.0.lock().unwrap().readings.remove(&(event, cpu));
    }

    /// Every later request for a counter fails.
    pub fn refuse(&self, errno: i32) {
        self.0.lock().unwrap().refusal = Some(errno);
    }

    /// Every request for a counter of this CPU fails.
    pub fn refuse_on(&self, cpu: CpuId) {
        self.0.lock().unwrap().refused_on = Some(cpu);
    }

    pub fn allow(&self) {
        let mut state = self.0.lock().unwrap();
        (state.refusal, state.refused_on) = (None, None);
    }

    /// Numbers of counters opened, open, and read.
    pub fn opened(&self) -> usize {
        self.0.lock().unwrap().opened
    }

    pub fn open(&self) -> usize {
        self.0.lock().unwrap().open
    }

    pub fn read(&self) -> usize {
        self.0.lock().unwrap().read
    }
}

impl Counters for Bench {
    fn open(&self, event: Event, cpu: CpuId) -> io::Result<Box<dyn Counter>> {
        let mut state = self.0.lock().unwrap();
        if let Some(errno) = state.refusal.or(state.refused_on.filter(|&on| on == cpu).map(|_| libc::ENODEV)) {
            return Err(io::Error::from_raw_os_error(errno));
        }
        state.opened += 1;
        state.open += 1;
        Ok(Box::new(FakeCounter { bench: self.clone(), event, cpu }))
    }
}

#[derive(Debug)]
struct FakeCounter {
    bench: Bench,
    event: Event,
    cpu: CpuId,
}

impl Counter for FakeCounter {
    fn read(&mut self) -> io::Result<Reading> {
        let mut state = self.bench.0.lock().unwrap();
        state.read += 1;
        Ok(state.readings.get(&(self.event, self.cpu)).copied().unwrap_or_default())
    }
}

impl Drop for FakeCounter {
    fn drop(&mut self) {
        self.bench.0.lock().unwrap().open -= 1;
    }
}

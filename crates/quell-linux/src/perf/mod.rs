//! Hardware counters: perf_event_open(2), and the counting units in sysfs.

mod counter;
mod events;
#[cfg(test)]
mod fake;
mod full;
mod kernel;
mod lack;
mod pmu;

pub(crate) use counter::{Counter, Counters, Event, Meter};
pub(crate) use events::{CYCLES, Events, FULL, INSTRUCTIONS, MISSES, Make, Processor, REFERENCES, events_of};
#[cfg(test)]
pub(crate) use fake::Bench;
pub(crate) use full::counts_cycles;
pub(crate) use kernel::Kernel;
pub(crate) use lack::{ALLOW, Lack, PASSED_ON};
pub(crate) use pmu::{LINE_BYTES, Pmu};

//! Open-loop load for servers that speak the memcached text protocol.
//!
//! Requests are sent when a schedule that was fixed beforehand says so, however slow the server is, and every
//! latency counts from that intended time. A generator that waits for answers (closed loop), or counts from the
//! moment it got round to sending, hides just the stalls that one wants to see.

mod caveats;
mod connection;
mod generator;
mod poller;
pub mod protocol;
mod realtime;
mod record;
mod report;
pub mod schedule;
mod spec;

use std::path::Path;
use std::thread;

pub use generator::{Generator, Monitor};
pub use record::{REFUSED, Record, UNANSWERED};
pub use report::{Counts, Distribution, LoadReport, QUANTILES, Quantile, WINDOW_NS, Window};
pub use spec::{Arrivals, LoadSpec, MAX_KEYS, MAX_REQUESTS, MAX_VALUE_BYTES, Target};

use crate::stats::steal::CpuTicks;
use crate::{Error, Result};

/// Makes the load and waits for its end.
///
/// # Errors
/// A bad spec, no server, another protocol, no right to be real-time.
pub fn run(spec: &LoadSpec) -> Result<LoadReport> {
    run_watched(spec, &Monitor::default())
}

/// Like [`run`]; another thread may watch and stop it. The load is made by a thread of its own, so that the caller's
/// scheduling policy stays as it is.
///
/// # Errors
/// As [`run`].
pub fn run_watched(spec: &LoadSpec, monitor: &Monitor) -> Result<LoadReport> {
    let mut generator = Generator::prepare(spec)?;
    let ticks = || CpuTicks::read(Path::new("/proc")).ok();
    let before = ticks();
    let generator = thread::scope(|scope| {
        thread::Builder::new()
            .name("quell-load".into())
            .spawn_scoped(scope, || {
                realtime::wake_on_time()?;
                if let Some(priority) = spec.realtime {
                    realtime::become_fifo(priority)?;
                }
                generator.drive(monitor)?;
                Ok(generator)
            })
            .map_err(Error::system("start a thread", "quell-load"))?
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })?;
    let stolen = before.zip(ticks()).map(|(b, a)| a.stolen_since(b));
    let (spec, record) = generator.finish();
    Ok(LoadReport::new(spec, &record, stolen))
}

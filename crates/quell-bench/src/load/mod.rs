//! Open-loop load for servers that speak the memcached text protocol, Redis's or HTTP/1.1.
//!
//! Requests are sent when a schedule that was fixed beforehand says so, however slow the server is, and every
//! latency counts from that intended time. A generator that waits for answers (closed loop), or counts from the
//! moment it got round to sending, hides just the stalls that one wants to see.

mod caveats;
mod connection;
mod endpoint;
mod generator;
mod greet;
mod keys;
mod live;
mod poller;
pub mod protocol;
mod record;
mod report;
pub mod schedule;
mod spec;

use std::path::Path;
use std::thread;

pub use endpoint::Endpoint;
pub use generator::{Generator, Monitor};
pub use greet::greet;
pub use live::Live;
pub use protocol::Protocol;
pub use record::{REFUSED, Record, UNANSWERED};
pub use report::{Counts, Distribution, LoadReport, QUANTILES, Quantile, WINDOW_NS, Window};
pub use spec::{Arrivals, LoadSpec, MAX_KEYS, MAX_REQUESTS, MAX_VALUE_BYTES, Target};

use self::keys::Written;
use crate::steal::CpuTicks;
use crate::{Error, Result, sched};

/// Makes the load and waits for its end.
///
/// # Errors
/// A bad spec, no server, another protocol, no right to be real-time.
pub fn run(spec: &LoadSpec) -> Result<LoadReport> {
    run_watched(spec, &Monitor::default())
}

/// Like [`run`]; another thread may watch and stop it. The load is made by a thread of its own, so that the caller's
/// scheduling policy stays as it is. The keys that it wrote are deleted at the end, however it ends, if they are not to be kept.
///
/// # Errors
/// As [`run`].
pub fn run_watched(spec: &LoadSpec, monitor: &Monitor) -> Result<LoadReport> {
    spec.realtime.map_or(Ok(()), sched::may_become_fifo)?;
    let server = greet(spec)?;
    let mut generator = Generator::prepare(spec)?;
    let mut written = Written::default();
    let ticks = || CpuTicks::read(Path::new("/proc")).ok();
    let before = ticks();
    let stored = if spec.stores_keys() { written.store(spec, &monitor.stop) } else { Ok(()) };
    let driven = stored.and_then(|()| drive(spec, &mut generator, monitor));
    let after = ticks();
    let (schedule, sent) = generator.sent();
    let deleted = (!spec.keep_keys && spec.writes_keys()).then(|| written.delete(spec, schedule, sent));
    driven?;
    let (spec, record) = generator.finish();
    let mut report = LoadReport::new(spec, &record, before.zip(after).map(|(b, a)| a.stolen_since(b)));
    report.server = server;
    match deleted {
        Some(Ok(keys)) => report.keys_deleted = Some(keys),
        Some(Err(error)) => report.keys_left = Some(error.to_string()),
        None => {}
    }
    Ok(report)
}

fn drive(spec: &LoadSpec, generator: &mut Generator, monitor: &Monitor) -> Result<()> {
    thread::scope(|scope| {
        thread::Builder::new()
            .name("quell-load".into())
            .spawn_scoped(scope, || {
                sched::wake_on_time()?;
                if let Some(priority) = spec.realtime {
                    sched::become_fifo(priority)?;
                }
                generator.drive(monitor)
            })
            .map_err(Error::system("start a thread", "quell-load"))?
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

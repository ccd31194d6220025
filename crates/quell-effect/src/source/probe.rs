//! A probe: few requests of Quell's own, sent when a schedule says so, however slow the service is.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use quell_bench::load::{self, Endpoint, Live, LoadSpec, Monitor, Protocol};
use quell_bench::sched;
use quell_thread::clock;

use super::Source;
use crate::error::{EffectError, Result};
use crate::phase::{Measure, Slice};

/// The rate that a probe has at most, requests a second.
pub const MOST_PER_SECOND: f64 = 2_000.0;
const EVERY: Duration = Duration::from_millis(100);
/// A probe goes on until it is dropped, in runs of this length: their memory is taken beforehand.
const RUN_NS: u64 = 60_000_000_000;
/// Above the service's threads where it is protected, so that its own waiting is not the service's. It sleeps nearly always.
const PRIORITY: u8 = 2;

/// A service's latency as a client of its own finds it.
#[derive(Debug)]
pub struct Probe {
    monitor: Arc<Monitor>,
    /// The reason why it ended.
    failed: Arc<Mutex<Option<quell_bench::Error>>>,
    thread: Option<JoinHandle<()>>,
    last_ns: Option<u64>,
    is_realtime: bool,
}

impl Probe {
    /// Asks the service once, and then begins to probe it. Of memcached and Redis it gets a key that is not there: it stores
    /// nothing. `per_second`: the mean rate.
    ///
    /// # Errors
    /// No URL, no such rate, no service, one that speaks another protocol.
    pub fn start(url: &str, per_second: f64) -> Result<Probe> {
        if !(1.0..=MOST_PER_SECOND).contains(&per_second) {
            return Err(EffectError::Rate { asked: per_second, most: MOST_PER_SECOND });
        }
        let is_realtime = sched::may_become_fifo(PRIORITY).is_ok();
        let spec = LoadSpec { realtime: is_realtime.then_some(PRIORITY), ..spec(url, per_second)? };
        load::greet(&spec)?;
        let monitor = Arc::new(Monitor { live: Some(Live::default()), ..Monitor::default() });
        let failed: Arc<Mutex<Option<quell_bench::Error>>> = Arc::default();
        let (watched, failure) = (Arc::clone(&monitor), Arc::clone(&failed));
        let thread = std::thread::Builder::new().name("quell-probe".into()).spawn(move || {
            let error = probe(spec, &watched).err();
            *failure.lock().unwrap_or_else(PoisonError::into_inner) = error;
        });
        let thread = Some(thread.map_err(|error| EffectError::System("start the probe's thread", error))?);
        Ok(Probe { monitor, failed, thread, last_ns: None, is_realtime })
    }
}

impl Probe {
    /// Refuses what is no URL of a service, and asks none.
    ///
    /// # Errors
    /// With the fix.
    pub fn check(url: &str) -> Result<()> {
        spec(url, 1.0).map(drop)
    }
}

impl Source for Probe {
    fn measure(&self) -> Measure {
        Measure::Probe
    }

    fn every(&self) -> Duration {
        EVERY
    }

    fn look(&mut self) -> Result<Option<Slice>> {
        if let Some(error) = self.failed.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return Err(error.into());
        }
        let cells = self.monitor.live.as_ref().map(Live::take).unwrap_or_default();
        let to_ns = clock::now().0;
        Ok(self.last_ns.replace(to_ns).map(|from_ns| Slice { from_ns, to_ns, cells }))
    }

    fn unanswered(&self) -> Vec<(u64, u64)> {
        let live = self.monitor.live.as_ref();
        live.map(|live| live.waiting(clock::now().0, EVERY.as_nanos() as u64)).unwrap_or_default()
    }

    fn caveats(&self) -> Vec<String> {
        if self.is_realtime {
            return Vec::new();
        }
        vec!["The probe may not be real-time here, so its own waiting is in its latencies: run it as root.".into()]
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.monitor.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            // Its error is nothing to those that end it.
            let _ = thread.join();
        }
    }
}

fn spec(url: &str, per_second: f64) -> Result<LoadSpec> {
    if !url.contains("://") {
        return Err(EffectError::NoProtocol(url.to_owned()));
    }
    let endpoint: Endpoint = url.parse()?;
    let protocol = endpoint.protocol.ok_or_else(|| EffectError::NoProtocol(url.to_owned()))?;
    let spec = LoadSpec {
        target: endpoint.target,
        protocol,
        path: endpoint.path.unwrap_or_else(|| "/".into()),
        rate: per_second,
        duration_ns: RUN_NS,
        warmup_ns: 0,
        connections: 4,
        set_ratio: 0.0,
        keys: 1,
        preload: false,
        ..LoadSpec::default()
    };
    debug_assert!(protocol == Protocol::Http || !spec.writes_keys());
    spec.check()?;
    Ok(spec)
}

/// One run after the other, each at times of its own.
fn probe(mut spec: LoadSpec, monitor: &Monitor) -> quell_bench::Result<()> {
    while !monitor.stop.load(Relaxed) {
        let report = load::run_watched(&spec, monitor)?;
        spec.seed += 1;
        if report.closed_connections > 0 && !monitor.stop.load(Relaxed) {
            // A service that closes its connections gets no storm of new ones.
            std::thread::sleep(EVERY);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_stores_nothing() {
        for url in ["memcached://127.0.0.1", "redis://127.0.0.1", "http://127.0.0.1:8080/"] {
            let spec = spec(url, 200.0).unwrap();
            assert!(!spec.writes_keys() && spec.set_ratio == 0.0, "{url}");
        }
    }

    #[test]
    fn what_is_no_probe_is_refused_with_the_fix() {
        for (url, rate, fix) in [
            ("127.0.0.1:80", 200.0, "http://127.0.0.1:80/"),
            ("https://localhost/", 200.0, "behind the encryption"),
            ("http://localhost/", 0.0, "give 1 to 2000"),
            ("http://localhost/", 1e6, "give 1 to 2000"),
            ("http://localhost/", f64::NAN, "give 1 to 2000"),
        ] {
            let error = Probe::start(url, rate).unwrap_err().to_string();
            assert!(error.contains(fix) && error.lines().count() == 1, "{url}: {error}");
        }
    }
}

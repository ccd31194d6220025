//! A spare: another scheduler, verified while the first one runs, for the next attach. It outlives the worker in its guardian's store.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result};
use quell_agent::guardian::{Store, Worker};
use quell_model::Topology;
use quell_scx::{Parts, Verified};
use rustix::process::{Pid, setpriority_process};
use tracing::{debug, info};

use super::loading::Load;

/// The first scheduler runs for this long before a spare is verified: what a new agent has to do comes first. The same pause follows when CPUs
/// came or went: mostly several do.
const AFTER: Duration = Duration::from_secs(3);
/// Interval of looks for CPUs that came or went, after which the spare is of no use.
const LOOK: Duration = Duration::from_secs(1);
/// Verifying may take as long as it likes.
const NICE: i32 = 19;

/// The thread has not begun to verify.
const WAITS: i32 = 0;
/// It does not verify, or not any more.
const ENDED: i32 = -1;

/// The place of the spare, and the thread that verifies one.
pub struct Spares {
    store: Arc<Store>,
    making: Option<Making>,
}

/// Dropped before the verifying begins, it does not; afterwards the thread ends by itself when it has verified.
struct Making {
    end: Sender<()>,
    thread: JoinHandle<()>,
    /// [`WAITS`], its number while it verifies, or [`ENDED`].
    verifies: Arc<AtomicI32>,
}

impl Spares {
    /// In the guardian's store; without a guardian in one of this process.
    pub fn of(worker: Option<&Worker>) -> Spares {
        let own = || Arc::new(Store::or_none());
        Spares { store: worker.map_or_else(own, |worker| Arc::clone(worker.store())), making: None }
    }

    /// A scheduler with these parts: the spare if it fits, else one that is verified now.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn load(&mut self, topology: Arc<Topology>, parts: Parts) -> Result<Load> {
        let making = self.making.take().and_then(Making::hurry);
        match take(&self.store, &topology, parts) {
            Some(spare) => Load::kept(spare),
            None => {
                let store = Arc::clone(&self.store);
                Load::begin(move || {
                    // A thread that panicked left nothing.
                    let spare =
                        making.and_then(|thread| thread.join().ok()).and_then(|()| take(&store, &topology, parts));
                    spare.map_or_else(|| Verified::load(&topology, parts), Ok)
                })
            }
        }
    }

    /// A scheduler with these parts runs from now on: one more is verified in a while, and again after a CPU came or went.
    pub fn begin(&mut self, parts: Parts) {
        if self.store.is_usable() {
            self.begin_with(OfTheKernel(parts), Times { after: AFTER, look: LOOK });
        }
    }

    fn begin_with(&mut self, source: impl Source, times: Times) {
        let (end, ended) = mpsc::channel();
        let verifies = Arc::new(AtomicI32::new(WAITS));
        let maker = Maker { store: Arc::clone(&self.store), source, times, ended, verifies: Arc::clone(&verifies) };
        match thread::Builder::new().name("quell-spare".into()).spawn(move || maker.run()) {
            Ok(thread) => self.making = Some(Making { end, thread, verifies }),
            Err(error) => info!("no spare of Quell's scheduler: {error}"),
        }
    }
}

impl Drop for Spares {
    /// The process ends only with the thread: it is not to wait for CPUs.
    fn drop(&mut self) {
        if let Some(making) = self.making.take() {
            making.hurry();
        }
    }
}

impl Making {
    /// It is needed now. None: it had not begun.
    fn hurry(self) -> Option<JoinHandle<()>> {
        drop(self.end);
        let state = self.verifies.compare_exchange(WAITS, ENDED, Ordering::AcqRel, Ordering::Acquire);
        let thread = state.err().filter(|state| *state != ENDED).and_then(Pid::from_raw)?;
        if let Err(error) = setpriority_process(Some(thread), 0) {
            debug!(%error, "the spare is being verified with low priority");
        }
        Some(self.thread)
    }
}

/// What is in the store, if it fits.
fn take(store: &Store, topology: &Topology, parts: Parts) -> Option<Verified> {
    let (bytes, descriptors) = store.take()?;
    let spare = Verified::of_parcel(&bytes, descriptors)?;
    let fits = spare.fits(topology, parts);
    info!(fits, "found a spare of Quell's scheduler");
    fits.then_some(spare)
}

/// Where spares come from.
trait Source: Send + 'static {
    /// Count of CPUs that came or went.
    fn hotplugs(&self) -> u64;

    /// Has one verified; as it goes into the store, and of how many CPUs that came or went it is.
    fn verify(&self) -> Result<(Vec<u8>, Vec<OwnedFd>, u64)>;
}

/// Schedulers with these parts.
struct OfTheKernel(Parts);

impl Source for OfTheKernel {
    fn hotplugs(&self) -> u64 {
        quell_scx::hotplugs()
    }

    fn verify(&self) -> Result<(Vec<u8>, Vec<OwnedFd>, u64)> {
        let topology = quell_linux::sysfs::topology("/sys".as_ref())?;
        let spare = Verified::spare(&topology, self.0)?;
        let (took, memory, hotplugs) = (quell_linux::now() - spare.began(), spare.memory() >> 10, spare.hotplugs());
        let (bytes, descriptors) = spare.into_parcel();
        info!(after = %took, kib = memory, "a spare of Quell's scheduler is verified");
        Ok((bytes, descriptors, hotplugs))
    }
}

#[derive(Clone, Copy)]
struct Times {
    after: Duration,
    look: Duration,
}

/// The thread.
struct Maker<S> {
    store: Arc<Store>,
    source: S,
    times: Times,
    ended: Receiver<()>,
    verifies: Arc<AtomicI32>,
}

impl<S: Source> Maker<S> {
    fn run(self) {
        let own = rustix::thread::gettid();
        if let Err(error) = setpriority_process(Some(own), NICE) {
            debug!(%error, "the spare is being verified with the worker's priority");
        }
        // The kernel ends the scheduler that runs when its last descriptor is closed: not when this thread lets it.
        if let Err(error) = self.store.part_from_other_descriptors() {
            return info!("no spare of Quell's scheduler: {error}");
        }
        let number = own.as_raw_nonzero().get();
        while self.goes_on(self.times.after) {
            if self.verifies.compare_exchange(WAITS, number, Ordering::AcqRel, Ordering::Acquire).is_err() {
                return;
            }
            let hotplugs = self.make().unwrap_or_else(|error| {
                info!("no spare of Quell's scheduler: {error:#}");
                self.source.hotplugs()
            });
            self.verifies.store(WAITS, Ordering::Release);
            while self.source.hotplugs() == hotplugs {
                if !self.goes_on(self.times.look) {
                    return;
                }
            }
            info!("a CPU was hotplugged: verifying another spare of Quell's scheduler");
            self.store.clear();
        }
    }

    fn make(&self) -> Result<u64> {
        let (bytes, descriptors, hotplugs) = self.source.verify()?;
        self.store.put(&bytes, &descriptors).context("it cannot be kept")?;
        Ok(hotplugs)
    }

    /// Sleeps; is the spare still wanted then?
    fn goes_on(&self, pause: Duration) -> bool {
        self.ended.recv_timeout(pause) == Err(RecvTimeoutError::Timeout)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;
    use std::time::Instant;

    use super::*;

    /// Verifies at once.
    #[derive(Clone, Default)]
    struct Script {
        hotplugs: Arc<AtomicU64>,
        verified: Arc<AtomicU64>,
    }

    impl Source for Script {
        fn hotplugs(&self) -> u64 {
            self.hotplugs.load(Ordering::Acquire)
        }

        fn verify(&self) -> Result<(Vec<u8>, Vec<OwnedFd>, u64)> {
            self.verified.fetch_add(1, Ordering::AcqRel);
            let hotplugs = self.hotplugs();
            Ok((vec![hotplugs as u8 + 1], Vec::new(), hotplugs))
        }
    }

    fn await_that(what: &str, is_so: impl Fn() -> bool) {
        let begun = Instant::now();
        while !is_so() {
            assert!(begun.elapsed() < Duration::from_secs(30), "in vain: {what}");
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn begun(source: &Script) -> Spares {
        let mut spares = Spares::of(None);
        let soon = Duration::from_millis(1);
        spares.begin_with(source.clone(), Times { after: soon, look: soon });
        spares
    }

    #[test]
    fn one_more_is_verified_after_a_cpu_came_or_went() {
        let source = Script::default();
        let spares = begun(&source);
        let is_in_the_store = |bytes: &[u8]| spares.store.take().is_some_and(|(found, _)| found == bytes);
        await_that("the first one", || is_in_the_store(&[1]));
        source.hotplugs.store(1, Ordering::Release);
        await_that("the second one", || is_in_the_store(&[2]));
        assert_eq!(source.verified.load(Ordering::Acquire), 2, "one a change");
    }

    #[test]
    fn the_thread_ends_when_no_more_is_wanted() {
        let source = Script::default();
        let mut spares = begun(&source);
        await_that("the first one", || source.verified.load(Ordering::Acquire) == 1);
        let Making { end, thread, .. } = spares.making.take().unwrap();
        drop(end);
        thread.join().unwrap();
        source.hotplugs.store(1, Ordering::Release);
        assert_eq!(source.verified.load(Ordering::Acquire), 1);
    }
}

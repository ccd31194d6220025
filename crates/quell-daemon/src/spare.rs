//! A spare: another scheduler, verified while the first one runs, for the next attach. It outlives the worker in its guardian's store.

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

/// The first scheduler runs for this long before a spare is verified: what a new agent has to do comes first.
const AFTER: Duration = Duration::from_secs(3);
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

/// Dropped before the verifying begins, it does not; afterwards the thread ends by itself.
struct Making {
    end: Sender<()>,
    thread: JoinHandle<()>,
    /// [`WAITS`], its number while it verifies, or [`ENDED`].
    verifies: Arc<AtomicI32>,
}

impl Spares {
    /// In the guardian's store; without a guardian in one of this process.
    ///
    /// # Errors
    /// If the system gives no store.
    pub fn of(worker: Option<&Worker>) -> Result<Spares> {
        let store = match worker {
            Some(worker) => Arc::clone(worker.store()),
            None => Arc::new(Store::new().context("cannot make a pair of sockets")?),
        };
        Ok(Spares { store, making: None })
    }

    /// A scheduler with these parts: the spare if it fits, else one that is verified now.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn load(&mut self, topology: Arc<Topology>, parts: Parts) -> Result<Load> {
        let making = self.making.take().and_then(Making::hurry);
        match take(&self.store, &topology, parts) {
            Some(spare) => Ok(Load::done(spare)),
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

    /// A scheduler with these parts runs from now on: one more is verified in a while.
    pub fn begin(&mut self, parts: Parts) {
        let (end, ended) = mpsc::channel();
        let (store, verifies) = (Arc::clone(&self.store), Arc::new(AtomicI32::new(WAITS)));
        let make = {
            let verifies = Arc::clone(&verifies);
            move || make(&store, parts, &ended, &verifies)
        };
        match thread::Builder::new().name("quell-spare".into()).spawn(make) {
            Ok(thread) => self.making = Some(Making { end, thread, verifies }),
            Err(error) => info!("there is no spare of Quell's scheduler: {error}"),
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
            debug!(%error, "the spare is verified with low priority");
        }
        Some(self.thread)
    }
}

/// What is in the store, if it fits.
fn take(store: &Store, topology: &Topology, parts: Parts) -> Option<Verified> {
    let (bytes, descriptors) = store.take()?;
    let spare = Verified::of_parcel(&bytes, descriptors)?;
    let fits = spare.fits(topology, parts);
    info!(fits, "there is a spare of Quell's scheduler");
    fits.then_some(spare)
}

/// The thread.
fn make(store: &Store, parts: Parts, ended: &Receiver<()>, verifies: &AtomicI32) {
    let own = rustix::thread::gettid();
    if let Err(error) = setpriority_process(Some(own), NICE) {
        debug!(%error, "the spare is verified with the worker's priority");
    }
    if ended.recv_timeout(AFTER) != Err(RecvTimeoutError::Timeout) {
        return;
    }
    let number = own.as_raw_nonzero().get();
    if verifies.compare_exchange(WAITS, number, Ordering::AcqRel, Ordering::Acquire).is_err() {
        return;
    }
    let made = verify(parts).and_then(|spare| {
        let (took, memory) = (quell_linux::now() - spare.began(), spare.memory() >> 10);
        let (bytes, descriptors) = spare.into_parcel();
        store.put(&bytes, &descriptors).context("it cannot be kept")?;
        info!(after = %took, kib = memory, "a spare of Quell's scheduler is verified");
        Ok(())
    });
    verifies.store(ENDED, Ordering::Release);
    if let Err(error) = made {
        info!("there is no spare of Quell's scheduler: {error:#}");
    }
}

fn verify(parts: Parts) -> Result<Verified> {
    let topology = quell_linux::sysfs::topology("/sys".as_ref())?;
    Ok(Verified::spare(&topology, parts)?)
}

//! Quell's scheduler is loaded on a thread beside the loop: the kernel's verifier may take minutes where CPUs are few or slow. One
//! that is verified already is there at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use quell_agent::run::Loading;
use quell_model::Nanos;
use quell_scx::{ScxError, Verified};

/// A scheduler that comes.
pub struct Load {
    since: Nanos,
    done: Arc<AtomicBool>,
    from: From,
}

enum From {
    /// It is here.
    Kept(Box<Verified>),
    /// This thread brings it, which ends by itself.
    Thread(JoinHandle<Result<Verified, ScxError>>),
}

/// Sets the flag when the thread ends, however it does.
struct Ends(Arc<AtomicBool>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

impl Load {
    /// Begins to load.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn begin(load: impl FnOnce() -> Result<Verified, ScxError> + Send + 'static) -> Result<Load> {
        let done: Arc<AtomicBool> = Arc::default();
        let ends = Ends(Arc::clone(&done));
        let load = move || {
            let _ends = ends;
            load()
        };
        let thread = thread::Builder::new().name("quell-load".into()).spawn(load).context("cannot start a thread")?;
        Ok(Load { since: quell_linux::now(), done, from: From::Thread(thread) })
    }

    /// Of what is verified already.
    pub fn done(verified: Verified) -> Load {
        let done = Arc::new(AtomicBool::new(true));
        Load { since: quell_linux::now(), done, from: From::Kept(Box::new(verified)) }
    }

    /// What the agent knows of it that stands in meanwhile.
    pub fn state(&self) -> Loading {
        Loading::new(self.since, Arc::clone(&self.done))
    }

    /// Waits for this long at most, or until it is to stop. Has it ended?
    pub fn wait(&self, at_most: Duration, stop: &AtomicBool) -> bool {
        let end = Instant::now() + at_most;
        while !self.done.load(Ordering::Acquire) && !stop.load(Ordering::Acquire) && Instant::now() < end {
            thread::sleep(Duration::from_millis(5));
        }
        self.done.load(Ordering::Acquire)
    }

    /// Its result.
    ///
    /// # Errors
    /// If the kernel refused.
    pub fn finish(self) -> Result<Verified, ScxError> {
        match self.from {
            From::Kept(verified) => Ok(*verified),
            From::Thread(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
        }
    }
}

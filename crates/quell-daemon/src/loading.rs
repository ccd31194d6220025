//! Quell's scheduler is loaded, and attached, on a thread beside the loop: the kernel's verifier may take minutes where CPUs are few or
//! slow, and inside an attach the kernel answers no signal. One that is verified already is there at once. The loop waits, and
//! stops when it is asked to; the thread then ends with the process, which closes what the kernel gave it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use quell_agent::run::Loading;
use quell_model::Nanos;
use quell_scx::{ScxError, Verified};

/// A scheduler that comes: verified, or attached.
pub struct Load<T = Verified> {
    since: Nanos,
    done: Arc<AtomicBool>,
    is_kept: bool,
    /// Brings it, and ends by itself.
    thread: JoinHandle<Result<T, ScxError>>,
}

/// What is verified already is there as soon as the scheduler before it is gone, in some milliseconds mostly: it is waited for this
/// long before another one stands in.
const SOON: Duration = Duration::from_millis(500);

/// Sets the flag when the thread ends, however it does.
struct Ends(Arc<AtomicBool>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

impl<T: Send + 'static> Load<T> {
    /// Begins to load.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn begin(load: impl FnOnce() -> Result<T, ScxError> + Send + 'static) -> Result<Load<T>> {
        let done: Arc<AtomicBool> = Arc::default();
        let ends = Ends(Arc::clone(&done));
        let load = move || {
            let _ends = ends;
            load()
        };
        let thread = thread::Builder::new().name("quell-load".into()).spawn(load).context("cannot start a thread")?;
        Ok(Load { since: quell_linux::now(), done, is_kept: false, thread })
    }

    /// Was it verified before?
    pub fn is_kept(&self) -> bool {
        self.is_kept
    }

    /// What the agent knows of it that stands in meanwhile.
    pub fn state(&self) -> Loading {
        Loading::new(self.since, Arc::clone(&self.done))
    }

    /// Waits for this long at most, or until it is to stop. Has it ended?
    pub fn wait(&self, at_most: Duration, stop: &AtomicBool) -> bool {
        let end = Instant::now() + if self.is_kept { at_most.max(SOON) } else { at_most };
        while !self.done.load(Ordering::Acquire) && !stop.load(Ordering::Acquire) && Instant::now() < end {
            thread::sleep(Duration::from_millis(5));
        }
        self.done.load(Ordering::Acquire)
    }

    /// Its result.
    ///
    /// # Errors
    /// If the kernel refused.
    pub fn finish(self) -> Result<T, ScxError> {
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Load {
    /// Of what is verified already. It can be attached when no other one of Quell's stands, which may take seconds: the loop is not
    /// to wait for that.
    ///
    /// # Errors
    /// As [`Load::begin`].
    pub fn kept(verified: Verified) -> Result<Load> {
        let wait = move || {
            quell_scx::await_end_of_ours();
            Ok(verified)
        };
        Ok(Load { is_kept: true, ..Load::begin(wait)? })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_wait_for_what_hangs_ends_when_the_agent_is_to_stop() {
        let (end, ended) = mpsc::channel::<()>();
        let load: Load<()> = Load::begin(move || {
            // As inside the kernel: it ends when that does.
            let _ = ended.recv();
            Ok(())
        })
        .unwrap();
        let (began, stop) = (Instant::now(), Arc::new(AtomicBool::new(false)));
        let asked = Arc::clone(&stop);
        let asker = thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            asked.store(true, Ordering::Release);
        });
        assert!(!load.wait(Duration::from_secs(600), &stop));
        assert!(began.elapsed() < Duration::from_secs(60));
        asker.join().unwrap();
        drop(end);
        assert!(load.wait(Duration::from_secs(60), &AtomicBool::new(false)));
        load.finish().unwrap();
    }
}

//! The signs of life of a worker for its guardian, in a page of memory that both share.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use quell_model::Nanos;
use quell_thread::clock::now;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use super::patience::Signs;
use crate::AgentError;

/// The numbers that the worker writes and the guardian reads.
#[derive(Debug, Default)]
#[repr(C)]
struct Shared {
    beat: AtomicU64,
    watchdog_timeout: AtomicU64,
    lease_until: AtomicU64,
}

/// The page.
#[derive(Debug)]
pub struct Pulse {
    shared: NonNull<Shared>,
}

// SAFETY: the page holds atomics only, and is unmapped only when the last owner (there is one a process) is dropped.
unsafe impl Send for Pulse {}
// SAFETY: as above.
unsafe impl Sync for Pulse {}

const SIZE: usize = 4096;

impl Pulse {
    /// A page that children of this process share.
    ///
    /// # Errors
    /// If the system has no memory.
    pub fn new() -> Result<Pulse, AgentError> {
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: the system chooses the address of a new mapping.
        let page = unsafe { mmap_anonymous(std::ptr::null_mut(), SIZE, access, flags) }
            .map_err(|errno| AgentError::System { operation: "map a page", source: errno.into() })?;
        let shared = NonNull::new(page.cast()).expect("a mapping is not at address zero");
        Ok(Pulse { shared })
    }

    fn shared(&self) -> &Shared {
        // SAFETY: the page is mapped, zeroed at first (valid atomics), aligned, and lives as long as self.
        unsafe { self.shared.as_ref() }
    }

    /// The loop turned; it counts as hung if neither a turn nor a step follows within `watchdog_timeout`. Before the first beat
    /// a worker is not watched.
    pub fn beat(&self, watchdog_timeout: Nanos) {
        self.shared().watchdog_timeout.store(watchdog_timeout.0, Ordering::Relaxed);
        self.shared().beat.store(now().0, Ordering::Relaxed);
    }

    /// A step of a longer piece of work is done, and the next one is due as a turn is. Before the first beat it is nothing.
    pub fn step(&self) {
        if self.has_begun() {
            self.shared().beat.store(now().0, Ordering::Relaxed);
        }
    }

    /// As [`Pulse::step`]; the next sign of life is due within this time.
    pub fn stage(&self, at_most: Nanos) {
        if self.has_begun() {
            self.beat(at_most);
        }
    }

    /// A solo run must be over by this time of [`now`]; None: none is under way.
    pub fn lease(&self, until: Option<Nanos>) {
        self.shared().lease_until.store(until.map_or(0, |until| until.0), Ordering::Relaxed);
    }

    /// Did the loop turn within this time?
    #[must_use]
    pub fn turned_within(&self, span: Nanos, now: Nanos) -> bool {
        let beat = Nanos(self.shared().beat.load(Ordering::Relaxed));
        beat != Nanos::ZERO && now - beat <= span
    }

    /// Has the loop turned at all?
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.shared().beat.load(Ordering::Relaxed) != 0
    }

    /// The signs of life so far. `waited`: for how long the loop could run and had no CPU, all in all, where that is known.
    #[must_use]
    pub fn signs(&self, waited: Option<Nanos>) -> Signs {
        let time = |of: &AtomicU64| Some(Nanos(of.load(Ordering::Relaxed))).filter(|time| *time != Nanos::ZERO);
        Signs {
            beat: time(&self.shared().beat),
            watchdog_timeout: Nanos(self.shared().watchdog_timeout.load(Ordering::Relaxed)),
            lease_until: time(&self.shared().lease_until),
            waited,
        }
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new` with this size, and no reference to it is left.
        let _ = unsafe { munmap(self.shared.as_ptr().cast(), SIZE) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_a_sign_of_life_once_the_loop_has_turned() {
        let pulse = Pulse::new().unwrap();
        pulse.step();
        pulse.stage(Nanos::from_secs(60));
        assert!(!pulse.has_begun());
        assert_eq!(pulse.signs(None), Signs::default());
        let (before, watchdog_timeout) = (now(), Nanos::from_secs(5));
        pulse.beat(watchdog_timeout);
        let first = pulse.signs(None);
        assert!(pulse.has_begun() && first.beat >= Some(before));
        let a_second = Nanos::from_secs(1);
        assert!(pulse.turned_within(a_second, now()) && !pulse.turned_within(a_second, now() + a_second + a_second));
        pulse.step();
        pulse.lease(Some(before));
        let then = pulse.signs(Some(a_second));
        assert!(then.beat >= first.beat);
        assert_eq!(
            (then.watchdog_timeout, then.lease_until, then.waited),
            (watchdog_timeout, Some(before), Some(a_second))
        );
        pulse.lease(None);
        pulse.stage(Nanos::from_secs(60));
        let staged = pulse.signs(None);
        assert_eq!((staged.lease_until, staged.watchdog_timeout), (None, Nanos::from_secs(60)));
    }
}

//! The signs of life of a worker for its guardian, in a page of memory that both share.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use quell_model::Nanos;
use quell_thread::clock::now;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::AgentError;

/// A solo run that outlives its time by this much is overdue: the host checks whenever it wakes.
pub const LEASE_GRACE: Nanos = Nanos::from_millis(300);

/// The numbers that the worker writes and the guardian reads.
#[derive(Debug, Default)]
#[repr(C)]
struct Shared {
    beat: AtomicU64,
    hung_after: AtomicU64,
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

    /// The loop turned; it counts as hung if it does not turn again within `hung_after`. Before the first beat a worker
    /// is not watched.
    pub fn beat(&self, hung_after: Nanos) {
        self.shared().hung_after.store(hung_after.0, Ordering::Relaxed);
        self.shared().beat.store(now().0, Ordering::Relaxed);
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

    /// The reason why the worker counts as hung, if it does.
    #[must_use]
    pub fn hung(&self, now: Nanos) -> Option<String> {
        let hung_after = Nanos(self.shared().hung_after.load(Ordering::Relaxed));
        let beat = Nanos(self.shared().beat.load(Ordering::Relaxed));
        let lease = Nanos(self.shared().lease_until.load(Ordering::Relaxed));
        if beat != Nanos::ZERO && now - beat > hung_after {
            return Some(format!("its loop has not turned for {}", now - beat));
        }
        if lease != Nanos::ZERO && now > lease + LEASE_GRACE {
            return Some(format!("a solo run is overdue by {}", now - lease));
        }
        None
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
    fn a_worker_that_never_turned_is_not_watched() {
        let pulse = Pulse::new().unwrap();
        assert!(!pulse.has_begun());
        assert_eq!(pulse.hung(now() + Nanos::from_secs(100)), None);
        pulse.beat(Nanos::from_secs(5));
        assert!(pulse.has_begun());
        assert_eq!(pulse.hung(now()), None);
        let a_second = Nanos::from_secs(1);
        assert!(pulse.turned_within(a_second, now()) && !pulse.turned_within(a_second, now() + a_second + a_second));
        assert!(pulse.hung(now() + Nanos::from_secs(6)).unwrap().contains("has not turned"));
    }

    #[test]
    fn an_overdue_solo_run_is_found() {
        let pulse = Pulse::new().unwrap();
        let end = Nanos::from_secs(10);
        pulse.lease(Some(end));
        assert_eq!(pulse.hung(end), None);
        assert!(pulse.hung(end + LEASE_GRACE + Nanos(1)).unwrap().contains("overdue"));
        pulse.lease(None);
        assert_eq!(pulse.hung(Nanos::from_secs(99)), None);
    }
}

//! Threads that are scheduled by cores while the scheduler runs: it ends, as it is not loaded where there are some.

use quell_model::Nanos;

use super::Scx;
use crate::{ScxError, kernel};

/// The thread is looked for so often: it takes a system call a thread.
const LOOK_AGAIN: Nanos = Nanos::from_secs(1);

impl Scx {
    /// Only if the kernel schedules by cores is any thread asked.
    pub(super) fn look_for_cookies(&mut self) -> Result<(), ScxError> {
        let now = quell_linux::now();
        if !self.grant.beside.is_core_scheduled() || now < self.cookies_at {
            return Ok(());
        }
        self.cookies_at = now + LOOK_AGAIN;
        kernel::check_cookies(&self.roots.proc)
    }
}

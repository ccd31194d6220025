//! Threads that are scheduled by cores while the scheduler runs: it ends, as it is not loaded where there are some.

use std::path::Path;

use quell_model::Nanos;

use crate::{Grant, ScxError, kernel};

/// The thread is looked for so often: it takes a system call a thread.
const LOOK_AGAIN: Nanos = Nanos::from_secs(1);

/// Only if the kernel schedules by cores is any thread asked, at `next_at` at the soonest.
pub(super) fn look(grant: &Grant, proc: &Path, next_at: &mut Nanos) -> Result<(), ScxError> {
    let now = quell_linux::now();
    if !grant.beside.is_core_scheduled() || now < *next_at {
        return Ok(());
    }
    *next_at = now + LOOK_AGAIN;
    kernel::check_cookies(proc)
}

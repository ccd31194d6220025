//! The functions of `quell.h`.

use std::ffi::{c_char, c_int, c_uint};

use quell_page::ProgramLine;

use crate::{NO_TIME, Worker, asking, attach, cpus, cpus_most, shared};

/// A line that C has; null is none.
///
/// # Safety
/// It must be what `quell_worker` returned.
unsafe fn of(worker: *const ProgramLine) -> Option<Worker> {
    // SAFETY: by the caller; lines are never unmapped.
    unsafe { worker.as_ref() }.map(Worker)
}

/// [`attach`] for C.
#[unsafe(no_mangle)]
pub extern "C" fn quell_attach() -> c_int {
    attach().map_or_else(|why| why.errno(), |()| 0)
}

/// [`crate::words`] for C.
#[unsafe(no_mangle)]
pub extern "C" fn quell_words() -> *const c_char {
    asking::text()
}

/// [`Worker::here`] for C.
#[unsafe(no_mangle)]
pub extern "C" fn quell_worker() -> *const ProgramLine {
    shared::of_this_thread().map_or(std::ptr::null(), std::ptr::from_ref)
}

/// Begins a request.
///
/// # Safety
/// `worker` must come from [`quell_worker`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quell_request_begin(worker: *const ProgramLine) {
    // SAFETY: by the caller.
    if let Some(worker) = unsafe { of(worker) } {
        worker.begin();
    }
}

/// Ends a request.
///
/// # Safety
/// `worker` must come from [`quell_worker`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quell_request_end(worker: *const ProgramLine) {
    // SAFETY: by the caller.
    if let Some(worker) = unsafe { of(worker) } {
        worker.end();
    }
}

/// [`Worker::queued`] for C.
///
/// # Safety
/// `worker` must come from [`quell_worker`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quell_queued(worker: *const ProgramLine) -> u64 {
    // SAFETY: by the caller.
    unsafe { of(worker) }.map_or(NO_TIME, Worker::queued)
}

/// [`Worker::dequeued`] for C.
///
/// # Safety
/// `worker` must come from [`quell_worker`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quell_dequeued(worker: *const ProgramLine, oldest: u64) {
    // SAFETY: by the caller.
    if let Some(worker) = unsafe { of(worker) } {
        worker.dequeued(oldest);
    }
}

/// [`Worker::events`] for C.
///
/// # Safety
/// `worker` must come from [`quell_worker`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quell_events(worker: *const ProgramLine, left: c_uint) {
    // SAFETY: by the caller.
    if let Some(worker) = unsafe { of(worker) } {
        worker.events(left);
    }
}

/// [`cpus`] for C.
#[unsafe(no_mangle)]
pub extern "C" fn quell_cpus() -> c_uint {
    cpus()
}

/// [`cpus_most`] for C.
#[unsafe(no_mangle)]
pub extern "C" fn quell_cpus_most() -> c_uint {
    cpus_most()
}

/// [`Worker::should_leave`] for C.
///
/// # Safety
/// `worker` must come from [`quell_worker`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quell_should_leave(worker: *const ProgramLine) -> c_int {
    // SAFETY: by the caller.
    c_int::from(unsafe { of(worker) }.is_some_and(Worker::should_leave))
}

//! Threads that a real-time thread keeps from their CPU, and that stayed there, are fetched.

use std::sync::atomic::Ordering::{AcqRel, Acquire};

use quell_linux::sched::Kernel;

use super::Scx;

/// Has the kernel enqueue threads anew.
pub(super) struct Fetcher {
    pub threads: Kernel,
    /// How often that was asked for before.
    pub fetched: u64,
}

impl Scx {
    /// Are there threads to fetch that were not fetched yet?
    pub(super) fn has_to_fetch(&self) -> bool {
        self.grant.shared().fetches.load(Acquire) != self.fetcher.fetched
    }

    /// Has the kernel enqueue them anew: then the scheduler finds another CPU for them.
    pub(super) fn fetch_who_stays(&mut self) {
        if !self.has_to_fetch() {
            return;
        }
        self.fetcher.fetched = self.grant.shared().fetches.load(Acquire);
        for cpu in self.grant.cpus() {
            let tid = self.grant.cpu(cpu).fetch.swap(0, AcqRel);
            if tid == 0 {
                continue;
            }
            match self.fetcher.threads.enqueue_anew(tid as i32) {
                Ok(()) => tracing::debug!(tid, %cpu, "fetched from behind a real-time thread"),
                Err(error) => tracing::debug!(tid, %cpu, %error, "cannot be fetched"),
            }
        }
    }
}

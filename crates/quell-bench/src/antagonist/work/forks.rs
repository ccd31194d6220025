//! Processes that come and go.

use super::{Arithmetic, CPU_STEPS, Work};

const PAGE_BYTES: usize = 4096;
/// What a child writes: each page is copied for it first.
const PAGES: usize = 16;

pub(super) struct Forks {
    memory: Vec<u8>,
    work: Arithmetic,
    /// CPU time of the processes that have ended, ns.
    had_ns: u64,
}

impl Forks {
    pub fn new(number: u32) -> Self {
        Self { memory: vec![1; PAGES * PAGE_BYTES], work: Arithmetic::new(number), had_ns: 0 }
    }

    /// The child's life.
    fn live(&mut self) {
        self.memory.iter_mut().step_by(PAGE_BYTES).for_each(|byte| *byte = byte.wrapping_add(1));
        self.work.steps(CPU_STEPS / 2);
    }
}

impl Work for Forks {
    /// Where no process is to be had, the thread does the work itself.
    fn block(&mut self) {
        // SAFETY: the child writes to memory that it has and computes; it calls nothing that takes a lock.
        match unsafe { libc::fork() } {
            // SAFETY: as above; no destructor runs.
            0 => unsafe {
                self.live();
                libc::_exit(0)
            },
            -1 => self.live(),
            child => self.had_ns += ended(child),
        }
    }

    fn elsewhere_ns(&self) -> u64 {
        self.had_ns
    }
}

/// Waits for the end of our own child; its CPU time, ns.
fn ended(child: libc::pid_t) -> u64 {
    // SAFETY: plain data, for which zeros are valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the status is not asked for, `usage` is written to at most.
    while unsafe { libc::wait4(child, std::ptr::null_mut(), 0, &raw mut usage) } == -1 {
        if std::io::Error::last_os_error().kind() != std::io::ErrorKind::Interrupted {
            return 0;
        }
    }
    [usage.ru_utime, usage.ru_stime].iter().map(|time| (time.tv_sec * 1_000_000 + time.tv_usec) as u64 * 1000).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_a_process_that_computes() {
        let mut forks = Forks::new(0);
        while forks.elsewhere_ns() == 0 {
            forks.block();
        }
        assert!(forks.memory.iter().all(|byte| *byte == 1), "a child writes to memory of its own");
    }
}

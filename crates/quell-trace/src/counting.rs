//! Counts of hardware counters by workload.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use libbpf_rs::{MapCore, MapFlags, ProgramInput};
use quell_model::CpuId;

use crate::collector::broken;
use crate::event::Slot;
use crate::wire::{self, COUNTED_BYTES, COUNTED_EVENTS, Counted};
use crate::{Collector, TraceError};

/// BPF_F_TEST_RUN_ON_CPU (include/uapi/linux/bpf.h).
const ON_CPU: u32 = 1;

impl Collector {
    /// An event is counted on a CPU by this counter (perf_event_open(2)) from now on, which stays open for the collector's
    /// life or until another one takes its place; None: by none.
    ///
    /// # Errors
    /// If the kernel does not take it.
    pub fn count_by(&self, cpu: CpuId, event: usize, counter: Option<BorrowedFd<'_>>) -> Result<(), TraceError> {
        let key = (cpu.0 * COUNTED_EVENTS as u32 + event as u32).to_ne_bytes();
        let counters = &self.skeleton.maps.counters;
        match counter {
            Some(counter) => counters.update(&key, &counter.as_raw_fd().to_ne_bytes(), MapFlags::ANY),
            None => counters.delete(&key).or_else(|error| match error.kind() {
                libbpf_rs::ErrorKind::NotFound => Ok(()),
                _ => Err(error),
            }),
        }
        .map_err(broken("handing a counter over"))
    }

    /// Counts what runs on this CPU up to now, which costs the CPU an interrupt. A CPU that is offline has nothing to count.
    pub fn settle(&self, cpu: CpuId) {
        let input = ProgramInput { cpu: cpu.0, flags: ON_CPU, ..ProgramInput::default() };
        if let Err(error) = self.skeleton.progs.settle.test_run(input) {
            tracing::debug!(%cpu, %error, "counts up to the last switch only");
        }
    }

    /// Readings of counters that failed so far: what they counted until the next one is in no sum.
    #[must_use]
    pub fn failed_readings(&self) -> u64 {
        self.skeleton.maps.bss_data.as_deref().map_or(0, |data| data.losses.counts)
    }

    /// What was counted while the workload's threads ran, up to each CPU's last switch or [`Collector::settle`].
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn counted(&mut self, slot: Slot) -> Result<Counted, TraceError> {
        if self.counted.is_empty() {
            let cpus = libbpf_rs::num_possible_cpus().map_err(broken("asking for the number of CPUs"))?;
            self.counted.resize(cpus * COUNTED_BYTES, 0);
        }
        let (map, key) = (self.skeleton.maps.counted.as_fd().as_raw_fd(), u32::from(slot));
        // SAFETY: the key is a number and the buffer has a value for each possible CPU, as the kernel writes them.
        let result = unsafe {
            libbpf_rs::libbpf_sys::bpf_map_lookup_elem(map, (&raw const key).cast(), self.counted.as_mut_ptr().cast())
        };
        match result {
            0 => Ok(wire::counted(&self.counted)),
            _ => Err(broken("reading a workload's counts")(std::io::Error::last_os_error().into())),
        }
    }
}

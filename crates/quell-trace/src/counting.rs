//! Counts of hardware counters by workload.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use libbpf_rs::{MapCore, MapFlags, ProgramInput};
use quell_model::CpuId;

use crate::collector::broken;
use crate::wire::{self, COUNTED_BYTES, COUNTED_EVENTS, CounterTime, Counts, Room};
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

    /// What was counted while each workload's threads ran, up to each CPU's last switch or [`Collector::settle`]: of the
    /// first slots.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn counted(&mut self, slots: usize) -> Result<&[Counts], TraceError> {
        const STEP: &str = "reading workloads' counts";
        let cpus = libbpf_rs::num_possible_cpus().map_err(broken(STEP))?;
        let Room { keys, bytes, counts } = &mut self.room;
        keys.resize(slots, 0);
        bytes.resize(slots * cpus * COUNTED_BYTES, 0);
        let (map, mut next, mut read) = (self.skeleton.maps.counted.as_fd().as_raw_fd(), 0u32, slots as u32);
        // SAFETY: there is room for as many keys, and for a value of each possible CPU with each, as are asked for.
        let result = unsafe {
            libbpf_rs::libbpf_sys::bpf_map_lookup_batch(
                map,
                std::ptr::null_mut(),
                (&raw mut next).cast(),
                keys.as_mut_ptr().cast(),
                bytes.as_mut_ptr().cast(),
                &raw mut read,
                std::ptr::null(),
            )
        };
        let error = std::io::Error::last_os_error();
        // At the end of the table it says so.
        if result != 0 && error.kind() != std::io::ErrorKind::NotFound {
            return Err(broken(STEP)(error.into()));
        }
        counts.clear();
        counts.extend(bytes.chunks_exact(cpus * COUNTED_BYTES).take(read as usize).map(wire::counted));
        Ok(counts)
    }

    /// The times of the counters, by event, as of the last [`Collector::settle`] of each CPU.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn counter_times(&self) -> Result<[CounterTime; COUNTED_EVENTS], TraceError> {
        let bases = self.skeleton.maps.bases.lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY);
        let mut sum = [CounterTime::default(); COUNTED_EVENTS];
        for base in bases.map_err(broken("reading the counters' times"))?.into_iter().flatten() {
            for (sum, own) in sum.iter_mut().zip(wire::counter_times(&base)) {
                sum.enabled += own.enabled;
                sum.running += own.running;
            }
        }
        Ok(sum)
    }
}

//! What the loaded scheduler says of itself.

use std::fs;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use quell_model::{CpuId, Nanos};

use crate::{Grant, ScxError};

/// One of the scheduler's programs, as the kernel took it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its name in the source.
    pub name: String,
    /// How many instructions the kernel's verifier looked at, all paths together. It gives up at a million.
    pub verified_instructions: u64,
    /// How often it ran, and for how long in all: while the kernel counts that (`kernel.bpf_stats_enabled`).
    pub ran: (u64, Nanos),
}

/// A thread that cannot run because real-time threads have every CPU that it may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// Its number.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// Since when it could run, by the monotonic clock.
    pub since: Nanos,
    /// One of the CPUs that it may use.
    pub cpu: CpuId,
    /// Who took that CPU last.
    pub behind: Hog,
}

/// A real-time thread that has a CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hog {
    /// Its number.
    pub tid: u32,
    /// Its name; empty if it ended meanwhile.
    pub name: String,
    /// Since when it, or one like it, has had the CPU, by the monotonic clock.
    pub since: Nanos,
}

/// Counters of one CPU: those of `enum decision` in `bpf/lib/counts.h`.
pub(crate) const DECISIONS: usize = 10;

/// How often the scheduler took each of its ways, so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decisions {
    /// A wake-up took a CPU from another workload.
    pub preempted: u64,
    /// A best-effort thread stayed on its CPU behind a real-time thread.
    pub stayed: u64,
    /// Or behind a latency-critical one.
    pub made_way: u64,
    /// One that had stayed or made way went to a queue all the same.
    pub in_vain: u64,
    /// One that had stayed behind a real-time thread was fetched.
    pub fetched: u64,
    /// A starving thread had a turn.
    pub starving: u64,
    /// A cgroup used up its quota.
    pub throttled: u64,
    /// A thread came, and its workload got no CPU by the rules.
    pub refused: u64,
    /// A wake-up took a CPU from a thread of its own queue that was far ahead.
    pub overtaken: u64,
    /// Others had a turn while a server had work and budget.
    pub beside_server: u64,
    /// A thread that stopped inside the kernel went on there, as latency-critical work was hindered.
    pub passed: u64,
}

impl Decisions {
    fn add(&mut self, counts: [u64; DECISIONS]) {
        let [preempted, stayed, made_way, in_vain, starving, throttled, refused, overtaken, beside_server, passed] =
            counts;
        self.preempted += preempted;
        self.stayed += stayed;
        self.made_way += made_way;
        self.in_vain += in_vain;
        self.starving += starving;
        self.throttled += throttled;
        self.refused += refused;
        self.overtaken += overtaken;
        self.beside_server += beside_server;
        self.passed += passed;
    }
}

impl Grant {
    /// The decisions of all CPUs.
    #[must_use]
    pub fn decisions(&self) -> Decisions {
        let mut all = Decisions { fetched: self.shared().fetches.load(Relaxed), ..Decisions::default() };
        self.cpus().for_each(|cpu| all.add(self.beside.counts(cpu.index())));
        all
    }

    /// Turns that others had on this CPU while a server had work and budget, so far. Each is 0.5 ms at most.
    #[must_use]
    pub fn turns_beside_servers(&self, cpu: CpuId) -> u64 {
        let mut here = Decisions::default();
        here.add(self.beside.counts(cpu.index()));
        here.beside_server
    }

    /// Threads that could run since this time or before, and cannot because real-time threads have every CPU that they may
    /// use: the first 32. Where no fair server helps them, the kernel ends the scheduler after 30 s of that.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn stuck(&self, before: Nanos) -> Result<Vec<Stuck>, ScxError> {
        self.shared().stuck_before.store(before.0, Release);
        self.call("find_stuck", "looking for threads behind real-time ones")?;
        let as_stuck = |found: &crate::program::types::stuck| {
            let cpu = self.cpu(CpuId(found.cpu));
            let hog = cpu.hog.load(Acquire);
            let since = Nanos(cpu.away_since.load(Acquire));
            Stuck {
                tid: found.pid,
                name: as_text(&found.name.map(|byte| byte as u8)),
                since: Nanos(found.since),
                cpu: CpuId(found.cpu),
                behind: Hog { tid: hog, name: name_of(hog), since },
            }
        };
        Ok(self.beside.stuck().iter().map(as_stuck).collect())
    }

    /// Cgroups with the cpu controller that found no place in the scheduler's table, now: they are under the limits of the
    /// cgroups above them only.
    #[must_use]
    pub fn unplaced(&self) -> u64 {
        self.shared().unplaced.load(Acquire)
    }

    /// The programs, and what it took the kernel to verify them; empty where there is no /proc.
    #[must_use]
    pub fn programs(&self) -> Vec<Program> {
        let read = self.kernel.programs().filter_map(|(name, program)| {
            let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", program.as_raw_fd())).ok()?;
            let verified_instructions = number(&info, "verified_insns:")?;
            let ran = (number(&info, "run_cnt:")?, Nanos(number(&info, "run_time_ns:")?));
            Some(Program { name: name.to_owned(), verified_instructions, ran })
        });
        read.collect()
    }
}

fn number(info: &str, field: &str) -> Option<u64> {
    info.lines().find_map(|line| line.strip_prefix(field)?.trim().parse().ok())
}

fn name_of(tid: u32) -> String {
    quell_linux::comm(Path::new(&format!("/proc/{tid}/comm")))
}

/// Up to the zero byte.
pub(crate) fn as_text(bytes: &[u8]) -> String {
    let text: Vec<u8> = bytes.iter().copied().take_while(|&byte| byte != 0).collect();
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_description_of_a_program_is_read() {
        let info = "pos:\t0\nprog_type:\t27\nrecursion_misses:\t0\nverified_insns:\t4711\n";
        assert_eq!(number(info, "verified_insns:"), Some(4711));
        assert_eq!(number("pos:\t0\n", "verified_insns:"), None, "an older kernel does not say");
    }
}

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

/// `Decisions` from the list of those that the BPF program counts, in the order of `EACH_DECISION` in `bpf/lib/counts.h`.
macro_rules! decisions {
    ($($(#[$doc:meta])* $name:ident,)+) => {
        /// Counters of one CPU.
        pub(crate) const DECISIONS: usize = Decisions::NAMES.len();

        /// How often the scheduler took each of its ways, so far.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Decisions {
            $($(#[$doc])* pub $name: u64,)+
            /// A thread that was kept behind a real-time thread was fetched.
            pub fetched: u64,
        }

        impl Decisions {
            /// Those that the BPF program counts, in its order.
            #[doc(hidden)]
            pub const NAMES: &[&str] = &[$(stringify!($name)),+];

            fn add(&mut self, counts: [u64; DECISIONS]) {
                let [$($name),+] = counts;
                $(self.$name += $name;)+
            }
        }
    };
}

decisions! {
    /// A wake-up took a CPU from another workload.
    preempted,
    /// A best-effort thread stayed on its CPU behind a real-time thread.
    stayed,
    /// Or behind a latency-critical one.
    made_way,
    /// One that had stayed or made way went to a queue all the same.
    in_vain,
    /// A starving thread had a turn.
    starving,
    /// A cgroup used up its quota.
    throttled,
    /// A thread came, and its workload got no CPU by the rules.
    refused,
    /// A wake-up took a CPU from a thread of its own queue that was far ahead.
    overtaken,
    /// Others had a turn while a server had work and budget.
    beside_server,
    /// A thread that was preempted in the kernel was boosted there, as latency-critical work was blocked.
    passed,
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

    #[test]
    fn decisions_have_the_names_and_the_order_of_the_program() {
        let header = include_str!("bpf/lib/counts.h");
        let entries = header.lines().filter_map(|line| {
            let entry = line.trim().strip_prefix("DUMPED(").or_else(|| line.trim().strip_prefix("COUNTED("))?;
            let (decision, name) = entry.split_once(')')?.0.split_once(", ")?;
            assert_eq!(format!("\"{}\"", decision.to_lowercase()), name);
            Some(decision.to_lowercase())
        });
        assert_eq!(entries.collect::<Vec<_>>(), Decisions::NAMES);
    }
}

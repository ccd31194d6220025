//! Memory's slowdown by a canary: the time of a few accesses against their time while memory was quiet. For machines
//! without counters, as virtual machines mostly are; it takes no privilege.

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod lines;
#[cfg(test)]
mod tests;

use std::fmt::Debug;

use quell_model::{Capabilities, Nanos, Quality, Sample, Signal, SignalSet, Support, View};

use super::Sensor;
use crate::clock::Look;
use crate::members::Members;
use crate::{LinuxError, Roots, clock};

/// No look more often than this …
const INTERVAL: Nanos = Nanos::from_millis(1);
/// … and no more than a twentieth of a CPU for all.
const LOOKING_SHARE: u64 = 20;

/// The median of this many measurements is reported: on a virtual machine one in a hundred takes half as long again as
/// most.
const RECENT: usize = 5;

/// The median of this many is a candidate for the latency of quiet memory.
const BLOCK: usize = 16;

/// Is it known how to make accesses that no cache answers?
const IS_KNOWN: bool = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));

/// The memory that is timed.
trait Memory: Debug + Send {
    /// Nanoseconds of an access, now.
    fn access_ns(&mut self) -> f64;
}

/// The signal. Nothing is timed before a policy asks.
#[derive(Debug)]
pub(crate) struct Canary {
    is_this_machine: bool,
    memory: Option<Box<dyn Memory>>,
    looked: Look,
    /// The last times.
    recent: [f64; RECENT],
    /// Times since the last whole block, …
    block: Vec<f64>,
    /// … and the least of all blocks' medians.
    quiet_ns: Option<f64>,
    slowdown: Sample<f64>,
}

impl Canary {
    /// That of this machine, or of a machine of plain files, which has no memory of its own.
    pub fn new(roots: &Roots) -> Canary {
        Canary {
            is_this_machine: roots.is_this_machine(),
            memory: None,
            looked: Look::default(),
            recent: [0.0; RECENT],
            block: Vec::with_capacity(BLOCK),
            quiet_ns: None,
            slowdown: Sample::default(),
        }
    }

    /// Reports what it can measure here.
    fn report(&self, found: &mut Capabilities) {
        let support = match self.memory.is_some() || self.is_this_machine && IS_KNOWN {
            true => Support::Partly(
                "estimated by timing a few accesses each millisecond, against the least time so far: it shows neither how many \
                 bytes are moved nor by which workload"
                    .into(),
            ),
            false => Support::No {
                why: "it needs uncached accesses, for which no method is known on this CPU architecture".into(),
                fix: "use an x86-64 or ARM64 machine, or `thresh_bw` where the bandwidth is counted".into(),
            },
        };
        found.signals.insert(Signal::MemorySlowdown, support);
    }

    /// Fills the view with it if it is wanted; measures when due.
    fn fill(&mut self, wanted: SignalSet, view: &mut View) {
        if !wanted.contains(Signal::MemorySlowdown) {
            return;
        }
        if self.memory.is_none() && self.is_this_machine {
            self.memory = memory_of_this_machine();
        }
        let now = clock::now();
        let is_due = self.looked.next(INTERVAL, LOOKING_SHARE).is_none_or(|next| now >= next);
        if let Some(memory) = self.memory.as_mut().filter(|_| is_due) {
            let begun = clock::cpu_time();
            let access_ns = memory.access_ns();
            self.looked = Look { at: Some(now), cost: clock::cpu_time() - begun };
            self.learn(access_ns, now);
        }
        view.machine.memory_slowdown = self.slowdown;
    }

    fn learn(&mut self, access_ns: f64, now: Nanos) {
        self.recent.rotate_left(1);
        self.recent[RECENT - 1] = access_ns;
        self.block.push(access_ns);
        if self.block.len() == BLOCK {
            let quiet_ns = median(&mut self.block);
            self.quiet_ns = Some(self.quiet_ns.map_or(quiet_ns, |least| least.min(quiet_ns)));
            self.block.clear();
        }
        self.slowdown = match self.quiet_ns {
            Some(quiet_ns) => {
                let slowdown = median(&mut self.recent.clone()) / quiet_ns.max(f64::MIN_POSITIVE);
                Sample { quality: Quality::Estimated, ..Sample::exact(slowdown, now) }
            }
            None => Sample { quality: Quality::Stale, ..Sample::exact(1.0, now) },
        };
    }
}

impl Sensor for Canary {
    fn report(&self, _: &Members, found: &mut Capabilities) {
        self.report(found);
    }

    fn observe(&mut self, wanted: SignalSet, _: &mut Members, view: &mut View) -> Result<(), LinuxError> {
        self.fill(wanted, view);
        Ok(())
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

fn memory_of_this_machine() -> Option<Box<dyn Memory>> {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    return Some(Box::new(lines::Lines::new()));
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    None
}

#[cfg(test)]
impl Canary {
    fn with_memory(memory: Box<dyn Memory>) -> Canary {
        Canary { memory: Some(memory), ..Canary::new(&Roots::under("/nowhere".as_ref())) }
    }
}

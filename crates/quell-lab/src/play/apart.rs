//! CPUs of their own for load generators, so that what those take of a CPU is not taken from a workload.

use std::path::Path;

use anyhow::{Context, Result, bail};
use quell_linux::sched::{Kernel, ThreadCalls};
use quell_linux::sysfs;
use quell_model::CpuSet;

/// The calling thread.
const SELF: i32 = 0;

/// The machine's CPUs in two parts.
pub struct Apart {
    generators: CpuSet,
    rest: CpuSet,
}

impl Apart {
    /// Leaves these CPUs to generators: this thread, and what it starts from now on, runs on the others.
    pub fn new(generators: &CpuSet) -> Result<Apart> {
        let apart = Apart::of(generators, &sysfs::online(Path::new("/sys"))?)?;
        run_on(&apart.rest)?;
        Ok(apart)
    }

    fn of(generators: &CpuSet, online: &CpuSet) -> Result<Apart> {
        let rest = online.difference(generators);
        if generators.is_empty() || rest.is_empty() || !generators.is_subset(online) {
            bail!("--generators {generators}: give some of the CPUs {online}, not all of them");
        }
        Ok(Apart { generators: *generators, rest })
    }

    /// One each: where the kernel isolates them it does not balance them.
    fn of_turn(&self, turn: usize) -> CpuSet {
        self.generators.iter().nth(turn % self.generators.len()).map(CpuSet::one).unwrap_or_default()
    }

    /// The CPUs of all else.
    pub fn rest(&self) -> &CpuSet {
        &self.rest
    }

    /// Starts a generator on the CPU whose turn it is, the `turn`th.
    pub fn start<T>(&self, turn: usize, start: impl FnOnce() -> Result<T>) -> Result<T> {
        run_on(&self.of_turn(turn))?;
        let started = start();
        run_on(&self.rest)?;
        started
    }
}

fn run_on(cpus: &CpuSet) -> Result<()> {
    Kernel::new()?.set_affinity(SELF, cpus).with_context(|| format!("run on CPUs {cpus}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generators_have_some_cpus_and_all_else_the_others() {
        let set = |text: &str| text.parse::<CpuSet>().unwrap();
        let of = |generators: &str| Apart::of(&set(generators), &set("0-4"));
        assert_eq!(of("4").unwrap().rest(), &set("0-3"));
        assert_eq!([0, 1, 2].map(|turn| of("3-4").unwrap().of_turn(turn)), ["3", "4", "3"].map(set));
        for bad in ["", "0-4", "5"] {
            assert!(of(bad).is_err(), "{bad}");
        }
    }
}

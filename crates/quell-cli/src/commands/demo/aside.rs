//! Keeping the demo's own load off the CPUs that a phase gave to the server alone.

use anyhow::{Context, Result};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Does `work`, which may start threads, on the CPUs that the server has not for itself; everywhere where it has none, or all.
/// Returns with the result if it was kept off any.
pub fn of<T>(server: i32, work: impl FnOnce() -> Result<T>) -> Result<(T, bool)> {
    let ours = sched_getaffinity(None).context("cannot read this thread's CPUs")?;
    let theirs = sched_getaffinity(Pid::from_raw(server)).context("cannot read memcached's CPUs")?;
    let Some(rest) = without(&ours, &theirs) else {
        return work().map(|result| (result, false));
    };
    sched_setaffinity(None, &rest).context("cannot keep the load generator off the server's CPUs")?;
    let result = work();
    sched_setaffinity(None, &ours).context("cannot restore the demo's own CPU affinity")?;
    result.map(|result| (result, true))
}

/// `ours` without `theirs`, if that is less and not nothing.
fn without(ours: &CpuSet, theirs: &CpuSet) -> Option<CpuSet> {
    let mut rest = CpuSet::new();
    (0..CpuSet::MAX_CPU).filter(|cpu| ours.is_set(*cpu) && !theirs.is_set(*cpu)).for_each(|cpu| rest.set(cpu));
    (rest.count() > 0 && rest.count() < ours.count()).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(cpus: &[usize]) -> CpuSet {
        let mut set = CpuSet::new();
        cpus.iter().for_each(|cpu| set.set(*cpu));
        set
    }

    #[test]
    fn the_generator_gets_what_the_server_has_not_for_itself() {
        assert_eq!(without(&set(&[0, 1, 2]), &set(&[2])), Some(set(&[0, 1])));
        assert_eq!(without(&set(&[0, 1]), &set(&[0, 1, 2])), None, "the server has no CPU of its own");
        assert_eq!(without(&set(&[0, 1]), &set(&[5])), None, "it is off them anyway");
    }

    #[test]
    fn afterwards_the_demo_has_its_cpus_again() {
        let before = sched_getaffinity(None).unwrap();
        // Itself as the server: it shares all of its CPUs, and nothing is changed.
        let (seen, kept_off) = of(std::process::id().cast_signed(), || Ok(sched_getaffinity(None)?)).unwrap();
        assert_eq!((seen == before, kept_off), (true, false));
        assert_eq!(sched_getaffinity(None).unwrap(), before);
    }
}

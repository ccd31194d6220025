//! How long a server's threads wait for a CPU while it is under load: what its clients find, wherever the load comes from.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use quell_linux::procfs::ProcFs;

/// Does `work`; with its result the largest share of that time in which one of the process's threads was runnable without running.
/// None where the kernel does not count that.
pub fn during<T>(pid: i32, work: impl FnOnce() -> Result<T>) -> Result<(T, Option<f64>)> {
    let (begun, before) = (Instant::now(), delays(pid));
    let done = work()?;
    let share = before.zip(delays(pid)).and_then(|(before, after)| most(&before, &after, begun.elapsed().as_nanos()));
    Ok((done, share))
}

/// Each thread's time so far that it was runnable without running, ns.
fn delays(pid: i32) -> Option<BTreeMap<i32, u64>> {
    let mut proc = ProcFs::open(Path::new("/proc")).ok()?;
    let mut tids = Vec::new();
    proc.threads(pid, &mut tids).ok()?;
    let mut delay = |tid: i32| Some((tid, proc.schedstat(pid, tid).ok()??.run_delay.0));
    Some(tids.into_iter().filter_map(&mut delay).collect())
}

/// The largest share. A thread that is new has waited since its start.
fn most(before: &BTreeMap<i32, u64>, after: &BTreeMap<i32, u64>, span_ns: u128) -> Option<f64> {
    let waited = after.iter().map(|(tid, ns)| ns.saturating_sub(before.get(tid).copied().unwrap_or(0))).max()?;
    Some(waited as f64 / (span_ns as f64).max(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thread_that_waited_most_counts() {
        let of = |pairs: &[(i32, u64)]| pairs.iter().copied().collect::<BTreeMap<_, _>>();
        assert_eq!(most(&of(&[(1, 100), (2, 7)]), &of(&[(1, 150), (2, 7), (3, 200)]), 1000), Some(0.2));
        assert_eq!(most(&of(&[]), &of(&[]), 1000), None);
    }

    #[test]
    fn this_process_has_delays() {
        let (_, share) = during(std::process::id().cast_signed(), || Ok(())).unwrap();
        assert!(share.is_none_or(|share| share >= 0.0));
    }
}

//! Looks at the threads of services, every 10 ms.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use quell_linux::procfs::ProcFs;
use quell_linux::target::{Found, Processes};
use quell_model::{Nanos, ThreadId};
use quell_policy::recommend::{Looks, Watch};

/// From one look to the next, for few threads.
const BETWEEN_LOOKS: Nanos = Nanos::from_millis(10);

/// More time from one look to the next, for each thread: looking takes little of a CPU, however many there are.
const EACH_THREAD: Nanos = Nanos::from_micros(100);

/// New processes and threads are looked for this often.
const BETWEEN_SCANS: Nanos = Nanos::from_millis(500);

/// A service is looked at for this time.
pub const LENGTH: Nanos = Nanos::from_secs(3);

/// Looks for this time, or until `stop`; none if the services have ended before the second look.
pub fn look(
    proc: &mut ProcFs,
    subjects: &[&Found],
    length: Nanos,
    stop: &AtomicBool,
    progress: &dyn Fn(u64),
) -> Result<Option<Looks>> {
    let begin = quell_linux::now();
    let mut watch = Watch::default();
    let mut threads: Vec<(i32, ThreadId)> = Vec::new();
    let mut scanned = None::<Nanos>;
    let mut paused: BTreeMap<ThreadId, u64> = BTreeMap::new();
    loop {
        let now = quell_linux::now();
        if scanned.is_none_or(|at| now - at >= BETWEEN_SCANS) {
            threads = scan(proc, subjects)?;
            watch.count_pauses(pauses(proc, &threads, &mut paused)?);
            scanned = Some(now);
        }
        let mut times = Vec::with_capacity(threads.len());
        for &(pid, thread) in &threads {
            if let Some(times_of) = proc.schedstat(pid, thread.tid)? {
                times.push((thread, times_of.run_time, times_of.run_delay));
            }
        }
        if times.is_empty() {
            break;
        }
        watch.look(now, times);
        progress((now - begin).0 / 1_000_000);
        if now - begin >= length || stop.load(Ordering::Relaxed) {
            break;
        }
        let between = BETWEEN_LOOKS.max(Nanos(EACH_THREAD.0 * threads.len() as u64));
        std::thread::sleep(Duration::from_nanos(between.0.saturating_sub((quell_linux::now() - now).0)));
    }
    watch.count_pauses(pauses(proc, &threads, &mut paused)?);
    Ok(watch.found())
}

/// Voluntary switches of these threads since the last call, in which new ones count nothing.
fn pauses(proc: &mut ProcFs, threads: &[(i32, ThreadId)], before: &mut BTreeMap<ThreadId, u64>) -> Result<u64> {
    let mut sum = 0;
    for &(pid, thread) in threads {
        if let Some((own, _)) = proc.switches(pid, thread.tid)? {
            sum += before.insert(thread, own).map_or(0, |known| own.saturating_sub(known));
        }
    }
    Ok(sum)
}

/// The threads of the services' processes and of their descendants.
fn scan(proc: &mut ProcFs, subjects: &[&Found]) -> Result<Vec<(i32, ThreadId)>> {
    let processes = Processes::read(proc)?;
    let is_same = |id: &&ThreadId| processes.get(id.tid).is_some_and(|process| process.start == id.start);
    let known = subjects.iter().flat_map(|subject| subject.processes.iter()).filter(is_same);
    let known: Vec<i32> = known.map(|id| id.tid).collect();
    let mut threads = Vec::new();
    let mut tids = Vec::new();
    for pid in processes.with_descendants(&known) {
        tids.clear();
        proc.threads(pid, &mut tids)?;
        for &tid in &tids {
            if let Some(stat) = proc.stat(pid, tid)? {
                threads.push((pid, ThreadId { tid, start: stat.start }));
            }
        }
    }
    Ok(threads)
}

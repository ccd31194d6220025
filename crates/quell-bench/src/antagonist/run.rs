//! Running an antagonist: its threads, its clock, its end.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{OnceLock, mpsc};
use std::thread;
use std::time::Duration;

use quell_thread::clock;

use super::progress::Progress;
use super::report::{AntagonistReport, Sample};
use super::spec::AntagonistSpec;
use super::work::Shared;
use crate::{Error, Result};

/// Distance of the timeline's points, ns.
pub const SAMPLE_NS: u64 = 100_000_000;
/// The longest sleep in a quiet phase, ns: how soon a stop is seen.
const LONGEST_SLEEP_NS: u64 = 20_000_000;

/// Runs an antagonist until its time is over or `stop` is set. `progress` must have a counter for each of its threads.
///
/// # Errors
/// A bad spec, or no thread to be had.
pub fn run(spec: &AntagonistSpec, progress: &Progress, stop: &AtomicBool) -> Result<AntagonistReport> {
    spec.check()?;
    debug_assert_eq!(progress.thread_blocks().count(), spec.threads as usize);
    let shared = Shared::new(spec)?;
    let (ready, all_ready) = mpsc::channel();
    // The common start, or nothing if there will be none.
    let go = OnceLock::<Option<u64>>::new();
    thread::scope(|scope| {
        let mut workers = Vec::with_capacity(spec.threads as usize);
        for number in 0..spec.threads {
            let (shared, go, ready) = (&shared, &go, ready.clone());
            let work = move || {
                let mut work = shared.thread(number);
                // The receiver outlives all threads.
                let _ = ready.send(());
                let Some(started_ns) = *go.wait() else { return [0; 2] };
                let before = clock::cpu_time().0;
                let pause_ns = drive(spec, started_ns, progress.counter(number), stop, || work.block());
                [clock::cpu_time().0 - before + work.elsewhere_ns(), pause_ns]
            };
            match thread::Builder::new().name(format!("quell-{}", spec.kind.name())).spawn_scoped(scope, work) {
                Ok(worker) => workers.push(worker),
                Err(error) => {
                    let _ = go.set(None);
                    return Err(Error::system("start a thread", format!("antagonist thread {number}"))(error));
                }
            }
        }
        drop(ready);
        all_ready.iter().take(spec.threads as usize).for_each(drop);
        let started_ns = clock::now().0;
        progress.start(started_ns);
        let _ = go.set(Some(started_ns));
        let timeline = sample(started_ns, spec.duration_ns, progress, stop);
        let mut had = [0, 0];
        for worker in workers {
            let [cpu_ns, pause_ns] = worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            had = [had[0] + cpu_ns, had[1].max(pause_ns)];
        }
        Ok(report(spec, progress, started_ns, had, timeline))
    })
}

/// One thread: blocks, and sleep in quiet phases, until the end. Returns the longest time from one block to the next, ns.
fn drive(
    spec: &AntagonistSpec,
    started_ns: u64,
    counter: &AtomicU64,
    stop: &AtomicBool,
    mut block: impl FnMut(),
) -> u64 {
    let (mut done, mut longest_ns) = (0, 0);
    let mut last: Option<u64> = None;
    loop {
        let since_start = clock::now().0 - started_ns;
        longest_ns = last.map_or(longest_ns, |last| longest_ns.max(since_start - last));
        last = Some(since_start);
        if since_start >= spec.duration_ns || stop.load(Relaxed) {
            return longest_ns;
        }
        if let Some(until) = spec.phase.and_then(|phase| phase.quiet_until(since_start)) {
            let left = until.min(spec.duration_ns) - since_start;
            thread::sleep(Duration::from_nanos(left.min(LONGEST_SLEEP_NS)));
            last = None;
            continue;
        }
        block();
        done += 1;
        counter.store(done, Relaxed);
    }
}

fn sample(started_ns: u64, duration_ns: u64, progress: &Progress, stop: &AtomicBool) -> Vec<Sample> {
    let mut timeline = vec![Sample { at_ns: started_ns, blocks: 0 }];
    let mut next = started_ns;
    loop {
        next += SAMPLE_NS;
        while !stop.load(Relaxed) && clock::now().0 < next.min(started_ns + duration_ns) {
            let left = next.min(started_ns + duration_ns).saturating_sub(clock::now().0);
            thread::sleep(Duration::from_nanos(left.min(LONGEST_SLEEP_NS)));
        }
        let now = clock::now().0;
        timeline.push(Sample { at_ns: now, blocks: progress.blocks() });
        if stop.load(Relaxed) || now >= started_ns + duration_ns {
            return timeline;
        }
        // Kept from running: no flood of points afterwards.
        next = next.max(now.saturating_sub(SAMPLE_NS));
    }
}

fn report(
    spec: &AntagonistSpec,
    progress: &Progress,
    started_ns: u64,
    [cpu_ns, longest_pause_ns]: [u64; 2],
    mut timeline: Vec<Sample>,
) -> AntagonistReport {
    let ended_ns = clock::now().0;
    let elapsed_ns = ended_ns - started_ns;
    let seconds = elapsed_ns as f64 / 1e9;
    let blocks = progress.blocks();
    timeline.push(Sample { at_ns: ended_ns, blocks });
    let blocks_per_s = blocks as f64 / seconds;
    AntagonistReport {
        spec: spec.clone(),
        started_ns,
        elapsed_ns,
        blocks,
        blocks_per_s,
        bytes_per_s: blocks_per_s * Shared::bytes_per_block(spec.kind) as f64,
        cpus: cpu_ns as f64 / elapsed_ns as f64,
        thread_blocks: progress.thread_blocks().collect(),
        longest_pause_ns,
        timeline,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::antagonist::{Kind, Phase};

    fn short(kind: Kind) -> AntagonistSpec {
        AntagonistSpec {
            duration_ns: 400_000_000,
            working_set_bytes: 4 << 20,
            phase: None,
            ..AntagonistSpec::usual(kind, 2, 1 << 20)
        }
    }

    fn run_alone(spec: &AntagonistSpec) -> AntagonistReport {
        let progress = Progress::create(None, spec.threads).unwrap();
        run(spec, &progress, &AtomicBool::new(false)).unwrap()
    }

    #[test]
    fn every_kind_works_on_every_thread_and_ends_by_itself() {
        for kind in Kind::ALL {
            let report = run_alone(&short(kind));
            assert!(report.elapsed_ns >= 400_000_000);
            assert!(report.thread_blocks.iter().all(|blocks| *blocks > 0), "{:?}", report.thread_blocks);
            assert_eq!(report.thread_blocks.iter().sum::<u64>(), report.blocks);
            assert_eq!(report.bytes_per_s > 0.0, kind.uses_memory());
            assert!(report.cpus > 0.0);
            assert!(report.timeline.len() >= 3);
            assert!(report.timeline.is_sorted_by_key(|s| s.at_ns) && report.timeline.is_sorted_by_key(|s| s.blocks));
            let end = report.timeline.last().unwrap().at_ns;
            let rate = report.blocks_per_s_between(report.started_ns, end).unwrap();
            assert!((rate / report.blocks_per_s - 1.0).abs() < 0.01);
        }
    }

    #[test]
    fn a_stop_ends_it_long_before_its_time() {
        let spec = AntagonistSpec { duration_ns: 600_000_000_000, ..short(Kind::Cpu) };
        let progress = Progress::create(None, 2).unwrap();
        let stop = AtomicBool::new(false);
        let begin = Instant::now();
        let report = thread::scope(|scope| {
            let running = scope.spawn(|| run(&spec, &progress, &stop).unwrap());
            while progress.blocks() < 10 {
                thread::sleep(Duration::from_millis(1));
            }
            stop.store(true, Relaxed);
            running.join().unwrap()
        });
        assert!(report.blocks >= 10);
        assert!(begin.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn a_collector_is_quiet_for_its_share() {
        let phase = Phase { period_ns: 400_000_000, duty: 0.5 };
        let spec =
            AntagonistSpec { threads: 1, phase: Some(phase), duration_ns: 1_200_000_000, ..short(Kind::Collector) };
        let report = run_alone(&spec);
        assert!(report.blocks > 0);
        assert!(report.cpus < 0.7, "{} CPUs for a duty of a half", report.cpus);
        let quiet = report.timeline.windows(2).filter(|w| w[0].blocks == w[1].blocks).count();
        assert!(quiet >= 1, "{:?}", report.timeline);
    }
}

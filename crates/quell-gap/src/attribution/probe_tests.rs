//! Bursts on this machine, of real threads that never stop wanting one CPU. The truth is what the kernel counts: a service that
//! always wants the CPU waits for a neighbour exactly as long as that runs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quell_linux::procfs::ProcFs;
use quell_model::{CpuId, CpuSet, Nanos};

use super::*;
use crate::constructed::{Group, Hierarchy, KernelFlood, MeasureFirst, Spinner};
use crate::{GapError, Machine};

const BURST: Nanos = Nanos::from_secs(1);

/// One scene at a time: all want the same CPU.
static STAGE: Mutex<()> = Mutex::new(());

struct Scene {
    probe: Probe,
    proc: ProcFs,
    cpu: CpuSet,
    groups: Group,
    _first: MeasureFirst,
    _alone: MutexGuard<'static, ()>,
}

/// None: this machine allows no tracing or no cgroups, and there is nothing to test.
fn scene() -> Option<Scene> {
    let alone = STAGE.lock().unwrap_or_else(PoisonError::into_inner);
    let machine = Machine::here().unwrap();
    let probe = match Probe::open(&machine) {
        Ok(probe) => probe,
        Err(GapError::Trace(error)) => {
            eprintln!("not tested here: {error}");
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    let groups = Hierarchy::find()?.around().unwrap();
    let cpu = CpuSet::one(machine.cpus.iter().last().unwrap_or(CpuId(0)));
    Some(Scene {
        probe,
        proc: ProcFs::open(&machine.proc).unwrap(),
        cpu,
        groups,
        _first: MeasureFirst::begin(),
        _alone: alone,
    })
}

/// A spinning process in a cgroup of its own.
struct Part {
    spinner: Spinner,
    group: Group,
}

impl Scene {
    fn part(&self, name: &str) -> Part {
        let group = self.groups.group(name, 1).unwrap();
        let spinner = Spinner::start(self.cpu).unwrap();
        group.admit(spinner.pid()).unwrap();
        Part { spinner, group }
    }

    /// Time that a part ran and waited so far.
    fn times(&mut self, part: &Part) -> (f64, f64) {
        let times = self.proc.schedstat(part.spinner.pid(), part.spinner.pid()).unwrap().unwrap();
        (times.run_time.as_secs_f64(), times.run_delay.as_secs_f64())
    }

    /// A burst with these workloads; the shares of the first, and what it waited by the kernel's count.
    fn burst(&mut self, workloads: &[(&str, &Part)], others: &[&Part]) -> (Shares, f64, Vec<f64>) {
        let names = workloads.iter().map(|(name, _)| (*name).to_owned()).collect();
        let threads =
            workloads.iter().zip(0..).map(|((_, part), slot)| (part.spinner.pid(), part.spinner.pid(), slot)).collect();
        let crew = Crew { names, threads };
        let all: Vec<&Part> = workloads.iter().map(|(_, part)| *part).chain(others.iter().copied()).collect();
        let before: Vec<_> = all.iter().map(|part| self.times(part)).collect();
        let traced = self.probe.burst(&crew, BURST, Nanos::MAX, &|| true).unwrap();
        let after: Vec<_> = all.iter().map(|part| self.times(part)).collect();
        assert!(!traced.is_broken && !traced.is_cut && traced.events > 0, "{traced:?}");
        assert!(traced.cost > Nanos::ZERO && traced.cost < BURST, "{}", traced.cost);
        let ran = before.iter().zip(&after).map(|(before, after)| after.0 - before.0).collect();
        (traced.shares[0].clone(), after[0].1 - before[0].1, ran)
    }
}

/// Seconds of a cause.
fn seconds(shares: &Shares, key: &Key) -> f64 {
    shares.get(key).share * shares.waited.as_secs_f64()
}

#[track_caller]
fn assert_near(is: f64, truth: f64, all: f64, what: &str) {
    assert!((is - truth).abs() <= 0.05 * all + 0.01, "{what}: {is:.3} s where it was {truth:.3} s of {all:.3} s");
}

/// All but these together, the machine's own work, is blamed for no more than what it ran: what the service, which always wants
/// the CPU, waited beyond what these ran.
#[track_caller]
fn assert_no_other_is_blamed(shares: &Shares, known: &[Key], ran: f64) {
    let is_blamed =
        |key: &Key| matches!(key.cause, Cause::Workload | Cause::Unmanaged | Cause::Kernel | Cause::OwnLimit);
    let others = shares.of.iter().filter(|(key, _)| is_blamed(key) && !known.contains(key));
    let (all, blamed) = (shares.waited.as_secs_f64(), others.map(|(_, share)| share.share).sum::<f64>());
    assert!(blamed * all <= (all - ran).max(0.0) + 0.05 * all + 0.01, "{known:?} ran {ran} s: {shares:?}");
}

#[test]
fn a_service_beside_workloads_and_an_unmanaged_cgroup_blames_each_for_what_it_ran() {
    let Some(mut scene) = scene() else { return };
    let (web, batch, stranger) = (scene.part("web"), scene.part("batch"), scene.part("stranger"));
    std::thread::sleep(Duration::from_millis(300));
    // Twice: what was traced before does not count again.
    for _ in 0..2 {
        let (shares, waited, ran) = scene.burst(&[("web", &web), ("batch", &batch)], &[&stranger]);
        let all = shares.waited.as_secs_f64();
        assert_near(all, waited, all, "all");
        assert_near(seconds(&shares, &Key::by(Cause::Workload, "batch")), ran[1], all, "the workload");
        assert_near(seconds(&shares, &Key::by(Cause::Unmanaged, "stranger")), ran[2], all, "the cgroup");
        assert_no_other_is_blamed(
            &shares,
            &[Key::by(Cause::Workload, "batch"), Key::by(Cause::Unmanaged, "stranger")],
            ran[1] + ran[2],
        );
    }
}

#[test]
fn a_thread_of_the_kernel_that_floods_a_cpu_is_blamed_by_its_name_also_beside_a_workload() {
    let Some(mut scene) = scene() else { return };
    let web = scene.part("web");
    let Some(flood) = KernelFlood::start(scene.cpu) else {
        return eprintln!("not tested here: no thread of the kernel to steer");
    };
    let ran =
        |scene: &mut Scene| scene.proc.schedstat(flood.pid(), flood.pid()).unwrap().unwrap().run_time.as_secs_f64();
    let mut batch = None;
    for beside in [false, true] {
        if beside {
            batch = Some(scene.part("batch"));
        }
        std::thread::sleep(Duration::from_millis(500));
        let workloads: Vec<_> =
            std::iter::once(("web", &web)).chain(batch.iter().map(|part| ("batch", part))).collect();
        let before = ran(&mut scene);
        let (shares, waited, of_workloads) = scene.burst(&workloads, &[]);
        let (flooded, all) = (ran(&mut scene) - before, shares.waited.as_secs_f64());
        let (kernel, workload) = (Key::by(Cause::Kernel, "ksmd"), Key::by(Cause::Workload, "batch"));
        assert!(flooded > 0.02, "it floods: {flooded} s");
        assert_near(all, waited, all, "all");
        assert_near(seconds(&shares, &kernel), flooded, all, "the kernel's thread");
        let of_workload = of_workloads.get(1).copied().unwrap_or(0.0);
        assert_near(seconds(&shares, &workload), of_workload, all, "the workload");
        assert_no_other_is_blamed(&shares, &[kernel, workload], flooded + of_workload);
    }
}

#[test]
fn a_service_at_its_own_limit_blames_that_and_not_what_runs_beside_it() {
    let Some(mut scene) = scene() else { return };
    let web = scene.part("limited");
    // A tenth of a CPU.
    web.group.limit(Nanos::from_millis(10), Nanos::from_millis(100)).unwrap();
    std::thread::sleep(Duration::from_millis(500));
    let (shares, ..) = scene.burst(&[("web", &web)], &[]);
    let limit = shares.get(&Key::of(Cause::OwnLimit)).share;
    assert!(limit > 0.9, "{limit}: {shares:?}");
    let batch = scene.part("batch");
    std::thread::sleep(Duration::from_millis(500));
    let (shares, waited, ran) = scene.burst(&[("web", &web), ("batch", &batch)], &[]);
    let all = shares.waited.as_secs_f64();
    // As much quota as before, and the neighbour is at its side while there is some: 10 ms of each 100 ms.
    let blamed = seconds(&shares, &Key::by(Cause::Workload, "batch"));
    assert!(blamed <= 0.2 + 0.05 * all, "{blamed} of {waited}, while it ran {ran:?}: {shares:?}");
    assert!(shares.get(&Key::of(Cause::OwnLimit)).share > 0.75, "{shares:?}");
}

#[test]
fn causes_that_take_turns_are_distinguished_a_workload_and_an_unmanaged_cgroup_too() {
    let Some(mut scene) = scene() else { return };
    let (web, one, other) = (scene.part("web"), scene.part("one"), scene.part("other"));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (first, second) = (one.spinner.pid(), other.spinner.pid());
        let stop = &stop;
        scope.spawn(move || {
            let signal = |pid: i32, signal| {
                let pid = rustix::process::Pid::from_raw(pid).unwrap();
                let _ = rustix::process::kill_process(pid, signal);
            };
            let mut turn = false;
            while !stop.load(Ordering::Acquire) {
                let (runs, stands) = if turn { (first, second) } else { (second, first) };
                signal(stands, rustix::process::Signal::STOP);
                signal(runs, rustix::process::Signal::CONT);
                turn = !turn;
                std::thread::sleep(Duration::from_millis(300));
            }
        });
        std::thread::sleep(Duration::from_millis(300));
        let both = scene.burst(&[("web", &web), ("one", &one), ("other", &other)], &[]);
        let managed = scene.burst(&[("web", &web), ("one", &one)], &[&other]);
        stop.store(true, Ordering::Release);
        for ((shares, _, ran), cause) in [(both, Cause::Workload), (managed, Cause::Unmanaged)] {
            let all = shares.waited.as_secs_f64();
            let (one, other) = (Key::by(Cause::Workload, "one"), Key::by(cause, "other"));
            assert_near(seconds(&shares, &one), ran[1], all, "one");
            assert_near(seconds(&shares, &other), ran[2], all, "other");
            assert_no_other_is_blamed(&shares, &[one, other], ran[1] + ran[2]);
        }
    });
}

#[test]
fn short_waits_of_many_threads_have_the_causes_that_an_exact_account_of_every_switch_says() {
    let Some(mut scene) = scene() else { return };
    let cpu = scene.cpu;
    let batch = Spinner::start(cpu).unwrap();
    let (stop, tids) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        // Threads of three workloads that run shortly and often, each workload a little longer than the one before.
        for number in 0..24u16 {
            let (stop, tids) = (&stop, &tids);
            scope.spawn(move || {
                let mut on = rustix::thread::CpuSet::new();
                cpu.iter().for_each(|cpu| on.set(cpu.index()));
                rustix::thread::sched_setaffinity(None, &on).unwrap();
                let tid = rustix::thread::gettid().as_raw_nonzero().get();
                tids.lock().unwrap().push((tid, std::process::id().cast_signed(), number % 3));
                while !stop.load(Ordering::Acquire) {
                    let end = std::time::Instant::now() + Duration::from_micros(30 + 30 * u64::from(number % 3));
                    while std::time::Instant::now() < end {}
                    std::thread::sleep(Duration::from_millis(2));
                }
            });
        }
        while tids.lock().unwrap().len() < 24 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut threads = tids.lock().unwrap().clone();
        threads.push((batch.pid(), batch.pid(), 3));
        let names = ["short", "longer", "longest", "batch"].map(str::to_owned).to_vec();
        let crew = Crew { names, threads };
        let (ready, over) = (AtomicBool::new(false), AtomicBool::new(false));
        let (traced, events) = std::thread::scope(|scope| {
            let events = scope.spawn(|| exact::events(&crew, &ready, &over));
            while !ready.load(Ordering::Acquire) && !events.is_finished() {
                std::thread::sleep(Duration::from_millis(1));
            }
            let traced = scene.probe.burst(&crew, BURST, Nanos::MAX, &|| true);
            over.store(true, Ordering::Release);
            (traced.unwrap(), events.join().unwrap())
        });
        stop.store(true, Ordering::Release);
        assert!(!traced.is_broken && traced.events > 2_000, "{traced:?}");
        let window = &traced.shares[0];
        let exact = exact::shares(&crew, &events, window.begin, window.end);
        for (shares, exact) in traced.shares.iter().zip(&exact) {
            let mut found = std::collections::BTreeMap::<Key, f64>::new();
            for (key, share) in &shares.of {
                // The exact account has one name for all that is no workload's.
                let is_workloads = matches!(key.cause, Cause::Workload | Cause::OwnThreads | Cause::IdleCpu);
                let key = if is_workloads { key.clone() } else { Key::of(Cause::Other) };
                *found.entry(key).or_default() += share.share;
            }
            for key in found.keys().chain(exact.keys()) {
                let [is, truth] = [&found, exact].map(|shares| shares.get(key).copied().unwrap_or(0.0));
                assert!((is - truth).abs() <= 0.05, "{key:?}: {is:.3} where it was {truth:.3}: {shares:?}, {exact:?}");
            }
        }
    });
}

#[test]
fn two_hundred_threads_cost_little_and_a_burst_beyond_its_bound_ends() {
    let Some(mut scene) = scene() else { return };
    let parts: Vec<Spinner> = (0..200).map(|_| Spinner::start(scene.cpu).unwrap()).collect();
    let threads = parts.iter().map(|part| (part.pid(), part.pid(), (part.pid() % 20) as u16)).collect();
    let crew = Crew { names: (0..20).map(|slot| format!("w{slot}")).collect(), threads };
    let traced = scene.probe.burst(&crew, BURST, Nanos::MAX, &|| true).unwrap();
    // An unoptimized build: some 20 ms at most on any machine; a fifth of a second is a fault.
    assert!(traced.cost < Nanos::from_millis(200), "{}", traced.cost);
    // What the program cost in earlier bursts is paid.
    let short = |scene: &mut Scene| scene.probe.burst(&crew, Nanos::from_millis(200), Nanos::MAX, &|| true).unwrap();
    let per_event = |traced: &Traced| traced.in_kernel.0 as f64 / traced.events as f64;
    let sixth = (0..5).map(|_| short(&mut scene)).last().unwrap();
    // A burst with too few events to measure goes by a guess.
    assert!(per_event(&sixth) < 3.0 * per_event(&traced).max(500.0), "{} of {}", sixth.in_kernel, sixth.events);
    let cut = scene.probe.burst(&crew, BURST, Nanos(1), &|| true).unwrap();
    assert!(cut.is_cut && cut.length < BURST, "{}", cut.length);
    // All at once: each ends in its turn.
    for part in &parts {
        let pid = rustix::process::Pid::from_raw(part.pid()).unwrap();
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}

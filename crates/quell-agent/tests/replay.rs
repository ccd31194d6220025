//! A recorded run gives the same plans again, whatever happened in it.

use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use quell_agent::record::{Record, Recorder, Summary, With, replay};
use quell_agent::stack::{Layer, Stack, Witness};
use quell_agent::watch::SIGNALS;
use quell_model::{CpuCount, CpuSet, Description, Host, HostDomain, Nanos, Policy, Signal, Topology, Wake};
use quell_policy::AnyPolicy;
use quell_sim::contention::ProfileName;
use quell_sim::workload::Arrivals;
use quell_sim::{Faults, Faulty, KernelConfig, SimHost, WorkloadSpec};

/// A machine and what happens on it.
#[derive(Clone, Debug)]
struct Story {
    cores: u32,
    siblings: u32,
    /// Class, CPUs, threads, the part of a CPU that each wants, mean distance of requests in µs.
    workloads: Vec<(bool, u32, u32, f64, Option<u64>)>,
    /// One of this many commands is refused.
    faults: Option<u64>,
    /// Slots that detach, one a millisecond.
    leavers: Vec<usize>,
    turns: u64,
}

fn story() -> impl Strategy<Value = Story> {
    let workload = (any::<bool>(), 0u32..3000, 1u32..4, 0.0f64..=1.0, proptest::option::of(100u64..2000));
    let machine = (1u32..5, 1u32..3, proptest::collection::vec(workload, 1..5));
    let events = (proptest::option::of(any::<u64>()), proptest::collection::vec(0usize..5, 0..3), 20u64..100);
    (machine, events).prop_map(|((cores, siblings, workloads), (faults, leavers, turns))| Story {
        cores,
        siblings,
        workloads,
        faults,
        leavers,
        turns,
    })
}

impl Story {
    /// Where CPUs are granted, Quell's own scheduler lends them.
    fn host(&self, grants: bool) -> Faulty<SimHost> {
        let topology = Topology::synthetic(1, 1, self.cores, self.siblings);
        let workload =
            |(number, &(lc, cpus, threads, demand, distance)): (usize, &(bool, u32, u32, f64, Option<u64>))| {
                let name = format!("w{number}");
                let described = if lc { WorkloadSpec::lc(name, CpuCount(cpus)) } else { WorkloadSpec::be(name) };
                match distance {
                    Some(distance) => {
                        WorkloadSpec { profile: Some(ProfileName::Known("streaming".into())), ..described }.serving(
                            threads,
                            Arrivals::Poisson(1e6 / distance as f64),
                            Nanos::from_micros(20),
                        )
                    }
                    None => described.using(threads, demand),
                }
            };
        let workloads: Vec<WorkloadSpec> = self.workloads.iter().enumerate().map(workload).collect();
        let host = SimHost::new(topology, KernelConfig::default(), &workloads, 1, grants).unwrap();
        let mut host = Faulty::new(host, self.faults.unwrap_or(0)).losing(|host, dice| {
            host.detach(quell_model::WorkloadId(dice % host.slots().max(1) as u32));
        });
        if self.faults.is_some() {
            let (knobs_refused, grants_refused, others_refused, vanishing) = (0.2, 0.2, 0.2, 0.01);
            host.faults = Faults { knobs_refused, grants_refused, others_refused, vanishing, ..Faults::default() };
        }
        host
    }

    /// Runs it with these policies, recorded in this file. Returns how many turns had a step.
    fn record(&self, policies: &[&str], file: &Path) -> u64 {
        let named = |name: &&str| AnyPolicy::named(name).unwrap();
        let mut host = self.host(policies.iter().map(named).any(|policy| describe(&policy).grants));
        let layers = policies.iter().map(|name| Layer::new(named(name), None)).collect();
        let pool = CpuSet::first((self.cores * self.siblings) as usize);
        let mut stack = Stack::new(layers, host.view(), pool).unwrap();
        stack.also_measure(SIGNALS, quell_linux::cpu_time);
        let mut recorder = Recorder::start(file, stack.view(), stack.layers()).unwrap();
        let progress = recorder.progress();
        let mut stepped = 0;
        let mut leavers = self.leavers.iter();
        for turn in 0..self.turns {
            let wake = stack.turn(&mut host).unwrap();
            recorder.turned(stack.view(), stack.layers());
            stepped += u64::from(stack.layers().iter().any(Layer::stepped));
            while stepped > progress().turns + progress().lost + 32 {
                std::thread::yield_now();
            }
            if turn % 10 == 9
                && let Some(&slot) = leavers.next()
            {
                host.detach(quell_model::WorkloadId(slot as u32));
            }
            let latest = host.now() + Nanos::from_millis(20);
            host.wait(wake.sooner(Wake::At(latest))).unwrap();
        }
        drop(recorder);
        stepped
    }
}

fn describe(policy: &AnyPolicy) -> &'static Description {
    Policy::<HostDomain>::describe(policy)
}

/// Replays a file. Returns the summary and how many plans differ from the recorded ones.
fn replayed(file: &Path, with: &With) -> (Summary, u64) {
    let mut record = Record::open(file).unwrap();
    let mut differ = 0;
    let summary = replay(&mut record, with, |step| {
        differ += u64::from(!step.is_same());
        true
    })
    .unwrap();
    (summary, differ)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_policy_replays_byte_for_byte(story in story(), which in 0..AnyPolicy::ALL.len()) {
        let file = tempfile::NamedTempFile::new().unwrap();
        let stepped = story.record(&[AnyPolicy::ALL[which].name], file.path());
        let (summary, differ) = replayed(file.path(), &With::Recorded);
        prop_assert_eq!(summary, Summary { turns: stepped, steps: stepped, lost: 0, torn: false });
        prop_assert_eq!(differ, 0, "{}", AnyPolicy::ALL[which].name);
    }
}

fn busy() -> Story {
    let workloads = vec![(true, 1000, 2, 0.9, Some(300)), (false, 0, 2, 1.0, None)];
    Story { cores: 2, siblings: 1, workloads, faults: None, leavers: vec![], turns: 200 }
}

#[test]
fn every_policy_is_recorded_and_replayed_in_one_busy_run() {
    for policy in AnyPolicy::ALL {
        let file = tempfile::NamedTempFile::new().unwrap();
        let stepped = busy().record(&[policy.name], file.path());
        let (summary, differ) = replayed(file.path(), &With::Recorded);
        assert_eq!((summary.turns, differ), (stepped, 0), "{}", policy.name);
    }
}

#[test]
fn a_stack_replays_with_each_layers_own_pool() {
    let file = tempfile::NamedTempFile::new().unwrap();
    busy().record(&["rkube", "guard"], file.path());
    let (summary, differ) = replayed(file.path(), &With::Recorded);
    assert!(summary.steps > summary.turns && differ == 0, "{summary:?}, {differ} differ");
}

#[test]
fn another_policy_decides_otherwise() {
    let file = tempfile::NamedTempFile::new().unwrap();
    busy().record(&["guard"], file.path());
    let other = With::Other { layer: 0, policy: Box::new(AnyPolicy::named("none").unwrap()) };
    let (summary, differ) = replayed(file.path(), &other);
    assert!(differ > 0 && summary.steps > 100, "{summary:?}: the comparison can find a difference");
    let missing = With::Other { layer: 3, policy: Box::new(AnyPolicy::named("none").unwrap()) };
    let mut record = Record::open(file.path()).unwrap();
    assert!(replay(&mut record, &missing, |_| true).unwrap_err().to_string().contains("layer 3"));
}

/// A disk that stands still while the gate is shut.
struct Disk {
    gate: Arc<Mutex<()>>,
    written: Arc<Mutex<Vec<u8>>>,
}

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let _open = self.gate.lock().unwrap();
        self.written.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_gap_is_counted_and_replay_goes_on_after_it() {
    let (gate, written) = (Arc::new(Mutex::new(())), Arc::new(Mutex::new(Vec::new())));
    let disk = Box::new(Disk { gate: Arc::clone(&gate), written: Arc::clone(&written) });
    let mut host = busy().host(false);
    let layers = vec![Layer::new(AnyPolicy::named("guard").unwrap(), None)];
    let mut stack = Stack::new(layers, host.view(), CpuSet::first(2)).unwrap();
    let mut recorder = Recorder::into(disk, Path::new("disk"), stack.view(), stack.layers()).unwrap();
    let progress = recorder.progress();
    let (mut turns, mut after) = (0, 0);
    let mut shut = Some(gate.lock().unwrap());
    while after < 300 {
        let wake = stack.turn(&mut host).unwrap();
        recorder.turned(stack.view(), stack.layers());
        turns += 1;
        host.wait(wake.sooner(Wake::At(host.now() + Nanos::from_millis(20)))).unwrap();
        if progress().lost >= 10 {
            drop(shut.take());
            after += 1;
            std::thread::sleep(std::time::Duration::from_micros(200));
        }
    }
    drop(recorder);
    let written = std::mem::take(&mut *written.lock().unwrap());
    let mut differ = 0;
    let mut record = Record::read(written.as_slice(), "disk").unwrap();
    let summary = replay(&mut record, &With::Recorded, |step| {
        differ += u64::from(!step.is_same());
        true
    })
    .unwrap();
    assert!(summary.lost >= 10 && summary.turns + summary.lost <= turns, "{summary:?} of {turns}");
    assert!(
        summary.steps < summary.turns && summary.steps > 100,
        "the turn after a gap only sets the state: {summary:?}"
    );
    assert_eq!(differ, 0, "guard's budgets moved on meanwhile, and the state after the gap has that");
}

#[test]
fn a_full_disk_is_said_at_the_start() {
    let host = busy().host(false);
    let error = Recorder::start(Path::new("/dev/full"), &host.view(), &[]).err().unwrap();
    assert!(error.to_string().contains("/dev/full") && error.to_string().contains("has room"), "{error}");
}

#[test]
fn a_killed_agents_record_ends_before_the_torn_turn() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let stepped = busy().record(&["guard"], file.path());
    let whole = std::fs::read(file.path()).unwrap();
    let mut seen_torn = false;
    for cut in [whole.len() - 1, whole.len() - 20, whole.len() / 2] {
        std::fs::write(file.path(), &whole[..cut]).unwrap();
        let (summary, differ) = replayed(file.path(), &With::Recorded);
        assert!(summary.turns <= stepped && differ == 0, "{summary:?}");
        seen_torn |= summary.torn;
    }
    assert!(seen_torn);
    for odd in [&whole[..3], b"no record at all", b""] {
        std::fs::write(file.path(), odd).unwrap();
        assert!(Record::open(file.path()).is_err(), "{odd:?}");
    }
}

#[test]
fn columns_that_do_not_fit_together_are_refused() {
    use quell_agent::record::format::{Header, LayerStart, Turn, VERSION};
    use quell_model::view::{CpuColumns, ThreadColumns, WakeUpColumns, WorkloadColumns};
    use std::borrow::Cow;

    let topology = std::sync::Arc::new(Topology::synthetic(1, 1, 2, 1));
    let layers = vec![LayerStart {
        policy: AnyPolicy::named("guard").unwrap().into(),
        workloads: None,
        impossible: Vec::new(),
        impossible_knobs: Vec::new(),
    }];
    let header = Header { quell_record: VERSION, quell: "test".into(), topology, layers };
    let (thread, owner) = (quell_model::ThreadId { tid: 1, start: 1 }, quell_model::WorkloadId(0));
    let odd = [
        (WorkloadColumns::default(), ThreadColumns { id: vec![thread], ..ThreadColumns::default() }),
        (WorkloadColumns { run_time: vec![Default::default(); 3], ..Default::default() }, ThreadColumns::default()),
        (WorkloadColumns::default(), ThreadColumns { workload: vec![owner], ..ThreadColumns::default() }),
        (WorkloadColumns::default(), ThreadColumns { preemptions: vec![None], ..ThreadColumns::default() }),
        (
            WorkloadColumns::default(),
            ThreadColumns { wake_ups: WakeUpColumns { count: vec![1], ..Default::default() }, ..Default::default() },
        ),
    ];
    for (workloads, threads) in odd {
        let turn = Turn {
            lost: 0,
            states: None,
            now: Nanos(1),
            controls: None,
            topology: None,
            allowances: None,
            workloads: Cow::Owned(workloads),
            cpus: Cow::Owned(CpuColumns::default()),
            threads: Cow::Owned(threads),
            machine: Default::default(),
            bandwidth_1: None,
            slowdown_1: None,
            steps: Vec::new(),
        };
        let mut bytes = rmp_serde::to_vec_named(&header).unwrap();
        bytes.extend(rmp_serde::to_vec_named(&turn).unwrap());
        let bytes = zstd::encode_all(bytes.as_slice(), 1).unwrap();
        let mut record = Record::read(bytes.as_slice(), "odd").unwrap();
        let error = record.turn().unwrap_err().to_string();
        assert!(error.contains("odd: it is damaged") && error.contains("where there are"), "{error}");
    }
}

/// Records of version 1 can be opened, and replayed with another policy; `quell-lab replay` shows them.
#[test]
fn records_of_version_1_are_read() {
    let records = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/records");
    for (file, turns) in [("version-1-caladan.record", 100), ("version-1-stack.record", 13)] {
        let mut record = Record::open(&records.join(file)).unwrap();
        assert_eq!(record.header().quell_record, 1);
        let (mut count, mut bandwidth, mut sampled) = (0, 0.0, false);
        while let Some(turn) = record.turn().unwrap() {
            count += 1;
            bandwidth += turn.machine.memory_bandwidth.value.0;
            let samples = turn.steps.iter().flat_map(|step| &step.plan.samples);
            sampled |= samples.into_iter().any(|sample| sample.signals.contains(Signal::LlcMisses));
        }
        assert!(count >= turns, "{file}: {count}");
        let is_counted = file.contains("caladan");
        assert_eq!((bandwidth > 0.0, sampled), (is_counted, is_counted), "{file}");

        let mut record = Record::open(&records.join(file)).unwrap();
        let other = With::Other { layer: 0, policy: Box::new(AnyPolicy::named("parties").unwrap()) };
        let summary = replay(&mut record, &other, |_| true).unwrap();
        assert!(summary.turns >= turns && summary.steps > 0, "{file}: {summary:?}");
    }
}

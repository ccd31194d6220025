//! The memory bandwidth controller with the signals that hosts measure, and without.

use quell_model::{
    BytesPerSecond, Class, CpuCount, CpuId, GrantCommand, Outcome, Part, Quality, Refusal, Sample, SampleRequest,
    Topology, Verdict, Workload, WorkloadId,
};

use super::*;

const COLLECTOR: WorkloadId = WorkloadId(0);

/// A best-effort task that has all four cores, and a bus that is used beyond THRESH_BW.
struct Saturated {
    policy: Caladan,
    view: View,
    plan: Plan,
}

impl Saturated {
    fn new() -> Saturated {
        Saturated::under(CaladanConfig { thresh_bw: Some(BytesPerSecond(25e9)), ..CaladanConfig::default() })
    }

    fn under(config: CaladanConfig) -> Saturated {
        let config = CaladanConfig { rules: false, ..config };
        let mut view = View::new(Topology::synthetic(1, 1, 4, 1).into());
        view.workloads.spec = vec![Some(Workload::new("collector", Class::BestEffort, CpuCount::ZERO).into())];
        view.workloads.queueing_delay = vec![Sample::default()];
        view.cpus.holder = vec![Some(COLLECTOR); 4];
        view.machine.memory_bandwidth = Sample::exact(BytesPerSecond(30e9), Nanos::ZERO);
        view.cpus.llc_misses = vec![Sample::default(); 4];
        let mut scene = Saturated { policy: Caladan::new(config), view, plan: Plan::default() };
        scene.step(&[Event::Attached(COLLECTOR)]);
        scene
    }

    /// A round later.
    fn step(&mut self, events: &[Event]) {
        self.view.now += INTERVAL;
        self.plan.begin(self.plan.number + 1);
        self.policy.step(&self.view, events, &mut self.plan);
    }

    /// Samples arrive: each core has this many misses, and the core with this number ten times as many.
    fn sampled(&mut self, misses: u64, worst: u32) {
        let count = |cpu: u32| if cpu == worst { misses * 10 } else { misses };
        let now = self.view.now;
        self.view.cpus.llc_misses = (0..4).map(|cpu| Sample::exact(count(cpu), now)).collect();
        self.step(&[Event::SamplesReady]);
    }

    /// A round later, memory is found to be so slow.
    fn felt(&mut self, times: f64) -> usize {
        self.view.machine.memory_slowdown = Sample::exact(times, self.view.now + Nanos(1));
        self.step(&[]);
        self.revoked().len()
    }

    fn requests(&self) -> usize {
        self.plan.samples.len()
    }

    fn revoked(&self) -> Vec<CpuId> {
        let revoked = self.plan.grants.iter().filter_map(|grant| match grant {
            GrantCommand::Revoke(cpu) => Some(*cpu),
            GrantCommand::Grant(..) => None,
        });
        revoked.collect()
    }

    fn is_said(&self, text: &str) -> bool {
        self.plan.notes.iter().any(|note| note.text.contains(text))
    }
}

#[test]
fn a_saturated_bus_is_measured_by_core_and_the_worst_core_of_the_worst_task_goes() {
    let mut scene = Saturated::new();
    assert_eq!(scene.requests(), 1);
    assert_eq!(scene.plan.samples[0], SampleRequest { signals: bandwidth::LLC_MISSES, cpus: scene.view.pool() });
    scene.sampled(100, 2);
    assert_eq!((scene.requests(), scene.revoked().len()), (1, 0), "the start, then the end");
    scene.sampled(200, 2);
    assert_eq!(scene.revoked(), [CpuId(2)]);
}

#[test]
fn a_core_whose_counter_others_have_does_not_hide_the_rest() {
    let mut scene = Saturated::new();
    scene.sampled(100, 2);
    let now = scene.view.now;
    scene.view.cpus.llc_misses = (0..4).map(|cpu| Sample::exact(200 + cpu, now)).collect();
    scene.view.cpus.llc_misses[2].quality = Quality::Stale;
    scene.step(&[Event::SamplesReady]);
    assert_eq!(scene.revoked(), [CpuId(3)]);
}

#[test]
fn without_llc_misses_nobody_can_be_blamed_and_the_controller_is_off() {
    let mut scene = Saturated::new();
    scene.view.cpus.llc_misses.clear();
    scene.step(&[]);
    assert!(scene.is_said("LLC misses are not counted: the memory bandwidth controller is off"));
    for _ in 0..5 {
        scene.step(&[]);
        assert_eq!((scene.requests(), scene.revoked().len(), scene.plan.notes.len()), (0, 0, 0));
    }
}

#[test]
fn without_the_bandwidth_the_controller_is_off() {
    let mut scene = Saturated::new();
    scene.view.machine.memory_bandwidth = Sample::default();
    scene.step(&[]);
    assert!(scene.is_said("memory bandwidth is not measured: the memory bandwidth controller is off"));
    assert_eq!(scene.requests(), 0);
}

#[test]
fn a_bandwidth_that_is_not_known_yet_is_waited_for() {
    let mut scene = Saturated::new();
    scene.view.machine.memory_bandwidth.quality = Quality::Stale;
    scene.sampled(100, 2);
    assert_eq!((scene.requests(), scene.plan.notes.len()), (0, 0));
    scene.view.machine.memory_bandwidth.quality = Quality::Estimated;
    scene.step(&[]);
    assert_eq!(scene.requests(), 1, "an estimate is acted on");
}

#[test]
fn samples_that_are_refused_are_asked_for_again() {
    let mut scene = Saturated::new();
    let verdict = Verdict::Refused(Refusal::Unsupported("no counter".into()));
    scene.step(&[Event::Outcome(Outcome { plan: 1, part: Part::Sample(0), verdict })]);
    assert_eq!(scene.requests(), 1);
}

#[test]
fn a_controller_that_is_off_reads_nothing() {
    let wants = |thresh_bw, thresh_slowdown| {
        let signals = Caladan::new(CaladanConfig { thresh_bw, thresh_slowdown, ..<_>::default() }).signals();
        assert!(signals.contains(Signal::QueueingDelay) && signals.contains(Signal::Holder));
        [Signal::MemoryBandwidth, Signal::MemorySlowdown, Signal::LlcMisses].map(|signal| signals.contains(signal))
    };
    assert_eq!(wants(None, None), [false; 3]);
    assert_eq!(wants(Some(BytesPerSecond(25e9)), None), [true, false, true]);
    assert_eq!(wants(None, Some(1.3)), [false, true, true]);
}

/// No counter works, as on most virtual machines.
fn slow_memory(thresh_bw: Option<BytesPerSecond>) -> Saturated {
    let mut scene = Saturated::under(CaladanConfig { thresh_bw, thresh_slowdown: Some(1.3), ..<_>::default() });
    scene.view.machine.memory_bandwidth = Sample::default();
    scene.view.cpus.llc_misses.clear();
    scene
}

#[test]
fn where_nothing_is_counted_slow_memory_costs_who_has_most_cores_one_a_look() {
    for thresh_bw in [None, Some(BytesPerSecond(25e9))] {
        let mut scene = slow_memory(thresh_bw);
        let small = WorkloadId(1);
        scene.view.workloads.spec.push(Some(Workload::new("small", Class::BestEffort, CpuCount::ZERO).into()));
        scene.view.workloads.queueing_delay.push(Sample::default());
        scene.view.cpus.holder[0] = Some(small);
        scene.step(&[Event::Attached(small)]);
        assert_eq!(scene.felt(1.2), 0);
        assert_eq!(scene.felt(1.4), 1);
        let core = scene.revoked()[0];
        assert_ne!(core, CpuId(0));
        scene.view.cpus.holder[core.index()] = None;
        for _ in 0..5 {
            scene.step(&[]);
            assert!(scene.revoked().is_empty(), "no one has looked again");
        }
        assert_eq!((scene.felt(1.4), scene.requests()), (1, 0));
        assert!(!scene.is_said("is off"));
    }
}

#[test]
fn a_limit_goes_up_by_one_core_a_look_when_memory_is_quick_again() {
    let mut scene = slow_memory(None);
    let limit = |scene: &Saturated| scene.policy.bandwidth.limit_of(COLLECTOR);
    for left in [3, 2] {
        scene.felt(2.0);
        assert_eq!(limit(&scene), Some(left));
        let core = scene.revoked()[0];
        scene.view.cpus.holder[core.index()] = None;
    }
    for expected in [Some(3), None] {
        scene.felt(1.1);
        assert_eq!(limit(&scene), expected);
        scene.step(&[]);
        assert_eq!(limit(&scene), expected, "no one has looked again");
    }
}

#[test]
fn slow_memory_costs_who_misses_most_where_misses_are_counted() {
    let mut scene = Saturated::under(CaladanConfig { thresh_slowdown: Some(1.3), ..CaladanConfig::default() });
    scene.view.machine.memory_bandwidth = Sample::default();
    assert_eq!((scene.felt(1.4), scene.requests()), (0, 1));
    scene.sampled(100, 2);
    assert_eq!(scene.requests(), 1, "the end follows the start at once");
    scene.sampled(200, 2);
    assert_eq!((scene.revoked(), scene.requests()), (vec![CpuId(2)], 0));
    scene.step(&[]);
    assert_eq!(scene.requests(), 0, "no one has looked again");
    assert_eq!((scene.felt(1.4), scene.requests()), (0, 1));
}

#[test]
fn a_bandwidth_that_is_measured_goes_before_the_slowdown() {
    let thresh_bw = Some(BytesPerSecond(40e9));
    let mut scene = Saturated::under(CaladanConfig { thresh_bw, thresh_slowdown: Some(1.3), ..<_>::default() });
    assert_eq!((scene.felt(9.0), scene.requests()), (0, 0));
}

#[test]
fn without_a_slowdown_the_controller_is_off() {
    let mut scene = Saturated::under(CaladanConfig { thresh_slowdown: Some(1.3), ..CaladanConfig::default() });
    assert!(scene.is_said("memory's slowdown is not measured: the memory bandwidth controller is off"));
    scene.view.machine.memory_slowdown = Sample { quality: Quality::Stale, ..Sample::exact(9.0, Nanos(1)) };
    scene.step(&[]);
    assert_eq!((scene.requests(), scene.revoked().len(), scene.plan.notes.len()), (0, 0, 0), "not known yet");
}

#[test]
fn a_threshold_that_quiet_memory_exceeds_is_refused() {
    let read = |text: &str| crate::AnyPolicy::build("caladan", &mut serde_json::Deserializer::from_str(text));
    assert!(read(r#"{"thresh_slowdown": 1.3}"#).is_ok() && read("{}").is_ok());
    let error = read(r#"{"thresh_slowdown": 1.0}"#).unwrap_err().to_string();
    assert!(error.contains("give 1.001 to 1000"), "{error}");
}

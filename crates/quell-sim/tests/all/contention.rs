//! Contention on a simulated machine while time passes: against the model without time, and against none.

use std::path::Path;

use quell_model::{Class, CpuId, Nanos};
use quell_policy::AnyPolicy;
use quell_sim::contention::settled::{Thread, settled};
use quell_sim::contention::{ContentionSpec, Profile, ProfileName, library};
use quell_sim::machine::Preset;
use quell_sim::scenario::{self, Scenario};
use quell_sim::workload::{Arrivals, BatchSpec, CpuList, Dispatch, ServerSpec, Service};
use quell_sim::{Costs, KernelConfig, Machine, Sim, WorkloadSpec};

fn caladan() -> Machine {
    Preset::named("caladan-socket").unwrap().machine()
}

fn free() -> KernelConfig {
    KernelConfig { costs: Costs::FREE, ..KernelConfig::default() }
}

/// Threads without end, each on the CPU of its number, from `first` on.
pub fn pinned(name: &str, profile: &str, first: u32, threads: u32) -> WorkloadSpec {
    let cpu = |cpu: u32| CpuList([CpuId(cpu)].into_iter().collect());
    WorkloadSpec {
        threads,
        affinity: (first..first + threads).map(cpu).collect(),
        batch: Some(BatchSpec::default()),
        profile: Some(ProfileName::Known(profile.into())),
        ..WorkloadSpec::new(name, Class::BestEffort)
    }
}

/// Runs until all has settled, and for another span.
fn ran(machine: Machine, workloads: &[WorkloadSpec], span: Nanos) -> (Sim, Vec<f64>) {
    let mut sim = Sim::new(machine, free(), workloads, 1).unwrap();
    sim.begin();
    sim.run_until(Nanos::from_millis(200));
    let before = sim.counted();
    let from = sim.now();
    sim.run_until(from + span);
    let done = sim.counted().into_iter().zip(&before).map(|(now, before)| now.instructions - before.instructions);
    let done = done.collect();
    (sim, done)
}

fn named(name: &str) -> &'static Profile {
    library::named(name).unwrap()
}

#[test]
fn what_settles_is_what_the_model_without_time_says() {
    let workloads = [pinned("a", "streaming", 0, 4), pinned("b", "streaming", 4, 2), pinned("c", "computing", 12, 3)];
    let span = Nanos::from_millis(50);
    let (sim, done) = ran(caladan(), &workloads, span);
    let mut threads: Vec<Thread<'_>> = (0..4).map(|core| Thread::new(named("streaming"), 0, core)).collect();
    threads.extend((4..6).map(|core| Thread::new(named("streaming"), 1, core)));
    threads.extend((0..3).map(|core| Thread::new(named("computing"), 2, core)));
    let found = settled(&caladan().socket(), &threads, 0.0);
    for (workload, done) in done.iter().enumerate() {
        let of = threads.iter().zip(&found.threads).filter(|(thread, _)| thread.workload == workload as u32);
        let rate: f64 = of.map(|(_, pace)| pace.rates.instructions).sum();
        let ratio = done / (rate * span.0 as f64);
        assert!((ratio - 1.0).abs() < 0.01, "{workload}: {ratio}");
    }
    for (workload, thread) in [(0, 0), (1, 4)] {
        let ratio = sim.llc_bytes(workload) / found.threads[thread].llc_bytes;
        assert!((ratio - 1.0).abs() < 0.02, "{workload}: {ratio}");
    }
}

#[test]
fn progress_is_what_the_counters_say() {
    let service = Service::Constant(Nanos::from_micros(100));
    let server = WorkloadSpec {
        threads: 4,
        server: Some(ServerSpec { arrivals: Arrivals::Poisson(10_000.0), service, dispatch: Dispatch::Pool }),
        profile: Some(ProfileName::Known("streaming".into())),
        ..WorkloadSpec::new("server", Class::LatencyCritical)
    };
    let (sim, done) = ran(caladan(), &[server, pinned("hogs", "streaming", 6, 6)], Nanos::from_secs(1));
    let alone = settled(&caladan().socket(), &[Thread::new(named("streaming"), 0, 0)], 0.0).threads[0];
    let work = alone.rates.instructions * 100_000.0;
    let requests = done[0] / work;
    let arrived = 10_000.0;
    assert!((requests / arrived - 1.0).abs() < 0.05, "{requests}");
    // Slower than alone, and each request as much as all.
    let latency = sim.stats()[0].latencies.quantile(0.5);
    assert!(latency > Nanos::from_micros(110), "{latency}");
}

/// One thread beside growing numbers of others: never faster, and memory never moves more than it can.
#[test]
fn more_beside_it_never_helps() {
    let mut last = f64::MAX;
    for others in [0, 1, 3, 6, 11] {
        let span = Nanos::from_millis(20);
        let mut workloads = vec![pinned("victim", "streaming", 0, 1)];
        workloads.extend((others > 0).then(|| pinned("others", "streaming", 1, others)));
        let (sim, done) = ran(caladan(), &workloads, span);
        assert!(done[0] <= last * 1.001, "{others}");
        last = done[0];
        let used = sim.memory_bytes() / sim.now().0 as f64;
        assert!(used <= 33.0, "{used}");
    }
}

#[test]
fn a_frequency_acts_after_its_latency() {
    let workloads = [pinned("a", "computing", 0, 1)];
    let mut sim = Sim::new(caladan(), free(), &workloads, 1).unwrap();
    sim.begin();
    sim.run_until(Nanos::from_millis(100));
    sim.set_frequency(CpuId(0), 1_100_000);
    let rate = |sim: &mut Sim, until: u64| {
        let (before, from) = (sim.counted()[0].instructions, sim.now());
        sim.run_until(Nanos::from_millis(until));
        (sim.counted()[0].instructions - before) / (sim.now() - from).0 as f64
    };
    let (soon, later) = (rate(&mut sim, 102), rate(&mut sim, 110));
    assert!((later / soon - 0.5).abs() < 0.01, "{later} {soon}");
}

/// The same scenario three times: without profiles, with them and contention off, and with it.
#[test]
fn without_contention_nothing_is_different() {
    let service = Service::Exponential(Nanos::from_micros(50));
    let server = |profile: Option<ProfileName>| WorkloadSpec {
        threads: 24,
        profile,
        server: Some(ServerSpec {
            arrivals: Arrivals::Poisson(120e3),
            service: service.clone(),
            dispatch: Dispatch::Pool,
        }),
        ..WorkloadSpec::new("server", Class::LatencyCritical)
    };
    let hogs = |profile: Option<ProfileName>| WorkloadSpec {
        threads: 48,
        profile,
        batch: Some(BatchSpec::default()),
        ..WorkloadSpec::new("hogs", Class::BestEffort)
    };
    let streaming = || Some(ProfileName::Known("streaming".into()));
    let run = |on: bool, profile: Option<ProfileName>| {
        let machine = Machine { contention: ContentionSpec { on, ..ContentionSpec::default() }, ..caladan() };
        let mut sim = Sim::new(machine, KernelConfig::default(), &[server(profile.clone()), hogs(profile)], 3).unwrap();
        sim.begin();
        sim.run_until(Nanos::from_millis(300));
        let stats = sim.stats();
        (sim.counters(), stats[0].latencies.cells().collect::<Vec<_>>(), stats[1].run_time)
    };
    let plain = run(true, None);
    assert_eq!(plain, run(false, streaming()));
    let contended = run(true, streaming());
    assert_ne!(plain.1, contended.1);
    assert_eq!(contended, run(true, streaming()), "twice the same");
}

#[test]
fn a_cycle_takes_turns() {
    let turn = |name: &str| quell_sim::workload::Turn {
        profile: ProfileName::Known(name.into()),
        lasts: Some(Nanos::from_millis(10)),
        work: None,
    };
    let batch = Some(BatchSpec { cycle: vec![turn("computing"), turn("streaming")], ..BatchSpec::default() });
    let workload = WorkloadSpec { batch, ..WorkloadSpec::new("both", Class::BestEffort) };
    let mut sim = Sim::new(caladan(), free(), &[workload], 1).unwrap();
    sim.begin();
    let mut moved = Vec::new();
    for turn in 1..=4 {
        let before = sim.memory_bytes();
        sim.run_until(Nanos::from_millis(10 * turn));
        moved.push(sim.memory_bytes() - before);
    }
    assert!(moved[1] > 50.0 * moved[0] && moved[3] > 50.0 * moved[2], "{moved:?}");
}

#[test]
fn ways_and_throttles_of_a_workload_hold_from_the_start() {
    let alone = |change: &dyn Fn(&mut WorkloadSpec)| {
        let mut spec = pinned("a", "streaming", 0, 1);
        change(&mut spec);
        let (sim, done) = ran(caladan(), &[spec], Nanos::from_millis(20));
        (sim.llc_bytes(0), done[0])
    };
    let (all, done) = alone(&|_| {});
    let (few, _) = alone(&|spec| spec.cache_ways = Some(0b1100));
    assert!((few / all - 0.1).abs() < 0.01, "{few} {all}");
    let (_, throttled) = alone(&|spec| spec.memory_throttle = Some(0.1));
    let model = |throttle: f64| {
        let thread = Thread { throttle, ..Thread::new(named("streaming"), 0, 0) };
        settled(&caladan().socket(), &[thread], 0.0).threads[0].rates.instructions
    };
    assert!((throttled / done / (model(0.1) / model(1.0)) - 1.0).abs() < 0.01, "{throttled} {done}");
    let bad = WorkloadSpec { memory_throttle: Some(0.0), ..pinned("a", "streaming", 0, 1) };
    assert!(Sim::new(caladan(), free(), &[bad], 1).unwrap_err().to_string().contains("0.1 to 1"));
}

/// What runs in a VM is slowed down as on the host.
#[test]
fn guests_feel_the_host_and_the_host_feels_guests() {
    let text = |vm: &str| {
        format!(
            r#"
            duration = "200ms"
            warm_up = "50ms"
            machine = "caladan-socket"
            vm = [{{ name = "vm", class = "be", vcpus = 4, cpuset = "0-3" }}]
            [[workload]]
            name = "inside"
            class = "be"
            {vm}
            threads = 4
            profile = "streaming"
            cpuset = "0-3"
            parallel = {{ rounds = 10, work = {{ constant = "100us" }} }}
            [[workload]]
            name = "outside"
            class = "be"
            threads = 8
            cpuset = "4-11"
            profile = "streaming"
            batch = {{}}
            "#
        )
    };
    let run = |vm: &str, changes: &[&str]| {
        let changes: Vec<String> = changes.iter().map(|&change| change.to_owned()).collect();
        let scenario = Scenario::parse(Path::new("vm"), &text(vm), &changes).unwrap();
        let seen = scenario::run(&scenario, &mut AnyPolicy::named("none").unwrap(), 0, |_| {}).unwrap();
        (seen.workloads[0].latencies.count() as f64, seen.workloads[1].counted.instructions)
    };
    let inside = r#"vm = "vm""#;
    let (contended, outside) = run(inside, &[]);
    let (free, _) = run(inside, &["contention.on=false"]);
    assert!(contended < 0.6 * free, "{contended} {free}");
    let (on_host, beside) = run("", &[]);
    assert!((contended / on_host - 1.0).abs() < 0.1 && (outside / beside - 1.0).abs() < 0.1, "{contended} {on_host}");
}

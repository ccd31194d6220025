//! Scenarios on the simulated host; the assertions are sentences of the paper.

use quell_model::{
    BytesPerSecond, Class, CpuCount, CpuId, CpuSet, GrantCommand, Host, Layer, Sample, Stack, Topology, Workload,
    WorkloadId,
};
use quell_sim::contention::ProfileName;
use quell_sim::workload::{Arrivals, BatchSpec, Turn};
use quell_sim::{Costs, Faulty, KernelConfig, SimHost, WorkloadSpec};

use quell_model::Rule;

use super::*;

const ROUND: u64 = 10;
/// Threads of each workload: as many as the largest machine has CPUs.
const MOST: u32 = 24;

fn micros(micros: u64) -> Nanos {
    Nanos::from_micros(micros)
}

fn cores(cores: u32) -> CpuCount {
    CpuCount::whole(cores)
}

/// A host, the policy, and the loop between them.
struct Scene {
    host: Faulty<SimHost>,
    stack: Stack<Caladan>,
    notes: Vec<String>,
}

impl Scene {
    /// Without rules, as in the paper: everything waits for the next round.
    fn new(topology: Topology, config: CaladanConfig) -> Scene {
        Scene::with_rules(topology, CaladanConfig { rules: false, ..config })
    }

    fn with_rules(topology: Topology, config: CaladanConfig) -> Scene {
        let config_of_kernel = KernelConfig { costs: Costs::FREE, ..KernelConfig::default() };
        let host = SimHost::new(topology, config_of_kernel, &[], 1, true).unwrap();
        let host = Faulty::new(host, 1);
        let stack = Stack::of_one(Caladan::new(config), host.view());
        Scene { host, stack, notes: Vec::new() }
    }

    /// A server that requests this many CPUs, with threads enough for all, and no request yet.
    fn lc(&mut self, name: &str, guaranteed: u32, service: Nanos) -> WorkloadId {
        self.attach(WorkloadSpec::lc(name, cores(guaranteed)).serving(MOST, Arrivals::none(), service))
    }

    /// Work without end on every CPU.
    fn be(&mut self, name: &str) -> WorkloadId {
        self.attach(WorkloadSpec::be(name).busy(MOST))
    }

    fn attach(&mut self, workload: WorkloadSpec) -> WorkloadId {
        self.host.attach(&workload).unwrap()
    }

    /// Requests that were completed.
    fn completed(&self, id: WorkloadId) -> u64 {
        self.host.sim().stats()[id.index()].latencies.count()
    }

    fn run(&mut self, span: Nanos) {
        self.watch(span, |_, _| {});
    }

    fn watch(&mut self, span: Nanos, mut seen: impl FnMut(&SimHost, &Plan)) {
        let until = self.host.now() + span;
        while self.host.now() < until {
            let wake = self.stack.turn(&mut self.host).unwrap();
            for layer in self.stack.stepped() {
                self.notes.extend(layer.plan.notes.iter().map(|note| note.text.to_string()));
                seen(&self.host, &layer.plan);
            }
            self.host.wait(wake.sooner(Wake::At(until))).unwrap();
        }
    }
}

fn known(profile: &str) -> ProfileName {
    ProfileName::Known(profile.into())
}

/// Work without end on every CPU that uses as much memory bandwidth as it gets.
fn streaming(name: &str) -> WorkloadSpec {
    WorkloadSpec { profile: Some(known("streaming")), ..WorkloadSpec::be(name).busy(MOST) }
}

/// Work without end on every CPU that uses next to none.
fn computing(name: &str) -> WorkloadSpec {
    WorkloadSpec { profile: Some(known("computing")), ..WorkloadSpec::be(name).busy(MOST) }
}

fn smt(cores: u32) -> Topology {
    Topology::synthetic(1, 1, cores, 2)
}

fn plain(cores: u32) -> Topology {
    Topology::synthetic(1, 1, cores, 1)
}

#[test]
fn a_delayed_lc_task_gets_one_core_every_round_from_best_effort_work() {
    let mut scene = Scene::new(plain(8), CaladanConfig::default());
    let lc = scene.lc("lc", 4, micros(1000));
    let be = scene.be("be");
    scene.run(micros(10 * ROUND));
    assert_eq!(scene.host.held(be).len(), 8, "best-effort work gets what is left: all");
    scene.host.send(lc, 8);
    let before = scene.host.now();
    scene.watch(micros(10 * ROUND), |host, _| {
        let rounds = (host.now() - before).0.div_ceil(micros(ROUND).0) as usize;
        assert!(host.held(lc).len() <= rounds.max(1), "one core a round");
    });
    assert_eq!(scene.host.held(lc).len(), 8, "burstable cores too: a BE task has them only when no LC task needs them");
    scene.run(micros(2000));
    assert_eq!((scene.completed(lc), scene.host.held(lc).len()), (8, 0));
    assert_eq!(scene.host.held(be).len(), 8, "yielded cores go back at once");
}

#[test]
fn many_cores_a_round_are_as_many_as_the_delay_has_thresholds() {
    let config = CaladanConfig { many_a_round: true, thresh_qd: micros(30), ..CaladanConfig::default() };
    let mut scene = Scene::new(plain(8), config);
    let lc = scene.lc("lc", 8, micros(1000));
    scene.host.send(lc, 8);
    scene.run(micros(29));
    assert_eq!(scene.host.held(lc).len(), 0);
    scene.run(micros(11));
    assert_eq!(scene.host.held(lc).len(), 1, "a delay of one threshold");
    scene.run(micros(30));
    assert!(scene.host.held(lc).len() >= 5, "two, then as many each round: {}", scene.host.held(lc).len());
}

#[test]
fn unread_data_is_part_of_the_delay_where_that_is_asked_for() {
    let granted = |sockets: bool, ready: Sample<Nanos>, unread: Sample<Nanos>| {
        let mut view = View::new(plain(2).into());
        view.workloads.spec = vec![Some(Workload::new("lc", Class::LatencyCritical, cores(1)).into())];
        view.workloads.queueing_delay = vec![ready];
        view.workloads.unread_delay = vec![unread];
        view.cpus.holder = vec![None; 2];
        let mut policy = Caladan::new(CaladanConfig { sockets, ..CaladanConfig::default() });
        assert_eq!(policy.signals().contains(Signal::UnreadDelay), sockets);
        let mut plan = Plan::default();
        policy.step(&view, &[Event::Attached(WorkloadId(0))], &mut plan);
        plan.grants.len()
    };
    let delay = |delay: u64| Sample::exact(micros(delay), Nanos::ZERO);
    assert_eq!(granted(true, delay(0), delay(10)), 1);
    assert_eq!(granted(true, delay(0), delay(9)), 0, "below THRESH_QD");
    assert_eq!(granted(true, delay(10), Sample::default()), 1, "a host that does not see sockets");
    assert_eq!(granted(true, delay(0), Sample::default()), 0);
    assert_eq!(granted(false, delay(0), delay(10)), 0, "as it is unless asked for");
    assert_eq!(granted(true, Sample::default(), delay(10)), 0, "whether a thread waits is not known");
}

#[test]
fn a_delay_below_the_threshold_moves_nothing() {
    let config = CaladanConfig { thresh_qd: micros(100), ..CaladanConfig::default() };
    let mut scene = Scene::new(plain(2), config);
    let lc = scene.lc("lc", 1, micros(50));
    scene.host.send(lc, 1);
    scene.run(micros(95));
    assert!(scene.host.held(lc).is_empty());
    scene.run(micros(10));
    assert_eq!(scene.host.held(lc).len(), 1);
}

#[test]
fn thresholds_are_per_task() {
    let own = Thresholds { thresh_qd: Some(Nanos::from_millis(1)), ..Thresholds::default() };
    let config = CaladanConfig { tasks: [("slow".to_owned(), own)].into(), ..CaladanConfig::default() };
    let mut scene = Scene::new(plain(4), config);
    let (slow, fast) = (scene.lc("slow", 1, micros(500)), scene.lc("fast", 1, micros(500)));
    scene.host.send(slow, 1);
    scene.host.send(fast, 1);
    scene.run(micros(100));
    assert_eq!((scene.host.held(slow).len(), scene.host.held(fast).len()), (0, 1));
}

#[test]
fn guaranteed_cores_are_preempted_from_bursting_lc_tasks_but_not_below_their_guarantee() {
    let mut scene = Scene::new(plain(4), CaladanConfig::default());
    let (greedy, late) = (scene.lc("greedy", 1, Nanos::from_millis(9)), scene.lc("late", 2, Nanos::from_millis(9)));
    scene.host.send(greedy, 20);
    scene.run(micros(100));
    assert_eq!(scene.host.held(greedy).len(), 4);
    scene.host.send(late, 20);
    scene.run(micros(100));
    assert_eq!((scene.host.held(greedy).len(), scene.host.held(late).len()), (2, 2));
}

#[test]
fn a_limit_is_kept() {
    let mut scene = Scene::new(plain(4), CaladanConfig::default());
    let be = scene.attach(WorkloadSpec { limit: Some(cores(3)), ..WorkloadSpec::be("be").busy(MOST) });
    scene.run(micros(100));
    assert_eq!(scene.host.held(be).len(), 3);
}

#[test]
fn idle_pairs_come_first_then_pairings_of_different_tasks() {
    let mut scene = Scene::new(smt(2), CaladanConfig::default());
    let (a, b) = (scene.lc("a", 1, Nanos::from_millis(9)), scene.lc("b", 3, Nanos::from_millis(9)));
    scene.host.send(a, 1);
    scene.run(micros(25));
    assert_eq!(scene.host.held(a).to_string(), "0");
    scene.host.send(b, 3);
    let mut order = Vec::new();
    scene.watch(micros(50), |_, plan| order.extend(plan.grants.clone()));
    let to_b = |core| GrantCommand::Grant(CpuId(core), b);
    // 1 has an idle sibling; then 2, beside `a`, is better than 3, beside itself.
    assert_eq!(order, [to_b(1), to_b(2), to_b(3)]);
}

#[test]
fn lc_tasks_have_the_fast_cores_and_be_tasks_the_slow_ones() {
    for (slow, fast) in [("0-1", "2-3"), ("2-3", "0-1")] {
        let machine = plain(4).with_capacity(&slow.parse().unwrap(), 446);
        let mut scene = Scene::new(machine, CaladanConfig::default());
        let be = scene.attach(WorkloadSpec { limit: Some(cores(2)), ..WorkloadSpec::be("be").busy(MOST) });
        scene.run(micros(100));
        assert_eq!(scene.host.held(be).to_string(), slow);
        let lc = scene.lc("lc", 2, Nanos::from_millis(9));
        scene.host.send(lc, 2);
        scene.run(micros(100));
        assert_eq!(scene.host.held(lc).to_string(), fast);
        // Best-effort work has all of them, and a latency-critical task takes a fast one from it.
        let mut scene = Scene::new(plain(4).with_capacity(&slow.parse().unwrap(), 446), CaladanConfig::default());
        scene.be("be");
        scene.run(micros(100));
        let lc = scene.lc("lc", 2, Nanos::from_millis(9));
        scene.host.send(lc, 2);
        scene.run(micros(100));
        assert_eq!(scene.host.held(lc).to_string(), fast);
    }
}

#[test]
fn the_core_that_was_used_last_is_taken_again_siblings_included() {
    let mut scene = Scene::new(smt(4), CaladanConfig::default());
    let (a, b) = (scene.lc("a", 1, micros(200)), scene.lc("b", 1, micros(30)));
    scene.host.send(a, 1);
    scene.run(micros(25));
    assert_eq!(scene.host.held(a).to_string(), "0");
    scene.host.send(b, 1);
    scene.run(micros(20));
    assert_eq!(scene.host.held(b).to_string(), "1");
    scene.run(micros(300));
    scene.host.send(b, 1);
    scene.run(micros(20));
    assert_eq!(scene.host.held(b).to_string(), "1", "0-3 and 4-7 are all idle; on 1 it ran last");
}

#[test]
fn a_yielded_core_goes_on_at_once() {
    let mut scene = Scene::new(plain(1), CaladanConfig::default());
    let (first, second) = (scene.lc("first", 1, micros(12)), scene.lc("second", 0, micros(12)));
    scene.host.send(first, 1);
    scene.run(micros(11));
    scene.host.send(second, 1);
    let mut moved_at = None;
    scene.watch(micros(30), |host, plan| {
        if plan.grants.contains(&GrantCommand::Grant(CpuId(0), second)) {
            moved_at = moved_at.or(Some(host.now()));
        }
    });
    let moved_at = moved_at.expect("the second task gets the core");
    assert!(moved_at.0 % micros(ROUND).0 != 0, "at the yield, not at the next round: {moved_at}");
}

/// §5.2.4: "the memory bandwidth controller will revoke cores from the GC task, revoking one core every 10 μs until
/// total memory bandwidth usage falls below THRESH_BW."
#[test]
fn a_collector_is_throttled_one_core_every_round_until_the_bus_is_no_longer_saturated() {
    let thresh = 25e9;
    let config = CaladanConfig { thresh_bw: Some(BytesPerSecond(thresh)), ..CaladanConfig::default() };
    let mut scene = Scene::new(plain(16), config);
    // It collects from 500 µs to 700 µs.
    let turn = |profile: &str, lasts| Turn { profile: known(profile), lasts: Some(micros(lasts)), work: None };
    let cycle = vec![turn("computing", 500), turn("streaming", 200), turn("computing", 9_000)];
    let batch = Some(BatchSpec { phases: None, cycle });
    let collector = scene.attach(WorkloadSpec { threads: MOST, batch, ..WorkloadSpec::be("collector") });
    let quiet = scene.attach(computing("quiet"));
    scene.run(micros(500));
    assert_eq!(scene.host.held(collector).len() + scene.host.held(quiet).len(), 16);
    let (held, began) = (scene.host.held(collector).len(), scene.host.now());
    let mut before = (scene.host.sim().memory_bytes(), scene.host.now());
    let (mut revoked, mut below_at) = (Vec::new(), None);
    scene.watch(micros(15 * ROUND), |host, plan| {
        let lost = plan.notes.iter().filter(|note| note.about == Some(collector)).count();
        revoked.extend(std::iter::repeat_n(host.now() - began, lost));
        let (bytes, now) = (host.sim().memory_bytes(), host.now());
        let span = (now - before.1).as_secs_f64();
        let below = span > 0.0 && (bytes - before.0) / span < thresh;
        before = (bytes, now);
        if host.held(collector).len() < held && below {
            below_at = below_at.or(Some(now - began));
        }
    });
    // Four cores of 6 GB/s fit under 25 GB/s.
    let steps: Vec<u64> = revoked.windows(2).map(|pair| (pair[1] - pair[0]).0).collect();
    assert!(revoked.len() >= held - 4, "{revoked:?}");
    assert!(steps[..held - 5].iter().all(|&step| step == micros(ROUND).0), "one core every 10 µs: {revoked:?}");
    let rounds = below_at.expect("the bus is no longer saturated").0 / micros(ROUND).0;
    assert!(rounds <= held as u64 - 4 + 3, "a round to see it, two readings, and one round a core: {rounds}");
    assert_eq!(
        scene.host.held(collector).len() + scene.host.held(quiet).len(),
        16,
        "when one task is throttled, another one can use the core"
    );
    // The collection ends: the limit is raised again, one core every round.
    scene.host.detach(quiet);
    scene.run(micros(200));
    scene.run(micros(30 * ROUND));
    assert_eq!(scene.host.held(collector).len(), 16);
}

#[test]
fn the_worst_best_effort_task_pays_and_lc_tasks_do_not() {
    let config = CaladanConfig { thresh_bw: Some(BytesPerSecond(25e9)), ..CaladanConfig::default() };
    let mut scene = Scene::new(plain(8), config);
    let lc = WorkloadSpec::lc("lc", cores(2)).serving(MOST, Arrivals::none(), Nanos::from_millis(9));
    let lc = scene.attach(WorkloadSpec { profile: Some(known("streaming")), ..lc });
    let (light, heavy) = (scene.attach(computing("light")), scene.attach(streaming("heavy")));
    scene.host.send(lc, 2);
    let mut paid = Vec::new();
    scene.watch(micros(600), |_, plan| paid.extend(plan.notes.iter().filter_map(|note| note.about)));
    assert!(!paid.is_empty() && paid.iter().all(|&who| who == heavy), "{paid:?}");
    assert_eq!(scene.host.held(lc).len(), 2);
    assert!(scene.host.held(light).len() >= 3);
}

#[test]
fn saturation_by_lc_tasks_alone_is_reported() {
    let config = CaladanConfig { thresh_bw: Some(BytesPerSecond(25e9)), ..CaladanConfig::default() };
    let mut scene = Scene::new(plain(4), config);
    let lc = WorkloadSpec::lc("lc", cores(4)).serving(MOST, Arrivals::none(), Nanos::from_millis(9));
    let lc = scene.attach(WorkloadSpec { profile: Some(known("streaming")), ..lc });
    scene.host.send(lc, 4);
    scene.run(micros(300));
    assert_eq!(scene.notes.iter().filter(|note| note.contains("can be throttled")).count(), 1, "{:?}", scene.notes);
    assert!(scene.notes.iter().any(|note| note.contains("all 4 cores are guaranteed")));
}

fn bans_after(thresh_ht: u64) -> CaladanConfig {
    CaladanConfig { thresh_ht: Some(micros(thresh_ht)), ..CaladanConfig::default() }
}

/// "Bans use of the sibling hyperthread until the current request completes."
#[test]
fn a_long_request_gets_the_physical_core_until_it_completes() {
    let mut scene = Scene::new(smt(2), bans_after(40));
    let lc = scene.lc("lc", 1, micros(120));
    let be = scene.be("be");
    scene.run(micros(100));
    assert_eq!(scene.host.held(be).len(), 4);
    scene.host.send(lc, 1);
    scene.run(micros(40));
    assert!(scene.host.banned().is_empty(), "not before THRESH_HT");
    scene.run(micros(40));
    let on = scene.host.held(lc).lowest().unwrap();
    assert_eq!(scene.host.banned(), smt(2).siblings_of(on));
    assert_eq!(scene.host.held(be).len(), 2);
    scene.run(micros(200));
    assert_eq!(scene.completed(lc), 1);
    assert!(scene.host.banned().is_empty());
    assert_eq!(scene.host.held(be).len(), 4, "the bans end with the request");
}

#[test]
fn an_infinite_threshold_never_bans() {
    let mut scene = Scene::new(smt(1), CaladanConfig::default());
    let lc = scene.lc("lc", 1, Nanos::from_millis(5));
    scene.be("be");
    scene.host.send(lc, 1);
    scene.watch(Nanos::from_millis(2), |host, _| assert!(host.banned().is_empty()));
}

/// "It will only ban a sibling that is handling an LC task if that LC task can be allocated another core."
#[test]
fn an_lc_sibling_is_banned_only_if_it_can_go_elsewhere() {
    for (machine, elsewhere) in [(smt(1), false), (smt(2), true)] {
        let mut scene = Scene::new(machine, bans_after(50));
        let (long, short) = (scene.lc("long", 1, micros(400)), scene.lc("short", 1, micros(400)));
        if elsewhere {
            scene.be("be");
        }
        scene.host.send(long, 1);
        scene.run(micros(30));
        scene.host.send(short, 1);
        let mut banned = false;
        scene.watch(micros(300), |host, _| banned |= !host.banned().is_empty());
        assert_eq!(banned, elsewhere);
        assert_eq!((scene.host.held(long).len(), scene.host.held(short).len()), (1, 1));
    }
}

/// "… to avoid degrading throughput under high load."
#[test]
fn bans_cost_an_overloaded_lc_task_hardly_any_core() {
    let mut scene = Scene::new(smt(11), bans_after(40));
    // 22 cores would be busy with requests of 58 µs that come every 2.6 µs; these come twice as often.
    let arrivals = Arrivals::Poisson(1e9 / 1_300.0);
    let lc = scene.attach(WorkloadSpec::lc("lc", cores(22)).serving(MOST, arrivals, micros(58)));
    scene.run(micros(2_000));
    let (mut held, mut looks) = (0, 0);
    scene.watch(micros(5_000), |host, _| (held, looks) = (held + host.held(lc).len(), looks + 1));
    assert!(held > 21 * looks, "{held} in {looks} looks at 22 cores");
}

/// "It will prioritize speeding up the green threads that have spent the most time processing a request."
#[test]
fn the_longest_request_is_served_first() {
    let mut scene = Scene::new(smt(2), bans_after(50));
    let first = scene.lc("first", 1, Nanos::from_millis(5));
    let second = scene.lc("second", 1, Nanos::from_millis(5));
    let third = scene.lc("third", 1, Nanos::from_millis(5));
    scene.host.send(first, 1);
    scene.run(micros(20));
    scene.host.send(second, 1);
    scene.run(micros(20));
    scene.host.send(third, 1);
    scene.run(micros(300));
    // Three LC tasks on two pairs: one pair has two of them. A ban needs a free core: only the fourth CPU is one.
    let on = scene.host.held(first).lowest().unwrap();
    assert_eq!(scene.host.banned(), smt(2).siblings_of(on));
    for task in [first, second, third] {
        assert_eq!(scene.host.held(task).len(), 1);
    }
}

/// "The hyperthread controller can also unban cores, respecting the same priority, when the top-level core allocator
/// needs to allocate a guaranteed core, but none are available due to bans."
#[test]
fn a_guaranteed_core_ends_the_youngest_ban() {
    let mut scene = Scene::new(smt(2), bans_after(50));
    let (old, young) = (scene.lc("old", 1, Nanos::from_millis(5)), scene.lc("young", 1, Nanos::from_millis(5)));
    let late = scene.lc("late", 1, Nanos::from_millis(5));
    scene.host.send(old, 1);
    scene.run(micros(20));
    scene.host.send(young, 1);
    scene.run(micros(200));
    assert_eq!(scene.host.banned().len(), 2);
    scene.host.send(late, 1);
    scene.run(micros(40));
    assert_eq!(scene.host.held(late).len(), 1);
    let on = scene.host.held(old).lowest().unwrap();
    assert_eq!(scene.host.banned(), smt(2).siblings_of(on));
    assert_eq!(scene.host.held(young).len(), 1);
}

#[test]
fn what_is_not_measured_switches_a_controller_off_and_is_said_once() {
    let config = CaladanConfig { thresh_bw: Some(BytesPerSecond(1.0)), ..bans_after(1) };
    let mut scene = Scene::new(smt(2), config);
    let lc = scene.lc("lc", 1, micros(100));
    scene.attach(streaming("be"));
    scene.host.withhold(SignalSet::of(Signal::ALL));
    scene.host.send(lc, 4);
    scene.run(Nanos::from_millis(1));
    for text in ["queueing delay is not measured", "bandwidth controller is off", "hyperthread controller is off"] {
        assert_eq!(scene.notes.iter().filter(|note| note.contains(text)).count(), 1, "{text}: {:?}", scene.notes);
    }
    assert!(scene.host.held(lc).is_empty() && scene.host.banned().is_empty());
}

#[test]
fn a_grant_under_way_is_not_given_again() {
    let mut scene = Scene::new(plain(2), CaladanConfig::default());
    scene.host.faults.grants_late = micros(25);
    let lc = scene.lc("lc", 2, Nanos::from_millis(5));
    scene.host.send(lc, 2);
    let mut granted = Vec::new();
    scene.watch(micros(100), |_, plan| granted.extend(plan.grants.clone()));
    assert_eq!(granted, [GrantCommand::Grant(CpuId(0), lc), GrantCommand::Grant(CpuId(1), lc)]);
}

#[test]
fn refused_grants_are_tried_again() {
    let mut scene = Scene::new(plain(4), CaladanConfig::default());
    let be = scene.be("be");
    scene.host.faults.grants_refused = 0.5;
    scene.run(Nanos::from_millis(1));
    assert_eq!(scene.host.held(be).len(), 4);
}

#[test]
fn only_the_pool_is_handed_out() {
    let mut scene = Scene::new(plain(4), CaladanConfig::default());
    let policy = Caladan::new(CaladanConfig { rules: false, ..CaladanConfig::default() });
    scene.stack = Stack::new(vec![Layer::new(policy, None)], scene.host.view(), CpuSet::first(2)).unwrap();
    let be = scene.be("be");
    scene.run(micros(200));
    assert_eq!(scene.host.held(be), CpuSet::first(2));
}

#[test]
fn standing_orders_are_given_when_they_change_and_not_again() {
    let mut scene = Scene::with_rules(plain(4), CaladanConfig::default());
    let lc = scene.lc("lc", 2, micros(100));
    let [first, second] = ["a", "b"].map(|name| scene.be(name));
    let mut given = Vec::new();
    scene.watch(micros(100 * ROUND), |_, plan| given.extend(plan.rules.iter().copied()));
    let count = |rule: Rule| given.iter().filter(|&&other| other == rule).count();
    assert_eq!(count(Rule::Guaranteed { workload: lc, cpus: 2 }), 1, "{given:?}");
    assert_eq!(count(Rule::Limit { workload: first, cpus: u32::MAX }), 1);
    assert_eq!(count(Rule::Rank { workload: second, rank: 0 }), 1);
    assert_eq!(given.len(), 12, "{given:?}");
    let held = [first, second].map(|be| scene.host.held(be).len());
    assert_eq!(held[0] + held[1], 4, "{held:?}");
}

#[test]
fn a_guaranteed_core_is_taken_at_the_wake_up_between_two_rounds() {
    let config = CaladanConfig { interval: micros(1000), ..CaladanConfig::default() };
    let mut scene = Scene::with_rules(plain(2), config);
    let lc = scene.lc("lc", 1, micros(50));
    let be = scene.be("be");
    scene.run(micros(3500));
    assert_eq!(scene.host.held(be).len(), 2);
    scene.host.send(lc, 1);
    scene.run(micros(200));
    assert_eq!(scene.completed(lc), 1, "no round was near");
    assert_eq!(scene.host.held(be).len(), 2, "and best-effort work has its core again");
}

#[test]
fn the_bandwidth_controllers_limit_binds_the_rules_too() {
    let config = CaladanConfig { thresh_bw: Some(BytesPerSecond(1e9)), ..CaladanConfig::default() };
    let mut scene = Scene::with_rules(plain(4), config);
    let be = scene.attach(streaming("be"));
    let mut limits = Vec::new();
    scene.watch(micros(100 * ROUND), |_, plan| {
        limits.extend(plan.rules.iter().filter_map(|rule| match rule {
            Rule::Limit { workload, cpus } if *workload == be => Some(*cpus),
            _ => None,
        }));
    });
    assert!(limits.iter().any(|&limit| limit < 4), "{limits:?}");
}

//! The simulated cluster under every policy: nothing is lost, nothing is twice, the budget holds, and runs repeat.

use quell_cluster::policy::{self, AnyClusterPolicy};
use quell_cluster_sim::scenario::Scenario;
use quell_cluster_sim::sim::Cluster;
use quell_model::cluster::{
    ClusterDescription, ClusterDomain, ClusterEvent, ClusterPlan, ClusterView, HostId, MoveCommand, MoveEnd,
    PlaceCommand,
};
use quell_model::{Host, Layer, Nanos, Policy, Stack, Wake, WorkloadId};
use quell_sim::Stream;

/// A small cluster in which everything happens: arrivals, ends, phases, failed moves, hosts that die or fall silent.
fn eventful(seed: u64) -> Scenario {
    let mut draw = Stream::new(seed, 0);
    let hosts = 2 + draw.below(8);
    let count = |most: u32, draw: &mut Stream| 1 + draw.below(most);
    let text = format!(
        r#"
about = "everything happens"
lasts = "20min"
local = "{local}"
fails = {{ moves = 0.3, hosts = 0.3, reports = 0.2 }}
budget = {{ at-once = 3, per-host = 2, per-hour = 3, cool-down = "45s" }}
host = [{{ count = {hosts}, machine = "sdc", cores = 8, memory-gib = 64, link-gbit = 1, overcommit = 2 }}]
workloads = [
    {{ kind = "serves", count = {serves}, spread = true, every = "40s", stays = "10min" }},
    {{ kind = "changes", count = {changes}, spread = true }},
    {{ kind = "streams", count = {streams}, every = "30s", stays = "5min" }},
    {{ kind = "stays", count = 2 }},
]
[[kind]]
name = "serves"
class = "lc"
vcpus = 2
memory-gib = 2
dirty-mib = 20
phases = [{{ profile = "memcached", lasts = "3min" }}, {{ profile = "memcached", lasts = "2min", load = 1.4 }}]
service = "20us"
rate = 60000
slo = {{ quantile = 0.99, bound = "150us" }}
[[kind]]
name = "changes"
class = "be"
vcpus = 1
memory-gib = 1
dirty-mib = 200
phases = [{{ profile = "sjeng", lasts = "2min" }}, {{ profile = "lbm", lasts = "1min" }}]
[[kind]]
name = "streams"
class = "be"
vcpus = 1
memory-gib = 3
phases = [{{ profile = "lbm" }}]
movable = "restart"
[[kind]]
name = "stays"
class = "be"
vcpus = 2
memory-gib = 3
phases = [{{ profile = "sjeng" }}]
movable = "never"
"#,
        local = if draw.below(2) == 0 { "even" } else { "sdc" },
        serves = count(8, &mut draw),
        changes = count(20, &mut draw),
        streams = count(20, &mut draw),
    );
    Scenario::parse(&text).unwrap()
}

fn cases() -> u64 {
    std::env::var("QUELL_CLUSTERS").ok().and_then(|text| text.parse().ok()).unwrap_or(12)
}

fn seed() -> u64 {
    std::env::var("PROPTEST_RNG_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

#[test]
fn no_workload_is_lost_or_twice_and_the_budget_holds() {
    let mut moves = 0;
    for seed in seed()..seed() + cases() {
        let scenario = eventful(seed);
        for policy in policy::ALL {
            let outcome = Cluster::simulate(&scenario, policy.name, seed, |cluster, _| {
                if let Err(fault) = cluster.check() {
                    panic!("{} with seed {seed} at {}: {fault}", policy.name, cluster.now());
                }
            });
            moves += outcome.unwrap().summary.count.moves;
        }
    }
    assert!(moves > 0, "no policy moved anything");
}

/// Orders what comes into its head.
struct Wild(Stream);

impl Policy<ClusterDomain> for Wild {
    fn describe(&self) -> &'static ClusterDescription {
        &policy::ALL[0]
    }

    fn step(&mut self, view: &ClusterView, _: &[ClusterEvent], plan: &mut ClusterPlan) -> Wake {
        let (hosts, works) = (view.hosts.len() as u32 + 1, view.workloads.len() as u32 + 1);
        for _ in 0..8 {
            let (workload, host) = (WorkloadId(self.0.below(works)), HostId(self.0.below(hosts)));
            plan.places.push(PlaceCommand { workload, host });
            let workload = WorkloadId(self.0.below(works));
            let deadline = view.now + Nanos::from_secs(u64::from(self.0.below(120)));
            plan.moves.push(MoveCommand { workload, to: host, deadline, relieves: None });
        }
        plan.cancels.push(WorkloadId(self.0.below(works)));
        Wake::At(view.now + Nanos::from_secs(5))
    }
}

#[test]
fn a_wild_policy_starts_no_storm() {
    let mut all = 0;
    for seed in seed()..seed() + cases() {
        let scenario = eventful(seed);
        let mut cluster = Cluster::new(&scenario, seed).unwrap();
        let layers = vec![Layer::new(Wild(Stream::new(seed, 9)), None)];
        let mut stack: Stack<Wild, ClusterDomain> = Stack::new(layers, ClusterView::default(), None).unwrap();
        let mut begun: Vec<(Nanos, WorkloadId)> = Vec::new();
        while !cluster.is_over() {
            let Ok(wake) = stack.turn(&mut cluster);
            cluster.check().unwrap_or_else(|fault| panic!("seed {seed} at {}: {fault}", cluster.now()));
            let now = stack.view().now;
            for event in &stack.layers()[0].events {
                if let ClusterEvent::MoveBegan(id, _) = event {
                    begun.push((now, *id));
                }
                if let ClusterEvent::Ended(id) = event {
                    begun.retain(|(_, other)| other != id);
                }
            }
            let Ok(()) = cluster.wait(wake);
        }
        all += begun.len();
        for (_, id) in &begun {
            let of = begun.iter().filter(|(_, other)| other == id).count();
            assert!(of <= 3, "workload {id:?} moved {of} times in 20 minutes, with a budget of 3 an hour");
        }
    }
    // Not in each: a cluster may have no room for any move.
    assert!(all > 0);
}

#[test]
fn a_serialised_policy_goes_on_with_the_same_plans() {
    let scenario = eventful(3);
    for policy in policy::ALL {
        let mut twin: Option<AnyClusterPolicy> = None;
        let mut compared = 0;
        Cluster::simulate(&scenario, policy.name, 3, |_, stack| {
            let layer = &stack.layers()[0];
            if !layer.stepped() {
                return;
            }
            if let Some(mut before) = twin.take() {
                let mut plan = ClusterPlan { number: layer.plan.number, ..ClusterPlan::default() };
                before.step(stack.view(), &layer.events, &mut plan);
                assert_eq!(plan, layer.plan, "{} at {}", policy.name, stack.view().now);
                compared += 1;
            }
            let text = serde_json::to_string(&layer.policy).unwrap();
            twin = Some(serde_json::from_str(&text).unwrap());
        })
        .unwrap();
        assert!(compared > 5, "{}: {compared}", policy.name);
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let scenario = eventful(5);
    let run = || Cluster::simulate(&scenario, "sdc-global", 5, |_, _| ()).unwrap();
    let (one, other) = (run(), run());
    assert_eq!(serde_json::to_string(&one.summary).unwrap(), serde_json::to_string(&other.summary).unwrap());
    assert_eq!(one.view, other.view);
}

/// The most workloads that one plan sends to one host, and the part of the time in which services exceed their SLO.
fn herd(policy: &str) -> (usize, f64) {
    let scenario = Scenario::shipped("quiet-host").unwrap();
    let mut most = 0;
    let outcome = Cluster::simulate(&scenario, policy, 1, |_, stack| {
        let moves = &stack.layers()[0].plan.moves;
        for host in moves.iter().map(|command| command.to) {
            most = most.max(moves.iter().filter(|command| command.to == host).count());
        }
    });
    (most, outcome.unwrap().summary.violated)
}

#[test]
fn the_published_form_herds_and_the_default_does_not() {
    let (published, ours) = (herd("sdc-published"), herd("sdc-global"));
    assert!(published.0 >= 20 && ours.0 == 1, "{published:?} {ours:?}");
    assert!(ours.1 < 0.95 * published.1, "{published:?} {ours:?}");
}

/// snu2020 §5.5.2: "the scheduler always scheduled the memcached VM on host 4 that had the lowest memory intensity".
#[test]
fn the_testbeds_service_goes_to_the_fourth_host() {
    let scenario = Scenario::shipped("testbed").unwrap();
    for policy in ["sdc-published", "sdc-global"] {
        let mut first = None;
        Cluster::simulate(&scenario, policy, 0, |_, stack| {
            first = first.or_else(|| stack.layers()[0].plan.places.first().map(|command| command.host));
        })
        .unwrap();
        assert_eq!(first, Some(HostId(3)), "{policy}");
    }
}

#[test]
fn a_workload_that_writes_faster_than_the_link_never_arrives_and_stays_where_it_is() {
    let text = r#"
about = "it writes too fast"
lasts = "10min"
host = [{ count = 2, machine = "sdc", cores = 8, memory-gib = 64, link-gbit = 1 }]
workloads = [{ kind = "writes", count = 1, hosts = [0] }]
kind = [{ name = "writes", class = "be", vcpus = 1, memory-gib = 4, dirty-mib = 400, phases = [{ profile = "lbm" }] }]
"#;
    let mut cluster = Cluster::new(&Scenario::parse(text).unwrap(), 1).unwrap();
    let (mut view, mut events) = (ClusterView::default(), Vec::new());
    let mut plan = ClusterPlan::default();
    let deadline = Nanos::from_secs(120);
    plan.moves.push(MoveCommand { workload: WorkloadId(0), to: HostId(1), deadline, relieves: None });
    let Ok(()) = cluster.apply(&plan, &mut events);
    let mut ends = Vec::new();
    while !cluster.is_over() {
        let Ok(()) = cluster.wait(Wake::OnEvent);
        let Ok(()) = cluster.observe((), &mut view, &mut events);
        for event in events.drain(..) {
            if let ClusterEvent::MoveEnded(_, how) = event {
                ends.push((view.now, how));
            }
        }
    }
    assert_eq!(ends, [(deadline, MoveEnd::TooLate)]);
    assert_eq!(view.workloads.host[0], Some(HostId(0)));
}

#[test]
fn faults_of_scenarios_are_told_with_the_fix() {
    let text = include_str!("../scenarios/testbed.toml");
    let fault = |from: &str, to: &str| Scenario::parse(&text.replacen(from, to, 1)).unwrap_err().to_string();
    for (from, to, word) in [
        ("machine = \"sdc\"", "machine = \"sds\"", "there is no such machine; give one of"),
        ("lasts = \"20min\"", "lasts = \"2s\"", "give 1min to 168h"),
        ("profile = \"lbm\"", "profile = \"ibm\"", "there is no profile 'ibm'"),
        ("rate = 60000", "rate = 0", "a service needs a rate"),
        ("vcpus = 2", "vcpus = 200", "fit on no host"),
        ("kind = \"lbm\"\ncount = 18", "kind = \"lbn\"\ncount = 18", "there is no such kind"),
        ("hosts = [0, 0", "hosts = [9, 0", "host 9 does not exist"),
        ("link-gbit = 1", "link = 1", "unknown field"),
        ("name = \"sjeng\"", "name = \"lbm\"", "is there twice"),
    ] {
        let said = fault(from, to);
        assert!(said.contains(word), "{from}: {said}");
    }
    let unknown = AnyClusterPolicy::named("sdc-globl", 0).unwrap_err().to_string();
    assert!(unknown.contains("did you mean sdc-global?"), "{unknown}");
}

#[test]
fn the_coarse_grain_is_near_the_exact_one() {
    let scenario = Scenario { lasts: Nanos::from_secs(120), ..Scenario::shipped("four-hosts").unwrap() };
    let compared = quell_cluster_sim::grains::compare(&scenario, "none", 0).unwrap();
    assert!(compared.slowdown.error().abs() < 0.1, "{compared:?}");
    assert!(compared.slowdown.exact > 1.03 && compared.rounds >= 3, "{compared:?}");
    assert!(compared.same_pairs * 20 >= compared.pairs * 19, "{compared:?}");
    // Queues have no bursts of the host's scheduler in the coarse grain.
    assert!(compared.p99_us.unwrap().error().abs() < 0.5, "{compared:?}");
}

#[test]
fn moves_in_the_exact_grain_lose_nothing_and_repeat() {
    let mut scenario = Scenario { lasts: Nanos::from_secs(90), ..Scenario::shipped("four-hosts").unwrap() };
    scenario.grain = quell_cluster_sim::scenario::Grain::Exact;
    scenario.fails.hosts = 0.5;
    scenario.kind[0].slo = scenario.kind[0].slo.map(|slo| quell_model::Slo { bound: Nanos(900_000), ..slo });
    let run = |seed| {
        let mut moves = 0;
        let outcome = Cluster::simulate(&scenario, "sdc-global", seed, |cluster, stack| {
            cluster.check().unwrap();
            moves += stack.layers()[0].plan.moves.len();
        });
        (outcome.unwrap().summary, moves)
    };
    let first = run(3);
    assert!(first.1 > 0 && first.0.count.arrived > 0 && first.0.count.died > 0, "{first:?}");
    assert_eq!(run(3), first);
}

//! What the property tests share: random machines, workloads and sequences of events on the simulated host.

#![allow(dead_code, reason = "each test file uses its part")]

use proptest::prelude::*;
use quell_model::demand::Asks;
use quell_model::{
    Class, CpuCount, CpuId, Demand, Description, Event, Host, Nanos, Plan, Policy, Reservation, Signal, SignalSet,
    Stack, Topology, View, Wake, Workload, WorkloadId,
};
use quell_policy::AnyPolicy;
use quell_sim::contention::ProfileName;
use quell_sim::faulty::Failure;
use quell_sim::workload::{Arrivals, BatchSpec, Dispatch, PeriodicSpec, ServerSpec, Service, Step};
use quell_sim::{Faults, Faulty, KernelConfig, SimHost, WorkloadSpec};

/// No machine of a story has more.
pub const MOST_CPUS: u32 = 24;

/// Every policy with its defaults, and with the parameters that switch on what is off by default.
pub fn every_policy() -> Vec<AnyPolicy> {
    let built = |name, text| AnyPolicy::build(name, &mut serde_json::Deserializer::from_str(text)).unwrap();
    let with = |(name, variants): &(_, &'static [_])| {
        [&"{}"].into_iter().chain(*variants).map(|text| built(*name, *text)).collect::<Vec<_>>()
    };
    AnyPolicy::VARIANTS.iter().flat_map(with).collect()
}

/// Something that happens on the machine.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "a story has a handful of them")]
pub enum Happening {
    Attach(WorkloadSpec),
    Detach(u32),
    Send(u32, usize),
    Demand(u32, f64),
    Born(u32),
    Ended(u32),
    Online(u32, bool),
    Blind(bool),
    Faults(f64),
}

/// A machine, what is on it at first, and what happens then.
#[derive(Clone, Debug)]
pub struct Story {
    pub topology: Topology,
    pub loads: Vec<WorkloadSpec>,
    pub happenings: Vec<(Happening, u64)>,
    pub seed: u64,
}

/// The simulated machine, on which things go wrong.
pub type TestHost = Faulty<SimHost>;

impl Story {
    /// The host with the first workloads. Where CPUs are granted, Quell's own scheduler lends them.
    pub fn host(&self, grants: bool) -> TestHost {
        let config = KernelConfig::default();
        let host = SimHost::new(self.topology.clone(), config, &self.loads, self.seed, grants).unwrap();
        Faulty::new(host, self.seed).losing(|host, dice| {
            let slots = host.slots().max(1) as u32;
            host.detach(WorkloadId(dice % slots));
        })
    }
}

pub fn any_topology() -> impl Strategy<Value = Topology> {
    (1u32..=2, 1u32..=2, 1u32..=3, 1u32..=2)
        .prop_map(|(sockets, llcs, cores, threads)| Topology::synthetic(sockets, llcs, cores, threads))
}

pub fn any_spec() -> impl Strategy<Value = Workload> {
    (any::<bool>(), 0u32..4_000, prop::option::of(0u32..3_000), any::<bool>(), any::<bool>(), any::<u32>()).prop_map(
        |(lc, cpus, more, strict, pausable, name)| {
            let class = if lc { Class::LatencyCritical } else { Class::BestEffort };
            let cpus = CpuCount(cpus);
            let limit = more.map(|more| cpus + CpuCount(more + 1));
            let strict = strict && cpus.floor() > 0;
            let reservation = if strict { Reservation::Strict } else { Reservation::Standard };
            let server = Asks::Server { budget: Nanos::from_micros(100), period: Nanos::from_millis(1) };
            let demand = (name % 3 == 0).then(|| Demand { asks: server, servers: name % 2 + 1 });
            Workload { limit, reservation, pausable, demand, ..Workload::new(format!("w{name}"), class, cpus) }
        },
    )
}

pub fn any_load() -> impl Strategy<Value = WorkloadSpec> {
    let arrivals = prop_oneof![
        // None of its own.
        Just(Arrivals::Steps(vec![Step { at: Nanos::ZERO, rate: 0.0 }])),
        (500.0..50_000.0).prop_map(Arrivals::Uniform),
        (500.0..50_000.0).prop_map(Arrivals::Poisson),
    ];
    let profile = prop_oneof![Just(None), Just(Some("computing")), Just(Some("streaming")), Just(Some("memcached"))];
    (any_spec(), arrivals, 1u64..200, 1u32..4, 0.0..=1.0, any::<bool>(), profile).prop_map(
        |(described, arrivals, service, threads, demand, asked, profile)| {
            let server = ServerSpec {
                arrivals,
                service: Service::Constant(Nanos::from_micros(service)),
                dispatch: Dispatch::Pool,
            };
            let periodic = PeriodicSpec {
                period: Nanos::from_millis(5),
                work: Service::Constant(Nanos::from_millis(5).scaled(demand).max(Nanos(1))),
                offset: Nanos::ZERO,
                stagger: Nanos::from_micros(100),
                later: None,
                deadline: None,
            };
            let is_server = described.is_lc() && asked;
            WorkloadSpec {
                cpus: described.cpus,
                limit: described.limit,
                reservation: described.reservation,
                pausable: described.pausable,
                demand: described.demand,
                // Best-effort work takes every CPU that it is given, even when some of its threads have ended.
                threads: if described.class == Class::BestEffort { MOST_CPUS + 8 } else { threads },
                server: is_server.then_some(server),
                periodic: (described.class == Class::LatencyCritical && !asked).then_some(periodic),
                batch: (described.class == Class::BestEffort).then(BatchSpec::default),
                profile: profile.map(|name| ProfileName::Known(name.into())),
                ..WorkloadSpec::new(described.name, described.class)
            }
        },
    )
}

pub fn any_story(happenings: usize) -> impl Strategy<Value = Story> {
    let happening = prop_oneof![
        3 => any_load().prop_map(Happening::Attach),
        2 => (0u32..8).prop_map(Happening::Detach),
        4 => (0u32..8, 1usize..20).prop_map(|(slot, requests)| Happening::Send(slot, requests)),
        2 => (0u32..8, 0.0..=1.0).prop_map(|(slot, demand)| Happening::Demand(slot, demand)),
        1 => (0u32..8).prop_map(Happening::Born),
        1 => (0u32..8).prop_map(Happening::Ended),
        2 => (0..MOST_CPUS, any::<bool>()).prop_map(|(cpu, online)| Happening::Online(cpu, online)),
        1 => any::<bool>().prop_map(Happening::Blind),
        1 => (0.0..0.5).prop_map(Happening::Faults),
    ];
    let happenings = prop::collection::vec((happening, 1u64..6), 0..happenings);
    (any_topology(), prop::collection::vec(any_load(), 0..6), happenings, any::<u64>())
        .prop_map(|(topology, loads, happenings, seed)| Story { topology, loads, happenings, seed })
}

/// What a blind host does not report: all but who there is, and who holds which CPU.
fn withheld() -> SignalSet {
    let known = SignalSet::of(&[Signal::Threads, Signal::CriticalThreads, Signal::Holder]);
    SignalSet::of(Signal::ALL).difference(known)
}

/// Makes it happen.
pub fn happen(host: &mut TestHost, happening: &Happening) {
    match *happening {
        Happening::Attach(ref load) => drop(host.attach(load).unwrap()),
        Happening::Detach(slot) => drop(host.detach(WorkloadId(slot))),
        Happening::Send(slot, requests) => host.send(WorkloadId(slot), requests),
        Happening::Demand(slot, demand) => host.set_demand(WorkloadId(slot), demand),
        Happening::Born(slot) => drop(host.add_thread(WorkloadId(slot))),
        Happening::Ended(slot) => drop(host.end_thread(WorkloadId(slot))),
        Happening::Online(cpu, online) => host.set_online(CpuId(cpu), online),
        Happening::Blind(blind) => host.withhold(if blind { withheld() } else { SignalSet::default() }),
        Happening::Faults(chance) => {
            host.faults = Faults {
                knobs_refused: chance,
                grants_refused: chance,
                others_refused: chance,
                looks_failed: chance / 4.0,
                vanishing: chance / 20.0,
                without: None,
                grants_late: if chance > 0.25 { Nanos::from_micros(3) } else { Nanos::ZERO },
            }
        }
    }
}

/// Nothing goes wrong any more, everything is measured, every CPU is there, and best-effort work wants to run.
pub fn calm(host: &mut TestHost, topology: &Topology) {
    host.faults = Faults::default();
    host.withhold(SignalSet::default());
    topology.all().iter().for_each(|cpu| host.set_online(cpu, true));
    for id in (0..host.slots() as u32).map(WorkloadId) {
        if host.spec(id).is_some_and(|spec| !spec.is_lc()) {
            host.set_demand(id, 1.0);
        }
    }
}

/// How long a policy of this description needs between two decisions.
pub fn interval(description: &Description) -> Nanos {
    description.interval.max(Nanos::from_micros(500)).min(Nanos::from_millis(100))
}

/// A policy that runs beside a copy of itself, restored from its serialised state every few steps: both must decide
/// alike.
pub struct Shadowed {
    pub policy: AnyPolicy,
    shadow: AnyPolicy,
    plan: Plan,
    every: u64,
    steps: u64,
}

impl Shadowed {
    pub fn new(policy: AnyPolicy, every: u64) -> Shadowed {
        Shadowed { shadow: policy.clone(), policy, plan: Plan::default(), every, steps: 0 }
    }
}

impl Policy for Shadowed {
    fn describe(&self) -> &'static Description {
        self.policy.describe()
    }

    fn step(&mut self, view: &View, events: &[Event], plan: &mut Plan) -> Wake {
        if self.steps.is_multiple_of(self.every) {
            let state = serde_json::to_string(&self.policy).unwrap();
            self.shadow = serde_json::from_str(&state).unwrap();
            assert_eq!(self.shadow, self.policy, "the state survives JSON");
        }
        self.steps += 1;
        self.plan.begin(plan.number);
        let wake = self.policy.step(view, events, plan);
        let shadows = self.shadow.step(view, events, &mut self.plan);
        assert_eq!((&shadows, &self.plan), (&wake, &*plan), "step {}: the restored policy decides alike", self.steps);
        wake
    }
}

/// Turns the loop until this time; a look that failed is tried again in a millisecond.
fn run<P: Policy>(
    host: &mut TestHost,
    stack: &mut Stack<P>,
    until: Nanos,
    seen: &mut impl FnMut(&TestHost, &Stack<P>),
) {
    while host.sim().now() < until {
        let wake = match stack.turn(host) {
            Ok(wake) => {
                seen(host, stack);
                wake
            }
            Err(Failure::Injected) => Wake::At(host.sim().now() + Nanos::from_millis(1)),
        };
        host.wait(wake.sooner(Wake::At(until))).unwrap();
    }
}

/// Runs a story with a policy; `seen` looks at every turn. Returns the host after a calm end.
pub fn play<P: Policy>(story: &Story, policy: P, mut seen: impl FnMut(&TestHost, &Stack<P>)) -> (TestHost, Stack<P>) {
    let mut host = story.host(policy.describe().grants);
    let (step, own) = (interval(policy.describe()), policy.describe().interval);
    let mut stack = Stack::of_one(policy, host.view());
    for (happening, steps) in &story.happenings {
        happen(&mut host, happening);
        let until = host.sim().now() + Nanos(step.0 * steps);
        run(&mut host, &mut stack, until, &mut seen);
    }
    calm(&mut host, &story.topology);
    // Longer than the retries of refused plans; what decides every few microseconds decides again at once.
    let quick = own > Nanos::ZERO && own < Nanos::from_millis(1);
    let until = host.sim().now() + if quick { Nanos::from_millis(3) } else { Nanos::from_secs(3) };
    run(&mut host, &mut stack, until, &mut seen);
    (host, stack)
}

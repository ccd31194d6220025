//! What the property tests share: random machines, workloads and sequences of events on the toy host.

#![allow(dead_code, reason = "each test file uses its part")]

use proptest::prelude::*;
use quell_model::demand::Asks;
use quell_model::{
    Class, CpuCount, CpuId, Demand, Description, Event, Nanos, Plan, Policy, Reservation, Stack, Topology, View, Wake,
    Workload, WorkloadId,
};
use quell_policy::AnyPolicy;
use quell_toy::{Arrivals, Machine, ToyHost, ToyWorkload};

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
    Attach(ToyWorkload),
    Detach(u32),
    Send(u32, usize),
    Demand(u32, f64),
    Born(u32, f64),
    Online(u32, bool),
    Blind(bool),
    Faults(f64),
}

/// A machine, what is on it at first, and what happens then.
#[derive(Clone, Debug)]
pub struct Story {
    pub topology: Topology,
    pub loads: Vec<ToyWorkload>,
    pub happenings: Vec<(Happening, u64)>,
    pub seed: u64,
}

impl Story {
    /// The host with the first workloads.
    pub fn host(&self) -> ToyHost {
        let mut host = ToyHost::new(self.topology.clone(), Machine::default());
        host.faults = quell_toy::Faults::seeded(self.seed);
        for load in &self.loads {
            host.attach(load.clone());
        }
        host
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

pub fn any_load() -> impl Strategy<Value = ToyWorkload> {
    let arrivals = prop_oneof![
        Just(Arrivals::None),
        (20u64..2_000).prop_map(|micros| Arrivals::Every(Nanos::from_micros(micros))),
        (20u64..2_000, any::<u64>())
            .prop_map(|(micros, seed)| Arrivals::Poisson { mean: Nanos::from_micros(micros), seed }),
    ];
    let threads = prop::collection::vec(0.0..=1.0, 0..4);
    (any_spec(), arrivals, 1u64..200, threads, 0.0..8e9, 0.0..20.0).prop_map(
        |(spec, arrivals, service, threads, bandwidth, ways)| {
            let arrivals = if spec.is_lc() { arrivals } else { Arrivals::Endless };
            ToyWorkload::new(spec)
                .requests(arrivals, Nanos::from_micros(service))
                .threads(&threads)
                .bandwidth(bandwidth)
                .cache(ways, 0.8)
        },
    )
}

pub fn any_story(happenings: usize) -> impl Strategy<Value = Story> {
    let happening = prop_oneof![
        3 => any_load().prop_map(Happening::Attach),
        2 => (0u32..8).prop_map(Happening::Detach),
        4 => (0u32..8, 1usize..20).prop_map(|(slot, requests)| Happening::Send(slot, requests)),
        2 => (0u32..8, 0.0..=1.0).prop_map(|(slot, demand)| Happening::Demand(slot, demand)),
        1 => (0u32..8, 0.0..=1.0).prop_map(|(slot, demand)| Happening::Born(slot, demand)),
        2 => (0u32..24, any::<bool>()).prop_map(|(cpu, online)| Happening::Online(cpu, online)),
        1 => any::<bool>().prop_map(Happening::Blind),
        1 => (0.0..0.5).prop_map(Happening::Faults),
    ];
    let happenings = prop::collection::vec((happening, 1u64..6), 0..happenings);
    (any_topology(), prop::collection::vec(any_load(), 0..6), happenings, any::<u64>())
        .prop_map(|(topology, loads, happenings, seed)| Story { topology, loads, happenings, seed })
}

/// Makes it happen.
pub fn happen(host: &mut ToyHost, happening: &Happening) {
    match *happening {
        Happening::Attach(ref load) => drop(host.attach(load.clone())),
        Happening::Detach(slot) => host.detach(WorkloadId(slot)),
        Happening::Send(slot, requests) => host.send(WorkloadId(slot), requests),
        Happening::Demand(slot, demand) => host.set_demand(WorkloadId(slot), demand),
        Happening::Born(slot, demand) => drop(host.add_thread(WorkloadId(slot), demand)),
        Happening::Online(cpu, online) => host.set_online(CpuId(cpu), online),
        Happening::Blind(blind) => host.blind = blind,
        Happening::Faults(chance) => {
            host.faults.knobs_refused = chance;
            host.faults.grants_refused = chance;
            host.faults.others_refused = chance;
            host.faults.vanishing = chance / 20.0;
        }
    }
}

/// Nothing goes wrong any more, everything is measured, every CPU is there.
pub fn calm(host: &mut ToyHost, topology: &Topology) {
    happen(host, &Happening::Faults(0.0));
    host.blind = false;
    topology.all().iter().for_each(|cpu| host.set_online(cpu, true));
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

/// Runs a story with a policy; `seen` looks at every turn. Returns the host after a calm end.
pub fn tell<P: Policy>(story: &Story, policy: P, mut seen: impl FnMut(&ToyHost, &Stack<P>)) -> (ToyHost, Stack<P>) {
    let mut host = story.host();
    let (step, own) = (interval(policy.describe()), policy.describe().interval);
    let mut stack = Stack::of_one(policy, host.view());
    for (happening, steps) in &story.happenings {
        happen(&mut host, happening);
        let until = host.now() + Nanos(step.0 * steps);
        quell_toy::run(&mut host, &mut stack, until, &mut seen);
    }
    calm(&mut host, &story.topology);
    // Longer than the retries of refused plans; what decides every few microseconds decides again at once.
    let quick = own > Nanos::ZERO && own < Nanos::from_millis(1);
    let until = host.now() + if quick { Nanos::from_millis(3) } else { Nanos::from_secs(3) };
    quell_toy::run(&mut host, &mut stack, until, &mut seen);
    (host, stack)
}

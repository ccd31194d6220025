//! The allocator's choices.

use quell_model::{Class, CpuCount, GrantCommand, Sample, Stack, Topology, Workload};
use quell_sim::host::drive;
use quell_sim::workload::Arrivals;
use quell_sim::{Costs, KernelConfig, SimHost, WorkloadSpec};

use super::*;

fn micros(micros: u64) -> Nanos {
    Nanos::from_micros(micros)
}

/// A host with a task that is guaranteed this many cores, and one that is guaranteed none and always has work.
fn machine(topology: Topology, guaranteed: u32) -> (SimHost, WorkloadId, WorkloadId) {
    let workloads = [
        WorkloadSpec::lc("lc", CpuCount::whole(guaranteed)).serving(8, Arrivals::none(), micros(1000)),
        WorkloadSpec::be("be").busy(8),
    ];
    let config = KernelConfig { costs: Costs::FREE, ..KernelConfig::default() };
    (SimHost::new(topology, config, &workloads, 1, true).unwrap(), WorkloadId(0), WorkloadId(1))
}

fn run(host: &mut SimHost, policy: &mut Shenango, span: Nanos, mut seen: impl FnMut(&SimHost, &Plan)) {
    let mut stack = Stack::of_one(policy, host.view());
    let until = host.now() + span;
    drive(host, &mut stack, until, |host, stack| seen(host, &stack.first().plan));
}

#[test]
fn a_congested_task_gets_its_guarantee_a_core_a_check_and_not_more_from_others() {
    let (mut host, lc, be) = machine(Topology::synthetic(1, 1, 8, 1), 3);
    let mut policy = Shenango::new(ShenangoConfig::default());
    run(&mut host, &mut policy, micros(100), |_, _| {});
    assert_eq!(host.held(be).len(), 8, "what no one else uses it bursts into");
    host.send(lc, 8);
    let before = host.now();
    run(&mut host, &mut policy, micros(100), |host, _| {
        let checks = (host.now() - before).0.div_ceil(INTERVAL.0) as usize;
        assert!(host.held(lc).len() <= checks.max(1), "one core a check");
    });
    assert_eq!(host.held(lc).len(), 3, "bursting, it gets idle cores only, and there is none");
    run(&mut host, &mut policy, micros(4000), |_, _| {});
    assert_eq!(
        (host.sim().stats()[lc.index()].latencies.count(), host.held(be).len()),
        (8, 8),
        "yielded cores go back at once"
    );
}

#[test]
fn a_bursting_task_takes_idle_cores_beside_its_own() {
    let (mut host, lc, be) = machine(Topology::synthetic(1, 1, 4, 2), 1);
    host.detach(be);
    let mut policy = Shenango::new(ShenangoConfig::default());
    host.send(lc, 2);
    run(&mut host, &mut policy, micros(50), |_, _| {});
    let held = host.held(lc);
    let topology = Topology::synthetic(1, 1, 4, 2);
    let first = held.iter().next().unwrap();
    assert_eq!(held, topology.core_of(first), "the sibling of its own core first");
    assert_ne!(held, CpuSet::EMPTY);
}

#[test]
fn a_short_wait_is_no_congestion() {
    let (mut host, lc, _) = machine(Topology::synthetic(1, 1, 2, 1), 2);
    let mut policy = Shenango::new(ShenangoConfig { interval: micros(100) });
    run(&mut host, &mut policy, micros(1000), |_, _| {});
    host.send(lc, 1);
    run(&mut host, &mut policy, micros(90), |_, _| {});
    assert!(host.held(lc).is_empty());
    run(&mut host, &mut policy, micros(120), |_, _| {});
    assert_eq!(host.held(lc).len(), 1);
}

/// Four cores of two hyperthreads, CPUs 0 and 4 the first core's, and two tasks: one is guaranteed four cores, the other none.
/// No task waits.
fn view(holders: [Option<u32>; 8]) -> View {
    let mut view = View::new(Topology::synthetic(1, 1, 4, 2).into());
    for guaranteed in [4, 0] {
        let spec = Workload::new(format!("t{guaranteed}"), Class::LatencyCritical, CpuCount::whole(guaranteed));
        view.workloads.spec.push(Some(spec.into()));
    }
    view.cpus.holder = holders.map(|holder| holder.map(WorkloadId)).to_vec();
    waiting(&mut view, 0);
    view
}

/// The first task's work has waited for this long, µs.
fn waiting(view: &mut View, micros: u64) {
    let now = view.now;
    view.workloads.queueing_delay = [micros, 0].map(|micros| Sample::exact(Nanos::from_micros(micros), now)).to_vec();
}

/// The next check, and the cores that it grants to the first task.
fn granted(policy: &mut Shenango, view: &mut View, events: &[Event]) -> Vec<u32> {
    let mut plan = Plan::default();
    plan.begin(1 + view.now.0);
    policy.step(view, events, &mut plan);
    view.now += INTERVAL;
    let to_first = plan.grants.iter().filter_map(|grant| match grant {
        GrantCommand::Grant(core, WorkloadId(0)) => Some(core.0),
        _ => None,
    });
    to_first.collect()
}

#[test]
fn a_core_is_chosen_in_the_authors_order() {
    let sibling = |core: u32| Topology::synthetic(1, 1, 4, 2).siblings_of(CpuId(core)).iter().next().unwrap().index();
    let chosen = |of: &dyn Fn(&mut [Option<u32>; 8]), left: Option<u32>| {
        // The other task has all, which is more than its guarantee of none; the first has CPU 1.
        let mut holders = [Some(1); 8];
        holders[1] = Some(0);
        of(&mut holders);
        let mut view = view(holders);
        let mut policy = Shenango::new(ShenangoConfig::default());
        if let Some(left) = left {
            let now = view.cpus.holder[left as usize].replace(WorkloadId(0));
            assert_eq!(granted(&mut policy, &mut view, &[]), [0; 0]);
            view.cpus.holder[left as usize] = now;
        }
        assert_eq!(granted(&mut policy, &mut view, &[]), [0; 0]);
        waiting(&mut view, 5);
        granted(&mut policy, &mut view, &[])
    };
    let own = sibling(1);
    let other = (0..8).find(|&core| core != own && core != 1 && core != 7).unwrap();
    assert_eq!(chosen(&|_| {}, None), [own as u32], "none is idle: the sibling of an own core is preempted");
    assert_eq!(chosen(&|holders| holders[7] = None, None), [7], "one is idle: none is preempted, not even the sibling");
    assert_eq!(chosen(&|holders| (holders[own], holders[7]) = (None, None), None), [own as u32], "the sibling first");
    let two_idle = |holders: &mut [Option<u32>; 8]| (holders[other], holders[7]) = (None, None);
    assert_eq!(chosen(&two_idle, None), [other as u32], "then the lowest");
    assert_eq!(chosen(&two_idle, Some(7)), [7], "but before it the one that it left last");
}

#[test]
fn a_core_that_was_just_granted_has_a_pass() {
    let mut view = view([None; 8]);
    let mut policy = Shenango::new(ShenangoConfig::default());
    waiting(&mut view, 1);
    let first = granted(&mut policy, &mut view, &[]);
    assert_eq!(first.len(), 1, "without a core it need not wait for two checks");
    view.cpus.holder[first[0] as usize] = Some(WorkloadId(0));
    waiting(&mut view, 6);
    assert_eq!(granted(&mut policy, &mut view, &[]), [0; 0], "its thread may not have woken up yet");
    waiting(&mut view, 11);
    assert_eq!(granted(&mut policy, &mut view, &[]).len(), 1);
}

//! What every policy keeps, whatever the machine, the workloads and the sequence of events.

mod common;

use std::collections::BTreeSet;

use common::{Shadowed, Story, TestHost, any_story, every_policy, play};
use proptest::prelude::*;
use quell_model::{CpuSet, GrantCommand, Knob, Plan, Policy, Rule, Stack, Target, View, WorkloadId};
use quell_policy::AnyPolicy;
use quell_policy::invariant::{Calm, Has, Invariants};

/// What must hold of every plan.
fn check_plans(host: &TestHost, stack: &Stack<AnyPolicy>) {
    stack.stepped().for_each(|layer| check_plan(host, stack.view(), &layer.plan));
}

fn check_plan(host: &TestHost, view: &View, plan: &Plan) {
    let pool = view.pool();
    let mut granted = CpuSet::EMPTY;
    for command in &plan.grants {
        let (cpu, to) = match *command {
            GrantCommand::Grant(cpu, to) => (cpu, Some(to)),
            GrantCommand::Revoke(cpu) => (cpu, None),
        };
        assert!(pool.contains(cpu), "CPU {cpu} is not in the pool");
        assert!(!granted.contains(cpu), "CPU {cpu} is granted twice");
        granted.insert(cpu);
        assert!(to.is_none_or(|id| view.workload(id).is_some()), "{to:?} is not there");
        let unbanned = plan.rules.iter().any(|rule| match *rule {
            Rule::SiblingBan { cpu: by, request_start: Rule::NO_REQUEST } => {
                view.topology.siblings_of(by).contains(cpu)
            }
            _ => false,
        });
        assert!(to.is_none() || unbanned || !view.cpus.banned.contains(cpu), "CPU {cpu} is banned");
    }
    let mut settings = BTreeSet::new();
    for setting in &plan.knobs {
        assert!(settings.insert(format!("{:?} {:?}", setting.target, setting.knob.kind())), "set twice: {setting:?}");
        if let Knob::Cpus(cpus) = setting.knob {
            assert!(!cpus.is_empty() && cpus.is_subset(&pool), "{setting:?} of {pool:?}");
        }
        if let (Target::Workload(id), Knob::Class(class)) = (setting.target, setting.knob) {
            let spec = view.workload(id).expect("it is there");
            assert!(spec.is_lc() || !class.is_real_time(), "best-effort work is never real-time");
        }
    }
    assert!(plan.leaves.is_none_or(|left| left.is_subset(&pool)));
    let held: usize = ids(view).map(|id| host.held(id).len()).sum();
    assert!(held <= host.online().len(), "every CPU has one holder");
}

fn ids(view: &View) -> impl Iterator<Item = WorkloadId> + '_ {
    (0..view.workloads.spec.len()).map(|slot| WorkloadId(slot as u32))
}

/// What must hold after things have been calm for a while: what the policy's folder says.
fn check_calm(host: &TestHost, stack: &Stack<AnyPolicy>) {
    let quell_model::Layer { policy, plan, .. } = stack.first();
    let has = ids(stack.view()).map(|id| Has {
        cpus: host.cpus_of(id),
        held: host.held(id),
        classes: host.classes(id).collect(),
        // Where contention is not modelled all are everybody's.
        ways: host.cache_ways(id).unwrap_or(0xf_ffff),
    });
    let (cpus, banned, knobs_set) = (host.online(), host.banned(), host.policy_costs().commands);
    policy.check(&Calm { view: stack.view(), plan, cpus, banned, knobs_set, has: has.collect() });
}

/// Stories are long: an eighth of PROPTEST_CASES (256).
fn config() -> ProptestConfig {
    let usual = ProptestConfig::default();
    ProptestConfig { cases: usual.cases.div_ceil(8), max_shrink_iters: 200, ..usual }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn invariants_hold_on_every_machine_through_every_story(story in any_story(8), which in 0..every_policy().len()) {
        let (host, stack) = play(&story, every_policy().swap_remove(which), check_plans);
        check_calm(&host, &stack);
    }

    #[test]
    fn a_policy_restored_from_its_state_decides_alike(
        story in any_story(6),
        which in 0..every_policy().len(),
        every in 1u64..40,
    ) {
        play(&story, Shadowed::new(every_policy().swap_remove(which), every), |_, _| {});
    }

    #[test]
    fn the_same_story_is_told_the_same_way_twice(story in any_story(5), which in 0..every_policy().len()) {
        let plans = || {
            let mut plans = Vec::new();
            play(&story, every_policy().swap_remove(which), |_, stack| plans.push(stack.first().plan.clone()));
            plans
        };
        prop_assert_eq!(plans(), plans());
    }
}

#[test]
fn every_policy_can_work_on_the_simulated_host() {
    use quell_model::Host;
    let profile = Some(quell_sim::contention::ProfileName::Known("computing".into()));
    let batch = quell_sim::WorkloadSpec {
        batch: Some(quell_sim::workload::BatchSpec::default()),
        profile,
        ..quell_sim::WorkloadSpec::new("batch", quell_model::Class::BestEffort)
    };
    let topology = quell_model::Topology::synthetic(1, 1, 2, 1);
    let story = Story { topology, loads: vec![batch], happenings: Vec::new(), seed: 1 };
    for policy in every_policy() {
        let fidelity = story.host(policy.describe().grants).capabilities().fidelity(policy.describe());
        assert!(fidelity.missing.is_empty(), "{}: {:?}", policy.describe().name, fidelity.missing);
    }
}

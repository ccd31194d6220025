//! What every policy keeps, whatever the machine, the workloads and the sequence of events.

mod common;

use std::collections::BTreeSet;

use common::{Shadowed, any_story, every_policy, tell};
use proptest::prelude::*;
use quell_model::{CpuSet, GrantCommand, Knob, Plan, Policy, Rule, SchedClass, Stack, Target, View, WorkloadId};
use quell_policy::AnyPolicy;
use quell_toy::ToyHost;

/// What must hold of every plan.
fn check_plans(host: &ToyHost, stack: &Stack<AnyPolicy>) {
    stack.stepped().for_each(|layer| check_plan(host, stack.view(), &layer.plan));
}

fn check_plan(host: &ToyHost, view: &View, plan: &Plan) {
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

/// What must hold after things have been calm for a while: sums are kept, strict sets are disjoint, and best-effort
/// work has every CPU that nobody else needs.
fn check_calm(host: &ToyHost, stack: &Stack<AnyPolicy>) {
    let (view, pool) = (stack.view(), host.online());
    let quell_model::Layer { policy, plan, .. } = stack.first();
    let best_effort: Vec<WorkloadId> = view.owned().filter(|(_, spec)| !spec.is_lc()).map(|(id, _)| id).collect();
    match policy {
        AnyPolicy::None(_) => {
            assert_eq!(host.knobs_set(), 0);
        }
        AnyPolicy::Rkube(rkube) => {
            let placement = rkube.placement();
            let mut taken = placement.system().union(&placement.shared());
            assert!(placement.system().is_disjoint(&placement.shared()));
            for (id, spec) in view.owned() {
                let own = placement.exclusive(id);
                assert!(own.is_disjoint(&taken), "{own:?} of {} overlaps {taken:?}", spec.name);
                taken = taken.union(&own);
                let expected = match (own.is_empty(), spec.cpus.fraction().0) {
                    (true, _) => placement.shared(),
                    (false, 0) => own,
                    (false, _) => own.union(&placement.shared()),
                };
                if !expected.is_empty() {
                    assert_eq!(host.cpus_of(id), expected, "{} has what was decided", spec.name);
                }
            }
            assert_eq!(taken, pool, "reserved, shared and system CPUs are all CPUs");
        }
        AnyPolicy::Guard(_) => {
            for &id in &best_effort {
                assert!(host.classes(id).all(|class| !class.is_real_time()));
            }
            for (id, spec) in view.owned().filter(|(_, spec)| spec.is_lc() && spec.cpus.0 == 0) {
                let ordinary = host.classes(id).all(|class| class == SchedClass::NORMAL);
                assert!(ordinary, "{} has no guarantee", spec.name);
            }
        }
        AnyPolicy::Caladan(_) => {
            let throttles = serde_json::to_string(policy).unwrap().contains(r#""thresh_bw":1"#);
            for (id, spec) in view.owned() {
                let most = spec.limit.map_or(u32::MAX, |limit| limit.ceil()) as usize;
                let held = host.held(id).len();
                assert!(held <= most, "{} holds {held} of {most} CPUs", spec.name);
                // What became idle just before the last step was given away by it.
                let granted = plan.grants.iter().filter_map(|command| match *command {
                    GrantCommand::Grant(cpu, _) => Some(cpu),
                    GrantCommand::Revoke(_) => None,
                });
                let granted = granted.collect();
                let idle = view.cpus.idle.difference(&host.banned()).difference(&granted);
                if !spec.is_lc() && held < most && !throttles {
                    assert!(idle.is_empty(), "{} wants more, and {idle:?} are idle", spec.name);
                }
            }
        }
        AnyPolicy::Shenango(_) => {
            for (id, spec) in view.owned() {
                let most = spec.limit.map_or(u32::MAX, |limit| limit.ceil()) as usize;
                assert!(host.held(id).len() <= most, "{} holds {} of {most} CPUs", spec.name, host.held(id).len());
            }
        }
        AnyPolicy::Elfen(_) => {
            let topology = host.view().topology;
            for (id, spec) in view.owned() {
                for cpu in host.held(id).iter() {
                    let is_first = topology.siblings_of(cpu).iter().all(|sibling| cpu < sibling);
                    assert_eq!(is_first, spec.is_lc(), "{} on {cpu}: request lanes are first", spec.name);
                }
            }
        }
        AnyPolicy::Parties(_) => {
            let (critical, others): (Vec<_>, Vec<_>) = view.owned().partition(|(_, spec)| spec.is_lc());
            if critical.len() + usize::from(!others.is_empty()) <= pool.len() {
                let mut taken = CpuSet::EMPTY;
                for (id, spec) in critical.iter().chain(others.first()) {
                    let own = host.cpus_of(*id);
                    assert!(!own.is_empty() && own.is_disjoint(&taken), "{} has CPUs of its own", spec.name);
                    taken = taken.union(&own);
                }
                assert!(view.owned().next().is_none() || taken == pool, "all CPUs are somebody's");
            }
        }
        AnyPolicy::Vas(vas) => {
            let mut taken = CpuSet::EMPTY;
            for (id, spec) in view.owned() {
                let own = vas.cpus_of(id);
                let asks = spec.demand.as_ref().map_or(0, |demand| demand.servers as usize);
                assert!(own.is_empty() || own.len() == asks, "{} asks for {asks} and has {own}", spec.name);
                assert!(own.is_disjoint(&taken), "one server a CPU: {own} of {}, {taken}", spec.name);
                assert!(own.is_empty() || host.cpus_of(id) == own, "{} runs where it has servers", spec.name);
                taken = taken.union(&own);
            }
            assert!(taken.is_subset(&pool));
        }
        AnyPolicy::His(his) => {
            let Some(isolation) = his.isolation() else {
                for &id in &best_effort {
                    assert_eq!(host.cpus_of(id), pool, "without a foreground nobody is confined");
                }
                return;
            };
            let foreground =
                view.owned().find(|(id, spec)| spec.is_lc() && host.cpus_of(*id).len() == isolation.cores as usize);
            let (foreground, _) = foreground.expect("the foreground has its cores");
            for &id in &best_effort {
                assert!(pool.len() < 2 || host.cpus_of(id).len() == pool.len() - isolation.cores as usize);
                let apart = host.ways_of(id).count_ones() + isolation.ways.unwrap_or(0);
                assert_eq!(apart, 20, "ways of the foreground and of the background are all ways");
            }
            let together = best_effort.iter().fold(host.cpus_of(foreground), |all, id| all.union(&host.cpus_of(*id)));
            assert_eq!(together, pool);
        }
    }
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
        let (host, stack) = tell(&story, every_policy().swap_remove(which), check_plans);
        check_calm(&host, &stack);
    }

    #[test]
    fn a_policy_restored_from_its_state_decides_alike(
        story in any_story(6),
        which in 0..every_policy().len(),
        every in 1u64..40,
    ) {
        tell(&story, Shadowed::new(every_policy().swap_remove(which), every), |_, _| {});
    }

    #[test]
    fn the_same_story_is_told_the_same_way_twice(story in any_story(5), which in 0..every_policy().len()) {
        let plans = || {
            let mut plans = Vec::new();
            tell(&story, every_policy().swap_remove(which), |_, stack| plans.push(stack.first().plan.clone()));
            plans
        };
        prop_assert_eq!(plans(), plans());
    }
}

#[test]
fn every_policy_can_work_on_the_toy_host() {
    use quell_model::Host;
    let host = ToyHost::new(quell_model::Topology::synthetic(1, 1, 2, 1), quell_toy::Machine::default());
    for policy in every_policy() {
        let fidelity = host.capabilities().fidelity(policy.describe());
        assert!(fidelity.missing.is_empty(), "{}: {:?}", policy.describe().name, fidelity.missing);
    }
}

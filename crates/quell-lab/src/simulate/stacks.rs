//! The stacks that are compared, built as a configuration's would be.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use quell_model::{Policy, RuleKind, Scheduler};
use quell_policy::AnyPolicy;
use quell_sim::host::{Lending, capabilities};
use quell_sim::scenario::{Owned, PolicySpec, Scenario, StackSpec, Treatment};

/// A stack with its name and the scenario's parameters for its policies.
#[derive(Clone, Debug)]
pub struct Named {
    pub name: String,
    pub treatment: Treatment<AnyPolicy>,
    pub parameters: toml::Table,
}

/// The stacks of a scenario, or those of `only`; each refused if it cannot work on the simulated machine. Its limits
/// there go to `limits`.
pub fn of(scenario: &Scenario, only: &[String], limits: &mut BTreeSet<String>) -> Result<Vec<Named>> {
    let wanted = match only {
        [] => scenario.stacks(),
        only => only.iter().map(|name| scenario.stack_named(name)).collect(),
    };
    wanted.iter().map(|spec| built(scenario, spec, limits)).collect()
}

/// One stack, built; refused if it cannot work on the simulated machine.
pub fn built(scenario: &Scenario, spec: &StackSpec, limits: &mut BTreeSet<String>) -> Result<Named> {
    let owned = |policy: &PolicySpec| policy.workloads.names().map(<[String]>::to_vec);
    let mut policies = Vec::new();
    for policy in &spec.policies {
        policies.push((AnyPolicy::build(&policy.name, policy.deserializer())?, owned(policy)));
    }
    let scheduler = spec.scheduler.unwrap_or(scenario.machine.scheduler());
    let grants = policies.iter().any(|(policy, _)| policy.describe().grants);
    let shares = policies.iter().any(|(policy, _)| policy.describe().has_rule(RuleKind::Together));
    let lending = match scheduler {
        Scheduler::Quell if shares => Lending::Scheduler,
        _ if !grants => Lending::Nothing,
        Scheduler::Kernel => Lending::Affinity,
        Scheduler::Auto | Scheduler::Quell => Lending::Scheduler,
    };
    let mut name = spec.name();
    if lending == Lending::Affinity {
        if let Some(at) = AnyPolicy::place_of_guard(policies.iter().map(|(policy, _)| policy)) {
            let granting = policies.iter().filter(|(policy, _)| policy.describe().grants);
            let names: Option<Vec<_>> = granting.map(|(_, names)| names.clone()).collect();
            let guard = AnyPolicy::named("guard").expect("it is there");
            policies.insert(at, (guard, names.map(|names| names.concat())));
        }
        if spec.name.is_empty() {
            name += " by affinity";
        }
    }
    let has = capabilities(lending, scenario.measured_of_memory());
    for (policy, _) in &policies {
        let described = policy.describe();
        let fidelity = has.fidelity(described);
        if !fidelity.missing.is_empty() {
            bail!("'{}' cannot work on the simulated machine: {}", described.name, fidelity.missing.join("; "));
        }
        limits.extend(fidelity.limits.iter().map(|limit| format!("{}: {limit}", described.name)));
    }
    let parameters = spec.parameters();
    Ok(Named { name, treatment: Treatment { policies, lending }, parameters })
}

/// A note for a scenario with top-level `[[policy]]` tables of which a configuration would make one stack.
pub fn note(scenario: &Scenario) -> Option<String> {
    let owns_some = |policy: &&PolicySpec| policy.workloads != Owned::All;
    let parted = scenario.policies.iter().filter(owns_some).count();
    (scenario.policies.len() > 1 && parted > 0).then(|| {
        let names: Vec<&str> = scenario.policies.iter().map(|policy| policy.name.as_str()).collect();
        format!(
            "each [[policy]] is a stack of its own here ({}); to run them together write [[stack]], and [[stack.policy]] \
             for each",
            names.join(", ")
        )
    })
}

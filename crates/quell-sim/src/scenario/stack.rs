//! What a scenario compares: stacks of policies, as a configuration has one.

use quell_model::Scheduler;
use serde::{Deserialize, Serialize};

use super::Scenario;
use crate::SimError;

/// A policy with its parameters, as in a configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicySpec {
    /// Its name.
    pub name: String,
    /// The names of the workloads that it owns; None: all.
    #[serde(default, skip_serializing_if = "Owned::is_all")]
    pub workloads: Owned,
    /// What the policy takes.
    #[serde(default)]
    pub parameters: toml::Table,
}

impl PolicySpec {
    /// A policy that owns everything and has its default parameters.
    #[must_use]
    pub fn plain(name: &str) -> PolicySpec {
        PolicySpec { name: name.to_owned(), ..PolicySpec::default() }
    }

    /// Its parameters, to build the policy from.
    #[must_use]
    pub fn deserializer(&self) -> toml::Value {
        toml::Value::Table(self.parameters.clone())
    }
}

/// The workloads that a policy owns: `"all"`, or a list of names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "toml::Value", untagged)]
pub enum Owned {
    /// All.
    #[default]
    All,
    /// Those of these names.
    Named(Vec<String>),
}

impl Owned {
    fn is_all(&self) -> bool {
        *self == Owned::All
    }

    /// The names; None: all.
    #[must_use]
    pub fn names(&self) -> Option<&[String]> {
        match self {
            Owned::All => None,
            Owned::Named(names) => Some(names),
        }
    }
}

impl TryFrom<toml::Value> for Owned {
    type Error = String;

    fn try_from(value: toml::Value) -> Result<Owned, String> {
        match value {
            toml::Value::String(text) if text == "all" => Ok(Owned::All),
            toml::Value::Array(names) => {
                let name = |name: toml::Value| name.as_str().map(str::to_owned);
                let names: Option<Vec<String>> = names.into_iter().map(name).collect();
                names.map(Owned::Named).ok_or_else(|| "workloads: give names, such as [\"web\"]".into())
            }
            other => Err(format!("workloads = {other}: give \"all\" or names, such as [\"web\"]")),
        }
    }
}

/// A stack of policies: what the first leaves of the CPUs is the next one's pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StackSpec {
    /// What it is called; without a name its policies' names, joined by `+`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Whose scheduler runs; None: as `machine.scheduler` says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<Scheduler>,
    /// First to last.
    #[serde(default, rename = "policy")]
    pub policies: Vec<PolicySpec>,
}

impl StackSpec {
    /// A stack of one.
    #[must_use]
    pub fn of_one(policy: PolicySpec) -> StackSpec {
        StackSpec { policies: vec![policy], ..StackSpec::default() }
    }

    /// What it is called.
    #[must_use]
    pub fn name(&self) -> String {
        let names = || self.policies.iter().map(|policy| policy.name.as_str()).collect::<Vec<_>>().join("+");
        if self.name.is_empty() { names() } else { self.name.clone() }
    }

    /// Its policies' parameters: a policy's own where it is alone, else by policy.
    #[must_use]
    pub fn parameters(&self) -> toml::Table {
        match &self.policies[..] {
            [alone] => alone.parameters.clone(),
            policies => {
                let some = policies.iter().filter(|policy| !policy.parameters.is_empty());
                some.map(|policy| (policy.name.clone(), policy.parameters.clone().into())).collect()
            }
        }
    }
}

impl Scenario {
    /// What is compared: `[[stack]]`, or each top-level `[[policy]]` as a stack of one; without any, `none`.
    #[must_use]
    pub fn stacks(&self) -> Vec<StackSpec> {
        match (&self.stacks[..], &self.policies[..]) {
            ([], []) => vec![StackSpec::of_one(PolicySpec::plain("none"))],
            ([], policies) => policies.iter().cloned().map(StackSpec::of_one).collect(),
            (stacks, _) => stacks.to_vec(),
        }
    }

    /// The stack that is called so here; else one of the policies between the `+`, each with what the scenario says of it.
    #[must_use]
    pub fn stack_named(&self, name: &str) -> StackSpec {
        let stacks = self.stacks();
        if let Some(known) = stacks.iter().find(|stack| stack.name() == name) {
            return known.clone();
        }
        let known = |name: &str| stacks.iter().flat_map(|stack| &stack.policies).find(|policy| policy.name == name);
        let policy = |name: &str| known(name).cloned().unwrap_or_else(|| PolicySpec::plain(name));
        StackSpec { policies: name.split('+').map(policy).collect(), ..StackSpec::default() }
    }

    /// What makes no sense of the stacks.
    pub(super) fn check_stacks(&self) -> Result<(), SimError> {
        let bad = |why: String| Err(SimError::Scenario(why));
        if !self.stacks.is_empty() && !self.policies.is_empty() {
            return bad("[[policy]] beside [[stack]]: put it into a stack, as [[stack.policy]]".into());
        }
        for (at, stack) in self.stacks.iter().enumerate() {
            if stack.policies.is_empty() {
                return bad(format!("stack {}: it has no policy: give it a [[stack.policy]]", at + 1));
            }
            let name = stack.name();
            if self.stacks[..at].iter().any(|other| other.name() == name) {
                return bad(format!("two stacks are called '{name}': give one a `name` of its own"));
            }
        }
        let known = |name: &String| {
            self.workloads.iter().any(|workload| workload.name == *name) || self.vms.iter().any(|vm| vm.name == *name)
        };
        let policies = self.stacks.iter().flat_map(|stack| &stack.policies).chain(&self.policies);
        for policy in policies {
            if let Some(unknown) = policy.workloads.names().and_then(|names| names.iter().find(|name| !known(name))) {
                return bad(format!("policy '{}' owns '{unknown}': there is no such workload", policy.name));
            }
        }
        Ok(())
    }
}

//! Needs of policies and capabilities of hosts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::rule::RuleKind;
use crate::{Key, KnobKind, Nanos, Signal, SignalSet, TargetKind, Uses, Workload};

/// Something that a policy needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need<T> {
    /// The needed thing.
    pub what: T,
    /// The policy's behaviour without it, as a fidelity line; None: it cannot work without it.
    pub without: Option<&'static str>,
}

impl<T> Need<T> {
    /// The policy cannot work without it.
    pub const fn must(what: T) -> Need<T> {
        Need { what, without: None }
    }

    /// Without it the policy still does part of its work: the line says which.
    pub const fn or(what: T, without: &'static str) -> Need<T> {
        Need { what, without: Some(without) }
    }
}

/// A policy's description of itself.
#[derive(Clone, Copy, Debug)]
pub struct Description {
    /// Its name on the command line and in configurations.
    pub name: &'static str,
    /// Its purpose, in one sentence.
    pub summary: &'static str,
    /// Its publication, with sections; for our own policies: the place of their description.
    pub source: &'static str,
    /// Distance of its decisions; zero: only at changes.
    pub interval: Nanos,
    /// The signals that it reads.
    pub signals: &'static [Need<Signal>],
    /// The knobs that it sets.
    pub knobs: &'static [Need<KnobKind>],
    /// The rules that it hands to the host.
    pub rules: &'static [Need<RuleKind>],
    /// The keys of a workload's description that it acts on.
    pub keys: &'static [Uses],
    /// Does it grant and revoke single CPUs?
    pub grants: bool,
}

impl Description {
    /// The signals that it reads, as a set.
    #[must_use]
    pub fn signal_set(&self) -> SignalSet {
        self.signals.iter().fold(SignalSet::default(), |set, need| set.union(SignalSet::of(&[need.what])))
    }

    /// Does it need Quell's scheduler where available: for granted CPUs, or for servers?
    #[must_use]
    pub fn wants_own_scheduler(&self) -> bool {
        self.grants || self.has_rule(RuleKind::Server)
    }

    /// Does Quell's scheduler do anything for it? It may be as good without.
    #[must_use]
    pub fn can_use_own_scheduler(&self) -> bool {
        self.wants_own_scheduler() || self.has_rule(RuleKind::Together)
    }

    /// Does it hand rules of this kind to the host?
    #[must_use]
    pub fn has_rule(&self, kind: RuleKind) -> bool {
        self.rules.iter().any(|need| need.what == kind)
    }

    /// Does it act on this key of this workload?
    #[must_use]
    pub fn uses(&self, key: Key, workload: &Workload) -> bool {
        self.keys.iter().any(|used| used.key == key && used.of.is_none_or(|class| class == workload.class))
    }
}

/// Support of a host for a signal, knob or rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Support {
    /// Supported.
    Yes,
    /// Supported, within limits that the text states.
    Partly(String),
    /// Not supported: the reason, and the way to get it.
    No {
        /// The reason.
        why: String,
        /// How to get it.
        fix: String,
    },
}

impl Default for Support {
    fn default() -> Support {
        Support::No { why: "this host does not have it".into(), fix: "use another host".into() }
    }
}

/// Signals, knobs and rules that a host supports. Anything not listed is unsupported.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Capabilities {
    /// The host's name.
    pub host: String,
    /// Signals that it measures.
    pub signals: BTreeMap<Signal, Support>,
    /// Knobs that it sets.
    pub knobs: BTreeMap<KnobKind, Support>,
    /// Targets on which it sets a knob less well than on others.
    #[serde(default)]
    pub knobs_on: BTreeMap<KnobKind, BTreeMap<TargetKind, Support>>,
    /// The rules that it executes.
    pub rules: BTreeMap<RuleKind, Support>,
    /// The keys of a workload's description that it acts on by itself, or must carry out for a policy.
    #[serde(default)]
    pub keys: BTreeMap<Key, Support>,
    /// Does it grant single CPUs?
    pub grants: Support,
}

/// The commands that one machine declared impossible: a policy without which it could not work does not run there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Impossible {
    /// Kinds of rules.
    pub rules: Vec<RuleKind>,
    /// Kinds of knobs.
    pub knobs: Vec<KnobKind>,
}

/// Fidelity of a policy on a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fidelity {
    /// Missing necessities: name, reason and fix, one line each.
    pub missing: Vec<String>,
    /// Limits of the policy here and their reasons, one line each.
    pub limits: Vec<String>,
}

impl Capabilities {
    /// The support for this knob on such a target.
    #[must_use]
    pub fn can_set(&self, knob: KnobKind, on: TargetKind) -> Support {
        if !knob.info().on.contains(&on) {
            let of: Vec<&str> = knob.info().on.iter().map(|target| target.name()).collect();
            let why = format!("there is no knob '{}' of a {}", knob.name(), on.name());
            return Support::No { why, fix: format!("set it on a {}", of.join(" or ")) };
        }
        let here = self.knobs_on.get(&knob).and_then(|targets| targets.get(&on));
        here.or_else(|| self.knobs.get(&knob)).cloned().unwrap_or_default()
    }

    /// What it does not execute.
    #[must_use]
    pub fn impossible(&self) -> Impossible {
        let is_possible = |support: Option<&Support>| matches!(support, Some(Support::Yes | Support::Partly(_)));
        Impossible {
            rules: RuleKind::ALL.iter().copied().filter(|kind| !is_possible(self.rules.get(kind))).collect(),
            knobs: KnobKind::ALL.iter().copied().filter(|kind| !is_possible(self.knobs.get(kind))).collect(),
        }
    }

    /// Limits the support for a knob on targets of this kind.
    pub fn limit_on(&mut self, knob: KnobKind, on: TargetKind, support: Support) {
        self.knobs_on.entry(knob).or_default().insert(on, support);
    }

    /// The fidelity of a policy of this description here.
    #[must_use]
    pub fn fidelity(&self, policy: &Description) -> Fidelity {
        let mut fidelity = Fidelity::default();
        for need in policy.signals {
            fidelity.weigh("signal", need.what.name(), self.signals.get(&need.what), need.without);
        }
        for need in policy.knobs {
            fidelity.weigh("knob", need.what.name(), self.knobs.get(&need.what), need.without);
        }
        for need in policy.rules {
            fidelity.weigh("rule", need.what.name(), self.rules.get(&need.what), need.without);
        }
        if policy.grants {
            fidelity.weigh("command", "grant single CPUs", Some(&self.grants), None);
        }
        fidelity
    }
}

impl Fidelity {
    fn weigh(&mut self, sort: &str, name: &str, support: Option<&Support>, without: Option<&'static str>) {
        let lack = match support {
            Some(Support::Yes) => return,
            Some(Support::Partly(limit)) => return self.limits.push(format!("{sort} '{name}': {limit}")),
            Some(Support::No { why, fix }) => format!("{sort} '{name}': {why}; {fix}"),
            None => format!("{sort} '{name}': this host does not have it"),
        };
        match without {
            Some(consequence) => self.limits.push(format!("{lack}; {consequence}")),
            None => self.missing.push(lack),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Domain, HostDomain, Knob, KnobSetting, Plan, SchedClass, Target, WorkloadId};

    const POLICY: Description = Description {
        name: "test",
        summary: "",
        source: "",
        interval: Nanos::ZERO,
        signals: &[Need::must(Signal::Threads), Need::or(Signal::Latency, "it ignores the SLO")],
        knobs: &[Need::must(KnobKind::Class)],
        rules: &[],
        keys: &[],
        grants: false,
    };

    #[test]
    fn what_a_host_does_not_have_is_taken_out_of_plans() {
        let mut host = Capabilities::default();
        host.knobs.insert(KnobKind::Class, Support::Yes);
        host.knobs.insert(KnobKind::Weight, Support::No { why: "no".into(), fix: "none".into() });
        host.rules.insert(RuleKind::Server, Support::Partly("somewhat".into()));
        let impossible = host.impossible();
        assert!(!impossible.rules.contains(&RuleKind::Server) && impossible.rules.contains(&RuleKind::Together));
        let knobs = [Knob::Class(SchedClass::NORMAL), Knob::Weight(1), Knob::IdleOnly(true)];
        let of = |knob| KnobSetting { target: Target::Workload(WorkloadId(0)), knob };
        let mut plan = Plan { knobs: knobs.map(of).into(), ..Plan::default() };
        HostDomain::curb(&mut plan, &impossible);
        assert_eq!(plan.knobs, [of(knobs[0])], "it has no weights, and idle-only is not listed");
        let mut plan = Plan { knobs: vec![of(knobs[1])], ..Plan::default() };
        HostDomain::curb(&mut plan, &impossible);
        assert_eq!(plan.knobs, [of(knobs[1])], "its policy waits for an outcome: the host refuses it");
    }

    #[test]
    fn what_is_missing_is_named_with_the_fix() {
        let mut host = Capabilities { host: "test".into(), ..Capabilities::default() };
        host.signals.insert(Signal::Threads, Support::Yes);
        host.knobs.insert(KnobKind::Class, Support::No { why: "no permission".into(), fix: "run as root".into() });
        let fidelity = host.fidelity(&POLICY);
        assert_eq!(fidelity.missing, ["knob 'scheduling class': no permission; run as root"]);
        assert_eq!(fidelity.limits.len(), 1);
        assert!(fidelity.limits[0].ends_with("it ignores the SLO"));
    }

    #[test]
    fn a_knob_that_works_may_not_work_on_every_target() {
        let mut host = Capabilities::default();
        host.knobs.insert(KnobKind::Weight, Support::Yes);
        let none = Support::No { why: "threads have no weight here".into(), fix: "set it on the workload".into() };
        host.limit_on(KnobKind::Weight, TargetKind::Thread, none.clone());
        assert_eq!(host.can_set(KnobKind::Weight, TargetKind::Workload), Support::Yes);
        assert_eq!(host.can_set(KnobKind::Weight, TargetKind::Thread), none);
        let nonsense = host.can_set(KnobKind::Weight, TargetKind::Machine);
        assert!(matches!(nonsense, Support::No { fix, .. } if fix == "set it on a workload or thread"));
    }
}

//! Mechanisms of Linux that can be left out of the simulated kernel, each by itself, so that a difference can be traced to
//! its cause. `quell-lab validate` showed that each of them moves what a scene shows towards what a real kernel does with it.

use serde::{Deserialize, Serialize};

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mechanism {
    /// A thread that is to be preempted lazily is preempted when the next interrupt on its CPU returns, whatever that was for; not only at the
    /// next tick (`TIF_NEED_RESCHED_LAZY` is looked at on every return to user space).
    LazyReschedOnIrq,
    /// A thread or group that wakes up before its debt is waited off keeps what it has gained since the running one was charged last:
    /// that one is charged only afterwards (`requeue_delayed_entity` comes without `update_curr`).
    DelayedRequeueBeforeCharge,
    /// A slice's protection begins when another entity is picked, not whenever a CPU picks: a group whose threads take turns, and
    /// a thread that goes on, keep what they had (`set_next_entity` is called only for what changes).
    SliceProtectionAtPick,
    /// A CPU that goes idle looks for work to pull as often as that was of use lately, at random (`NI_RANDOM`).
    RandomNewidleBalance,
    /// A wake-up looks at fewer CPUs the busier they were lately, at none from 85 % on; and at the one where the thread ran
    /// before the last (`SIS_UTIL`, `recent_used_cpu`).
    SisUtil,
    /// Ticks come at a random phase against the scene's beginning.
    TickPhase,
}

/// A real kernel that was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Like {
    /// Linux 6.18 in Quell's lab.
    #[serde(rename = "lab-6.18")]
    Lab618,
}

/// Some of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<Mechanism>", into = "Vec<Mechanism>")]
pub struct Mechanisms(u32);

impl Mechanism {
    /// All.
    pub const ALL: [Mechanism; 6] = [
        Mechanism::LazyReschedOnIrq,
        Mechanism::DelayedRequeueBeforeCharge,
        Mechanism::SliceProtectionAtPick,
        Mechanism::RandomNewidleBalance,
        Mechanism::SisUtil,
        Mechanism::TickPhase,
    ];

    /// As scenes call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Mechanism::LazyReschedOnIrq => "lazy-resched-on-irq",
            Mechanism::DelayedRequeueBeforeCharge => "delayed-requeue-before-charge",
            Mechanism::SliceProtectionAtPick => "slice-protection-at-pick",
            Mechanism::RandomNewidleBalance => "random-newidle-balance",
            Mechanism::SisUtil => "sis-util",
            Mechanism::TickPhase => "tick-phase",
        }
    }
}

impl Mechanisms {
    /// None of them.
    pub const NONE: Mechanisms = Mechanisms(0);

    /// Is it none?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0 == 0
    }

    /// Those that the others are not.
    #[must_use]
    pub fn less(self, others: Mechanisms) -> Mechanisms {
        Mechanisms(self.0 & !others.0)
    }

    /// Is this one of them?
    #[must_use]
    #[inline(always)]
    pub fn has(self, mechanism: Mechanism) -> bool {
        self.0 & (1 << mechanism as u32) != 0
    }
}

impl From<Vec<Mechanism>> for Mechanisms {
    fn from(list: Vec<Mechanism>) -> Mechanisms {
        Mechanisms(list.into_iter().fold(0, |bits, one| bits | 1 << one as u32))
    }
}

impl From<Mechanisms> for Vec<Mechanism> {
    fn from(some: Mechanisms) -> Vec<Mechanism> {
        Mechanism::ALL.into_iter().filter(|&one| some.has(one)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_mechanisms_has_those_and_no_others() {
        let some = Mechanisms::from(vec![Mechanism::RandomNewidleBalance, Mechanism::LazyReschedOnIrq]);
        let has = Mechanism::ALL.map(|one| some.has(one));
        assert_eq!(has, [true, false, false, true, false, false]);
        assert_eq!(Vec::from(some), [Mechanism::LazyReschedOnIrq, Mechanism::RandomNewidleBalance]);
        let names = serde_json::to_value(Mechanism::ALL).unwrap();
        assert_eq!(names, serde_json::json!(Mechanism::ALL.map(Mechanism::name)));
    }
}

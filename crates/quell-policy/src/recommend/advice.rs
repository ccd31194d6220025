//! What is recommended, and why.

use std::fmt;

use quell_model::Class;
use serde::{Serialize, Serializer};

use super::facts::{MachineFacts, WorkloadFacts};
use super::paste;
use super::rules::{RULES, Rule};

/// What is recommended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A policy, by its name.
    Policy(&'static str),
    /// A weight of control groups, and no policy.
    CpuWeight,
    /// Nothing.
    Nothing,
}

impl Answer {
    /// The policy, if it is one.
    #[must_use]
    pub fn policy(self) -> Option<&'static str> {
        match self {
            Answer::Policy(name) => Some(name),
            Answer::CpuWeight | Answer::Nothing => None,
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Answer::Policy(name) => name,
            Answer::CpuWeight => "CPUWeight=",
            Answer::Nothing => "nothing",
        })
    }
}

impl Serialize for Answer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A recommendation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// What is recommended.
    pub answer: Answer,
    /// In one line.
    pub headline: String,
    /// Why, in one sentence.
    pub why: String,
    /// The line to paste; none where there is nothing to do.
    pub paste: Option<String>,
    /// The configuration that the line reads, where one is needed.
    pub configuration: Option<String>,
    /// What would suit and is not to be had here, each with what is missing.
    pub not_here: Vec<String>,
    /// What was not known and might have changed the answer.
    pub unknown: Vec<&'static str>,
}

/// What suits this machine and, where one is given, this workload.
#[must_use]
pub fn recommend(machine: &MachineFacts, workload: Option<&WorkloadFacts>) -> Advice {
    let any = WorkloadFacts::unknown("NAME", "{ unit = \"NAME.service\" }", Class::LatencyCritical);
    let of = workload.unwrap_or(&any);
    let (mut not_here, mut unknown) = (Vec::new(), Vec::new());
    if !machine.has_rights {
        unknown.push(NO_RIGHTS);
    }
    for rule in RULES {
        match (rule.holds)(of) {
            None if rule.needs.is_empty() => {}
            None => unknown.push(rule.needs),
            Some(false) => {}
            Some(true) => match lack(rule, machine, of) {
                Some(lack) => not_here.push(format!("{}: {lack}", rule.answer)),
                None => return advice(rule.answer, (rule.because)(of), machine, of, not_here, unknown),
            },
        }
    }
    // Not even guard can work, for want of rights mostly.
    let why = "no policy can work here, and the kernel's own shares are always there".into();
    advice(Answer::CpuWeight, why, machine, of, not_here, unknown)
}

/// What is missing for a rule, by itself or for its policy.
fn lack(rule: &Rule, machine: &MachineFacts, of: &WorkloadFacts) -> Option<String> {
    let of_policy = || machine.cannot.get(rule.answer.policy()?).filter(|_| machine.has_rights).cloned();
    (rule.lacks)(machine, of).or_else(of_policy)
}

/// What only another user can find out.
const NO_RIGHTS: &str = "what works here, as only root may see that";

fn advice(
    answer: Answer,
    why: String,
    machine: &MachineFacts,
    of: &WorkloadFacts,
    not_here: Vec<String>,
    unknown: Vec<&'static str>,
) -> Advice {
    let headline = match answer {
        Answer::Policy(name) => format!("{}: {name} is recommended", of.target),
        Answer::CpuWeight if of.is_unit() || of.batch_may_get_less == Some(true) => {
            format!("{}: no policy, but CPUWeight=", of.target)
        }
        Answer::CpuWeight => format!("{}: no policy for it; less for what runs beside it", of.target),
        Answer::Nothing => format!("{}: you do not need Quell", of.target),
    };
    let (paste, configuration) = paste::of(answer, machine, of);
    Advice { answer, headline, why, paste, configuration, not_here, unknown }
}

//! What a policy gives in a scene: the services' tails and the batch work.

use std::fmt;

use quell_model::{Class, Policy};
use quell_policy::AnyPolicy;
use quell_policy::recommend::{Answer, MachineFacts};
use quell_sim::host::Lending;
use quell_sim::scenario::{Detail, Report, Run, Scenario, Treatment};

use crate::scene::Scene;

/// Better by this share is better; worse by that one is worse.
const BETTER: f64 = 0.1;
const WORSE: f64 = 0.02;

#[derive(Debug)]
pub struct Outcome {
    /// p99 of each service, µs; p90 where fewer than a thousand requests were completed.
    pub tails: Vec<f64>,
    /// Batch work: instructions a second where contention is modelled, else CPUs.
    pub work: f64,
}

impl Outcome {
    fn of(scenario: &Scenario, report: &Report) -> Outcome {
        let of = |class: Class| report.workloads.iter().filter(move |workload| workload.class == class);
        let tail = |workload: &quell_sim::scenario::WorkloadReport| {
            let sound = if workload.completed >= 1000 { workload.p99 } else { workload.p90 };
            sound.map_or(f64::INFINITY, |tail| tail.0 as f64 / 1e3)
        };
        let work = |workload: &quell_sim::scenario::WorkloadReport| match workload.counters {
            Some(counters) if scenario.has_contention() => counters.instruction_rate / 1e9,
            _ => workload.cpus_got,
        };
        Outcome { tails: of(Class::LatencyCritical).map(tail).collect(), work: of(Class::BestEffort).map(work).sum() }
    }

    /// Is it 10 % better in a tail or in work, and worse in none?
    pub fn beats(&self, other: &Outcome) -> bool {
        let pairs = || self.tails.iter().zip(&other.tails);
        let is_worse =
            pairs().any(|(own, others)| *own > others * (1.0 + WORSE)) || self.work < other.work * (1.0 - WORSE);
        let is_better =
            pairs().any(|(own, others)| *own < others * (1.0 - BETTER)) || self.work > other.work * (1.0 + BETTER);
        is_better && !is_worse
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tails: Vec<String> = self.tails.iter().map(|tail| format!("{tail:.0}")).collect();
        write!(f, "{} µs, work {:.2}", tails.join("/"), self.work)
    }
}

/// The policies that can work there.
pub fn candidates(scene: &Scene, machine: &MachineFacts) -> Vec<&'static str> {
    let names = AnyPolicy::ALL.iter().map(|policy| policy.name);
    names.filter(|name| !machine.cannot.contains_key(name) && !(scene.is_elsewhere(name))).collect()
}

impl Scene {
    /// Policies for other things than this scene has: virtual machines, siblings.
    fn is_elsewhere(&self, policy: &str) -> bool {
        policy == "sdc-local" && self.scenario.vms.is_empty()
    }

    fn treatment(&self, name: &str) -> Treatment<AnyPolicy> {
        let policy = AnyPolicy::named(name).unwrap();
        if self.has_own_scheduler() || !policy.describe().grants {
            return Treatment::of_one(policy);
        }
        let guard = AnyPolicy::named("guard").unwrap();
        Treatment { policies: vec![(guard, None), (policy, None)], lending: Lending::Affinity }
    }
}

fn run(scenario: &Scenario, treatment: Treatment<AnyPolicy>) -> Option<Outcome> {
    let run = Run::new(scenario, treatment, 0).ok()?;
    Some(Outcome::of(scenario, &scenario.report("", &[run.finish(Detail::Totals, |_| {})])))
}

/// The scene under a policy; none if the policy refuses it.
pub fn outcome_of(scene: &Scene, policy: &str) -> Option<Outcome> {
    run(&scene.scenario, scene.treatment(policy))
}

/// The scene under what is recommended.
pub fn recommended(scene: &Scene, answer: Answer) -> Outcome {
    let mut scenario = scene.scenario.clone();
    if answer == Answer::CpuWeight {
        for workload in &mut scenario.workloads {
            match workload.class {
                Class::BestEffort if scene.batch_may_get_less => workload.weight = 10,
                Class::LatencyCritical if !scene.batch_may_get_less => workload.weight = 10_000,
                _ => {}
            }
        }
    }
    run(&scenario, scene.treatment(answer.policy().unwrap_or("none"))).expect("what is recommended runs")
}

//! A plan's rules and knobs apply all or none: what takes rules back.

use quell_model::{Event, Outcome, Part, Plan, Rule, Verdict, WorkloadId};

/// The rules that stand. Bans end by themselves and are none of them.
#[derive(Debug, Default)]
pub(super) struct Rules(Vec<Rule>);

impl Rules {
    /// A rule was made.
    pub fn note(&mut self, rule: Rule) {
        if matches!(rule, Rule::SiblingBan { .. }) {
            return;
        }
        match self.0.iter_mut().find(|other| other.key() == rule.key()) {
            Some(other) => *other = rule,
            None => self.0.push(rule),
        }
    }

    /// A workload is gone.
    pub fn forget(&mut self, id: WorkloadId) {
        self.0.retain(|rule| rule.key().1 != Some(id));
    }

    /// The rules that take back those of this plan that were made, the last first.
    pub fn back(&self, plan: &Plan, outcomes: &[Event]) -> Vec<Rule> {
        let made = outcomes.iter().rev().filter_map(|event| match event {
            Event::Outcome(Outcome {
                part: Part::Rule(at),
                verdict: Verdict::Applied(_) | Verdict::Pending(_),
                ..
            }) => plan.rules.get(*at as usize),
            _ => None,
        });
        made.filter_map(|rule| self.before(rule)).collect()
    }

    fn before(&self, rule: &Rule) -> Option<Rule> {
        self.0.iter().find(|other| other.key() == rule.key()).copied().or_else(|| none_of(rule))
    }
}

/// The rule that removes this one; None: a rank has no end.
fn none_of(rule: &Rule) -> Option<Rule> {
    match *rule {
        Rule::Guaranteed { workload, .. } => Some(Rule::Guaranteed { workload, cpus: 0 }),
        Rule::Burst { workload, .. } => Some(Rule::Burst { workload, cpus: 0 }),
        Rule::Limit { workload, .. } => Some(Rule::Limit { workload, cpus: u32::MAX }),
        Rule::Rank { .. } => None,
        Rule::SiblingBan { cpu, .. } => Some(Rule::SiblingBan { cpu, request_start: Rule::NO_REQUEST }),
        Rule::Server { workload, cpu, period, priority, .. } => {
            Some(Rule::Server { workload, cpu, budget: quell_model::Nanos::ZERO, period, priority })
        }
        Rule::Together { workload, order, .. } => Some(Rule::Together { workload, leader: None, order }),
    }
}

#[cfg(test)]
mod tests {
    use quell_model::{Nanos, Refusal};

    use super::*;

    #[test]
    fn what_was_made_is_taken_back_to_what_stood_before() {
        let web = WorkloadId(0);
        let limit = |cpus| Rule::Limit { workload: web, cpus };
        let mut rules = Rules::default();
        rules.note(limit(2));
        let plan = Plan { rules: vec![limit(3), Rule::Burst { workload: web, cpus: 1 }, limit(4)], ..Plan::default() };
        let outcome = |at, verdict| Event::Outcome(Outcome { plan: 0, part: Part::Rule(at), verdict });
        let refused = Verdict::Refused(Refusal::System("no".into()));
        let done = Verdict::Applied(Nanos(1));
        let outcomes = [outcome(0, done.clone()), outcome(1, done), outcome(2, refused)];
        assert_eq!(rules.back(&plan, &outcomes), [Rule::Burst { workload: web, cpus: 0 }, limit(2)]);
        rules.forget(web);
        assert_eq!(rules.back(&plan, &outcomes)[1], limit(u32::MAX));
    }
}

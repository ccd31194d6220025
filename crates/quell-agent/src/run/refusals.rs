//! Refusals that repeat: a policy says the first one, and how often there were more is said when it is over.

use quell_model::{Event, HostDomain, Nanos, Outcome, Part, Policy, Verdict};

use crate::stack::Layer;

/// What the host refuses a layer again and again.
#[derive(Clone, Debug, Default, PartialEq)]
struct Repeated {
    why: String,
    times: u64,
    since: Nanos,
}

/// By layer.
#[derive(Debug, Default)]
pub struct Refusals(Vec<Option<Repeated>>);

impl Refusals {
    /// After a turn: counts what was refused, and logs what is over.
    pub fn look(&mut self, layers: &[Layer], now: Nanos) {
        self.0.resize(layers.len(), None);
        for (layer, known) in layers.iter().zip(&mut self.0).filter(|(layer, _)| layer.stepped()) {
            let mut done = false;
            let mut refused = None;
            for event in &layer.outcomes {
                let Event::Outcome(Outcome { part: Part::Knobs | Part::Rule(_), verdict, .. }) = event else {
                    continue;
                };
                match verdict {
                    Verdict::Refused(why) => refused = refused.or(Some(why)),
                    Verdict::Applied(_) => done = true,
                    Verdict::Pending(_) | Verdict::Vanished => {}
                }
            }
            match (refused, known.as_mut()) {
                (Some(why), Some(known)) if known.why == why.to_string() => known.times += 1,
                (Some(why), _) => {
                    over(layer, known.take(), now);
                    *known = Some(Repeated { why: why.to_string(), times: 1, since: now });
                }
                (None, Some(_)) if done => over(layer, known.take(), now),
                (None, _) => {}
            }
        }
    }

    /// The end of a run.
    pub fn end(&mut self, layers: &[Layer], now: Nanos) {
        layers.iter().zip(&mut self.0).for_each(|(layer, known)| over(layer, known.take(), now));
    }
}

fn over(layer: &Layer, known: Option<Repeated>, now: Nanos) {
    if let Some(Repeated { why, times: times @ 2.., since }) = known {
        let policy = Policy::<HostDomain>::describe(&layer.policy).name;
        tracing::warn!(policy, within = %now.since(since), "the host refused, {times} times: {why}");
    }
}

//! Running a record's views and events through the policies again.

use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use quell_model::{Domain, Event, HostDomain, Impossible, Plan, Policy, View};
use quell_policy::AnyPolicy;

use super::format::{LayerStart, State, Step, Turn};
use super::reader::Record;
use crate::AgentError;
use crate::stack::Layer;

/// Result of one replayed step.
#[derive(Debug)]
pub struct Replayed<'a> {
    /// Number of the turn in the record, from 1.
    pub turn: u64,
    /// The layer.
    pub layer: usize,
    /// The observations.
    pub view: &'a View,
    /// The recorded plan.
    pub recorded: &'a Plan,
    /// The replayed plan.
    pub plan: &'a Plan,
}

impl Replayed<'_> {
    /// Are both plans the same, byte for byte?
    #[must_use]
    pub fn is_same(&self) -> bool {
        // Equality of the values is not enough: 0.0 equals −0.0, and NaN differs from itself.
        bytes(self.recorded) == bytes(self.plan)
    }
}

fn bytes(plan: &Plan) -> Option<Vec<u8>> {
    rmp_serde::to_vec_named(plan).ok()
}

/// Summary of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Turns in the record.
    pub turns: u64,
    /// Steps that were replayed.
    pub steps: u64,
    /// Turns that are missing in the record.
    pub lost: u64,
    /// Does the record end in the middle of a turn?
    pub torn: bool,
}

/// The policies that decide in the replay.
#[derive(Clone, Debug)]
pub enum With {
    /// The recorded policies from their recorded states.
    Recorded,
    /// Another policy in the place of one layer. It sees the measurements of the run in which the recorded one decided;
    /// the outcomes of the recorded one's commands are not shown to it, since they are not its own.
    Other {
        /// The layer.
        layer: usize,
        /// The policy that takes its place.
        policy: Box<AnyPolicy>,
    },
}

/// Replays a record; every step goes to `each`, which returns whether to go on.
///
/// # Errors
/// If the record is damaged, or has no such layer.
pub fn replay<R: Read>(
    record: &mut Record<R>,
    with: &With,
    mut each: impl FnMut(&Replayed<'_>) -> bool,
) -> Result<Summary, AgentError> {
    let header = record.header();
    let mut view = View::new(Arc::clone(&header.topology));
    let bad = |why: String| AgentError::Record { record: "the record".to_owned(), why };
    // None: of another version's state nothing can be replayed.
    let mut layers: Vec<Option<(AnyPolicy, Layer)>> = header
        .layers
        .iter()
        .map(|start| match &start.policy {
            State::Known(policy) => Some(((**policy).clone(), layer((**policy).clone(), start))),
            State::Unknown(_) => None,
        })
        .collect();
    match with {
        With::Other { layer: at, policy } => {
            let Some(start) = header.layers.get(*at) else {
                let count = layers.len();
                return Err(bad(format!("it has {count} policies, and layer {at} was requested; they count from 0")));
            };
            let policy = (**policy).clone();
            layers[*at] = Some((policy.clone(), layer(policy, start)));
        }
        With::Recorded => {
            if let Some(at) = layers.iter().position(Option::is_none) {
                return Err(bad(format!(
                    "the state of policy '{}' is from another version: replay it with Quell {}, which wrote it, or with \
                     another policy (--policy)",
                    header.layers[at].policy.name(),
                    header.quell
                )));
            }
        }
    }
    let others_layer = match with {
        With::Other { layer, .. } => Some(*layer),
        With::Recorded => None,
    };
    let mut summary = Summary::default();
    let mut plan = Plan::default();
    while let Some(turn) = record.turn()? {
        summary.turns += 1;
        summary.lost += turn.lost;
        let Turn { states, now, controls, topology, allowances, workloads, cpus, threads, machine, steps, .. } = turn;
        view.now = now;
        view.controls = controls.unwrap_or(view.controls);
        view.topology = topology.unwrap_or(view.topology);
        view.allowances = allowances.unwrap_or(view.allowances);
        view.workloads = workloads.into_owned();
        view.cpus = cpus.into_owned();
        view.threads = threads.into_owned();
        view.machine = machine;
        // After a gap the recorded policies go on from the states that stand there, which are those after this turn.
        let resumed = states.is_some();
        for (index, state) in states.into_iter().flatten().enumerate() {
            if Some(index) != others_layer
                && let Some(layer) = layers.get_mut(index)
            {
                match (state, layer.as_mut()) {
                    (State::Known(known), Some((policy, _))) => *policy = *known,
                    _ => *layer = None,
                }
            }
        }
        for Step { layer, pool, events, plan: recorded } in steps {
            let index = layer as usize;
            let Some(Some((policy, scoped))) = layers.get_mut(index) else { continue };
            let other = Some(index) == others_layer;
            if resumed && !other {
                continue;
            }
            view.scope = scoped.scope(&pool);
            plan.begin(recorded.number);
            let own: Vec<Event>;
            let received: &[Event] = if other {
                own = events.iter().filter(|event| !matches!(event, Event::Outcome(_))).cloned().collect();
                &own
            } else {
                &events
            };
            // A policy that panicked in the run does so again; a forged state may make it panic too.
            let step = AssertUnwindSafe(|| policy.step(&view, received, &mut plan));
            let stepped = catch_unwind(step);
            HostDomain::curb(&mut plan, &scoped.impossible);
            if stepped.is_err() {
                let why = format!("policy '{}' panics in turn {} at {}", name(policy), summary.turns, view.now);
                return Err(AgentError::Record { record: "the replay stopped".to_owned(), why });
            }
            summary.steps += 1;
            let replayed =
                Replayed { turn: summary.turns, layer: index, view: &view, recorded: &recorded, plan: &plan };
            if !each(&replayed) {
                return Ok(summary);
            }
        }
    }
    summary.torn = record.is_torn();
    Ok(summary)
}

fn layer(policy: AnyPolicy, start: &LayerStart) -> Layer {
    let mut layer = Layer::new(policy, start.workloads.clone());
    layer.impossible = Impossible { rules: start.impossible.clone(), knobs: start.impossible_knobs.clone() };
    layer
}

/// The name of a policy.
#[must_use]
pub fn name(policy: &AnyPolicy) -> &'static str {
    Policy::<HostDomain>::describe(policy).name
}

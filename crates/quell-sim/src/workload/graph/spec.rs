//! Requests as a scenario describes them.

use quell_model::BytesPerSecond;
use serde::{Deserialize, Serialize};

use super::super::{Arrivals, Service, copies};
use crate::contention::ProfileName;
use crate::lock::LockOrder;

/// Requests and the locks that they share.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GraphSpec {
    /// Kinds of requests.
    pub requests: Vec<RequestSpec>,
    /// Locks.
    pub locks: Vec<LockSpec>,
}

impl GraphSpec {
    /// No requests.
    pub const NONE: GraphSpec = GraphSpec { requests: Vec::new(), locks: Vec::new() };
}

/// A kind of request. Its latency, from its arrival to the end of its last stage, is that of the workload on which its
/// first stage is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestSpec {
    /// Unique name.
    pub name: String,
    /// This many kinds, named name-1, name-2 and so on; the n-th uses the n-th copy of workloads and locks that have
    /// copies.
    #[serde(default = "one")]
    pub copies: u32,
    /// An open loop: when they arrive.
    #[serde(default)]
    pub arrivals: Option<Arrivals>,
    /// Or a closed one: who asks.
    #[serde(default)]
    pub clients: Option<Clients>,
    /// At most this many are under way at once; others wait outside. None: any number.
    #[serde(default)]
    pub at_most: Option<u32>,
    /// Its stages.
    #[serde(rename = "stage")]
    pub stages: Vec<StageSpec>,
}

/// Clients who wait for their answers, think, and ask again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clients {
    /// How many.
    pub number: u32,
    /// Time between an answer and the next request.
    pub think: Service,
}

/// What one thread does for a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageSpec {
    /// Its name, unique within the request, also among its signals.
    pub name: String,
    /// The pool whose thread does it: a workload, or one role in it (`"app.helper"`).
    pub on: String,
    /// It begins when all of these stages have ended and signals were given. The stage without any is the first.
    #[serde(default)]
    pub after: Vec<String>,
    /// What its work asks of caches and memory; None: what the workload's does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<ProfileName>,
    /// What the thread does, in this order.
    pub steps: Vec<Step>,
}

/// A step of a stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "StepText", into = "StepText")]
pub enum Step {
    /// `{ work = … }`: CPU time.
    Work(Service),
    /// `{ work = …, lock = "…" }`: the same while it holds a lock. It sleeps until it has it.
    Locked(Service, String),
    /// `{ gpu = …, moves = … }`: the thread sleeps until the GPU has done this work. Its time alone at the GPU's highest
    /// frequency, and the bytes a second that it moves meanwhile between memory and the GPU.
    Gpu(Service, BytesPerSecond),
    /// `{ signal = "…" }`: says to all of this request who wait for it that something is so.
    Signal(String),
    /// `{ wait = ["…"] }`: the thread sleeps until these stages of the request have ended and signals were given.
    Wait(Vec<String>),
    /// `{ barrier = "…" }`: the thread sleeps until all stages of the request that have this step have come to it.
    Barrier(String),
}

/// A step as it is written.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct StepText {
    #[serde(skip_serializing_if = "Option::is_none")]
    work: Option<Service>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lock: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gpu: Option<Service>,
    #[serde(skip_serializing_if = "Option::is_none")]
    moves: Option<BytesPerSecond>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wait: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    barrier: Option<String>,
}

impl TryFrom<StepText> for Step {
    type Error = &'static str;
    fn try_from(text: StepText) -> Result<Step, Self::Error> {
        let StepText { work, lock, gpu, moves, signal, wait, barrier } = text;
        match (work, lock, gpu, moves, signal, wait, barrier) {
            (Some(work), None, None, None, None, None, None) => Ok(Step::Work(work)),
            (Some(work), Some(lock), None, None, None, None, None) => Ok(Step::Locked(work, lock)),
            (None, None, Some(work), moves, None, None, None) => Ok(Step::Gpu(work, moves.unwrap_or_default())),
            (None, None, None, None, Some(name), None, None) => Ok(Step::Signal(name)),
            (None, None, None, None, None, Some(names), None) => Ok(Step::Wait(names)),
            (None, None, None, None, None, None, Some(name)) => Ok(Step::Barrier(name)),
            _ => Err(
                "a step is one of { work = … }, { work = …, lock = \"…\" }, { gpu = …, moves = … }, { signal = \"…\" }, \
                      { wait = [\"…\"] } and { barrier = \"…\" }: give each its own step",
            ),
        }
    }
}

impl From<Step> for StepText {
    fn from(step: Step) -> StepText {
        let nothing = StepText::default();
        match step {
            Step::Work(work) => StepText { work: Some(work), ..nothing },
            Step::Locked(work, lock) => StepText { work: Some(work), lock: Some(lock), ..nothing },
            Step::Gpu(work, moves) => StepText { gpu: Some(work), moves: Some(moves), ..nothing },
            Step::Signal(name) => StepText { signal: Some(name), ..nothing },
            Step::Wait(names) => StepText { wait: Some(names), ..nothing },
            Step::Barrier(name) => StepText { barrier: Some(name), ..nothing },
        }
    }
}

/// A lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockSpec {
    /// Unique name.
    pub name: String,
    /// This many of them, named name-1, name-2 and so on.
    #[serde(default = "one")]
    pub copies: u32,
    /// Who has it next.
    #[serde(default)]
    pub order: LockOrder,
}

fn one() -> u32 {
    1
}

impl RequestSpec {
    /// Every copy as a request of its own, for workloads and locks of these names.
    pub(crate) fn expand(&self, names: &[&str]) -> Vec<RequestSpec> {
        copies(self.copies, &self.name, |name| {
            let number = name.strip_prefix(&self.name).unwrap_or_default().to_owned();
            let mut copy = RequestSpec { name, copies: 1, ..self.clone() };
            if self.copies > 1 {
                copy.use_copies(&number, names);
            }
            copy
        })
    }

    /// Where `names` have no "x" but an "x-3", the third copy uses that; `suffix` is "-3".
    fn use_copies(&mut self, suffix: &str, names: &[&str]) {
        let own = |name: &str| {
            let copied = format!("{name}{suffix}");
            (!names.contains(&name) && names.contains(&copied.as_str())).then_some(copied)
        };
        for stage in &mut self.stages {
            if let Some(copied) = own(&stage.on) {
                stage.on = copied;
            } else if let Some((workload, role)) = stage.on.rsplit_once('.')
                && let Some(copied) = own(workload)
            {
                stage.on = format!("{copied}.{role}");
            }
            for step in &mut stage.steps {
                if let Step::Locked(_, lock) = step
                    && let Some(copied) = own(lock)
                {
                    *lock = copied;
                }
            }
        }
    }
}

impl LockSpec {
    /// Every copy as a lock of its own.
    pub(crate) fn expand(&self) -> Vec<LockSpec> {
        copies(self.copies, &self.name, |name| LockSpec { name, copies: 1, ..self.clone() })
    }
}

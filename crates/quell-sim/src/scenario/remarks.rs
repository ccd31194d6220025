//! What a policy said while a scenario ran, for people: each remark once, and how often it was made.

use quell_model::{Layer, Nanos, NoteKind, Verdict, WorkloadId};
use serde::Serialize;

use super::Observed;
use crate::SimHost;

/// Different remarks that are kept; of a policy that says something else at each step, the first.
const KEPT: usize = 64;

/// Something that a policy said, or that the machine refused it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Remark {
    /// What it is.
    pub kind: NoteKind,
    /// The workload that it concerns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// What was said.
    pub text: String,
    /// How often.
    pub times: u64,
    /// When first, in simulated time, ns.
    pub first: Nanos,
}

/// Remarks in the order in which they came first.
#[derive(Clone, Debug, Default)]
pub(super) struct Remarks(Vec<Remark>);

impl Remarks {
    /// Takes what was said and refused in the layer's last step, at this time.
    pub fn collect<P>(&mut self, host: &SimHost, now: Nanos, layer: &Layer<P>) {
        for note in &layer.plan.notes {
            self.add(host, now, note.kind, note.about, &note.text);
        }
        for outcome in layer.refusals() {
            if let Verdict::Refused(why) = &outcome.verdict {
                self.add(host, now, NoteKind::Warning, None, &format!("the machine refused: {why}"));
            }
        }
    }

    fn add(&mut self, host: &SimHost, now: Nanos, kind: NoteKind, about: Option<WorkloadId>, text: &str) {
        let workload = about.and_then(|id| host.name_of(id));
        let same =
            |known: &&mut Remark| known.kind == kind && known.workload.as_deref() == workload && known.text == text;
        let is_full = self.0.len() >= KEPT;
        match self.0.iter_mut().find(same) {
            Some(known) => known.times += 1,
            None if !is_full => self.0.push(Remark {
                kind,
                workload: workload.map(str::to_owned),
                text: text.to_owned(),
                times: 1,
                first: now,
            }),
            None => {}
        }
    }

    pub fn end(self) -> Vec<Remark> {
        self.0
    }
}

impl Remark {
    /// What was said in all of a policy's runs.
    #[must_use]
    pub fn of_all(runs: &[Observed]) -> Vec<Remark> {
        let mut all: Vec<Remark> = Vec::new();
        for remark in runs.iter().flat_map(|run| &run.remarks) {
            let same = |known: &&mut Remark| {
                (known.kind, &known.workload, &known.text) == (remark.kind, &remark.workload, &remark.text)
            };
            match all.iter_mut().find(same) {
                Some(known) => known.times += remark.times,
                None => all.push(remark.clone()),
            }
        }
        all
    }
}

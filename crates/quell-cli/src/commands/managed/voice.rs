//! Messages about what is managed, on standard error.

use std::collections::BTreeSet;

use quell_agent::explain::knob_text;
use quell_agent::stack::{Layer, Witness};
use quell_linux::LimitState;
use quell_linux::procfs::ProcFs;
use quell_model::{CpuCount, Event, Knob, NoteKind, Part, Policy, Target, Verdict, View, WorkloadId};
use quell_policy::guard::{DEMOTED, Guard};

/// Reports to the user.
pub struct Voice {
    /// Every decision, too.
    verbose: bool,
    /// The report for the time when the policies are in force; None: none, or it has been made.
    pub managed: Option<Managed>,
    /// Refusals that were said.
    refused: BTreeSet<String>,
    /// Was it said that guard has demoted something?
    demoted: bool,
}

impl Voice {
    pub fn new(verbose: bool) -> Voice {
        Voice { verbose, managed: None, refused: BTreeSet::new(), demoted: false }
    }
}

impl Voice {
    /// The first thread or workload that guard demotes: what was protected is not, or not all of it.
    fn say_first_demotion(&mut self, view: &View, layer: &Layer) {
        if self.demoted || self.verbose || layer.policy.describe().name != Guard::DESCRIPTION.name {
            return;
        }
        let Some(note) = layer.plan.notes.iter().find(|note| note.text.ends_with(DEMOTED)) else { return };
        self.demoted = true;
        let name = note.about.and_then(|id| view.workload(id)).map_or("", |workload| &workload.name);
        eprintln!("quell: {name}: {} for a while; more may follow: see `quell why {name}`", note.text);
    }
}

/// A report on the managed processes.
pub struct Managed {
    pub name: String,
    pub id: WorkloadId,
    pub limit: Option<(CpuCount, LimitState)>,
}

impl Managed {
    /// One line: the settings, the policies, and the way in which the limit is kept.
    fn settings(&self, layers: &[Layer]) -> String {
        let by_policy = layers.iter().map(|layer| {
            let policy = layer.policy.describe();
            let was_set = layer.outcomes.iter().any(|event| {
                matches!(event, Event::Outcome(outcome) if outcome.part == Part::Knobs && !matches!(outcome.verdict, Verdict::Refused(_)))
            });
            let knobs = layer.plan.knobs.iter().filter(|setting| was_set && setting.target == Target::Workload(self.id));
            let has_own_group = matches!(self.limit, Some((_, LimitState::Kept(_))));
            let mut set: Vec<String> = knobs.map(|setting| in_words(&setting.knob, has_own_group)).collect();
            if policy.grants {
                set.push("CPUs as they are granted".to_owned());
            }
            let set = match (set.is_empty(), policy.knobs.is_empty()) {
                (true, true) => "nothing is set".to_owned(),
                (true, false) => "nothing set yet".to_owned(),
                (false, _) => set.join(", "),
            };
            format!("{set} under {}", policy.name)
        });
        let limit = self.limit.iter().filter_map(|(limit, state)| match state {
            LimitState::Kept(file) => {
                Some(format!("limit {limit} by {}", file.file_name().unwrap_or_default().display()))
            }
            LimitState::NotKept(_) => None,
        });
        by_policy.chain(limit).collect::<Vec<_>>().join("; ")
    }
}

/// A knob as it counts here: cgroups, and elsewhere autogroups, compete with each other as groups.
fn in_words(knob: &Knob, has_own_group: bool) -> String {
    let has_autogroups = || ProcFs::open("/proc".as_ref()).is_ok_and(|mut proc| proc.has_autogroups());
    match knob {
        Knob::IdleOnly(true) if has_own_group => {
            "SCHED_IDLE, which applies within its cgroup only: against other cgroups it competes at full weight"
                .to_owned()
        }
        Knob::IdleOnly(true) if has_autogroups() => {
            "SCHED_IDLE, which applies within its session only; a session of its own gets nice 19".to_owned()
        }
        knob => knob_text(knob),
    }
}

impl Witness for Voice {
    fn turned(&mut self, view: &View, layers: &[Layer]) {
        if let Some(managed) = self.managed.take() {
            eprintln!("quell: {}: {}", managed.name, managed.settings(layers));
        }
        for layer in layers.iter().filter(|layer| layer.stepped()) {
            for note in layer.plan.notes.iter().filter(|note| self.verbose || note.kind != NoteKind::Because) {
                let about = note.about.and_then(|id| view.workload(id)).map_or("", |workload| &workload.name);
                let separator = if about.is_empty() { "" } else { ": " };
                eprintln!("quell: {about}{separator}{}", note.text);
            }
            self.say_first_demotion(view, layer);
            for event in &layer.outcomes {
                let Event::Outcome(outcome) = event else { continue };
                if let (Part::Knobs, Verdict::Refused(why)) = (outcome.part, &outcome.verdict) {
                    let line = format!("policy {} could not apply its settings: {why}", layer.policy.describe().name);
                    if self.refused.len() < 100 && self.refused.insert(line.clone()) {
                        eprintln!("quell: {line}");
                    }
                }
            }
        }
    }
}

//! The tables of signals and knobs as a page.

use quell_model::signal::{Kind, Subject};
use quell_model::{Description, KnobInfo, KnobKind, Signal, SignalInfo};

use crate::AnyPolicy;

const HEAD: &str = "\
<!-- Generated from the tables of signals and knobs (crates/quell-model). Do not edit; after a change there:
     QUELL_WRITE=1 cargo test -p quell-policy --test reference -->

# Signals and knobs

What policies can see and set. What of it this machine has, and how to get the rest: `quell doctor`.

## Signals

A signal is measured only while a policy of the stack reads it. In the [API](api.md) a number has the field's name; in
metrics it is `quell_workload_` and the column's name, times in seconds. Numbers of threads are summed by workload there.

";

const KNOBS: &str = "
## Knobs

After a knob is set, a policy waits until its effect can show in what is measured.

";

/// docs/reference/signals.md.
#[must_use]
pub fn signals_and_knobs() -> String {
    let mut page = HEAD.to_owned();
    page +=
        "| signal | of each | unit | field | what it is | what it costs | read by |\n|---|---|---|---|---|---|---|\n";
    page.extend(Signal::TABLE.iter().map(signal));
    page += KNOBS;
    page += "| knob | of a | values | shows after | what it does | set by |\n|---|---|---|---|---|---|\n";
    page.extend(KnobKind::TABLE.iter().map(knob));
    page
}

fn signal(line: &SignalInfo) -> String {
    let of = match line.of {
        Subject::Workload => "workload",
        Subject::Cpu => "CPU",
        Subject::Machine => "machine",
        Subject::Thread => "thread",
        Subject::Edge => "pair of threads",
    };
    let unit = match line.kind {
        Kind::Momentary => line.unit.words().to_owned(),
        Kind::Total => format!("{}, a total", line.unit.words()),
    };
    let field = if line.key.is_empty() { String::new() } else { format!("`{}`", line.field()) };
    let by = policies(|policy| policy.signals.iter().any(|need| need.what == line.signal));
    format!("| {} | {of} | {unit} | {field} | {} | {} | {by} |\n", line.name, sentence(line.help), line.cost)
}

fn knob(line: &KnobInfo) -> String {
    let on: Vec<&str> = line.on.iter().map(|target| target.name()).collect();
    let by = policies(|policy| policy.knobs.iter().any(|need| need.what == line.kind));
    let shows = line.effect_latency;
    format!("| {} | {} | {} | {shows} | {} | {by} |\n", line.name, on.join(", "), line.values, sentence(line.help))
}

fn sentence(help: &str) -> &str {
    help.trim_end_matches('.')
}

fn policies(with: impl Fn(&Description) -> bool) -> String {
    AnyPolicy::ALL.iter().filter(|policy| with(policy)).map(|policy| policy.name).collect::<Vec<_>>().join(", ")
}

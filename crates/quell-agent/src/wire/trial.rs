//! A trial of a knob against contention, as fields.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Quality;

/// How the victim was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FoundBy {
    /// Its latency is the furthest above its SLO.
    Latency,
    /// It is slowed down the most against its solo run.
    Speed,
}

/// What workloads contend for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Resource {
    /// The last-level cache.
    Llc,
    /// Memory bandwidth.
    MemoryBandwidth,
    /// CPU time.
    Cpu,
}

/// How the aggressor is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum KnownBy {
    /// It moves the most bytes of memory.
    Bandwidth,
    /// It uses the most CPU time: a guess.
    CpuTime,
    /// Others ran better while it was paused.
    Pausing,
    /// It is all that runs beside the victim.
    Beside,
}

/// What a trial is judged by; less is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Judge {
    /// The victim's latency, in ms.
    Latency,
    /// The victim's cycles an instruction.
    CyclesPerInstruction,
    /// How far the resource is from the victim's solo run, as part of it.
    Contention,
}

/// What a trial showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TrialVerdict {
    /// Nothing yet: it began.
    Begun,
    /// The victim is better off by more than the windows spread.
    Helped,
    /// The victim is worse off by more than the windows spread.
    Harmed,
    /// Neither.
    NoEffect,
    /// Windows are missing, or the load moved.
    Unclear,
    /// The host refused a step.
    Refused,
    /// The victim is in another phase, or workloads came or went.
    Overtaken,
}

/// What was done upon it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Then {
    /// The search goes on.
    Going,
    /// The knob stays.
    Kept,
    /// The knob is as before.
    Undone,
    /// It is tried once more.
    Again,
}

/// Windows of a measure in a row.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Windows {
    /// Their median.
    pub median: f64,
    /// Half the distance of the least and the greatest.
    pub spread: f64,
    /// Their number.
    pub count: u32,
}

/// A knob tried against contention.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trial {
    /// Counts the policy's trials.
    pub number: u32,
    /// The workload that suffers.
    pub victim: String,
    /// How it was found.
    pub found_by: FoundBy,
    /// What it contends for.
    pub resource: Resource,
    /// How far that is from its solo run, as part of it: negative where it has less.
    pub contention: f64,
    /// How well that is known.
    pub quality: Quality,
    /// The workload that the contention comes from; null: not known.
    pub aggressor: Option<String>,
    /// How that is known.
    pub known_by: KnownBy,
    /// The knob.
    pub knob: String,
    /// The workload on which it is turned; null: the machine, or all others.
    pub on: Option<String>,
    /// Its value before; null: no limit.
    pub from: Option<f64>,
    /// Its value now; null: no limit.
    pub to: Option<f64>,
    /// The unit of both: `CPUs`, `ways`, `kHz`, or the machine's unit of a throttle.
    pub unit: String,
    /// The expected change of the measure, as part of it: negative is better.
    pub expected_effect: f64,
    /// Time until a step shows, in ms.
    pub settling_ms: u32,
    /// What it is judged by.
    pub judged_by: Judge,
    /// The measure before the first step; null: not measured.
    pub before: Option<Windows>,
    /// The measure after the last step; null: not measured.
    pub after: Option<Windows>,
    /// The measured change, as part of the measure before: negative is better.
    pub measured_effect: Option<f64>,
    /// The part of best-effort work that it cost; null: not measured.
    pub best_effort_cost: Option<f64>,
    /// What it showed.
    pub verdict: TrialVerdict,
    /// What was done upon it.
    pub then: Then,
}

/// Trials that ended, by what they showed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TrialCounts {
    /// The victim was better off: kept.
    pub helped: u64,
    /// It was worse off.
    pub harmed: u64,
    /// Neither.
    pub no_effect: u64,
    /// Windows were missing, or the load moved.
    pub unclear: u64,
    /// The host refused a step, or another phase began.
    pub aborted: u64,
}

//! A trial: contention seen, a knob turned against it, its effect measured, and what became of it. Plain data in a plan,
//! for people and records, without effect.

use serde::{Deserialize, Serialize};

use crate::{KnobKind, Quality, WorkloadId};

/// A resource that workloads contend for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Resource {
    /// The last-level cache.
    Llc,
    /// Memory bandwidth.
    MemoryBandwidth,
    /// CPU time.
    Cpu,
}

impl Resource {
    /// Every resource.
    pub const ALL: [Resource; 3] = [Resource::Llc, Resource::MemoryBandwidth, Resource::Cpu];

    /// Its name in field terms.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Resource::Llc => "LLC",
            Resource::MemoryBandwidth => "memory bandwidth",
            Resource::Cpu => "CPU",
        }
    }
}

/// How an aggressor is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

/// The measure by which a trial is judged. In each less is better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Judge {
    /// The victim's latency, ms.
    Latency,
    /// The victim's cycles an instruction.
    #[serde(rename = "cpi")]
    CyclesPerInstruction,
    /// How far the contended resource is from the solo run, as part of it.
    #[default]
    Contention,
}

/// Windows of a measure in a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Windows {
    /// Their median.
    #[serde(rename = "med")]
    pub median: f32,
    /// Half the distance of the least and the greatest.
    #[serde(rename = "half")]
    pub spread: f32,
    /// Their number.
    #[serde(rename = "n")]
    pub count: u8,
}

/// What a trial showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Finding {
    /// Nothing yet: it began.
    Begun,
    /// The victim is better off by more than the windows spread.
    Helped,
    /// It is worse off by more than the windows spread.
    Harmed,
    /// Neither.
    NoEffect,
    /// Windows are missing, or the load moved.
    Unclear,
    /// The host refused a step.
    Refused,
    /// The victim is in another phase, or gone.
    Overtaken,
}

/// What was done upon it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

/// A trial, at its beginning or its end.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Counts the policy's trials.
    #[serde(rename = "no")]
    pub number: u32,
    /// The workload that suffers.
    #[serde(rename = "vic")]
    pub victim: WorkloadId,
    /// Was it found by its latency? Else by its speed.
    #[serde(rename = "slo")]
    pub by_latency: bool,
    /// What it contends for.
    #[serde(rename = "res")]
    pub resource: Resource,
    /// How far it is from the solo run, as part of it: negative where there is less.
    #[serde(rename = "diff")]
    pub contention: f32,
    /// How well that is known.
    #[serde(rename = "q")]
    pub quality: Quality,
    /// The workload that the contention comes from.
    #[serde(rename = "aggr")]
    pub aggressor: Option<WorkloadId>,
    /// How that is known.
    #[serde(rename = "by")]
    pub known_by: KnownBy,
    /// The knob.
    pub knob: KnobKind,
    /// The workload on which it is turned; None: the machine, or all.
    pub on: Option<WorkloadId>,
    /// Its value before, in the knob's unit (CPUs, thousandths of a CPU, ways, kHz); None: not limited.
    pub from: Option<u32>,
    /// Its value now.
    pub to: Option<u32>,
    /// The expected change of the measure, as part of it.
    #[serde(rename = "exp")]
    pub expected: f32,
    /// Time until a step shows, ms.
    #[serde(rename = "ms")]
    pub settling_ms: u32,
    /// What it is judged by.
    #[serde(rename = "jdg")]
    pub judge: Judge,
    /// The measure before.
    #[serde(rename = "was")]
    pub before: Windows,
    /// The measure after.
    #[serde(rename = "is")]
    pub after: Windows,
    /// The part of best-effort work that it cost; None: not measured.
    pub cost: Option<f32>,
    /// What it showed.
    #[serde(rename = "saw")]
    pub finding: Finding,
    /// What was done.
    #[serde(rename = "so")]
    pub then: Then,
}

impl Trial {
    /// The measured change, as part of the measure before; None: not measured.
    #[must_use]
    pub fn effect(&self) -> Option<f32> {
        let measured = self.before.count > 0 && self.after.count > 0 && self.before.median.abs() > f32::EPSILON;
        // A contention is already a part of the solo run.
        let by = if self.judge == Judge::Contention { 1.0 } else { self.before.median };
        (measured || (self.judge == Judge::Contention && self.after.count > 0))
            .then(|| (self.after.median - self.before.median) / by)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_effect_is_a_part_of_the_measure_before() {
        let windows = |median, count| Windows { median, spread: 0.1, count };
        let mut trial = Trial {
            number: 1,
            victim: WorkloadId(0),
            by_latency: true,
            resource: Resource::Llc,
            contention: -0.4,
            quality: Quality::Exact,
            aggressor: None,
            known_by: KnownBy::Beside,
            knob: KnobKind::CacheWays,
            on: None,
            from: None,
            to: Some(10),
            expected: -0.4,
            settling_ms: 3,
            judge: Judge::Latency,
            before: windows(2.0, 3),
            after: windows(1.5, 3),
            cost: None,
            finding: Finding::Helped,
            then: Then::Kept,
        };
        assert_eq!(trial.effect(), Some(-0.25));
        trial.after.count = 0;
        assert_eq!(trial.effect(), None);
        trial = Trial { judge: Judge::Contention, before: windows(0.4, 3), after: windows(0.1, 3), ..trial };
        assert!((trial.effect().unwrap() + 0.3).abs() < 1e-6);
        assert!(size_of::<Trial>() <= 256, "{}", size_of::<Trial>());
    }
}

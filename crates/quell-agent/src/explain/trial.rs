//! A trial as fields, and in one sentence of them.

use quell_model::trial::{Finding, Judge, KnownBy, Resource, Then, Windows};
use quell_model::{KnobKind, Quality};

use crate::watch::{Decision, Tried, What};
use crate::wire;

/// The fields of a decision that is a trial.
pub(super) fn explained(decision: &Decision) -> Option<wire::Trial> {
    let What::Trial(tried) = &decision.what else { return None };
    let victim = decision.about.as_ref().map_or_else(String::new, |workload| workload.name.clone());
    Some(fields(tried, victim))
}

fn fields(tried: &Tried, victim: String) -> wire::Trial {
    let Tried { trial, aggressor, on } = tried;
    let (unit, scale) = unit(trial.knob);
    let value = |level: Option<u32>| level.map(|level| f64::from(level) * scale);
    wire::Trial {
        number: trial.number,
        victim,
        found_by: if trial.by_latency { wire::FoundBy::Latency } else { wire::FoundBy::Speed },
        resource: match trial.resource {
            Resource::Llc => wire::Resource::Llc,
            Resource::MemoryBandwidth => wire::Resource::MemoryBandwidth,
            Resource::Cpu => wire::Resource::Cpu,
        },
        contention: short(trial.contention),
        quality: match trial.quality {
            Quality::Exact => wire::Quality::Exact,
            Quality::Stale => wire::Quality::Stale,
            Quality::Absent | Quality::Estimated => wire::Quality::Estimated,
        },
        aggressor: aggressor.as_ref().map(|workload| workload.name.clone()),
        known_by: match trial.known_by {
            KnownBy::Bandwidth => wire::KnownBy::Bandwidth,
            KnownBy::CpuTime => wire::KnownBy::CpuTime,
            KnownBy::Pausing => wire::KnownBy::Pausing,
            KnownBy::Beside => wire::KnownBy::Beside,
        },
        knob: trial.knob.name().to_owned(),
        on: on.as_ref().map(|workload| workload.name.clone()),
        from: value(trial.from),
        to: value(trial.to),
        unit: unit.to_owned(),
        expected_effect: short(trial.expected),
        settling_ms: trial.settling_ms,
        judged_by: match trial.judge {
            Judge::Latency => wire::Judge::Latency,
            Judge::CyclesPerInstruction => wire::Judge::CyclesPerInstruction,
            Judge::Contention => wire::Judge::Contention,
        },
        before: windows(&trial.before),
        after: windows(&trial.after),
        measured_effect: trial.effect().map(short),
        best_effort_cost: trial.cost.map(short),
        verdict: match trial.finding {
            Finding::Begun => wire::TrialVerdict::Begun,
            Finding::Helped => wire::TrialVerdict::Helped,
            Finding::Harmed => wire::TrialVerdict::Harmed,
            Finding::NoEffect => wire::TrialVerdict::NoEffect,
            Finding::Unclear => wire::TrialVerdict::Unclear,
            Finding::Refused => wire::TrialVerdict::Refused,
            Finding::Overtaken => wire::TrialVerdict::Overtaken,
        },
        then: match trial.then {
            Then::Going => wire::Then::Going,
            Then::Kept => wire::Then::Kept,
            Then::Undone => wire::Then::Undone,
            Then::Again => wire::Then::Again,
        },
    }
}

fn windows(windows: &Windows) -> Option<wire::Windows> {
    (windows.count > 0).then(|| wire::Windows {
        median: short(windows.median),
        spread: short(windows.spread),
        count: windows.count.into(),
    })
}

/// Six digits: what a measure of windows is good for.
fn short(value: f32) -> f64 {
    let value = f64::from(value);
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    let scale = 10f64.powi(5 - value.abs().log10().floor() as i32);
    (value * scale).round() / scale
}

/// The unit of a trial's values of a knob, and their size in it.
fn unit(knob: KnobKind) -> (&'static str, f64) {
    match knob {
        KnobKind::Quota => ("CPUs", 0.001),
        KnobKind::Cpus => ("CPUs", 1.0),
        KnobKind::CacheWays => ("ways", 1.0),
        KnobKind::MaxFrequencyKhz | KnobKind::GpuFrequencyKhz => ("kHz", 1.0),
        _ => ("", 1.0),
    }
}

/// In a sentence: what was seen, what was turned, what it showed.
pub(super) fn text(tried: &Tried) -> String {
    let explained = fields(tried, String::new());
    let trial = &tried.trial;
    let level = |value: Option<f64>| match value {
        None => "no limit".to_owned(),
        Some(value) => format!("{value}{}{}", if explained.unit.is_empty() { "" } else { " " }, explained.unit),
    };
    let on = explained.on.as_ref().map_or(String::new(), |on| format!(" of {on}"));
    let turned = format!("{}{on} {} → {}", explained.knob, level(explained.from), level(explained.to));
    let by = match &explained.aggressor {
        None => String::new(),
        Some(name) => format!(" from {name} ({})", known(trial.known_by)),
    };
    let seen = format!("contention for {}{by}: {turned}", trial.resource.name());
    let measure = match trial.judge {
        Judge::Latency => "latency",
        Judge::CyclesPerInstruction => "cycles an instruction",
        Judge::Contention => "contention",
    };
    let change = |part: f64| format!("{:+.0} %", part * 100.0);
    let effect = explained.measured_effect.map_or(String::new(), |effect| {
        let windows = |of: &Windows| format!("{:.3} ± {:.3} ({})", of.median, of.spread, of.count);
        format!(": {measure} {} ({} → {})", change(effect), windows(&trial.before), windows(&trial.after))
    });
    let cost = explained.best_effort_cost.filter(|cost| cost.abs() >= 0.005);
    let cost = cost.map_or(String::new(), |cost| format!("; best-effort work {}", change(-cost)));
    let verdict = match trial.finding {
        Finding::Begun => {
            return format!("tries: {seen}; {measure} should change by {}", change(explained.expected_effect));
        }
        Finding::Helped => "helped",
        Finding::Harmed => "harmed",
        Finding::NoEffect => "no effect",
        Finding::Unclear => "unclear",
        Finding::Refused => "refused",
        Finding::Overtaken => "overtaken by another phase",
    };
    let then = match trial.then {
        Then::Going => "",
        Then::Kept => ", kept",
        Then::Undone => ", undone",
        Then::Again => ", once more",
    };
    format!("{verdict}{then}: {seen}{effect}{cost}")
}

fn known(by: KnownBy) -> &'static str {
    match by {
        KnownBy::Bandwidth => "it moves the most bytes",
        KnownBy::CpuTime => "it uses the most CPU time (a guess)",
        KnownBy::Pausing => "others ran better while it was paused",
        KnownBy::Beside => "it is all that runs beside",
    }
}

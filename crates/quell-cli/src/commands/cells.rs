//! A workload's numbers as table cells, the same in `quell status` and `quell top`. `–`: not measured.

use quell_agent::api::wire::{Class, Measured, Quality, Workload};
use quell_bench::human;

/// What stands where nothing was measured.
pub const NOTHING: &str = "–";

/// `LC` or `BE`.
pub fn class(class: Class) -> &'static str {
    match class {
        Class::Lc => "LC",
        Class::Be => "BE",
    }
}

/// The CPUs that are granted; `any` without a grant.
pub fn granted(workload: &Workload) -> String {
    match &workload.cpus_granted {
        None => "any".to_owned(),
        Some(cpus) if cpus.is_empty() => "none".to_owned(),
        Some(cpus) => cpus.clone(),
    }
}

/// CPUs got over CPUs requested.
pub fn got(workload: &Workload) -> String {
    let got = workload.cpus_got.map_or(NOTHING.to_owned(), |got| mark(&got, format!("{:.2}", got.value)));
    match workload.cpus_requested {
        0.0 => got,
        asked => format!("{got}/{asked}"),
    }
}

/// Threads that wait for a CPU, on average.
pub fn waiting(workload: &Workload) -> String {
    workload.threads_waiting.map_or(NOTHING.to_owned(), |waiting| mark(&waiting, format!("{:.2}", waiting.value)))
}

/// The age of the oldest waiting item.
pub fn queueing(workload: &Workload) -> String {
    workload.queueing_delay_ns.map_or(NOTHING.to_owned(), |delay| mark(&delay, human::nanoseconds(delay.value as u64)))
}

/// Latency over the latency to keep.
pub fn latency(workload: &Workload) -> String {
    let latency = workload.latency_ns.map_or(NOTHING.to_owned(), |l| mark(&l, human::nanoseconds(l.value as u64)));
    match workload.slo {
        None => latency,
        Some(slo) => format!("{latency}/{}", human::nanoseconds(slo.bound_ns)),
    }
}

/// What is not exact says so: `~` estimated, `?` too old to act on.
fn mark(measured: &Measured, text: String) -> String {
    match measured.quality {
        Quality::Exact => text,
        Quality::Estimated => format!("~{text}"),
        Quality::Stale => format!("{text}?"),
    }
}

//! The status as Prometheus metrics (OpenMetrics text).

mod plain;
mod pods;
mod waited;

use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Metric, Registry, Unit};
use quell_model::SignalInfo;
use quell_model::signal::{self, Kind};

use crate::wire::{self, Class, Configured, Measured, Measurements, State, Status, Workload};

pub use plain::{CONTENT_TYPE as PLAIN, plain};

/// The format's media type.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfWorkload {
    workload: String,
    class: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfPolicy {
    layer: u32,
    policy: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfTrials {
    layer: u32,
    policy: String,
    verdict: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct InState {
    workload: String,
    class: &'static str,
    state: &'static str,
}

type Numbers<L> = Family<L, Gauge<f64, AtomicU64>>;
type Counts<L> = Family<L, Counter>;

/// A status as text.
#[must_use]
pub fn text(status: &Status) -> String {
    let mut registry = Registry::with_prefix("quell");
    workloads(&mut registry, &status.workloads);
    states(&mut registry, &status.configured);
    overridden(&mut registry, &status.configured);
    leased(&mut registry, &status.configured);
    waited::register(&mut registry, status.agent.attribution.as_ref(), &status.workloads);
    pods::register(&mut registry, status.kubernetes.as_ref());
    layers(&mut registry, status);
    machine(&mut registry, status);
    let mut out = String::new();
    // Writing into a String cannot fail.
    let _ = text::encode(&mut out, &registry);
    out
}

fn workloads(registry: &mut Registry, workloads: &[Workload]) {
    let mut gauge = |name: &str, help: &str, unit: Option<Unit>, read: &dyn Fn(&Workload) -> Option<f64>| {
        let family = Numbers::<OfWorkload>::default();
        for workload in workloads {
            if let Some(value) = read(workload) {
                family.get_or_create(&of(workload)).set(value);
            }
        }
        register(registry, name, help, unit, family);
    };
    let value = |measured: Option<Measured>| measured.map(|measured| measured.value);
    let cpus = "CPUs that the workload";
    gauge("workload_cpus_requested", &format!("{cpus} requested"), None, &|w| Some(w.cpus_requested));
    gauge("workload_cpus_used", &format!("{cpus} got over the last second or so"), None, &|w| value(w.cpus_used));
    gauge("workload_cpus_granted", &format!("{cpus} was granted or is kept on"), None, &|w| {
        w.cpus_granted_count.map(f64::from)
    });
    gauge("workload_threads_waiting", "Threads runnable without running, on average", None, &|w| {
        value(w.threads_waiting)
    });
    gauge("workload_longest_overrun", "Longest run beyond a server's budget", Some(Unit::Seconds), &|w| {
        (w.budgets_exhausted > 0).then_some(w.longest_overrun_ns as f64 / 1e9)
    });
    gauge("workload_slo_bound", "The SLO's latency bound", Some(Unit::Seconds), &|w| {
        w.slo.map(|slo| slo.bound_ns as f64 / 1e9)
    });
    gauge("workload_slo_met", "Whether the SLO is met: 1 yes, 0 missed", None, &|w| {
        w.slo_met.map(|kept| f64::from(u8::from(kept)))
    });
    for line in Measurements::<wire::OfWorkload>::signals() {
        of_workloads(registry, line, workloads);
    }
    let demotions = Counts::<OfWorkload>::default();
    for workload in workloads {
        demotions.get_or_create(&of(workload)).inc_by(workload.demotions);
    }
    registry.register("workload_demotions", "Demotions of the workload or of its threads", demotions);
    let exhausted = Counts::<OfWorkload>::default();
    for workload in workloads {
        exhausted.get_or_create(&of(workload)).inc_by(workload.budgets_exhausted);
    }
    let help = "Periods in which a server's budget was used up while threads wanted to run";
    registry.register("workload_budgets_exhausted", help, exhausted);
}

fn of(workload: &Workload) -> OfWorkload {
    OfWorkload { workload: workload.name.clone(), class: class(workload.class) }
}

fn class(class: Class) -> &'static str {
    match class {
        Class::Lc => "lc",
        Class::Be => "be",
    }
}

/// One series for each state of each workload of the configuration, so that a state that ended is 0 and not missing.
fn states(registry: &mut Registry, configured: &[Configured]) {
    let all = [
        (State::Waiting, "waiting"),
        (State::Attached, "attached"),
        (State::Exited, "exited"),
        (State::Departed, "departed"),
        (State::BackedOff, "backed-off"),
        (State::Refused, "refused"),
    ];
    let family = Numbers::<InState>::default();
    for workload in configured {
        for (state, name) in all {
            let label = InState { workload: workload.name.clone(), class: class(workload.class), state: name };
            family.get_or_create(&label).set(f64::from(u8::from(workload.state == state)));
        }
    }
    registry.register("workload_state", "State of the configured workload: 1 for the current one", family);
}

fn overridden(registry: &mut Registry, configured: &[Configured]) {
    let family = Numbers::<OfWorkload>::default();
    for workload in configured {
        let label = OfWorkload { workload: workload.name.clone(), class: class(workload.class) };
        let threads = workload.overridden.as_ref().map_or(0, |overridden| overridden.threads);
        family.get_or_create(&label).set(f64::from(threads));
    }
    let help = "Threads on which another program changed what Quell had set";
    registry.register("workload_overridden_threads", help, family);
}

fn leased(registry: &mut Registry, configured: &[Configured]) {
    let family = Numbers::<OfWorkload>::default();
    for workload in configured {
        let label = OfWorkload { workload: workload.name.clone(), class: class(workload.class) };
        family.get_or_create(&label).set(f64::from(u8::from(workload.leased_by.is_some())));
    }
    registry.register(
        "workload_leased",
        "Whether the workload is leased by a caller and not in the configuration: 1 yes",
        family,
    );
}

fn machine(registry: &mut Registry, status: &Status) {
    let switched = Gauge::<i64>::default();
    switched.set(status.agent.off.is_some().into());
    registry.register("agent_off", "Whether the agent is switched off (quell off): 1 yes", switched);
    let refused = Gauge::<i64>::default();
    refused.set(status.agent.not_reloaded.is_some().into());
    registry.register(
        "configuration_reload_refused",
        "Whether the last configuration reload was refused: 1 yes",
        refused,
    );
    let off = Gauge::<i64>::default();
    off.set(status.agent.degraded.is_some().into());
    registry.register("scheduler_off", "Whether Quell's scheduler is off although a policy needs it: 1 yes", off);
    let unplaced = Gauge::<i64>::default();
    unplaced.set(i64::try_from(status.agent.unplaced_cgroups).unwrap_or(i64::MAX));
    registry.register("unplaced_cgroups", "Cgroups without a place in the table of Quell's scheduler", unplaced);
    for line in Measurements::<wire::OfMachine>::signals() {
        let Some(measured) = status.measured.get(line.signal) else { continue };
        let number = number(line, measured);
        match line.kind {
            Kind::Momentary => {
                let gauge = Gauge::<f64, AtomicU64>::default();
                gauge.set(number);
                signal(registry, "", line, gauge);
            }
            Kind::Total => {
                let counter = Counter::<f64, AtomicU64>::default();
                counter.inc_by(number.max(0.0));
                signal(registry, "", line, counter);
            }
        }
    }
}

fn of_workloads(registry: &mut Registry, line: &SignalInfo, workloads: &[Workload]) {
    let numbers =
        workloads.iter().filter_map(|workload| Some((of(workload), number(line, workload.measured.get(line.signal)?))));
    match line.kind {
        Kind::Momentary => {
            let family = Numbers::<OfWorkload>::default();
            for (label, number) in numbers {
                family.get_or_create(&label).set(number);
            }
            signal(registry, "workload_", line, family);
        }
        Kind::Total => {
            let family = Family::<OfWorkload, Counter<f64, AtomicU64>>::default();
            for (label, number) in numbers {
                family.get_or_create(&label).inc_by(number.max(0.0));
            }
            signal(registry, "workload_", line, family);
        }
    }
}

/// A measured number in the base unit that metrics have.
fn number(line: &SignalInfo, measured: Measured) -> f64 {
    match line.unit {
        signal::Unit::Nanoseconds => measured.value / 1e9,
        _ => measured.value,
    }
}

/// One signal of the table: its name, help and unit are those of its line.
fn signal(registry: &mut Registry, of: &str, line: &SignalInfo, metric: impl Metric) {
    let help = line.help.trim_end_matches('.');
    let (name, unit) = match line.unit {
        signal::Unit::Nanoseconds => (format!("{of}{}", line.key), Some(Unit::Seconds)),
        signal::Unit::BytesPerSecond => (format!("{of}{}_bytes_per_second", line.key), None),
        // Prometheus keeps the ending _count for histograms.
        _ => match line.key.strip_suffix("_count").filter(|_| line.kind == Kind::Momentary) {
            Some(counted) => (format!("{of}{counted}s"), None),
            None => (format!("{of}{}", line.key), None),
        },
    };
    register(registry, &name, help, unit, metric);
}

fn register(registry: &mut Registry, name: &str, help: &str, unit: Option<Unit>, metric: impl Metric) {
    match unit {
        Some(unit) => registry.register_with_unit(name, help, unit, metric),
        None => registry.register(name, help, metric),
    }
}

fn layers(registry: &mut Registry, status: &Status) {
    let mut counter = |name: &str, help: &str, read: &dyn Fn(&crate::wire::Layer) -> u64| {
        let family = Counts::<OfPolicy>::default();
        for (layer, of) in status.layers.iter().zip(0..) {
            let label = OfPolicy { layer: of, policy: layer.policy.clone() };
            family.get_or_create(&label).inc_by(read(layer));
        }
        registry.register(name, help, family);
    };
    counter("policy_steps", "Steps of the policy", &|layer| layer.steps);
    counter("policy_knob_settings", "Knob settings asked for", &|layer| layer.knobs);
    counter("policy_cpu_grants", "Grants and revocations of CPUs", &|layer| layer.grants);
    counter("policy_commands_refused", "Commands that the host refused", &|layer| layer.refused);
    let trials = Counts::<OfTrials>::default();
    for (layer, of) in status.layers.iter().zip(0..) {
        let wire::TrialCounts { helped, harmed, no_effect, unclear, aborted } = layer.trials;
        let by_verdict = [
            ("helped", helped),
            ("harmed", harmed),
            ("no-effect", no_effect),
            ("unclear", unclear),
            ("aborted", aborted),
        ];
        for (verdict, count) in by_verdict {
            trials.get_or_create(&OfTrials { layer: of, policy: layer.policy.clone(), verdict }).inc_by(count);
        }
    }
    registry.register("policy_trials", "Finished trials of knobs, by verdict", trials);
    let mut number = |name: &str, help: &str, value: u64| {
        let counter: Counter = Counter::default();
        counter.inc_by(value);
        registry.register(name, help, counter);
    };
    number("loop_turns", "Turns of the agent's loop", status.turns);
    number("decisions_lost", "Decisions lost because they came faster than they could be read", status.decisions_lost);
    let cpu = Counter::<f64, AtomicU64>::default();
    cpu.inc_by(status.agent.cpu_seconds);
    registry.register_with_unit("agent_cpu", "CPU time that the agent used", Unit::Seconds, cpu);
    let resident = Gauge::<f64, AtomicU64>::default();
    resident.set(status.agent.resident_bytes as f64);
    registry.register_with_unit("agent_resident_memory", "The agent's resident memory", Unit::Bytes, resident);
}

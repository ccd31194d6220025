//! A workload's numbers as table cells, the same in `quell status` and `quell top`. `–`: not measured.

use quell_agent::api::wire::{Agent, Class, Configured, Measured, Quality, State, Status, Workload};
use quell_model::Signal;
use quell_report::human;

pub use quell_report::table::NOTHING;
/// A workload with this many demotions in a minute flaps.
const FLAPS: u64 = 3;

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
        None if workload.threads.is_none() => NOTHING.to_owned(),
        None => "any".to_owned(),
        Some(cpus) if cpus.is_empty() => "none".to_owned(),
        Some(cpus) => cpus.clone(),
    }
}

/// CPUs used over CPUs requested.
pub fn got(workload: &Workload) -> String {
    let got = workload.cpus_used.map_or(NOTHING.to_owned(), |got| mark(&got, format!("{:.2}", got.value)));
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
    time(workload.measured.get(Signal::QueueingDelay))
}

fn time(measured: Option<Measured>) -> String {
    measured.map_or(NOTHING.to_owned(), |time| mark(&time, human::nanoseconds(time.value as u64)))
}

/// What Quell's scheduler decided, most of all first; `None` without it, or while it decided nothing.
pub fn decisions(status: &Status) -> Option<String> {
    let counted = |signal: Signal| {
        let count = status.measured.get(signal)?.value;
        (count > 0.0).then(|| (signal.name(), count as u64))
    };
    let mut counts: Vec<_> = Signal::DECISIONS.into_iter().filter_map(counted).collect();
    counts.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    let counts: Vec<_> = counts.into_iter().map(|(name, count)| format!("{name} {count}")).collect();
    (!counts.is_empty()).then(|| format!("scheduler: {}", counts.join(", ")))
}

/// Latency over the latency to keep, with a `!` where that is missed.
pub fn latency(workload: &Workload) -> String {
    let missed = if workload.slo_met == Some(false) { "! " } else { "" };
    let latency = time(workload.measured.get(Signal::Latency));
    match workload.slo {
        None => latency,
        Some(slo) => format!("{missed}{latency}/{}", human::nanoseconds(slo.bound_ns)),
    }
}

/// State of a configured workload: `attached (7 threads)`, `waiting`, `exited since 14 s`.
pub fn state(configured: &Configured, now_ns: u64) -> String {
    let since = || whole_units(now_ns.saturating_sub(configured.since_ns));
    if let (State::Attached, Some(overridden)) = (configured.state, &configured.overridden) {
        return match overridden.threads {
            0 => "! overridden".to_owned(),
            count => format!("! overridden ({count} of {})", threads(overridden.of)),
        };
    }
    match configured.state {
        State::Waiting => "waiting".to_owned(),
        State::Attached => {
            configured.threads.map_or("attached".to_owned(), |count| format!("attached ({})", threads(count)))
        }
        State::Exited => format!("exited since {}", since()),
        State::Departed => format!("departed since {}", since()),
        State::BackedOff => format!("backed off since {}", since()),
        State::Refused => "refused".to_owned(),
    }
}

/// `1 thread`, `7 threads`.
pub fn threads(count: u32) -> String {
    quell_model::amount(count, "thread", "threads")
}

/// What is set on a workload and stands, with how often it was demoted where that is often.
pub fn knobs(workload: &Workload) -> String {
    let demoted = match workload.demotions_last_minute {
        0..FLAPS => None,
        times => Some(format!("demoted {times} times in the last minute")),
    };
    workload.knobs.iter().cloned().chain(demoted).collect::<Vec<_>>().join(", ")
}

/// Does its class go to and fro?
pub fn is_flapping(workload: &Workload) -> bool {
    workload.demotions_last_minute >= FLAPS
}

/// The facts about a workload beside its state, one line each.
pub fn remarks(configured: &Configured, workload: Option<&Workload>) -> Vec<String> {
    let mut lines = Vec::new();
    let name = &configured.name;
    lines.extend(configured.leased_by.iter().map(|by| {
        format!("{name}: leased by {by}: everything is put back when that ends; it is not in the configuration")
    }));
    if let Some(overridden) = &configured.overridden {
        let differences = overridden.differences.join("; ");
        lines.push(format!("! {name}: another process changed what Quell set: {differences}; {}", overridden.then));
    }
    let flaps = workload.filter(|workload| is_flapping(workload));
    lines.extend(flaps.map(|_| {
        format!(
            "! {name}: its threads are demoted again and again: they run long without blocking; see `quell why \
             {name}`, or take policy rkube with reservation = \"strict\""
        )
    }));
    lines.extend(configured.departed.iter().map(|why| format!("! {name}: departed: {why}")));
    lines.extend(configured.remarks.iter().map(|remark| {
        let mark = if remark.about.is_bad() { "! " } else { "" };
        format!("{mark}{name}: {}: {}", remark.about.word(), remark.text)
    }));
    let refused = workload.and_then(|workload| workload.refused.as_ref());
    lines.extend(refused.map(|why| format!("! {name}: the last settings were refused: {why}")));
    lines
}

/// The states of the agent in which what it shows is not what it was started for.
pub fn exceptions(agent: &Agent, now_ns: u64) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(off) = &agent.off {
        let (since, by) = (whole_units(now_ns.saturating_sub(off.since_ns)), off.by.join(", "));
        let end = if off.leased { "it turns on when that ends" } else { "`quell on` sets everything again" };
        lines.push(format!("! switched off since {since} by {by}: nothing is set; {end}"));
    }
    if let Some(stale) = &agent.stale {
        let since = whole_units(now_ns.saturating_sub(stale.since_ns));
        lines.push(format!("! the machine could not be read since {since}: these values are old: {}", stale.why));
    }
    lines
}

/// A time in whole units, as people say it: `14 s`, `3 min`, `2 h`, `5 d`.
fn whole_units(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// The CPUs that each of these workloads alone is kept on, where nothing keeps unmanaged work off them.
pub fn not_exclusive<'a>(workloads: impl IntoIterator<Item = &'a Workload>) -> Option<String> {
    let open = workloads.into_iter().filter(|workload| workload.cpus_exclusive == Some(false));
    let named: Vec<String> = open.map(|workload| format!("{} of {}", granted(workload), workload.name)).collect();
    (!named.is_empty()).then(|| format!("CPUs {}: exclusive, but unmanaged work may run there", named.join(", ")))
}

/// That a workload used its servers' budgets up, if it did.
pub fn over_budget(workload: &Workload) -> Option<String> {
    let beyond = match workload.longest_overrun_ns {
        0 => String::new(),
        longest => format!("; the longest run beyond one: {}", human::nanoseconds(longest)),
    };
    let periods = match workload.budgets_exhausted {
        0 => return None,
        1 => "1 period".to_owned(),
        times => format!("{times} periods"),
    };
    Some(format!("its budget was used up in {periods}: it needs more than its demand declares{beyond}"))
}

/// Marks inexact values: `~` estimated, `?` stale.
fn mark(measured: &Measured, text: String) -> String {
    match measured.quality {
        Quality::Exact => text,
        Quality::Estimated => format!("~{text}"),
        Quality::Stale => format!("{text}?"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configured(state: State) -> Configured {
        Configured {
            name: "db".into(),
            class: Class::Lc,
            cpus_requested: 1.0,
            state,
            since_ns: 3_000_000_000,
            threads: (state == State::Attached).then_some(7),
            selectors: vec!["systemd unit db.service".into()],
            why: None,
            leased_by: None,
            latency: None,
            departed: Vec::new(),
            overridden: None,
            remarks: vec![],
        }
    }

    #[test]
    fn a_leased_workload_is_marked_with_its_caller() {
        let leased = Configured { leased_by: Some("root (process 7)".into()), ..configured(State::Attached) };
        assert!(remarks(&leased, None)[0].starts_with("db: leased by root (process 7)"));
        assert!(remarks(&configured(State::Attached), None).is_empty());
    }

    #[test]
    fn where_a_workload_stands_is_said_with_its_threads_or_the_time_since_it_is_gone() {
        let shown = |state| self::state(&configured(state), 17_900_000_000);
        assert_eq!(shown(State::Waiting), "waiting");
        assert_eq!(shown(State::Attached), "attached (7 threads)");
        assert_eq!(shown(State::Exited), "exited since 14 s");
        assert_eq!(whole_units(600_000_000_000), "10 min");
    }
}

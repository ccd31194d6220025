//! What workloads waited for, the same in `quell status`, `quell why` and `quell top`.

use quell_agent::api::wire::{Agent, AttributionState, Known, Waited, WaitedFor, Workload};
use quell_report::human;

/// Less than this part of the time is not worth a line.
const WORTH: f64 = 0.01;
/// Causes in a line.
const SHOWN: usize = 3;

/// `web waited 410 ms of the last 10.0 s: 380 ms stress-ng (300–410 ms), 30.0 ms its own threads; estimated`; `None`: it did not.
pub fn line(workload: &Workload) -> Option<String> {
    let lately = &is_worth(workload)?.lately;
    let (waited, window) = (human::nanoseconds(lately.waited_ns), human::nanoseconds(lately.window_ns));
    let begin = format!("{} waited {waited} of the last {window}", workload.name);
    let (causes, known) = (causes(workload)?, known(lately.known));
    Some(match lately.known {
        Known::Unknown => format!("{begin}: for what is unknown"),
        _ => format!("{begin}: {causes}; {known}"),
    })
}

/// The largest causes of the last seconds: `380 ms stress-ng (300–410 ms), 30.0 ms its own threads`.
pub fn causes(workload: &Workload) -> Option<String> {
    let by = &is_worth(workload)?.lately.by;
    let shown: Vec<String> = by.iter().take(SHOWN).map(part).collect();
    Some(shown.join(", "))
}

/// The largest cause of the last seconds, in a word; nothing where it did not wait.
pub fn largest(workload: &Workload) -> String {
    let first = is_worth(workload).and_then(|waited| waited.lately.by.first());
    first.map_or(String::new(), |cause| cause.words().to_owned())
}

/// The last seconds and the account since the agent found it, for `quell why`.
pub fn all(workload: &Workload) -> Vec<String> {
    let account = |waited: &Waited| {
        let mut by: Vec<&WaitedFor> = waited.by.iter().filter(|cause| cause.waited_ns > 0).collect();
        by.sort_by_key(|cause| std::cmp::Reverse(cause.waited_ns));
        let by: Vec<String> = by.into_iter().map(part).collect();
        (!by.is_empty()).then(|| format!("since the agent found it, it waited for: {}", by.join(", ")))
    };
    line(workload).into_iter().chain(workload.waited.as_ref().and_then(account)).collect()
}

/// What keeps the agent from knowing; `None`: nothing does.
pub fn trouble(agent: &Agent) -> Option<String> {
    let attribution = agent.attribution.as_ref()?;
    let why = attribution.why.as_deref().unwrap_or_default();
    match attribution.state {
        AttributionState::Works => None,
        AttributionState::Limited => Some(format!("! {why}")),
        AttributionState::Unavailable => Some(format!("what workloads wait for is unknown: {why}")),
    }
}

fn is_worth(workload: &Workload) -> Option<&Waited> {
    let waited = workload.waited.as_ref()?;
    let lately = &waited.lately;
    (lately.waited_ns as f64 >= WORTH * lately.window_ns.max(1) as f64).then_some(waited)
}

fn part(cause: &WaitedFor) -> String {
    let text = format!("{} {}", human::nanoseconds(cause.waited_ns), cause.words());
    let is_certain = cause.at_least_ns as f64 >= 0.95 * cause.waited_ns as f64
        && cause.at_most_ns as f64 <= 1.05 * cause.waited_ns as f64;
    match cause.cause.as_str() {
        "unknown" => text,
        _ if is_certain => text,
        _ => format!("{text} ({})", human::range(cause.at_least_ns, cause.at_most_ns)),
    }
}

fn known(known: Known) -> &'static str {
    match known {
        Known::Traced => "traced",
        Known::Estimated => "estimated",
        Known::Unknown => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use quell_agent::api::wire::{Attribution, Class, WaitedLately};

    use super::*;
    use crate::commands::sample;

    fn cause(cause: &str, by: &str, millis: [u64; 3]) -> WaitedFor {
        let [waited_ns, at_least_ns, at_most_ns] = millis.map(|millis| millis * 1_000_000);
        WaitedFor { cause: cause.into(), by: by.into(), waited_ns, at_least_ns, at_most_ns }
    }

    fn waiting(known: Known, by: Vec<WaitedFor>) -> Workload {
        let waited_ns = by.iter().map(|cause| cause.waited_ns).sum();
        let lately = WaitedLately { window_ns: 10_000_000_000, waited_ns, known, by: by.clone() };
        let waited = Some(Waited { waited_ns, unsettled_ns: 0, by, lately });
        Workload { waited, ..sample::workload("web", Class::Lc, 1.0, 0.5) }
    }

    #[test]
    fn a_workload_that_waits_has_a_line_with_what_for_and_how_that_is_known() {
        let by = vec![cause("unmanaged", "stress-ng", [380, 300, 410]), cause("own-threads", "", [30, 30, 30])];
        let workload = waiting(Known::Estimated, by);
        let text =
            "web waited 410 ms of the last 10.0 s: 380 ms stress-ng (300–410 ms), 30.0 ms its own threads; estimated";
        assert_eq!(line(&workload).unwrap(), text);
        assert_eq!(largest(&workload), "stress-ng");
        assert_eq!(all(&workload).len(), 2);
        let unknown = waiting(Known::Unknown, vec![cause("unknown", "", [410, 0, 410])]);
        assert_eq!(line(&unknown).unwrap(), "web waited 410 ms of the last 10.0 s: for what is unknown");
        let little = waiting(Known::Traced, vec![cause("steal", "", [9, 9, 9])]);
        assert_eq!((line(&little), largest(&little)), (None, String::new()));
    }

    #[test]
    fn what_keeps_the_agent_from_knowing_is_said() {
        let mut agent = sample::status(2).agent;
        assert_eq!(trouble(&agent), None);
        let mut with = |state| {
            let why = Some("why".to_owned());
            agent.attribution = Some(Attribution { state, why, cpu_seconds: 0.0, cost_bound: 0.005, bursts: 0 });
            trouble(&agent)
        };
        assert_eq!(with(AttributionState::Works), None);
        assert_eq!(with(AttributionState::Limited).unwrap(), "! why");
        assert_eq!(with(AttributionState::Unavailable).unwrap(), "what workloads wait for is unknown: why");
    }
}

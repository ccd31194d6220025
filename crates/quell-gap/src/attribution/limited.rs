//! What a workload's own limit explains of a burst.

use std::collections::BTreeMap;

use super::{Cause, Key};

/// Lays what a limit explains to the limit, in the time of threads. First the time in which the CPU was idle; then what others
/// ran meanwhile: of each at least what the limit cannot explain is its own, and the rest is unknown unless there is one other alone.
pub(super) fn hold_back(times: &mut BTreeMap<Key, f64>, limited: f64) {
    let may_explain = |key: &Key| !matches!(key.cause, Cause::OwnThreads | Cause::OwnLimit | Cause::Unknown);
    let before: f64 = times.values().sum();
    let explainable: f64 = times.iter().filter(|(key, _)| may_explain(key)).map(|(_, time)| time).sum();
    let limit = limited.min(explainable);
    if limit <= 0.0 {
        return;
    }
    let idle_key = Key::of(Cause::IdleCpu);
    let idle = times.get(&idle_key).copied().unwrap_or(0.0);
    // A CPU that is idle for long beside a limit is kept so by the limit.
    let from_idle = if limit >= idle / 2.0 { idle } else { limit };
    let from_others = (limit - from_idle).max(0.0);
    times.insert(idle_key, idle - from_idle);
    if from_others > 0.0 {
        for (_, time) in times.iter_mut().filter(|(key, _)| may_explain(key) && key.cause != Cause::IdleCpu) {
            *time = (*time - from_others).max(0.0);
        }
    }
    *times.entry(Key::of(Cause::OwnLimit)).or_default() += from_idle + from_others;
    let unexplained = before - times.values().sum::<f64>();
    if unexplained > 0.0 {
        *times.entry(Key::of(Cause::Unknown)).or_default() += unexplained;
    }
    times.retain(|_, time| *time > 0.0);
}

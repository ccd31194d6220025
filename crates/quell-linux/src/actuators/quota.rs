//! Cycle quotas of policies, and limits of the workloads' owners.

use std::path::Path;

use quell_model::{Capabilities, CpuCount, Key, Knob, KnobKind, Support};

use super::{Actuator, Aim, Draft, Here, NO_CGROUP, Subject};
use crate::LinuxError;
use crate::limit;
use crate::members::Level;
use crate::write::{Place, Value};

/// `cpu.max`.
pub(crate) struct Quota;

impl Actuator for Quota {
    fn report(&self, here: &Here<'_>, found: &mut Capabilities) {
        found.knobs.insert(KnobKind::Quota, here.only_cgroup("single threads have no cycle quota"));
        let limit = match limit::can_be_here(here.roots, here.options) {
            true => Support::Partly("by cpu.max, of workloads that are one cgroup with the cpu controller".into()),
            false => Support::No {
                why: "cgroup v2 has no cpu controller here".into(),
                fix: "boot with systemd.unified_cgroup_hierarchy=1".into(),
            },
        };
        found.keys.insert(Key::Limit, limit);
    }

    fn check(&self, subject: &Subject<'_>) -> Result<(), LinuxError> {
        let is_wanted = matches!(subject.wanted.quota, Some(Some(_)));
        if is_wanted && subject.level == Level::Threads {
            let what = format!("workload '{}': single threads have no cycle quota", subject.name);
            return Err(LinuxError::unsupported(what, NO_CGROUP));
        }
        subject.refuse_several_groups(is_wanted)
    }

    fn set(&self, aim: &Aim<'_>, draft: &mut Draft<'_>) -> Result<(), LinuxError> {
        aim.workloads.iter().try_for_each(|subject| quota(draft, subject))
    }
}

/// `cpu.max`: the tighter one of a policy's quota and the workload's limit.
fn quota(draft: &mut Draft<'_>, subject: &Subject<'_>) -> Result<(), LinuxError> {
    let wanted = subject.wanted.quota.filter(|_| subject.level == Level::Cgroup);
    for group in &subject.resolved.groups {
        let max = group.path.join("cpu.max");
        let touched = draft.ledger.touched(&Place::File(max.clone())).is_some();
        if subject.limit.is_none() && wanted.is_none() && !touched {
            continue;
        }
        let Some(now) = draft.text(&max)? else { continue };
        let quota = match subject.limit {
            Some(limit) => {
                let origin = match draft.ledger.origin(&Place::File(max.clone())) {
                    Some(Value::Text(origin)) => origin.clone(),
                    _ => now.clone(),
                };
                limit::tighter(limit, wanted, &origin).map(Some)
            }
            None => wanted,
        };
        set(draft, subject, &group.path, quota.map(|quota| quota_text(quota, &now)))?;
    }
    Ok(())
}

/// Gives `cpu.max` a wanted text; if nothing is wanted, its origin. The kernel refuses a quota below `cpu.max.burst`: the burst is
/// lowered before, and raised again, to what it was, after a larger quota.
fn set(draft: &mut Draft<'_>, subject: &Subject<'_>, group: &Path, text: Option<String>) -> Result<(), LinuxError> {
    let (max, burst) = (group.join("cpu.max"), group.join("cpu.max.burst"));
    let origin_of = |draft: &Draft<'_>, path: &Path| match draft.ledger.origin(&Place::File(path.to_owned())) {
        Some(Value::Text(origin)) => Some(origin.clone()),
        _ => None,
    };
    let Some(wanted) = text.clone().or_else(|| origin_of(draft, &max)) else { return Ok(()) };
    // Kernels before 5.14 have no burst.
    let now = draft.text(&burst)?.and_then(|now| Some((now.parse::<u64>().ok()?, now)));
    let Some((now, now_text)) = now else { return draft.want(subject, &max, text) };
    let origin = origin_of(draft, &burst).unwrap_or(now_text);
    let fitting = origin.parse::<u64>().unwrap_or(now).min(quota_of(&wanted).unwrap_or(u64::MAX));
    let change = |draft: &mut Draft<'_>| {
        draft.set(Some(subject.id), Place::File(burst.clone()), Value::Text(fitting.to_string()))
    };
    if fitting < now {
        change(draft)?;
    }
    draft.want(subject, &max, text)?;
    if fitting > now { change(draft) } else { Ok(()) }
}

/// The quota of a text of `cpu.max`, µs; None: there is none.
fn quota_of(text: &str) -> Option<u64> {
    text.split(' ').next()?.parse().ok()
}

/// The kernel's least quota, µs.
const LEAST: u64 = 1000;

/// `cpu.max` for a number of CPUs, in its present period; in a longer one where the kernel takes no quota as small as that.
fn quota_text(quota: Option<CpuCount>, now: &str) -> String {
    let period: u64 = now.split(' ').nth(1).and_then(|period| period.parse().ok()).unwrap_or(100_000);
    let Some(cpus) = quota else { return format!("max {period}") };
    let cpus = u64::from(cpus.max(Knob::LEAST_QUOTA).0);
    let period = period.max((LEAST * 1000).div_ceil(cpus));
    format!("{} {period}", cpus * period / 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_keep_the_period() {
        assert_eq!(quota_text(Some(CpuCount(1500)), "max 100000"), "150000 100000");
        assert_eq!(quota_text(Some(CpuCount(500)), "7 20000"), "10000 20000");
        assert_eq!(quota_text(None, "7 20000"), "max 20000");
    }

    #[test]
    fn a_period_that_is_too_short_for_a_quota_becomes_longer() {
        assert_eq!(quota_text(Some(CpuCount(50)), "max 10000"), "1000 20000");
        assert_eq!(quota_text(Some(CpuCount(100)), "max 10000"), "1000 10000");
        assert_eq!(quota_text(Some(CpuCount(10)), "max 1000"), "1000 100000");
        for cpus in 10..3000 {
            let text = quota_text(Some(CpuCount(cpus)), "max 1000");
            let (quota, period) = text.split_once(' ').unwrap();
            let (quota, period): (u64, u64) = (quota.parse().unwrap(), period.parse().unwrap());
            assert!(
                quota >= LEAST && quota * 1000 <= u64::from(cpus) * period && period <= 1_000_000,
                "{cpus}: {text}"
            );
        }
    }
}

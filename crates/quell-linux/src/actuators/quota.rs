//! Cycle quotas of policies, and limits of the workloads' owners.

use quell_model::{Capabilities, CpuCount, Key, KnobKind, Support};

use super::{Actuator, Aim, Draft, Here, NO_CGROUP, Subject};
use crate::LinuxError;
use crate::limit;
use crate::members::Level;
use crate::write::{Place, Value};

/// `cpu.max`.
pub(crate) struct Quota;

impl Actuator for Quota {
    fn tell(&self, here: &Here<'_>, found: &mut Capabilities) {
        found.knobs.insert(KnobKind::Quota, here.only_cgroup("single threads have no cycle quota"));
        let limit = match limit::can_be_here(here.roots, here.options) {
            true => Support::Partly("by cpu.max, of workloads that are one cgroup with the cpu controller".into()),
            false => Support::No {
                why: "cgroup v2 has no cpu controller here".into(),
                mend: "boot with systemd.unified_cgroup_hierarchy=1".into(),
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
        draft.want(subject, &max, quota.map(|quota| quota_text(quota, &now)))?;
    }
    Ok(())
}

/// `cpu.max` for a number of CPUs, in its present period.
fn quota_text(quota: Option<CpuCount>, now: &str) -> String {
    let period: u64 = now.split(' ').nth(1).and_then(|period| period.parse().ok()).unwrap_or(100_000);
    match quota {
        Some(cpus) => format!("{} {period}", (u64::from(cpus.0) * period / 1000).max(1000)),
        None => format!("max {period}"),
    }
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
}

//! What cgroups are set to.

use std::path::{Path, PathBuf};

use quell_model::{CpuCount, CpuSet};

use super::compile::{Compiler, Subject};
use super::cpusets::{self, Change};
use crate::LinuxError;
use crate::limit;
use crate::members::Level;
use crate::write::{Place, Value, Write};

impl Compiler<'_> {
    /// `cpu.idle` and `cpu.weight`. A weight cannot be written while `cpu.idle` is 1, and is back at its
    /// default of 100 when that ends.
    pub(super) fn shares(&mut self, subject: &Subject<'_>) -> Result<(), LinuxError> {
        let wanted = &subject.wanted;
        for group in &subject.resolved.groups {
            let (idle, weight) = (group.path.join("cpu.idle"), group.path.join("cpu.weight"));
            if wanted.idle == Some(true) && self.text(&idle)?.is_none() && group.path.is_dir() {
                let what = format!("{} is not there", idle.display());
                return Err(LinuxError::unsupported(what, "use a kernel from 5.15 on, or a small weight"));
            }
            if wanted.idle != Some(true) {
                let was_idle = self.text(&idle)?.as_deref() == Some("1");
                self.want(subject, &idle, wanted.idle.map(|idle| u8::from(idle).to_string()))?;
                if was_idle && self.text(&idle)?.as_deref() == Some("0") {
                    self.weight_is_default_again(subject, &weight)?;
                }
            }
            if self.text(&idle)?.as_deref() != Some("1") {
                self.want(subject, &weight, wanted.weight.map(|weight| weight.to_string()))?;
            }
            if wanted.idle == Some(true) {
                self.want(subject, &idle, Some("1".into()))?;
            }
        }
        Ok(())
    }

    /// `cpu.max`: what a policy wants and what the workload's limit allows, the tighter of both.
    pub fn quota(&mut self, subject: &Subject<'_>) -> Result<(), LinuxError> {
        let wanted = subject.wanted.quota.filter(|_| subject.level == Level::Cgroup);
        for group in &subject.resolved.groups {
            let max = group.path.join("cpu.max");
            let touched = self.ledger.touched(&Place::File(max.clone())).is_some();
            if subject.limit.is_none() && wanted.is_none() && !touched {
                continue;
            }
            let Some(now) = self.text(&max)? else { continue };
            let quota = match subject.limit {
                Some(limit) => {
                    let origin = match self.ledger.origin(&Place::File(max.clone())) {
                        Some(Value::Text(origin)) => origin.clone(),
                        _ => now.clone(),
                    };
                    limit::tighter(limit, wanted, &origin).map(Some)
                }
                None => wanted,
            };
            self.want(subject, &max, quota.map(|quota| quota_text(quota, &now)))?;
        }
        Ok(())
    }

    /// The weight had been changed before the group became idle: the kernel has forgotten it.
    fn weight_is_default_again(&mut self, subject: &Subject<'_>, path: &Path) -> Result<(), LinuxError> {
        let wanted = subject.wanted.weight.map(|weight| weight.to_string());
        let place = Place::File(path.to_owned());
        let origin = self.ledger.origin(&place).cloned();
        let after = match (wanted, &origin) {
            (Some(text), _) => Value::Text(text),
            (None, Some(origin)) => origin.clone(),
            (None, None) => return Ok(()),
        };
        let before = Value::Text("100".into());
        if before != after {
            let origin = origin.unwrap_or_else(|| before.clone());
            self.push(Write { workload: Some(subject.id), place, origin, before, after });
        }
        Ok(())
    }

    /// Partitions that are not wanted any more, or whose CPUs change, become ordinary members first.
    pub(super) fn end_partitions(&mut self, subjects: &[Subject<'_>]) -> Result<(), LinuxError> {
        for (subject, group) in groups(subjects) {
            let path = group.join("cpuset.cpus.partition");
            if self.ledger.touched(&Place::File(path.clone())).is_none() {
                continue;
            }
            let Some(now) = self.text(&group.join("cpuset.cpus"))? else { continue };
            let moves = subject.wanted.cpus.is_some_and(|cpus| cpus.intersection(&self.online).to_string() != now);
            if subject.wanted.partition == Some(true) && !moves {
                continue;
            }
            let ends = subject.wanted.partition != Some(true);
            self.want(subject, &path, if ends { None } else { Some("member".into()) })?;
            self.release_exclusive(subject, group)?;
        }
        Ok(())
    }

    /// Partitions get their CPUs, which by now belong to nobody else, from the top of the hierarchy down.
    pub(super) fn claim_partitions(&mut self, subjects: &[Subject<'_>]) -> Result<(), LinuxError> {
        for (subject, group) in groups(subjects).filter(|(subject, _)| subject.wanted.partition == Some(true)) {
            let own = group.join("cpuset.cpus");
            let Some(cpus) = self.text(&own)? else { continue };
            let cpus: CpuSet = cpus.parse()?;
            if cpus.is_empty() {
                let what = format!("{} is empty: a partition needs CPUs of its own", own.display());
                return Err(LinuxError::unsupported(what, "set the workload's CPUs with the same plan"));
            }
            for ancestor in self.ancestors(group).into_iter().chain([group.to_owned()]) {
                let exclusive = ancestor.join("cpuset.cpus.exclusive");
                let Some(now) = self.text(&exclusive)? else {
                    if ancestor == *group {
                        break;
                    }
                    let what =
                        format!("{} is not there: only children of the root can be partitions", exclusive.display());
                    return Err(LinuxError::unsupported(what, "use a kernel from 6.7 on"));
                };
                let all = now.parse::<CpuSet>()?.union(&cpus);
                let value = if ancestor == *group { cpus } else { all };
                self.set(Some(subject.id), Place::File(exclusive), Value::Text(value.to_string()))?;
            }
            // Not `isolated`: without load balancing the threads of one owner would pile up on one of its CPUs.
            self.want(subject, &group.join("cpuset.cpus.partition"), Some("root".into()))?;
        }
        Ok(())
    }

    fn release_exclusive(&mut self, subject: &Subject<'_>, group: &Path) -> Result<(), LinuxError> {
        let exclusive = group.join("cpuset.cpus.exclusive");
        let Some(held) = self.text(&exclusive)? else { return Ok(()) };
        let held: CpuSet = held.parse()?;
        self.want(subject, &exclusive, None)?;
        for ancestor in self.ancestors(group).into_iter().rev() {
            let path = ancestor.join("cpuset.cpus.exclusive");
            let place = Place::File(path.clone());
            if let (Some(now), Some(Value::Text(origin))) = (self.text(&path)?, self.ledger.origin(&place).cloned()) {
                let left = now.parse::<CpuSet>()?.difference(&held).union(&origin.parse()?);
                self.set(Some(subject.id), place, Value::Text(left.to_string()))?;
            }
        }
        Ok(())
    }

    /// The CPU sets of all workloads' cgroups together.
    pub(super) fn cpusets(&mut self, subjects: &[Subject<'_>]) -> Result<(), LinuxError> {
        let mut changes = Vec::new();
        let mut owners = Vec::new();
        for (subject, group) in groups(subjects) {
            let path = group.join("cpuset.cpus");
            let origin = self.ledger.origin(&Place::File(path.clone())).cloned();
            let to = match (&subject.wanted.cpus, origin) {
                (Some(cpus), _) => cpus.intersection(&self.online).to_string(),
                (None, Some(Value::Text(origin))) => origin,
                _ => continue,
            };
            let Some(now) = self.text(&path)? else { continue };
            changes.push(Change { group: group.to_owned(), now, to });
            owners.push(subject.id);
        }
        for step in cpusets::order(&changes, &|group| self.usable_above(group))? {
            let place = Place::File(changes[step.change].group.join("cpuset.cpus"));
            self.set(Some(owners[step.change]), place, Value::Text(step.text))?;
        }
        Ok(())
    }

    /// The CPUs that a cgroup's parents leave it, before the plan.
    fn usable_above(&self, group: &Path) -> Result<CpuSet, LinuxError> {
        cpusets::usable_above(group, self.cgroup_root, &self.online)
    }

    /// The cgroups above this one, without the root, from the top down.
    fn ancestors(&self, group: &Path) -> Vec<PathBuf> {
        let above = group
            .ancestors()
            .skip(1)
            .take_while(|path| *path != self.cgroup_root && path.starts_with(self.cgroup_root));
        let mut above: Vec<PathBuf> = above.map(Path::to_owned).collect();
        above.reverse();
        above
    }
}

/// The cgroups of the workloads that have some with controllers.
fn groups<'a>(subjects: &'a [Subject<'a>]) -> impl Iterator<Item = (&'a Subject<'a>, &'a PathBuf)> {
    let with_groups = subjects.iter().filter(|subject| subject.level == Level::Cgroup);
    with_groups.flat_map(|subject| subject.resolved.group_paths().map(move |path| (subject, path)))
}

/// `cpu.max` for a number of CPUs, in the period that stands there.
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

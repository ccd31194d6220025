//! A workload's `limit` is kept by the host, whatever the policies do: by `cpu.max` of its cgroup, where it has one of
//! its own. Here is where that is, and where it is not, why.

use std::path::{Path, PathBuf};

use quell_model::{CpuCount, Knob, Selector, Workload, foreign};

use crate::members::{Places, Resolved, Sighting};
use crate::procfs::ProcFs;
use crate::{HostOptions, LinuxError, Roots, cgroup};

/// Is a workload's limit kept?
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LimitState {
    /// By this file.
    Kept(PathBuf),
    /// Not kept: the reason, and the fix.
    NotKept(String),
}

/// The reason why a workload's limit could not be kept on this machine, and the fix, as far as known before it is
/// attached. None: it can be kept, there is none, or the workload does not exist yet.
#[must_use]
pub fn limit_obstacle(roots: &Roots, options: &HostOptions, workload: &Workload) -> Option<String> {
    let limit = workload.limit?;
    // Looking command lines up is expensive, and would not change the answer.
    let by_process = |selector: &Selector| matches!(selector, Selector::Pid(_) | Selector::Command(_));
    if workload.selectors.iter().any(by_process) {
        return Some(by_processes(limit));
    }
    let resolved = ProcFs::open(&roots.proc).and_then(|mut proc| {
        let sighting = &Sighting::of(&roots.cgroup);
        Places { roots, proc: &mut proc, sighting, exempt: &[] }.resolve(workload)
    });
    match resolved {
        // A controller that is to be enabled does not exist yet.
        Ok(resolved) if options.enable_controllers && can_be_here(roots, options) && resolved.groups.len() == 1 => None,
        Ok(resolved) => place(limit, &resolved, roots, options).err(),
        Err(LinuxError::NoMatch { .. }) => (!can_be_here(roots, options)).then(|| no_controller(limit)),
        // The attempt to attach it reports it.
        Err(_) => None,
    }
}

/// The file that keeps a limit; else why there is none, and the fix.
pub(crate) fn place(
    limit: CpuCount,
    resolved: &Resolved,
    roots: &Roots,
    options: &HostOptions,
) -> Result<PathBuf, String> {
    if resolved.selects_processes() {
        return Err(by_processes(limit));
    }
    let [group] = &resolved.groups[..] else {
        let many = resolved.groups.len();
        return Err(format!(
            "it has {many} cgroups, which no single cpu.max covers; put them below one slice and select that"
        ));
    };
    if limit < Knob::LEAST_QUOTA {
        return Err(format!("the kernel accepts no quota below {} CPUs; raise it", Knob::LEAST_QUOTA));
    }
    let file = group.path.join("cpu.max");
    match (can_be_here(roots, options), file.exists() && !options.threads_only) {
        (_, true) => Ok(file),
        (true, false) => Err(format!(
            "{} is not there: the cpu controller is not enabled for it; write enable_controllers = true under [machine]",
            foreign::path(&file)
        )),
        (false, false) => Err(no_controller(limit)),
    }
}

fn by_processes(limit: CpuCount) -> String {
    format!(
        "processes that are selected one by one have no cpu.max; select a cgroup or unit of its own, or limit it where it \
         starts: systemd-run --scope -p CPUQuota={}",
        percent(limit)
    )
}

fn no_controller(limit: CpuCount) -> String {
    format!(
        "cgroup v2 has no cpu controller here; boot with systemd.unified_cgroup_hierarchy=1, or limit it where it starts: \
         CPUQuota={} in its unit",
        percent(limit)
    )
}

/// Has cgroup v2 the cpu controller?
pub(crate) fn can_be_here(roots: &Roots, options: &HostOptions) -> bool {
    let names = cgroup::controllers_here(&roots.cgroup).ok().flatten().unwrap_or_default();
    !options.threads_only && names.split(' ').any(|name| name == "cpu")
}

fn percent(limit: CpuCount) -> String {
    let (whole, rest) = (limit.0 / 10, limit.0 % 10);
    if rest == 0 { format!("{whole}%") } else { format!("{whole}.{rest}%") }
}

/// The smaller of two quotas, each None if there is none, and, where only the limit applies, of the original one: a
/// tighter value of another program stays.
pub(crate) fn tighter(limit: CpuCount, quota: Option<Option<CpuCount>>, origin: &str) -> Option<CpuCount> {
    match quota {
        Some(Some(quota)) => Some(quota.min(limit)),
        Some(None) => Some(limit),
        None => match quota_of(origin) {
            // Unchanged, to the microsecond.
            Some(stood) if stood <= limit.as_f64() => None,
            _ => Some(limit),
        },
    }
}

/// The CPUs that a text of `cpu.max` allows; None: all.
fn quota_of(text: &str) -> Option<f64> {
    let mut words = text.split_whitespace();
    let quota: f64 = words.next()?.parse().ok()?;
    let period: f64 = words.next().map_or(Some(100_000.0), |word| word.parse().ok())?;
    Some(quota / period)
}

/// Is this cgroup, or one below it, the one of Quell itself?
pub(crate) fn holds_quell(group: &Path, roots: &Roots) -> bool {
    let own = || {
        let text = std::fs::read_to_string("/proc/self/cgroup").ok()?;
        let path = text.lines().find_map(|line| line.strip_prefix("0::/"))?.to_owned();
        Some(roots.cgroup.join(path))
    };
    roots.is_this_machine() && own().is_some_and(|own| own.starts_with(group))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_quotas_the_tighter_one_holds() {
        let cpus = |thousandths| Some(CpuCount(thousandths));
        let limit = CpuCount(500);
        assert_eq!(tighter(limit, Some(cpus(300)), "max 100000"), cpus(300));
        assert_eq!(tighter(limit, Some(cpus(800)), "max 100000"), cpus(500));
        assert_eq!(tighter(limit, Some(None), "10000 100000"), cpus(500), "a policy took somebody's quota off");
        assert_eq!(tighter(limit, None, "max 100000"), cpus(500));
        assert_eq!(tighter(limit, None, "60000 100000"), cpus(500));
        assert_eq!(tighter(limit, None, "20000 100000"), None, "it stands as it stood");
    }

    #[test]
    fn a_limit_is_a_percentage_in_a_unit() {
        assert_eq!(["0.5", "1.5", "0.125"].map(|text| percent(text.parse().unwrap())), ["50%", "150%", "12.5%"]);
    }
}

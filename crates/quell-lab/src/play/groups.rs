//! A control group for each workload (cgroup v2), removed at the end.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use quell_sim::{Partition, WorkloadSpec};

/// Where control groups are.
pub const ROOT: &str = "/sys/fs/cgroup";
/// The names of all groups of this command begin with it; the number of its process follows.
const PREFIX: &str = "quell-play-";
const CONTROLLERS: [&str; 2] = ["cpu", "cpuset"];

/// The groups of a scene's workloads and those around them, as the simulator has them.
pub struct Groups {
    made: Vec<PathBuf>,
}

/// Can groups with these controllers be made here?
pub fn are_there() -> bool {
    let controllers = fs::read_to_string(Path::new(ROOT).join("cgroup.controllers")).unwrap_or_default();
    CONTROLLERS.iter().all(|name| controllers.split_whitespace().any(|has| has == *name))
}

/// A setting that only a group can have, if the workload has one.
pub fn needed_by(spec: &WorkloadSpec) -> Option<&'static str> {
    let plain = WorkloadSpec::new("", spec.class);
    [
        (spec.weight != plain.weight, "weight"),
        (!spec.within.is_empty(), "within"),
        (spec.quota.is_some(), "quota"),
        (spec.idle, "idle"),
        (spec.cpuset.is_some(), "cpuset"),
        (spec.partition != plain.partition, "partition"),
    ]
    .into_iter()
    .find_map(|(has, key)| has.then_some(key))
}

impl Groups {
    /// Makes them.
    pub fn make<'a>(workloads: impl Iterator<Item = &'a WorkloadSpec>) -> Result<Groups> {
        remove_left(Path::new(ROOT), Path::new("/proc"))?;
        let mut groups = Groups { made: Vec::new() };
        hand_down(Path::new(ROOT))?;
        for spec in workloads {
            let mut path = PathBuf::from(ROOT);
            for (name, around) in around(spec).into_iter().zip(&spec.within) {
                path.push(name);
                if !path.exists() {
                    groups.add(&path)?;
                    write(&path.join("cpu.weight"), &around.weight.to_string())?;
                    hand_down(&path)?;
                }
            }
            let path = Path::new(ROOT).join(name_of(spec));
            groups.add(&path)?;
            set(&path, spec)?;
        }
        Ok(groups)
    }

    fn add(&mut self, path: &Path) -> Result<()> {
        fs::create_dir(path).with_context(|| format!("make the group {}", path.display()))?;
        self.made.push(path.to_owned());
        Ok(())
    }

    /// Moves a process into a workload's group.
    pub fn take(spec: &WorkloadSpec, pid: u32) -> Result<()> {
        write(&Path::new(ROOT).join(name_of(spec)).join("cgroup.procs"), &pid.to_string())
    }
}

/// The name of a workload's group, with those of the groups around it.
pub fn name_of(spec: &WorkloadSpec) -> String {
    let mut names = around(spec);
    names.push(spec.name.clone());
    if names.len() == 1 {
        names[0] = top(&spec.name);
    }
    names.join("/")
}

/// The names of the groups around a workload's own, the outermost first.
fn around(spec: &WorkloadSpec) -> Vec<String> {
    let names = spec.within.iter().enumerate();
    names.map(|(depth, around)| if depth == 0 { top(&around.name) } else { around.name.clone() }).collect()
}

/// A group at the top is marked as this process's.
fn top(name: &str) -> String {
    format!("{PREFIX}{}-{name}", std::process::id())
}

/// The groups below one get controllers.
fn hand_down(path: &Path) -> Result<()> {
    CONTROLLERS.iter().try_for_each(|name| write(&path.join("cgroup.subtree_control"), &format!("+{name}")))
}

/// Removes the empty groups of processes that were killed before they could.
fn remove_left(root: &Path, proc: &Path) -> Result<()> {
    for entry in fs::read_dir(root).with_context(|| format!("read {}", root.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let pid = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
        if pid.is_some_and(|pid| !proc.join(pid).exists()) {
            remove(&path).with_context(|| format!("remove {}", path.display()))?;
        }
    }
    Ok(())
}

/// Removes a group and those below it.
fn remove(path: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(path)? {
        let below = entry?.path();
        if below.is_dir() {
            remove(&below)?;
        }
    }
    fs::remove_dir(path)
}

fn set(path: &Path, spec: &WorkloadSpec) -> Result<()> {
    write(&path.join("cpu.weight"), &spec.weight.to_string())?;
    if let Some(quota) = spec.quota {
        let period = spec.quota_period;
        write(&path.join("cpu.max"), &format!("{} {}", quota.of(period).0 / 1000, period.0 / 1000))?;
    }
    if spec.idle {
        write(&path.join("cpu.idle"), "1")?;
    }
    if let Some(cpus) = &spec.cpuset {
        write(&path.join("cpuset.cpus"), &cpus.0.to_string())?;
    }
    match spec.partition {
        Partition::Member => Ok(()),
        Partition::Root => write(&path.join("cpuset.cpus.partition"), "root"),
        Partition::Isolated => write(&path.join("cpuset.cpus.partition"), "isolated"),
    }
}

fn write(path: &Path, value: &str) -> Result<()> {
    fs::write(path, value).with_context(|| format!("write {value} to {}", path.display()))
}

impl Drop for Groups {
    fn drop(&mut self) {
        for path in self.made.iter().rev() {
            // Its processes have ended; the kernel may still count them.
            for _ in 0..100 {
                if fs::remove_dir(path).is_ok() {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use quell_model::Class;
    use quell_sim::workload::GroupSpec;

    use super::*;

    #[test]
    fn groups_of_killed_processes_are_removed_and_no_others() {
        let (root, proc) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for name in ["quell-play-7-web", "quell-play-7-pods/web", "quell-play-8-web", "system.slice"] {
            fs::create_dir_all(root.path().join(name)).unwrap();
        }
        fs::create_dir(proc.path().join("8")).unwrap();
        remove_left(root.path(), proc.path()).unwrap();
        let left = |name: &str| root.path().join(name).exists();
        let after = ["quell-play-7-web", "quell-play-7-pods", "quell-play-8-web", "system.slice"].map(left);
        assert_eq!(after, [false, false, true, true]);
    }

    #[test]
    fn a_group_within_others_is_named_with_them() {
        let mut spec = WorkloadSpec::new("web", Class::LatencyCritical);
        assert_eq!(name_of(&spec), top("web"));
        let group = |name: &str| GroupSpec { name: name.into(), weight: 300 };
        spec.within = vec![group("pods"), group("gold")];
        assert_eq!(name_of(&spec), format!("{}/gold/web", top("pods")));
        assert_eq!(needed_by(&spec), Some("within"));
    }
}

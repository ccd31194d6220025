//! What a cgroup and those above it allow: CPUs (`cpuset.cpus`) and CPU time (`cpu.max`).

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use quell_model::{CpuCount, CpuSet};

use crate::cgroup;

/// What a cgroup allows, with those above it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    /// The CPUs; None: all that are online.
    pub cpus: Option<CpuSet>,
    /// The tightest quota; None: there is none.
    pub quota: Option<CpuCount>,
}

/// One reading of the tree: each cgroup above others is read once.
pub struct Reading<'a> {
    root: &'a Path,
    online: CpuSet,
    /// The value of a file from before Quell, where Quell changed it.
    origin: &'a dyn Fn(&Path) -> Option<String>,
    /// Does a cgroup's effective set say what others allow? Not where Quell made partitions, or set it or one above it.
    sees_effective: &'a dyn Fn(&Path) -> bool,
    known: HashMap<PathBuf, Allowed>,
}

impl<'a> Reading<'a> {
    /// A reading of the tree at this root.
    #[must_use]
    pub fn new(
        root: &'a Path,
        online: CpuSet,
        origin: &'a dyn Fn(&Path) -> Option<String>,
        sees_effective: &'a dyn Fn(&Path) -> bool,
    ) -> Reading<'a> {
        Reading { root, online, origin, sees_effective, known: HashMap::new() }
    }

    /// What a workload's own cgroup and those above it allow, but for what Quell set on it. A file that is not there, or cannot be
    /// read, allows all.
    pub fn of_own(&mut self, group: &Path) -> Allowed {
        let above = group.parent().map_or(Allowed::default(), |parent| self.of(parent));
        if !group.starts_with(self.root) || group == self.root {
            return above;
        }
        self.narrowed(above, group, true)
    }

    /// What a cgroup and those above it allow all that is in them.
    pub fn of(&mut self, group: &Path) -> Allowed {
        if group == self.root || !group.starts_with(self.root) {
            return Allowed::default();
        }
        if let Some(known) = self.known.get(group) {
            return *known;
        }
        let above = group.parent().map_or(Allowed::default(), |parent| self.of(parent));
        let found = self.narrowed(above, group, false);
        self.known.insert(group.to_owned(), found);
        found
    }

    /// The kernel's rules: a set is within that above; an empty one, or one without a CPU of that above, counts as that above.
    fn narrowed(&self, above: Allowed, group: &Path, own: bool) -> Allowed {
        let usable = above.cpus.unwrap_or(self.online);
        let effective = || self.set(&group.join("cpuset.cpus.effective"), false);
        let found = match (self.sees_effective)(group) {
            true => effective().or_else(|| self.set(&group.join("cpuset.cpus"), true)),
            false => self.set(&group.join("cpuset.cpus"), true),
        };
        let cpus = found.map_or(usable, |own| own.intersection(&usable));
        let cpus = if cpus.is_empty() { usable } else { cpus };
        let path = group.join("cpu.max");
        // Above a workload a quota holds, whatever set it.
        let before = if own { (self.origin)(&path) } else { None };
        let quota = before.or_else(|| cgroup::read_file(&path).ok().flatten()).and_then(|text| quota_of(&text));
        Allowed {
            cpus: (!self.online.is_subset(&cpus)).then_some(cpus),
            quota: above.quota.into_iter().chain(quota).min(),
        }
    }

    fn set(&self, path: &Path, or_before: bool) -> Option<CpuSet> {
        let before = if or_before { (self.origin)(path) } else { None };
        let text = before.or_else(|| cgroup::read_file(path).ok().flatten())?;
        text.parse::<CpuSet>().ok().filter(|set| !set.is_empty())
    }
}

/// The CPUs that a text of `cpu.max` allows; None: all.
fn quota_of(text: &str) -> Option<CpuCount> {
    let mut words = text.split_whitespace();
    let quota: u64 = words.next()?.parse().ok()?;
    let period: u64 = words.next().map_or(Some(100_000), |word| word.parse().ok())?;
    let thousandths = (u128::from(quota) * 1000).checked_div(u128::from(period))?;
    Some(CpuCount(u32::try_from(thousandths).unwrap_or(u32::MAX)))
}

#[cfg(test)]
mod tests {
    use quell_model::Topology;

    use super::*;
    use crate::testkit::FakeTree;

    fn machine() -> FakeTree {
        let tree = FakeTree::new(&Topology::synthetic(1, 1, 4, 1));
        tree.cgroup("d.slice/app.service");
        tree
    }

    fn read(tree: &FakeTree, set_by_quell: &[(&str, &str)]) -> String {
        let roots = tree.roots();
        let origin = |path: &Path| {
            let own = set_by_quell.iter().find(|(name, _)| roots.cgroup.join(name) == path);
            own.map(|(_, before)| (*before).to_owned())
        };
        let sees = |_: &Path| set_by_quell.is_empty();
        let mut reading = Reading::new(&roots.cgroup, tree.online(), &origin, &sees);
        let Allowed { cpus, quota } = reading.of_own(&roots.cgroup.join("d.slice/app.service"));
        let cpus = cpus.map_or("all".to_owned(), |cpus| cpus.to_string());
        format!("{cpus} {}", quota.map_or("max".to_owned(), |quota| quota.to_string()))
    }

    #[test]
    fn a_slice_bounds_what_is_below_it() {
        let tree = machine();
        assert_eq!(read(&tree, &[]), "all max");
        tree.write("cgroup/d.slice/cpuset.cpus", "0-1");
        for group in ["d.slice", "d.slice/app.service"] {
            tree.write(format!("cgroup/{group}/cpuset.cpus.effective"), "0-1");
        }
        tree.write("cgroup/d.slice/cpu.max", "50000 100000");
        assert_eq!(read(&tree, &[]), "0-1 0.5");
        tree.write("cgroup/d.slice/app.service/cpu.max", "10000 100000");
        assert_eq!(read(&tree, &[]), "0-1 0.1");
    }

    #[test]
    fn what_quell_set_is_no_bound() {
        let tree = machine();
        tree.write("cgroup/d.slice/cpuset.cpus", "0-2");
        tree.write("cgroup/d.slice/app.service/cpuset.cpus", "1");
        tree.write("cgroup/d.slice/app.service/cpu.max", "1000 100000");
        let own = [("d.slice/app.service/cpuset.cpus", ""), ("d.slice/app.service/cpu.max", "max 100000")];
        assert_eq!(read(&tree, &own), "0-2 max");
        let limited = [("d.slice/app.service/cpuset.cpus", "2-3"), own[1]];
        assert_eq!(read(&tree, &limited), "2 max", "a unit's own AllowedCPUs=");
        let outer = [own[0], own[1], ("d.slice/cpuset.cpus", "")];
        assert_eq!(read(&tree, &outer), "all max", "nor what it set on a workload above");
    }

    #[test]
    fn a_set_without_a_cpu_of_those_above_counts_as_theirs() {
        let tree = machine();
        tree.write("cgroup/d.slice/cpuset.cpus", "0-1");
        tree.write("cgroup/d.slice/app.service/cpuset.cpus", "3");
        assert_eq!(read(&tree, &[("none", "")]), "0-1 max");
    }
}

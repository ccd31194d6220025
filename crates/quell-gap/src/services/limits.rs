//! How long the CPU limits of cgroups held threads back: `cpu.stat` of both versions.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use quell_linux::Roots;
use quell_linux::cgroup::CpuV1;
use quell_model::Nanos;

/// No file is read beyond this.
const MOST: u64 = 64 * 1024;

/// What the kernel counts of a limit (`cpu.stat`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limited {
    /// Time for which CPUs were kept from the group, counted at the end of a period.
    pub throttled: Nanos,
    /// Periods that ended.
    pub periods: u64,
    /// Length of a period.
    pub period: Nanos,
}

impl Limited {
    /// The limit's time in a burst of this length, from the readings at its begin and end: as much in each period as in those that
    /// ended in it.
    #[must_use]
    pub fn within(before: Limited, after: Limited, length: Nanos) -> Nanos {
        let (throttled, periods) = (after.throttled - before.throttled, after.periods.saturating_sub(before.periods));
        let counted = Nanos(after.period.0 * periods);
        if counted == Nanos::ZERO {
            return throttled.min(length);
        }
        // Periods are counted while the group has something to run: one at either end may be cut.
        let factor = (length.0 as f64 / counted.0 as f64).min(1.0 + 1.0 / periods as f64);
        throttled.scaled(factor)
    }
}

/// The cgroups of this machine that may have limits.
pub(crate) struct Limits {
    roots: Roots,
    version1: Option<CpuV1>,
}

impl Limits {
    pub fn of(proc: &Path) -> Limits {
        let roots = Roots { proc: proc.to_owned(), ..Roots::default() };
        let version1 = CpuV1::find(&roots);
        Limits { roots, version1 }
    }

    /// What is counted of each limit of this cgroup and of those above it, the nearest first; nothing where there is none.
    pub fn counted(&self, group: &Path) -> Vec<Limited> {
        let mounts = [Some(self.roots.cgroup.as_path()), Some(Path::new("/sys/fs/cgroup"))];
        let above = group.ancestors().take_while(|group| !mounts.contains(&Some(group)));
        above
            .map(|group| {
                let stat = read(&group.join("cpu.stat")).unwrap_or_default();
                Limited {
                    throttled: throttled(&stat).unwrap_or_default(),
                    periods: periods(&stat),
                    period: period(group).unwrap_or_default(),
                }
            })
            .collect()
    }

    /// The directory of a process's cgroup for CPU time.
    pub fn group_of(&self, pid: i32) -> Option<PathBuf> {
        let text = read(&self.roots.proc.join(pid.to_string()).join("cgroup"))?;
        if let Some(version1) = &self.version1 {
            return Some(version1.group_in(&text));
        }
        let path = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
        Some(self.roots.cgroup.join(path))
    }

    /// The time for which limits of this cgroup and of those above it held CPUs back so far: of each limit alone, the largest.
    pub fn held_back(&self, group: &Path) -> Nanos {
        let mounts = [Some(self.roots.cgroup.as_path()), Some(Path::new("/sys/fs/cgroup"))];
        let above = group.ancestors().take_while(|group| !mounts.contains(&Some(group)));
        above.filter_map(|group| throttled(&read(&group.join("cpu.stat"))?)).max().unwrap_or_default()
    }
}

fn read(path: &Path) -> Option<String> {
    let mut text = String::new();
    File::open(path).ok()?.take(MOST).read_to_string(&mut text).ok()?;
    Some(text)
}

fn periods(stat: &str) -> u64 {
    stat.lines().find_map(|line| line.strip_prefix("nr_periods ")?.trim().parse().ok()).unwrap_or_default()
}

/// Version 2 has the quota and its period in one file.
fn period(group: &Path) -> Option<Nanos> {
    let micros = match read(&group.join("cpu.max")) {
        Some(text) => text.split_whitespace().nth(1)?.parse().ok()?,
        None => read(&group.join("cpu.cfs_period_us"))?.trim().parse().ok()?,
    };
    Some(Nanos::from_micros(micros))
}

/// Version 2 counts microseconds, version 1 nanoseconds.
fn throttled(text: &str) -> Option<Nanos> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(' ')?;
        match name {
            "throttled_usec" => value.trim().parse().ok().map(Nanos::from_micros),
            "throttled_time" => value.trim().parse().ok().map(Nanos),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_say_how_long_a_limit_held_threads_back() {
        for (text, is) in [
            ("usage_usec 5\nnr_throttled 2\nthrottled_usec 1500\n", Some(1_500_000)),
            ("nr_periods 9\nnr_throttled 2\nthrottled_time 77\n", Some(77)),
            ("usage_usec 5\n", None),
            ("throttled_usec soon\n", None),
        ] {
            assert_eq!(throttled(text), is.map(Nanos), "{text}");
        }
    }
}

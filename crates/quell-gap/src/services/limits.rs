//! How long the CPU limits of cgroups held threads back: `cpu.stat` of both versions.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use quell_linux::Roots;
use quell_linux::cgroup::CpuV1;
use quell_model::Nanos;

/// No file is read beyond this.
const MOST: u64 = 64 * 1024;

/// The cgroups of this machine that may have limits.
pub(super) struct Limits {
    roots: Roots,
    version1: Option<CpuV1>,
}

impl Limits {
    pub fn of(proc: &Path) -> Limits {
        let roots = Roots { proc: proc.to_owned(), ..Roots::default() };
        let version1 = CpuV1::find(&roots);
        Limits { roots, version1 }
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

//! Time that the hypervisor took from this machine's CPUs, from `proc/stat` (man 5 proc_stat).

use std::fs;
use std::path::Path;

use crate::{Error, Result};

/// The machine's CPU time since boot, in clock ticks, over all CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuTicks {
    /// All time.
    pub total: u64,
    /// Time in which a CPU was runnable and the hypervisor ran something else.
    pub stolen: u64,
}

impl CpuTicks {
    /// Reads `stat` below a procfs root (usually `/proc`).
    ///
    /// # Errors
    /// When the file cannot be read or has no `cpu` line.
    pub fn read(proc_root: &Path) -> Result<Self> {
        let path = proc_root.join("stat");
        let text = fs::read_to_string(&path).map_err(Error::file("read", &path))?;
        Self::parse(&text).ok_or_else(|| Error::Format { path, problem: "has no `cpu` line of eight numbers".into() })
    }

    fn parse(text: &str) -> Option<Self> {
        let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
        // user nice system idle iowait irq softirq steal; guest times are already in user and nice.
        let ticks: Vec<u64> = line.split_whitespace().take(8).map(|word| word.parse().ok()).collect::<Option<_>>()?;
        (ticks.len() == 8).then(|| Self { total: ticks.iter().sum(), stolen: ticks[7] })
    }

    /// The share of all CPU time (0 to 1) that was stolen between `earlier` and now.
    #[must_use]
    pub fn stolen_since(self, earlier: Self) -> f64 {
        let total = self.total.saturating_sub(earlier.total);
        if total == 0 {
            return 0.0;
        }
        self.stolen.saturating_sub(earlier.stolen) as f64 / total as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stolen_share_is_that_of_the_interval() {
        let root = tempfile::tempdir().unwrap();
        let read = |text: &str| {
            fs::write(root.path().join("stat"), text).unwrap();
            CpuTicks::read(root.path())
        };
        let before = read("cpu  10 0 10 70 0 0 0 10 5 0\ncpu0 1 2 3\n").unwrap();
        assert_eq!(before, CpuTicks { total: 100, stolen: 10 });
        let after = read("cpu  60 0 10 70 0 0 10 60 5 0\n").unwrap();
        assert!((after.stolen_since(before) - 50.0 / 110.0).abs() < 1e-12);
        assert_eq!(before.stolen_since(before), 0.0);
        for bad in ["", "cpu 1 2 3\n", "cpu a b c d e f g h\n"] {
            let text = read(bad).unwrap_err().to_string();
            assert!(text.contains("stat"), "{text}");
        }
    }

    #[test]
    fn a_missing_file_is_named() {
        let text = CpuTicks::read(Path::new("/nowhere")).unwrap_err().to_string();
        assert!(text.contains("/nowhere/stat"), "{text}");
    }
}

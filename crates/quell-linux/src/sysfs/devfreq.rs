//! Frequencies of a GPU (`/sys/class/devfreq/NAME`; Documentation/ABI/testing/sysfs-class-devfreq).
//!
//! devfreq has memory controllers, flash and others, too. A GPU is recognised by its driver, or by its name in the device tree.

use std::path::{Path, PathBuf};

use quell_model::GpuControl;

use crate::{LinuxError, file};

/// Drivers of GPUs with a devfreq of their own.
const DRIVERS: [&str; 9] =
    ["panfrost", "panthor", "lima", "mali", "msm_gpu", "adreno", "etnaviv-gpu", "nvgpu", "gk20a"];
/// Names of GPUs in device trees.
const NAMES: [&str; 7] = ["gpu", "mali", "gm20b", "gp10b", "gv11b", "ga10b", "kgsl-3d0"];

/// A GPU whose frequency can be bounded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuDevice {
    /// Its directory.
    pub directory: PathBuf,
    /// Its frequencies, kHz, ascending; at least one.
    pub khz: Vec<u32>,
    /// Its range.
    pub control: GpuControl,
}

impl GpuDevice {
    /// The file that bounds the frequency, in Hz.
    #[must_use]
    pub fn limit(&self) -> PathBuf {
        self.directory.join("max_freq")
    }

    /// The highest of its frequencies that is no higher than this, in Hz as the file has it.
    #[must_use]
    pub fn hz_at_most(&self, khz: u32) -> u64 {
        let below = self.khz.partition_point(|own| *own <= khz);
        u64::from(self.khz[below.saturating_sub(1)]) * 1000
    }
}

/// The GPU that there is; None: there is none with frequencies of its own, or there are several.
///
/// # Errors
/// If a file is there and cannot be read or understood.
pub fn gpu(sys: &Path) -> Result<Option<GpuDevice>, LinuxError> {
    let base = sys.join("class/devfreq");
    let mut found = None;
    for name in file::names(&base)? {
        let directory = base.join(&name);
        if !is_gpu(&directory, &name)? {
            continue;
        }
        match device(directory)? {
            Some(_) if found.is_some() => return Ok(None),
            Some(device) => found = Some(device),
            None => {}
        }
    }
    Ok(found)
}

fn is_gpu(directory: &Path, name: &str) -> Result<bool, LinuxError> {
    let uevent = file::read(&directory.join("device/uevent"))?.unwrap_or_default();
    let value = |key: &str| uevent.lines().find_map(|line| line.strip_prefix(key));
    let by_driver = value("DRIVER=").is_some_and(|driver| DRIVERS.contains(&driver));
    let by_name = value("OF_NAME=").is_some_and(|name| NAMES.contains(&name));
    // Such as 17000000.gv11b.
    Ok(by_driver || by_name || name.rsplit('.').next().is_some_and(|name| NAMES.contains(&name)))
}

fn device(directory: PathBuf) -> Result<Option<GpuDevice>, LinuxError> {
    let listed = file::read(&directory.join("available_frequencies"))?.unwrap_or_default();
    let mut khz: Vec<u32> =
        listed.split_whitespace().filter_map(|hz| u32::try_from(hz.parse::<u64>().ok()? / 1000).ok()).collect();
    khz.sort_unstable();
    khz.dedup();
    let Some(now) = file::parse::<u64>(&directory.join("max_freq"), "a frequency in Hz")? else { return Ok(None) };
    let (Some(&min_khz), Some(&highest)) = (khz.first(), khz.last()) else { return Ok(None) };
    let max_khz = u32::try_from(now / 1000).unwrap_or(u32::MAX).clamp(min_khz, highest);
    // The widest gap, so that each step is another of its frequencies.
    let step_khz = khz.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
    let control = GpuControl { min_khz, max_khz, step_khz };
    Ok(Some(GpuDevice { directory, khz, control }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::FakeTree;
    use quell_model::Topology;

    fn tree() -> FakeTree {
        FakeTree::new(&Topology::synthetic(1, 1, 2, 1))
    }

    #[test]
    fn a_gpu_is_told_from_other_devices() {
        let cases = [
            ("57000000.gpu", "", true),
            ("17000000.gv11b", "", true),
            ("ffe40000", "DRIVER=panfrost\nOF_NAME=gpu", true),
            ("3d00000", "OF_NAME=gpu", true),
            ("dmc", "DRIVER=rockchip-dmc\nOF_NAME=dmc", false),
            ("1d84000.ufshc", "OF_NAME=ufshc", false),
        ];
        for (name, uevent, is_one) in cases {
            let tree = tree();
            tree.devfreq(name, uevent, &[300, 100, 200]);
            assert_eq!(gpu(&tree.roots().sys).unwrap().is_some(), is_one, "{name}");
        }
    }

    #[test]
    fn its_range_is_what_it_lists_and_what_stands_now() {
        let tree = tree();
        assert_eq!(gpu(&tree.roots().sys).unwrap(), None);
        tree.devfreq("57000000.gpu", "", &[1300, 140, 500, 240]);
        let found = gpu(&tree.roots().sys).unwrap().unwrap();
        assert_eq!(found.control, GpuControl { min_khz: 140_000, max_khz: 1_300_000, step_khz: 800_000 });
        assert_eq!(
            [0, 140_000, 499_999, 500_000, u32::MAX].map(|khz| found.hz_at_most(khz) / 1_000_000),
            [140, 140, 240, 500, 1300]
        );
        tree.write("sys/class/devfreq/57000000.gpu/max_freq", "500000000");
        assert_eq!(gpu(&tree.roots().sys).unwrap().unwrap().control.max_khz, 500_000);
        tree.devfreq("58000000.gpu", "", &[100, 200]);
        assert_eq!(gpu(&tree.roots().sys).unwrap(), None, "of two GPUs none");
        tree.remove("sys/class/devfreq/58000000.gpu/available_frequencies");
        assert!(gpu(&tree.roots().sys).unwrap().is_some(), "one without a list is none");
    }
}

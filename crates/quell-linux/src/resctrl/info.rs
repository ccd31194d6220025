//! What resctrl can give out on this machine: the directory `info`, the mount, and the caches' ids.

use std::path::Path;

use quell_model::{Controls, CpuSet, ThrottleControl, ThrottleUnit, Topology, WayControl};

use super::Resctrl;
use crate::{LinuxError, Roots, file};

/// AMD's throttle: eighths of a GB/s; this much is no throttle.
const AMD_MOST: u32 = 2048;

/// Ways, throttle and groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Info {
    /// The lines of the last-level caches' ways: `L3`, or the two of CDP; empty: none.
    pub cache_lines: Vec<&'static str>,
    /// All ways, as a mask.
    pub all_ways: u32,
    /// The least number of bits of a mask.
    pub least: u32,
    pub contiguous: bool,
    pub with_devices: u32,
    /// The memory throttle.
    pub throttle: Option<ThrottleControl>,
    /// Number of control groups that there can be, the root's included.
    pub groups: u32,
    /// The id of each last-level cache, by our number: the number of its domain.
    pub ids: Vec<Option<u32>>,
}

impl Info {
    /// Reads all of it.
    ///
    /// # Errors
    /// If a file is there and cannot be read.
    pub fn read(resctrl: &Resctrl, roots: &Roots, topology: &Topology) -> Result<Info, LinuxError> {
        let info = resctrl.root().join("info");
        let mut found = Info { contiguous: true, least: 1, ..Info::default() };
        found.cache_lines = match (info.join("L3").is_dir(), info.join("L3CODE").is_dir()) {
            (true, _) => vec!["L3"],
            (false, true) => vec!["L3CODE", "L3DATA"],
            (false, false) => Vec::new(),
        };
        let mut groups = Vec::new();
        for line in &found.cache_lines {
            let directory = info.join(line);
            found.all_ways = hex(&directory.join("cbm_mask"))?.unwrap_or(0);
            found.least = number(&directory.join("min_cbm_bits"))?.unwrap_or(1).max(1);
            found.contiguous = number(&directory.join("sparse_masks"))?.unwrap_or(0) == 0;
            found.with_devices = hex(&directory.join("shareable_bits"))?.unwrap_or(0);
            groups.extend(number(&directory.join("num_closids"))?);
        }
        let memory = info.join("MB");
        if memory.is_dir() {
            groups.extend(number(&memory.join("num_closids"))?);
            let least = number(&memory.join("min_bandwidth"))?.unwrap_or(1);
            let step = number(&memory.join("bandwidth_gran"))?.unwrap_or(1).max(1);
            found.throttle = Some(match unit(roots)? {
                ThrottleUnit::PerCent => ThrottleControl { least, most: 100, step, unit: ThrottleUnit::PerCent },
                ThrottleUnit::MegabytesPerSecond => {
                    ThrottleControl { least, most: u32::MAX, step: 1, unit: ThrottleUnit::MegabytesPerSecond }
                }
                unit => ThrottleControl { least: least.max(1), most: AMD_MOST, step, unit },
            });
        }
        found.groups = groups.into_iter().min().unwrap_or(0);
        // A CPU that is offline has no caches.
        let id = |cpus: &CpuSet| cpus.iter().find_map(|cpu| cache_id(&roots.sys, cpu.0));
        found.ids = topology.llcs().iter().map(id).collect();
        Ok(found)
    }

    /// Ways of each cache that has an id.
    pub fn caches(&self) -> impl Iterator<Item = WayControl> + '_ {
        let ways = self.all_ways.count_ones();
        let has = move |(llc, id): (usize, &Option<u32>)| id.map(|_| llc as u32).filter(|_| ways > 0);
        self.ids.iter().enumerate().filter_map(has).map(move |llc| WayControl {
            llc,
            ways,
            least: self.least,
            contiguous: self.contiguous,
            with_devices: self.with_devices,
        })
    }

    /// The text of "no throttle".
    pub fn no_throttle(&self) -> String {
        self.throttle.map_or(100, |control| control.most).to_string()
    }

    /// A throttle as the hardware has it: rounded up to its step.
    pub fn rounded(&self, value: u32) -> u32 {
        let Some(ThrottleControl { least, most, step, .. }) = self.throttle else { return value };
        value.max(least).div_ceil(step).saturating_mul(step).min(most)
    }
}

/// What there is to turn of it.
pub(crate) fn controls(roots: &Roots, topology: &Topology, found: &mut Controls) {
    let Some(resctrl) = Resctrl::find(roots) else { return };
    let Ok(info) = Info::read(&resctrl, roots, topology) else { return };
    found.caches = info.caches().collect();
    found.throttle = info.throttle;
    found.groups_left = Some(info.groups.saturating_sub(resctrl.groups().len() as u32));
}

/// The id of the cache of the highest level: the file `id`.
fn cache_id(sys: &Path, cpu: u32) -> Option<u32> {
    let cache = sys.join(format!("devices/system/cpu/cpu{cpu}/cache"));
    let level = |index: u32| number(&cache.join(format!("index{index}/level"))).ok().flatten();
    let index = (0..8).filter(|&index| level(index) == Some(3)).max()?;
    number(&cache.join(format!("index{index}/id"))).ok().flatten()
}

fn unit(roots: &Roots) -> Result<ThrottleUnit, LinuxError> {
    let mounts = file::read(&roots.proc.join("self/mountinfo"))?.unwrap_or_default();
    let is_resctrl = |line: &&str| line.contains(" - resctrl ");
    if mounts.lines().find(is_resctrl).is_some_and(|line| line.contains("mba_MBps")) {
        return Ok(ThrottleUnit::MegabytesPerSecond);
    }
    let cpu = file::read(&roots.proc.join("cpuinfo"))?.unwrap_or_default();
    let is_amd = cpu.contains("AuthenticAMD") || cpu.contains("HygonGenuine");
    Ok(if is_amd { ThrottleUnit::EighthsOfGigabyte } else { ThrottleUnit::PerCent })
}

fn number(path: &Path) -> Result<Option<u32>, LinuxError> {
    file::parse(path, "a number")
}

fn hex(path: &Path) -> Result<Option<u32>, LinuxError> {
    let Some(text) = file::read(path)? else { return Ok(None) };
    u32::from_str_radix(&text, 16).map(Some).map_err(|_| LinuxError::parse(path, &text, "a mask"))
}

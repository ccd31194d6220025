//! CPU use and waiting of a cgroup: `cpu.stat`, `cpu.pressure`.

use std::path::Path;

use quell_model::Nanos;

use crate::{LinuxError, file};

/// `cpu.stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuStat {
    /// CPU time used, by threads that died too.
    pub usage: Nanos,
    /// Periods in which the quota was used up.
    pub throttled_periods: u64,
    /// Time that was lost to the quota, over all CPUs.
    pub throttled: Nanos,
}

/// One line of `cpu.pressure`: the share of time in which some thread waited for a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pressure {
    /// Percent over the last 10 s.
    pub avg10: f64,
    /// Percent over the last minute.
    pub avg60: f64,
    /// All waiting time since the cgroup was made.
    pub total: Nanos,
}

/// A cgroup's CPU use; None if it is gone.
///
/// # Errors
/// If the file cannot be read.
pub fn cpu_stat(group: &Path) -> Result<Option<CpuStat>, LinuxError> {
    let Some(text) = file::read(&group.join("cpu.stat"))? else { return Ok(None) };
    parse(&text).map(Some).ok_or_else(|| LinuxError::parse(group.join("cpu.stat"), &text, "a line usage_usec"))
}

/// The text of a `cpu.stat`; None without a line `usage_usec`.
pub(super) fn parse(text: &str) -> Option<CpuStat> {
    let value = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
        line.and_then(|number| number.trim().parse::<u64>().ok())
    };
    let micros = |key: &str| value(key).map(Nanos::from_micros);
    Some(CpuStat {
        usage: micros("usage_usec")?,
        throttled_periods: value("nr_throttled").unwrap_or(0),
        throttled: micros("throttled_usec").unwrap_or_default(),
    })
}

/// A cgroup's waiting for CPUs (the line `some`); None if it is gone or the kernel does not measure it (psi=0).
///
/// # Errors
/// If the file cannot be read or understood.
pub fn pressure(group: &Path) -> Result<Option<Pressure>, LinuxError> {
    let path = group.join("cpu.pressure");
    let text = match file::read(&path) {
        Ok(text) => text.unwrap_or_default(),
        Err(LinuxError::Io { source, .. }) if source.raw_os_error() == Some(libc::EOPNOTSUPP) => return Ok(None),
        Err(error) => return Err(error),
    };
    let Some(line) = text.lines().find_map(|line| line.strip_prefix("some ")) else { return Ok(None) };
    let value =
        |key: &str| line.split(' ').find_map(|pair| pair.strip_prefix(key)?.strip_prefix('=')?.parse::<f64>().ok());
    match (value("avg10"), value("avg60"), value("total")) {
        (Some(avg10), Some(avg60), Some(total)) => {
            Ok(Some(Pressure { avg10, avg60, total: Nanos::from_micros(total as u64) }))
        }
        _ => Err(LinuxError::parse(&path, line, "avg10, avg60 and total")),
    }
}

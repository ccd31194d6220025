//! `/proc/stat`: the machine's own times.

use std::path::Path;

use quell_model::Nanos;

use crate::{LinuxError, file};

/// Time stolen by the hypervisor since boot, summed over all CPUs (`/proc/stat`, line `cpu`, eighth number).
///
/// # Errors
/// If the file cannot be read or has no such number.
pub fn steal(proc: &Path) -> Result<Nanos, LinuxError> {
    let path = proc.join("stat");
    let text = file::read(&path)?.unwrap_or_default();
    let steal = text.lines().find_map(|line| line.strip_prefix("cpu ")?.split_whitespace().nth(7)?.parse().ok());
    steal.map(ticks).ok_or_else(|| LinuxError::parse(&path, text.lines().next().unwrap_or(""), "a line of CPU times"))
}

/// Time that all CPUs together have run anything since boot (`/proc/stat`, line `cpu`: user, nice, system, interrupts, soft
/// interrupts; guests are in the first two).
///
/// # Errors
/// If the file cannot be read or has no such numbers.
pub fn busy(proc: &Path) -> Result<Nanos, LinuxError> {
    let path = proc.join("stat");
    let text = file::read(&path)?.unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "));
    let numbers: Option<Vec<u64>> =
        line.map(|line| line.split_whitespace().map_while(|word| word.parse().ok()).collect());
    let sum =
        numbers.filter(|numbers| numbers.len() >= 7).map(|numbers| [0, 1, 2, 5, 6].map(|at| numbers[at]).iter().sum());
    sum.map(ticks).ok_or_else(|| LinuxError::parse(&path, line.unwrap_or(""), "a line of CPU times"))
}

/// Clock ticks as time. User space always sees 100 a second (USER_HZ) on the architectures that Linux has today.
#[must_use]
pub fn ticks(count: u64) -> Nanos {
    Nanos::from_millis(count.saturating_mul(10))
}

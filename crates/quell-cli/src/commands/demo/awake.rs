//! Idle CPUs that stay awake while the demo measures. On a virtual machine a CPU that sleeps may take longer to wake up than a
//! server to answer: alone it would be slower than beside an antagonist, which keeps the CPUs awake.

use std::fs::File;
use std::io::Write;
use std::path::Path;

/// Where the kernel takes how long a CPU may need to wake up, µs (Documentation/power/pm_qos_interface.rst).
pub const DEVICE: &str = "/dev/cpu_dma_latency";

/// Keeps them awake while the answer is held, and no longer, however this process ends. None where it may not, or the kernel cannot.
pub fn hold(device: &Path) -> Option<File> {
    let mut file = File::options().write(true).open(device).ok()?;
    file.write_all(&0i32.to_ne_bytes()).ok()?;
    Some(file)
}

/// A line about it.
pub fn line(is_held: bool) -> &'static str {
    if is_held {
        "idle CPUs stay awake while it measures (/dev/cpu_dma_latency)"
    } else {
        "idle CPUs may sleep: the time that one takes to wake up is in the latencies (as root the demo keeps them awake)"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_time_to_wake_up_is_asked_for() {
        let device = tempfile::NamedTempFile::new().unwrap();
        let held = hold(device.path());
        assert!(held.is_some());
        assert_eq!(std::fs::read(device.path()).unwrap(), [0; 4]);
        assert!(hold(Path::new("/nowhere/at/all")).is_none());
    }
}

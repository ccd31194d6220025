//! The guest's memory.

use crate::error::{LabError, Result};
use crate::machine::Machine;

/// The memory for a guest whose image holds `image_bytes`: the image is there twice while it is unpacked.
pub(super) fn memory_mib(machine: &Machine, image_bytes: u64) -> Result<u64> {
    const KERNEL_MIB: u64 = 160;
    const PER_CPU_MIB: u64 = 4;
    const ROOMY_MIB: u64 = 1024;
    let image_mib = image_bytes.div_ceil(1 << 20);
    let needed_mib = KERNEL_MIB + PER_CPU_MIB * u64::from(machine.cpus) + 2 * image_mib;
    match machine.memory_mib {
        Some(given_mib) if given_mib < needed_mib => Err(LabError::TooLittleMemory { given_mib, needed_mib }),
        Some(given_mib) => Ok(given_mib),
        None => Ok(ROOMY_MIB.max(needed_mib + ROOMY_MIB / 2)),
    }
}

/// Refuses a guest with more memory than this machine has, before anything is fetched.
pub(super) fn check_memory(machine: &Machine, host_mib: u64) -> Result<()> {
    match machine.memory_mib {
        Some(given) if given > host_mib => {
            let why = format!("{given} MiB, and this machine has {host_mib}; give less, or leave it out");
            Err(LabError::BadOption { option: "--mem", why })
        }
        _ => Ok(()),
    }
}

pub(super) fn host_memory_mib() -> u64 {
    let host = rustix::system::sysinfo();
    host.totalram.saturating_mul(host.mem_unit.into()) >> 20
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_memory_than_the_machine_has_is_refused() {
        let with = |memory_mib| Machine { memory_mib, ..Machine::default() };
        let text = check_memory(&with(Some(900 << 10)), 4096).unwrap_err().to_string();
        assert_eq!(text, "--mem: 921600 MiB, and this machine has 4096; give less, or leave it out");
        assert!(check_memory(&with(Some(4096)), 4096).is_ok() && check_memory(&with(None), 0).is_ok());
        assert!(host_memory_mib() > 0);
    }

    #[test]
    fn memory_grows_with_the_image_and_too_little_is_refused() {
        let small = Machine { memory_mib: Some(64), ..Machine::default() };
        assert!(matches!(memory_mib(&small, 0), Err(LabError::TooLittleMemory { given_mib: 64, needed_mib: 176 })));
        assert_eq!(memory_mib(&Machine::default(), 0).unwrap(), 1024);
        assert!(memory_mib(&Machine::default(), 1 << 30).unwrap() > 2048);
    }
}

//! The highest frequency of the GPU that shares the CPUs' memory.

use quell_model::{Capabilities, KnobKind, Support};

use super::{Actuator, Aim, Draft, Here, forbidden};
use crate::write::{Place, Value};
use crate::{LinuxError, sysfs};

const NONE: &str = "no GPU, or not one alone, has frequencies in /sys/class/devfreq";
const FIX: &str = "none: discrete GPUs (NVML) are not managed: their clock does not relieve the CPUs' memory, and a \
                    locked clock cannot be read back";

/// devfreq's `max_freq`.
pub(super) struct Gpu;

impl Actuator for Gpu {
    fn report(&self, here: &Here<'_>, found: &mut Capabilities) {
        let support = match (sysfs::gpu(&here.roots.sys), here.options.gpu) {
            (Ok(Some(_)), true) => Support::Yes,
            (Ok(Some(_)), false) => forbidden("a GPU's frequency affects all programs that use it", "machine.gpu"),
            _ => Support::No { why: NONE.into(), fix: FIX.into() },
        };
        found.knobs.insert(KnobKind::GpuFrequencyKhz, support);
    }

    fn set(&self, aim: &Aim<'_>, draft: &mut Draft<'_>) -> Result<(), LinuxError> {
        let Some(wanted) = aim.gpu_khz else { return Ok(()) };
        let Some(device) = sysfs::gpu(draft.sys_root)? else { return Err(LinuxError::unsupported(NONE, FIX)) };
        let place = Place::File(device.limit());
        let origin = draft.ledger.origin(&place).cloned();
        let after = match (wanted, origin) {
            // Never above what another program had set.
            (Some(khz), origin) => {
                let own = device.hz_at_most(khz);
                let highest = match &origin {
                    Some(Value::Text(text)) => text.parse().unwrap_or(u64::MAX),
                    _ => u64::from(device.control.max_khz) * 1000,
                };
                Value::Text(own.min(highest).to_string())
            }
            (None, Some(origin)) => origin,
            (None, None) => return Ok(()),
        };
        draft.set(None, place, after)
    }
}

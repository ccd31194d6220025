//! The machine's counters, and the best of them.

use quell_model::Nanos;

use super::controllers::Controllers;
use super::misses::Misses;
use super::resctrl::Monitored;
use crate::perf::{ALLOW, Counters, Lack, Make, PASSED_ON, Processor};
use crate::{LinuxError, Roots, clock};

/// Source of the machine's bandwidth.
#[derive(Debug)]
pub(super) enum Source {
    Controllers(Controllers),
    Resctrl(Monitored),
    Misses,
}

impl Source {
    /// The best available source.
    pub fn choose(roots: &Roots, columns: usize, counters: &dyn Counters) -> Result<Source, Lack> {
        let mut refused = None;
        let devices = roots.sys.join("bus/event_source/devices");
        match Controllers::open(&devices, clock::now(), counters) {
            Ok(Some(controllers)) => return Ok(Source::Controllers(controllers)),
            Ok(None) => {}
            Err(error) => refused = Some(error),
        }
        match Monitored::open(roots) {
            Ok(Some(resctrl)) => return Ok(Source::Resctrl(resctrl)),
            Ok(None) => {}
            Err(error) => refused = refused.or(Some(error)),
        }
        let misses = open_misses(columns, counters);
        if counts_last_level(roots) && misses.is_ok() {
            return Ok(Source::Misses);
        }
        Err(match (refused, misses) {
            (Some(LinuxError::Unsupported { what, fix }), _) => Lack { why: what, fix },
            (Some(error), _) => Lack { why: error.to_string(), fix: PASSED_ON.into() },
            (None, Err(lack)) if lack.fix == ALLOW => lack,
            _ => Lack {
                why: "memory controllers, resctrl and LLC misses are all unavailable here".into(),
                fix: format!(
                    "load the memory controllers' driver (intel_uncore, amd_uncore), mount resctrl, or {PASSED_ON}"
                ),
            },
        })
    }

    /// Readings at shorter intervals say no more: the controllers are read by a system call each, and the counts of
    /// resctrl and of a CPU's counters in less time are small against their grain or cost every CPU an interrupt.
    pub fn interval(&self) -> Nanos {
        match self {
            Source::Controllers(_) => Nanos::from_micros(100),
            Source::Resctrl(_) | Source::Misses => Nanos::from_millis(1),
        }
    }
}

/// Begins to count misses.
pub(super) fn open_misses(columns: usize, counters: &dyn Counters) -> Result<Misses, Lack> {
    Misses::open(columns, counters).map_err(|error| Lack::of(&error))
}

/// Does this CPU count misses of the last level under the kernel's name for cache misses? Intel's do (SDM volume 3,
/// "LLC Misses" of the architectural events); AMD's count the second level's there (linux,
/// arch/x86/events/amd/core.c, `amd_zen1_perfmon_event_map`), Arm's the first's
/// (drivers/perf/arm_pmuv3.c, `armv8_pmuv3_perf_map`).
pub(super) fn counts_last_level(roots: &Roots) -> bool {
    Processor::read(roots).make == Make::Intel
}

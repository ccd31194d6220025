//! The highest frequency of the GPU that shares the CPUs' memory.

use quell_model::{Capabilities, KnobKind, Support};

use super::{Actuator, Here};

/// Not written on this host yet.
pub(super) struct Gpu;

impl Actuator for Gpu {
    fn tell(&self, _here: &Here<'_>, found: &mut Capabilities) {
        let why = "GPU frequencies (devfreq) are not set on this host yet".into();
        let mend = "none here; the clock of a discrete GPU would not relieve the CPUs' memory either".into();
        found.knobs.insert(KnobKind::GpuFrequencyKhz, Support::No { why, mend });
    }
}

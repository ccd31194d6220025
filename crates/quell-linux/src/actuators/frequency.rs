//! The highest frequency of CPUs.

use quell_model::{Capabilities, CpuId, KnobKind, Support};

use super::{Actuator, Aim, Draft, Here};
use crate::write::{Place, Value};
use crate::{LinuxError, sysfs};

/// `scaling_max_freq`: one write a domain.
pub(super) struct Frequency;

impl Actuator for Frequency {
    fn tell(&self, here: &Here<'_>, found: &mut Capabilities) {
        let domains = sysfs::frequency_domains(&here.roots.sys, &here.online).unwrap_or_default();
        let shared = domains.iter().any(|domain| domain.control.cpus.len() > 1);
        let support = match (domains.is_empty(), shared) {
            (true, _) => Support::No {
                why: format!("no CPU has {}", here.roots.sys.join("devices/system/cpu/cpuN/cpufreq").display()),
                mend: "a virtual machine has none; elsewhere load a cpufreq driver (intel_pstate, acpi-cpufreq)".into(),
            },
            (false, true) => Support::Partly("CPUs that share a frequency must have the same limit".into()),
            (false, false) => Support::Yes,
        };
        found.knobs.insert(KnobKind::MaxFrequencyKhz, support);
    }

    fn set(&self, aim: &Aim<'_>, draft: &mut Draft<'_>) -> Result<(), LinuxError> {
        let Some(wanted) = aim.frequencies else { return Ok(()) };
        for domain in sysfs::frequency_domains(draft.sys_root, &draft.online)? {
            let limit = |cpu: CpuId| wanted.get(&cpu).copied().flatten();
            let own = || domain.control.cpus.iter().map(limit);
            let first = own().next().flatten();
            if own().any(|khz| khz != first) {
                let what = format!("the CPUs {} have one frequency together", domain.control.cpus);
                let mend = "set them alike: give foreground and background whole domains of their own";
                return Err(LinuxError::unsupported(what, mend));
            }
            let place = Place::File(domain.limit());
            let origin = draft.ledger.origin(&place).cloned();
            let after = match (first, origin) {
                // Never above what another program had set.
                (Some(khz), origin) => {
                    let highest = match &origin {
                        Some(Value::Text(text)) => text.parse().unwrap_or(u32::MAX),
                        _ => domain.control.max_khz,
                    };
                    Value::Text(khz.clamp(domain.control.min_khz, highest).to_string())
                }
                (None, Some(origin)) => origin,
                (None, None) => continue,
            };
            draft.set(None, place, after)?;
        }
        Ok(())
    }
}

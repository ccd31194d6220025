//! The highest frequency of CPUs.

use std::collections::HashMap;

use quell_model::{Capabilities, CpuId, KnobKind, Support};

use super::{Actuator, Aim, Draft, Here};
use crate::members::Members;
use crate::sysfs::FrequencyDomain;
use crate::write::{Place, Value};
use crate::{LinuxError, sysfs};

/// `scaling_max_freq`: one write a domain.
pub(super) struct Frequency;

impl Actuator for Frequency {
    fn report(&self, here: &Here<'_>, found: &mut Capabilities) {
        let domains = sysfs::frequency_domains(&here.roots.sys, &here.online).unwrap_or_default();
        let shared = domains.iter().any(|domain| domain.control.cpus.len() > 1);
        let support = match (domains.is_empty(), shared) {
            (true, _) => Support::No {
                why: format!("no CPU has {}", here.roots.sys.join("devices/system/cpu/cpuN/cpufreq").display()),
                fix: "a virtual machine has none; elsewhere load a cpufreq driver (intel_pstate, acpi-cpufreq)".into(),
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
                return Err(not_alike(&domain));
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

/// Refuses different limits of CPUs that have one frequency together, even if a solo run lifts some of them now.
///
/// # Errors
/// The domain, and the fix.
pub(crate) fn check_frequencies(khz: &HashMap<CpuId, u32>, members: &Members) -> Result<(), LinuxError> {
    for domain in sysfs::frequency_domains(&members.roots.sys, &members.online)? {
        let mut own = domain.control.cpus.iter().map(|cpu| khz.get(&cpu));
        let first = own.next().flatten();
        if own.any(|khz| khz != first) {
            return Err(not_alike(&domain));
        }
    }
    Ok(())
}

fn not_alike(domain: &FrequencyDomain) -> LinuxError {
    let what = format!("the CPUs {} have one frequency together", domain.control.cpus);
    LinuxError::unsupported(
        what,
        "set them to the same value: give foreground and background separate frequency domains",
    )
}

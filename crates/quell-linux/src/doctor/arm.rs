//! Findings on machines as ARM's: CPUs of different speed, and resources that MPAM divides.

use quell_model::CpuSet;

use super::facts::{Facts, Valued};
use super::finding::{Concern, Evidence, Finding, evidence};

/// CPUs are of different speed.
pub(super) fn speeds(facts: &Facts) -> Option<Finding> {
    let (fastest, fast) = facts.speeds.first()?;
    let shown = |(capacity, cpus): &(Valued<u32>, CpuSet)| Evidence {
        path: capacity.path.display().to_string(),
        value: format!("{} (CPUs {cpus})", capacity.value),
    };
    Some(Finding {
        concern: Concern::Latency,
        what: format!("CPUs differ in speed: {fast} are the fastest"),
        evidence: facts.speeds.iter().map(shown).collect(),
        consequence: format!(
            "the policies rkube and caladan prefer the fastest for latency-critical work; the others take a CPU for a CPU, and a \
             request for 1 CPU is met by one of any speed (capacity {} of {})",
            facts.speeds.last()?.0.value,
            fastest.value
        ),
        fix: format!(
            "where another policy is to run: give the service CPUs {fast} itself (AllowedCPUs={fast} of its unit)"
        ),
    })
}

/// MPAM is there, and no resctrl that Quell could set it by.
pub(super) fn mpam(facts: &Facts) -> Option<Finding> {
    let table = facts.mpam.as_ref().filter(|_| facts.resctrl.is_none() && !facts.has_resctrl)?;
    Some(Finding {
        concern: Concern::Unavailable,
        what: "MPAM is there, and this kernel has no resctrl for it".into(),
        evidence: vec![evidence(table, "a table of the firmware")],
        consequence: "cache ways and memory bandwidth can be neither divided nor counted by workload: policies that set them (his, \
                      heracles, parties) use cores instead"
            .into(),
        fix: "boot a kernel whose resctrl knows MPAM (CONFIG_ARM64_MPAM_DRIVER and CONFIG_RESCTRL_FS)".into(),
    })
}

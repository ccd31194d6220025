//! Workloads that their cgroups allow less than the machine has.

use quell_model::{Allowance, Workload};

/// What its cgroups allow a workload, in one line.
#[must_use]
pub fn allowed(allowance: &Allowance) -> String {
    format!(
        "its cgroups allow it {allowance}, and policies choose within: AllowedCPUs= and CPUQuota= of its unit and slices"
    )
}

/// The line where that is less than it requests.
#[must_use]
pub fn too_little(workload: &Workload, allowance: &Allowance) -> Option<String> {
    let most = allowance.most()?;
    (workload.cpus > most).then(|| {
        format!(
            "it requests {} CPUs, and its cgroups allow it {allowance}; raise these, or request less",
            workload.cpus
        )
    })
}

#[cfg(test)]
mod tests {
    use quell_model::{Class, CpuCount, WorkloadId};

    use super::*;

    #[test]
    fn a_request_beyond_the_slice_is_named() {
        let workload = Workload::new("web", Class::LatencyCritical, CpuCount::whole(2));
        let mut allowance =
            Allowance { workload: WorkloadId(0), cpus: Some("0-1".parse().unwrap()), quota: None, no_realtime: false };
        assert!(allowed(&allowance).contains("CPUs 0-1, and"));
        assert_eq!(too_little(&workload, &allowance), None);
        allowance.quota = Some(CpuCount(500));
        let line = too_little(&workload, &allowance).unwrap();
        assert!(line.contains("requests 2 CPUs") && line.contains("CPUs 0-1 and 0.5 CPUs of time"), "{line}");
    }
}

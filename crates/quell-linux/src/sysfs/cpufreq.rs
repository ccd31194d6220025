//! Frequencies of CPUs (`/sys/devices/system/cpu/cpufreq/policyN`, or `cpuN/cpufreq` where those are not there).

use std::path::{Path, PathBuf};

use quell_model::{CpuId, CpuSet, FrequencyControl};

use crate::{LinuxError, file};

/// CPUs that have one frequency together, with the directory of their policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrequencyDomain {
    /// The directory.
    pub directory: PathBuf,
    /// The CPUs and their range.
    pub control: FrequencyControl,
}

impl FrequencyDomain {
    /// The file that bounds the frequency.
    #[must_use]
    pub fn limit(&self) -> PathBuf {
        self.directory.join("scaling_max_freq")
    }
}

/// All domains of CPUs that are online, ascending by their first CPU.
///
/// # Errors
/// If a file is there and cannot be read or understood.
pub fn frequency_domains(sys: &Path, online: &CpuSet) -> Result<Vec<FrequencyDomain>, LinuxError> {
    let base = sys.join("devices/system/cpu");
    let mut domains: Vec<FrequencyDomain> = Vec::new();
    let policies = file::names(&base.join("cpufreq"))?;
    let policies =
        policies.iter().filter(|name| name.starts_with("policy")).map(|name| base.join("cpufreq").join(name));
    let of_cpus = online.iter().map(|cpu| base.join(format!("cpu{cpu}/cpufreq")));
    for directory in policies.chain(of_cpus) {
        if let Some(control) = control(&directory, online)?
            && !domains.iter().any(|known| !known.control.cpus.is_disjoint(&control.cpus))
        {
            domains.push(FrequencyDomain { directory, control });
        }
    }
    domains.sort_by_key(|domain| domain.control.cpus.lowest());
    Ok(domains)
}

fn control(directory: &Path, online: &CpuSet) -> Result<Option<FrequencyControl>, LinuxError> {
    let number = |name: &str| file::parse::<u32>(&directory.join(name), "a frequency in kHz");
    let (Some(min_khz), Some(highest)) = (number("cpuinfo_min_freq")?, number("cpuinfo_max_freq")?) else {
        return Ok(None);
    };
    let Some(now) = number("scaling_max_freq")? else { return Ok(None) };
    let cpus = file::read(&directory.join("affected_cpus"))?.unwrap_or_default();
    let cpus: CpuSet = cpus.split_whitespace().filter_map(|cpu| cpu.parse().ok().map(CpuId)).collect();
    let cpus = cpus.intersection(online);
    let listed = file::read(&directory.join("scaling_available_frequencies"))?.unwrap_or_default();
    let mut listed: Vec<u32> = listed.split_whitespace().filter_map(|khz| khz.parse().ok()).collect();
    listed.sort_unstable();
    // Steps need not be equal: the smallest is taken. intel_pstate has no list and takes any value.
    let step_khz = listed.windows(2).map(|pair| pair[1] - pair[0]).filter(|step| *step > 0).min().unwrap_or(0);
    let max_khz = now.min(highest).max(min_khz);
    Ok((!cpus.is_empty()).then_some(FrequencyControl { cpus, min_khz, max_khz, step_khz }))
}

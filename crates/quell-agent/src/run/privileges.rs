//! Gives up the capabilities that the agent does not need (capabilities(7); the list with reasons is in
//! `docs/operate/security.md`).

use caps::{CapSet, Capability, CapsHashSet};
use quell_linux::{Privilege, privileges};
use quell_model::{Policy, Selector, SignalSet};
use quell_pods::Mode;

use crate::config::Config;

/// Capabilities that the agent keeps.
const NEEDED: [Capability; 4] = [
    // Affinity, scheduling class and priority of other users' threads, and its own real-time priority.
    Capability::CAP_SYS_NICE,
    // Stops and continues other users' processes during solo runs, where there is no freezer.
    Capability::CAP_KILL,
    // Writes into cgroups that were delegated to other users.
    Capability::CAP_DAC_OVERRIDE,
    // Gives the API's socket to the group that may read.
    Capability::CAP_CHOWN,
];

/// Further ones under Quell's scheduler: for loading it and for kicking CPUs.
const SCHEDULING: [Capability; 3] = [Capability::CAP_BPF, Capability::CAP_PERFMON, Capability::CAP_SYS_ADMIN];

/// A further one where a selector names the file that a process executes: that of another user's process is secret.
const SEEING_FILES: Capability = Capability::CAP_SYS_PTRACE;

/// A further one to make partitions of pods: the kernel asks for it below the root's children.
const PARTITIONS: Capability = Capability::CAP_SYS_ADMIN;

/// Capabilities for an agent with this configuration.
#[must_use]
pub fn needed(config: &Config) -> CapsHashSet {
    let signals = config.policies.iter().fold(SignalSet::default(), |set, layer| set.union(layer.policy.signals()));
    let scheduling = SCHEDULING.into_iter().filter(|_| config.has_own_scheduler());
    let names_file = |selector: &Selector| matches!(selector, Selector::Command(line) if line.exe.is_some());
    let mut selectors = config.workloads.iter().flat_map(|member| &member.workload.selectors);
    let seeing = selectors.any(names_file).then_some(SEEING_FILES);
    let tracing = [Capability::CAP_BPF, Capability::CAP_PERFMON].into_iter().filter(|_| config.attribution.enabled);
    let partitions = config.kubernetes.as_ref().filter(|pods| pods.mode == Mode::Enforce).map(|_| PARTITIONS);
    let scheduling = scheduling.chain(partitions);
    NEEDED.into_iter().chain(needed_for(signals)).chain(tracing).chain(scheduling).chain(seeing).collect()
}

/// Further ones to measure these signals.
fn needed_for(signals: SignalSet) -> impl Iterator<Item = Capability> {
    privileges(signals).map(|privilege| match privilege {
        Privilege::Bpf => Capability::CAP_BPF,
        Privilege::Perfmon => Capability::CAP_PERFMON,
    })
}

/// Drops all other capabilities, for this process and all that it starts. Returns those that could not be dropped.
#[must_use]
pub fn drop_others(needed: &CapsHashSet) -> Vec<String> {
    let mut failed = Vec::new();
    let bounding = caps::read(None, CapSet::Bounding).unwrap_or_default();
    for capability in bounding.difference(needed) {
        if caps::drop(None, CapSet::Bounding, *capability).is_err() {
            failed.push(format!("{capability} (of programs that it would start)"));
        }
    }
    // Effective before permitted: nothing may be effective that is not permitted.
    for set in [CapSet::Inheritable, CapSet::Effective, CapSet::Permitted] {
        let has = caps::read(None, set).unwrap_or_default();
        let keeps: CapsHashSet = has.intersection(needed).copied().collect();
        if let Err(error) = caps::set(None, set, &keeps) {
            failed.push(format!("{set:?}: {error}"));
        }
    }
    failed
}

#[cfg(test)]
mod tests {
    use quell_model::Signal;

    use super::*;

    #[test]
    fn who_counts_keeps_what_counting_takes_and_nobody_else() {
        let kept = |signal| needed_for(SignalSet::of(&[signal])).collect::<Vec<_>>();
        assert_eq!(kept(Signal::RunTime), []);
        for signal in [Signal::MemoryBandwidth, Signal::LlcMisses] {
            assert_eq!(kept(signal), [Capability::CAP_PERFMON]);
        }
        assert_eq!(kept(Signal::WakeUps), [Capability::CAP_BPF, Capability::CAP_PERFMON]);
    }
}

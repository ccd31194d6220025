//! Judging the facts: each finding has its evidence, its consequence, and the fix.

use super::super::finding::{Concern, Evidence, Finding, evidence};
use super::facts::{Driver, Facts, Runtime};

/// Files and processes named in a finding.
const NAMED: usize = 6;

/// The findings, what stops most first.
#[must_use]
pub fn findings(facts: &Facts) -> Vec<Finding> {
    let judges = [
        no_kubelet,
        cgroup_v1,
        no_nri,
        static_manager,
        plugins,
        rivals,
        withheld,
        two_drivers,
        foreign_driver,
        rt_groups,
        isolated,
    ];
    judges.iter().filter_map(|judge| judge(facts)).collect()
}

fn no_kubelet(facts: &Facts) -> Option<Finding> {
    if facts.kubelet.is_some() || !facts.pods.is_empty() {
        return None;
    }
    Some(Finding {
        concern: Concern::Unavailable,
        what: "no kubelet was found".into(),
        evidence: vec![evidence("/var/lib/kubelet".as_ref(), "not there, nor a cgroup kubepods")],
        consequence: "there are no pods here; what else is found may be another machine's".into(),
        fix: "run it on the node, or in a container with hostPID: quell doctor --kubernetes --root /proc/1/root".into(),
    })
}

fn cgroup_v1(facts: &Facts) -> Option<Finding> {
    let has = |name: &str| facts.cgroup_v2.as_ref().is_some_and(|v2| v2.value.split(' ').any(|other| other == name));
    if has("cpu") && has("cpuset") {
        return None;
    }
    let mut shown: Vec<Evidence> =
        facts.cgroup_v2.iter().map(|v2| evidence(&v2.path, format!("'{}'", v2.value))).collect();
    shown.extend(facts.cgroup_v1.iter().map(|v1| evidence(&v1.mount, format!("cgroup v1 with {}", v1.controllers))));
    Some(Finding {
        concern: Concern::Unavailable,
        what: "the node has no cgroup v2 with cpu and cpuset".into(),
        evidence: shown,
        consequence: "pods are shown at most: no pod can have CPUs of its own".into(),
        fix: "boot with systemd.unified_cgroup_hierarchy=1 cgroup_no_v1=all; kubelet and runtime then use cgroup v2 by themselves"
            .into(),
    })
}

fn no_nri(facts: &Facts) -> Option<Finding> {
    if facts.nri.is_some() {
        return None;
    }
    let mut shown = vec![evidence("/run/nri/nri.sock".as_ref(), "not there")];
    shown.extend(facts.runtimes.iter().map(|runtime| evidence(&runtime.path, runtime.value.name())));
    let has = |wanted| facts.runtimes.iter().any(|runtime| runtime.value == wanted);
    let fix = if has(Runtime::Containerd) {
        "in /etc/containerd/config.toml, below [plugins.\"io.containerd.nri.v1.nri\"]: disable = false and socket_path = \
         \"/var/run/nri/nri.sock\" (the same lines with version 2 and 3 of the file); then systemctl restart containerd, \
         which leaves containers running"
    } else if has(Runtime::CriO) {
        "in /etc/crio/crio.conf.d/10-nri.conf, below [crio.nri]: enable_nri = true; then systemctl restart crio"
    } else if has(Runtime::Docker) {
        "Docker has no NRI: give the node containerd or CRI-O as its runtime"
    } else {
        "no runtime's socket was found either: start containerd or CRI-O with NRI"
    };
    Some(Finding {
        concern: Concern::Unavailable,
        what: "the container runtime offers no NRI".into(),
        evidence: shown,
        consequence:
            "Quell is not asked when a container is created: it learns of no pod by its name, and reserves for none"
                .into(),
        fix: fix.into(),
    })
}

fn static_manager(facts: &Facts) -> Option<Finding> {
    let manager = facts.cpu_manager.as_ref().filter(|manager| manager.value == "static")?;
    Some(Finding {
        concern: Concern::Exclusive,
        what: "the kubelet's CPU manager is static".into(),
        evidence: vec![evidence(&manager.path, &manager.value)],
        consequence:
            "kubelet and Quell would write the same CPU sets: the kubelet resets them every 10 s, and knows nothing of \
                      Quell's reservations"
                .into(),
        fix: format!(
            "drain the node; set cpuManagerPolicy: none in the kubelet's configuration; systemctl stop kubelet; rm {}; \
             systemctl start kubelet",
            manager.path.display()
        ),
    })
}

fn plugins(facts: &Facts) -> Option<Finding> {
    if facts.plugins.is_empty() {
        return None;
    }
    let mut shown: Vec<Evidence> = facts.plugins.iter().take(NAMED).map(|file| evidence(file, "a plug-in's")).collect();
    shown.extend(more(facts.plugins.len()));
    Some(Finding {
        concern: Concern::Exclusive,
        what: "other NRI plug-ins are installed".into(),
        evidence: shown,
        consequence: "if one sets CPU sets (topology-aware, balloons), the runtime refuses a container for which Quell sets \
                      them, too; one that sets other things is no trouble"
            .into(),
        fix: "keep one that sets CPU sets: take the other one's file out of /opt/nri/plugins and restart the runtime, or leave \
              Quell at mode = \"observe\""
            .into(),
    })
}

fn rivals(facts: &Facts) -> Option<Finding> {
    let first = facts.rivals.first()?;
    let mut shown: Vec<Evidence> =
        facts.rivals.iter().take(NAMED).map(|rival| evidence(&rival.path, &rival.value)).collect();
    shown.extend(more(facts.rivals.len()));
    Some(Finding {
        concern: Concern::Exclusive,
        what: format!("another program sets the CPUs of pods: {}", first.value),
        evidence: shown,
        consequence:
            "two programs write the same CPU sets, weights or quotas; Quell backs off from what is overwritten \
                      again and again"
                .into(),
        fix: format!(
            "keep {} off this node (its DaemonSet's node affinity), or leave Quell at mode = \"observe\"",
            first.value
        ),
    })
}

fn withheld(facts: &Facts) -> Option<Finding> {
    let first = facts.withheld.first()?;
    Some(Finding {
        concern: Concern::Unavailable,
        what: "the cgroups of pods have no cpu or no cpuset controller".into(),
        evidence: facts.withheld.iter().map(|given| evidence(&given.path, format!("'{}'", given.value))).collect(),
        consequence: "a pod there can have no CPUs of its own; the kernel shares out time as if pods had no requests"
            .into(),
        fix: format!(
            "the kubelet gives both on when it starts: restart it; if that changes nothing: echo '+cpu +cpuset' > {}",
            first.path.display()
        ),
    })
}

fn two_drivers(facts: &Facts) -> Option<Finding> {
    if facts.pods.len() < 2 {
        return None;
    }
    Some(Finding {
        concern: Concern::Shares,
        what: "there are pods' cgroups of two drivers".into(),
        evidence: facts.pods.iter().map(|pods| evidence(&pods.path, pods.value.name())).collect(),
        consequence:
            "the driver was changed, or kubelet and runtime disagree: the requests of pods in one tree do not count \
                      against those in the other"
                .into(),
        fix: "set the same cgroup driver for kubelet and runtime, drain the node, and boot it".into(),
    })
}

/// With systemd as driver nothing is in the way: what daemon-reload empties is set again.
fn foreign_driver(facts: &Facts) -> Option<Finding> {
    let (systemd, pods) = (facts.systemd.as_ref()?, facts.pods.first()?);
    if facts.driver() != Some(Driver::Cgroupfs) {
        return None;
    }
    Some(Finding {
        concern: Concern::Shares,
        what: "the cgroup driver is cgroupfs, beside systemd".into(),
        evidence: vec![evidence(&pods.path, Driver::Cgroupfs.name()), evidence(systemd, "systemd runs")],
        consequence:
            "two programs manage one tree: systemd does not know of the pods' cgroups, and may take controllers from \
                      them"
                .into(),
        fix:
            "cgroupDriver: systemd for the kubelet, SystemdCgroup = true for runc in the runtime's configuration, on a \
              drained node"
                .into(),
    })
}

fn rt_groups(facts: &Facts) -> Option<Finding> {
    let shown = facts.rt_groups.as_ref()?;
    Some(Finding {
        concern: Concern::Latency,
        what: "pods cannot have SCHED_FIFO threads (RT group scheduling)".into(),
        evidence: vec![evidence(&shown.path, &shown.value)],
        consequence:
            "under the policy guard threads of latency-critical pods get the highest weight and a short slice \
                      instead, which protects them less"
                .into(),
        fix: "boot a kernel without CONFIG_RT_GROUP_SCHED, or from 6.15 on with rt_group_sched=0".into(),
    })
}

fn isolated(facts: &Facts) -> Option<Finding> {
    let isolcpus = facts.isolcpus.as_ref()?;
    Some(Finding {
        concern: Concern::Shares,
        what: "CPUs are isolated at boot".into(),
        evidence: vec![evidence(&isolcpus.path, &isolcpus.value)],
        consequence:
            "the kubelet counts them among the node's CPUs, but the kernel moves no thread there by itself: pods get \
                      less than their requests add up to, and Quell gives these CPUs to no pod"
                .into(),
        fix: "boot without isolcpus=; quell.dev/reservation: strict keeps others off a pod's CPUs while it runs".into(),
    })
}

fn more(count: usize) -> Option<Evidence> {
    (count > NAMED).then(|| Evidence { path: "and others".into(), value: (count - NAMED).to_string() })
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;

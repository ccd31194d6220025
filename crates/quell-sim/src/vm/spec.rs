//! A VM as a scenario describes it.

use quell_model::{Class, CpuCount, CpuSet, Demand, Knob, Nanos, Reservation, SchedClass, Slo, Workload};
use serde::{Deserialize, Serialize};

use crate::KernelConfig;
use crate::kernel::Partition;
use crate::sim::tighter;
use crate::workload::{CpuList, WorkloadSpec};

/// A VM. To the host it is one workload whose threads are its vCPUs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VmSpec {
    /// Unique name, among workloads too.
    pub name: String,
    /// Latency-critical or best-effort.
    #[serde(default = "latency_critical")]
    pub class: Class,
    /// The latency to keep, for policies.
    #[serde(default)]
    pub slo: Option<Slo>,
    /// CPUs requested.
    #[serde(default)]
    pub cpus: CpuCount,
    /// At most this many CPUs.
    #[serde(default)]
    pub limit: Option<CpuCount>,
    /// How the request is meant.
    #[serde(default)]
    pub reservation: Reservation,
    /// May solo runs of others pause it, although it is latency-critical?
    #[serde(default)]
    pub pausable: bool,
    /// What it asks its CPUs for, for policies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub demand: Option<Demand>,
    /// Number of vCPUs.
    pub vcpus: u32,
    /// `cpu.weight` of its group on the host.
    #[serde(default = "hundred")]
    pub weight: u32,
    /// `cpu.max` of its group on the host, in CPUs, with a period of 100 ms.
    #[serde(default)]
    pub quota: Option<CpuCount>,
    /// `cpu.idle` of its group on the host.
    #[serde(default)]
    pub idle: bool,
    /// `cpuset.cpus` of its group on the host.
    #[serde(default)]
    pub cpuset: Option<CpuList>,
    /// `cpuset.cpus.partition` of its group on the host, which then needs a `cpuset`.
    #[serde(default)]
    pub partition: Partition,
    /// Each vCPU's own affinity, in the order of vCPUs, beginning again where it ends.
    #[serde(default)]
    pub affinity: Vec<CpuList>,
    /// The vCPU threads' scheduling class on the host.
    #[serde(default)]
    pub scheduling: SchedClass,
    /// Each vCPU is a deferrable server on the one CPU of its affinity.
    #[serde(default)]
    pub deferrable: Option<Deferrable>,
    /// The guest's kernel.
    #[serde(default)]
    pub kernel: KernelConfig,
}

/// A deferrable server: a vCPU's resource interface (budget, period, priority) of vas-rtns21 §3.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deferrable {
    /// CPU time per period.
    pub budget: Nanos,
    /// The period.
    pub period: Nanos,
    /// Fixed priority among the CPU's servers; higher runs first.
    pub priority: u32,
}

fn latency_critical() -> Class {
    Class::LatencyCritical
}

fn hundred() -> u32 {
    100
}

impl VmSpec {
    /// A VM with nothing set.
    #[must_use]
    pub fn new(name: impl Into<String>, vcpus: u32) -> VmSpec {
        VmSpec {
            name: name.into(),
            class: Class::LatencyCritical,
            slo: None,
            cpus: CpuCount::ZERO,
            limit: None,
            reservation: Reservation::Standard,
            pausable: false,
            demand: None,
            vcpus,
            weight: 100,
            quota: None,
            idle: false,
            cpuset: None,
            partition: Partition::Member,
            affinity: Vec::new(),
            scheduling: SchedClass::NORMAL,
            deferrable: None,
            kernel: KernelConfig::default(),
        }
    }

    /// What its owner configures in Quell.
    #[must_use]
    pub fn description(&self) -> Workload {
        Workload {
            slo: self.slo,
            limit: self.limit,
            reservation: self.reservation,
            pausable: self.pausable,
            demand: self.demand.clone(),
            ..Workload::new(self.name.clone(), self.class, self.cpus)
        }
    }

    /// The guest's CPUs.
    #[must_use]
    pub fn online(&self) -> CpuSet {
        CpuSet::first(self.vcpus as usize)
    }

    /// CPUs of the host that it can use at most.
    #[must_use]
    pub fn most(&self, online: &CpuSet) -> f64 {
        let cpuset = self.cpuset.map_or(online.len(), |list| list.0.len());
        let quota = tighter(self.quota, self.limit).map_or(f64::INFINITY, CpuCount::as_f64);
        f64::from(self.vcpus).min(cpuset as f64).min(quota)
    }

    /// What cannot be simulated on this machine, and the fix.
    ///
    /// # Errors
    /// A sentence that names the VM.
    pub fn check(&self, online: &CpuSet) -> Result<(), String> {
        self.description().check().map_err(|error| error.to_string())?;
        let bad = |why: String| Err(format!("VM '{}': {why}", self.name));
        if !(1..=256).contains(&self.vcpus) {
            return bad("give it 1 to 256 vCPUs".into());
        }
        if !Knob::WEIGHTS.contains(&self.weight) {
            return bad("a weight is from 1 to 10000".into());
        }
        if self.quota == Some(CpuCount::ZERO) {
            return bad("a quota of nothing would stop it for ever; leave the quota out or raise it".into());
        }
        for list in self.cpuset.iter().chain(&self.affinity) {
            if list.0.is_empty() || !list.0.is_subset(online) {
                return bad(format!("the CPUs \"{}\" are not all on this machine: it has {online}", list.0));
            }
        }
        if self.partition != Partition::Member && self.cpuset.is_none() {
            return bad("a partition is made of CPUs: give it a cpuset".into());
        }
        if let Some(Deferrable { budget, period, .. }) = self.deferrable {
            if budget == Nanos::ZERO || budget > period {
                return bad(format!("a budget of {budget} every {period}: give more than 0 and at most the period"));
            }
            if self.affinity.is_empty() || self.affinity.iter().any(|list| list.0.len() != 1) {
                return bad("a deferrable server is on one CPU: give each vCPU an affinity of one".into());
            }
        }
        self.kernel.check().or_else(|why| bad(format!("its kernel has {why}")))
    }
}

/// The VM that each workload runs in.
///
/// # Errors
/// A sentence that says what makes no sense, and the fix.
pub(crate) fn homes(online: &CpuSet, workloads: &[WorkloadSpec], vms: &[VmSpec]) -> Result<Vec<Option<usize>>, String> {
    let names: Vec<&str> =
        vms.iter().map(|vm| vm.name.as_str()).chain(workloads.iter().map(|spec| spec.name.as_str())).collect();
    if let Some(at) = (0..names.len()).find(|&at| names[..at].contains(&names[at])) {
        let kind = if vms.is_empty() { "workloads" } else { "workloads or VMs" };
        return Err(format!("two {kind} are named '{}': rename one", names[at]));
    }
    vms.iter().try_for_each(|vm| vm.check(online))?;
    let home = |spec: &WorkloadSpec| {
        let Some(name) = &spec.vm else { return spec.check(online).map(|()| None) };
        let Some(home) = vms.iter().position(|vm| vm.name == *name) else {
            return Err(format!(
                "workload '{}': there is no VM '{name}': add a [[vm]], or run it on the host",
                spec.name
            ));
        };
        spec.check(&vms[home].online()).map(|()| Some(home))
    };
    workloads.iter().map(home).collect()
}

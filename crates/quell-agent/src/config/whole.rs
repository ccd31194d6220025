//! Guarantees that take the whole machine.

use quell_model::{CpuCount, CpuSet, Policy as _};

use super::{Config, Layer};

/// Of the policies that guarantee CPUs to threads of a real-time class (`guard`), those that guarantee all CPUs of the
/// machine, `all`, to the configuration's workloads: the policy, and the line that warns of it.
#[must_use]
pub fn whole_machine(config: &Config, all: CpuSet) -> Vec<(&Layer, String)> {
    let cpus = CpuCount::whole(config.pool(all).len() as u32);
    let guards = config.policies.iter().filter(|layer| layer.policy.describe().name == "guard");
    let takes_all = guards.filter(|layer| {
        let owns = |name| layer.workloads.as_ref().is_none_or(|names| names.contains(name));
        let owned = config.workloads.iter().map(|member| &member.workload).filter(|workload| owns(&workload.name));
        // As in the policy: a request that no longer fits is refused.
        let promise = |promised, asked| if promised + asked <= cpus { promised + asked } else { promised };
        owned.map(|workload| workload.guaranteed()).fold(CpuCount::ZERO, promise) == cpus
    });
    let line = format!(
        "policy 'guard' guarantees every CPU ({cpus}): while its workloads use them nothing else runs, not even the \
         system's own work; request fewer CPUs for one of them"
    );
    takes_all.map(|layer| (layer, line.clone())).collect()
}

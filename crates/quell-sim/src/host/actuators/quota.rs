//! The quota: cpu.max, which also keeps the workload's limit.

use quell_model::{Capabilities, Knob, KnobKind, KnobSetting, Support, Target};

use super::{Actuator, On};
use crate::contention::MeasuredOfMemory;
use crate::sim::{quota, tighter};
use crate::workload::QUOTA_PERIOD;

pub(super) struct Quota;

impl Actuator for Quota {
    fn report(&self, _: MeasuredOfMemory, found: &mut Capabilities) {
        found.knobs.insert(KnobKind::Quota, Support::Yes);
    }

    fn set(&self, setting: &KnobSetting, on: &mut On<'_>) {
        if let (Target::Workload(id), Knob::Quota(cpus)) = (setting.target, setting.knob)
            && let Some(member) = on.members.get(id)
        {
            let group = on.sim.tenants[id.index()].group;
            let limit = tighter(cpus, member.spec.limit).map(|cpus| quota(cpus, QUOTA_PERIOD));
            on.sim.kernel.set_quota(group, limit);
        }
    }
}

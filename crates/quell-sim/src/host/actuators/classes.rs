//! Scheduling classes of threads.

use quell_model::{Capabilities, Knob, KnobKind, KnobSetting, Support};

use super::{Actuator, On};
use crate::contention::MeasuredOfMemory;

pub(super) struct Classes;

impl Actuator for Classes {
    fn tell(&self, _: MeasuredOfMemory, found: &mut Capabilities) {
        found.knobs.insert(KnobKind::Class, Support::Yes);
    }

    fn set(&self, setting: &KnobSetting, on: &mut On<'_>) {
        if let Knob::Class(class) = setting.knob {
            let (threads, kernel) = on.threads(setting.target);
            threads.into_iter().for_each(|task| kernel.set_class(task, class));
        }
    }
}

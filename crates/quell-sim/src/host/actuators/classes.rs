//! Scheduling classes of threads. A thread's own class counts as on a real machine ([`quell_model::SchedClass::beside`]).

use quell_model::{Capabilities, Knob, KnobKind, KnobSetting, Support};

use super::{Actuator, On};
use crate::contention::MeasuredOfMemory;

pub(super) struct Classes;

impl Actuator for Classes {
    fn report(&self, _: MeasuredOfMemory, found: &mut Capabilities) {
        found.knobs.insert(KnobKind::Class, Support::Yes);
    }

    fn set(&self, setting: &KnobSetting, on: &mut On<'_>) {
        if let Knob::Class(class) = setting.knob {
            let (threads, kernel) = on.threads(setting.target);
            for task in threads {
                let own = kernel.task(task).own_class;
                kernel.set_class(task, class.beside(own));
            }
        }
    }
}

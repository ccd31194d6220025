//! Values that were set on the threads of a workload.

use quell_model::{CpuSet, SchedClass};

use super::Thread;
use crate::sched::ThreadClass;
use crate::write::{Place, Value, Write};

/// Quell's values on a workload's threads, so that an inherited value can be distinguished from a thread's own.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    classes: Vec<ThreadClass>,
    cpus: Vec<CpuSet>,
}

/// Number of different values that are remembered.
const REMEMBERED: usize = 64;

impl History {
    /// Has Quell set anything on threads of this workload?
    pub fn is_empty(&self) -> bool {
        self.classes.is_empty() && self.cpus.is_empty()
    }

    /// A write was made.
    pub fn note(&mut self, write: &Write) {
        match (&write.place, &write.after) {
            (Place::Class(_), &Value::Class(after)) => {
                remember(&mut self.classes, after);
                if after.reset_on_fork {
                    remember(&mut self.classes, ThreadClass::of(SchedClass::NORMAL));
                }
            }
            (Place::Affinity(_), &Value::Cpus(after)) => {
                remember(&mut self.cpus, after);
            }
            _ => {}
        }
    }

    /// Has a thread this value of a place because it was created under it?
    pub fn inherited(&self, thread: &Thread, now: &Value) -> bool {
        thread.born_under
            && match now {
                Value::Class(now) => self.classes.iter().any(|set| now.is_as_written(set)),
                Value::Cpus(now) => self.cpus.contains(now),
                _ => false,
            }
    }
}

fn remember<T: PartialEq>(values: &mut Vec<T>, value: T) {
    if !values.contains(&value) {
        if values.len() == REMEMBERED {
            values.remove(0);
        }
        values.push(value);
    }
}

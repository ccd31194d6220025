//! For a command that Quell starts: a cgroup, and is it another Quell's already?

use quell_model::CpuCount;

use super::LinuxHost;
use crate::LinuxError;
use crate::cgroup::{self, Controller};
use crate::clock;
use crate::write::{Conflict, Place, Value, Write};

impl LinuxHost {
    /// Looks for the threads of all workloads now: one that another Quell has.
    ///
    /// # Errors
    /// If the machine's processes cannot be read.
    pub fn look_for_conflict(&mut self) -> Result<Option<Conflict>, LinuxError> {
        self.members.full_look.at = None;
        self.scan(clock::now())?;
        Ok(self.conflict())
    }

    /// Makes a cgroup with this quota and moves a process into it. [`LinuxHost::restore`] moves what is in it then back and
    /// removes it.
    ///
    /// # Errors
    /// If the kernel refuses one of these.
    pub fn hold_to(&mut self, controller: &Controller, limit: CpuCount, pid: i32) -> Result<(), LinuxError> {
        let machines = |place: Place, before: Value, after: Value| Write {
            workload: None,
            place,
            origin: before.clone(),
            before,
            after,
        };
        let mut writes = Vec::new();
        if let Some(giver) = controller.giver() {
            let given = cgroup::controllers_given(giver)?.unwrap_or_default();
            let mut names: Vec<&str> = given.split(' ').filter(|name| !name.is_empty()).collect();
            if !names.contains(&"cpu") {
                names.push("cpu");
                names.sort_unstable();
                let after = Value::Text(names.join(" "));
                writes.push(machines(Place::Controllers(giver.to_owned()), Value::Text(given.clone()), after));
            }
        }
        let group = controller.group();
        writes.push(machines(Place::Cgroup(group.clone()), Value::There(false), Value::There(true)));
        self.writes.make(&writes)?.for_each(drop);
        controller.limit(limit)?;
        group.join(pid)?;
        controller.holds()
    }
}

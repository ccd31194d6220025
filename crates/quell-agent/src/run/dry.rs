//! Prints every write as it would be made; none is made.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::Path;

use quell_linux::write::{Fate, Journal, Place, Value, Write};
use quell_linux::{comm, program};
use quell_model::{WorkloadId, foreign};

/// A journal that prints each write as it would be made. With `HostOptions::dry_run` the host makes none of them.
pub struct PrintedJournal<W> {
    out: W,
    names: BTreeMap<WorkloadId, String>,
}

impl<W: io::Write> PrintedJournal<W> {
    /// Prints there.
    pub fn to(out: W) -> PrintedJournal<W> {
        PrintedJournal { out, names: BTreeMap::new() }
    }
}

impl<W> fmt::Debug for PrintedJournal<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrintedJournal")
    }
}

impl<W: io::Write + Send> Journal for PrintedJournal<W> {
    fn before(&mut self, write: &Write) -> io::Result<()> {
        let name = write.workload.and_then(|id| self.names.get(&id)).map_or("the machine", String::as_str);
        let (before, after) = (&write.before, &write.after);
        match &write.place {
            Place::File(path) => {
                let file = foreign::path(Path::new(path.file_name().unwrap_or_default()));
                let directory = foreign::path(path.parent().unwrap_or(path));
                writeln!(self.out, "would set {file} {after} on {name} ({directory}); it is {before}")
            }
            Place::Controllers(cgroup) => {
                let cgroup = foreign::path(cgroup);
                writeln!(
                    self.out,
                    "would set the controllers {after} for {name} (children of {cgroup}); they are {before}"
                )
            }
            Place::Affinity(thread) => {
                writeln!(self.out, "would set CPUs {after} on {name} ({}); they are {before}", program_of(thread.tid))
            }
            Place::Group(group) => {
                let what = if *after == Value::There(true) { "make" } else { "remove" };
                writeln!(self.out, "would {what} the resctrl group {} of {name}", foreign::path(group))
            }
            Place::Cgroup(group) => {
                let what = if *after == Value::There(true) { "make" } else { "remove" };
                writeln!(self.out, "would {what} the cgroup {} for {name}", foreign::path(&group.path))
            }
            Place::Line(line) => {
                let (group, resource, domain) = (foreign::path(&line.group), &line.resource, line.domain);
                writeln!(self.out, "would set {resource}:{domain} {after} on {name} ({group}); it is {before}")
            }
            Place::Membership(of) => {
                let group = foreign::path(&of.group);
                writeln!(self.out, "would move {name} ({}) into {group}", program_of(of.thread.tid))
            }
            Place::Autogroup(of) => {
                writeln!(self.out, "would make session {} of {name} nice {after}; it is {before}", of.session)
            }
            Place::Class(thread) | Place::Stopped(thread) => {
                writeln!(self.out, "would set {after} on {name} ({}); it is {before}", program_of(thread.tid))
            }
        }
    }

    fn attached(&mut self, id: WorkloadId, name: &str) {
        self.names.insert(id, name.to_owned());
    }

    fn done(&mut self, _: &Write, fate: Fate) -> io::Result<()> {
        match fate {
            Fate::Applied => Ok(()),
            Fate::Vanished => writeln!(self.out, "             it is gone"),
            Fate::Refused => writeln!(self.out, "             it would be refused"),
            Fate::TakenBack => writeln!(self.out, "             it would be undone"),
        }
    }
}

/// A thread's program and its own name.
fn program_of(tid: i32) -> String {
    let read = |path: String| std::fs::read_to_string(path).unwrap_or_default();
    let status = read(format!("/proc/{tid}/status"));
    let pid = status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok()).unwrap_or(tid);
    let name = |number: i32| comm(Path::new(&format!("/proc/{number}/comm")));
    program(&name(pid), pid, &name(tid), tid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_linux::write::Value;
    use quell_model::{CpuSet, ThreadId};

    #[test]
    fn a_write_names_program_workload_and_value() {
        let own = std::process::id().cast_signed();
        let (mut out, text) = (Vec::new(), |text: &str| Value::Text(text.into()));
        let mut journal = PrintedJournal::to(&mut out);
        journal.attached(WorkloadId(0), "cache");
        let write = |place, before: Value, after| Write {
            workload: Some(WorkloadId(0)),
            place,
            origin: before.clone(),
            before,
            after,
        };
        let thread = ThreadId { tid: own, start: 0 };
        let cpus = |cpus| Value::Cpus(CpuSet::first(cpus));
        journal.before(&write(Place::Affinity(thread), cpus(4), cpus(2))).unwrap();
        journal.before(&write(Place::File("/c/web/cpu.weight".into()), text("100"), text("50"))).unwrap();
        let said = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = said.lines().collect();
        let program = std::fs::read_to_string("/proc/self/comm").unwrap();
        assert_eq!(lines[0], format!("would set CPUs 0-1 on cache ({} {own}); they are 0-3", program.trim()));
        assert_eq!(lines[1], "would set cpu.weight 50 on cache (/c/web); it is 100");
    }
}

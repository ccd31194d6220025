//! Selectors with their names looked up: a unit is a cgroup, a process has a start time.

use std::path::{Path, PathBuf};

use quell_model::{Selector, ThreadId, Workload, foreign};

use super::command::Command;
use super::sighting::Sighting;
use crate::cgroup::Group;
use crate::procfs::ProcFs;
use crate::{LinuxError, Roots};

/// One workload's selectors, looked up.
#[derive(Clone, Debug, Default)]
pub(crate) struct Resolved {
    /// Cgroups.
    pub groups: Vec<Group>,
    /// Processes at the root of trees.
    pub roots: Vec<ThreadId>,
    /// Command lines.
    pub commands: Vec<Command>,
}

impl Resolved {
    /// Does it name processes, not only cgroups?
    pub fn selects_processes(&self) -> bool {
        !(self.roots.is_empty() && self.commands.is_empty())
    }

    /// The directories of its cgroups.
    pub fn group_paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.groups.iter().map(|group| &group.path)
    }
}

/// The trees in which names are looked up.
pub(crate) struct Places<'a> {
    pub roots: &'a Roots,
    pub proc: &'a mut ProcFs,
    pub sighting: &'a Sighting,
    /// Processes that no command line matches: Quell's own and those that started it.
    pub exempt: &'a [i32],
}

impl Places<'_> {
    /// Looks a workload's selectors up.
    ///
    /// # Errors
    /// [`LinuxError::NoMatch`] if one matches nothing.
    pub fn resolve(&mut self, workload: &Workload) -> Result<Resolved, LinuxError> {
        let mut resolved = Resolved::default();
        for selector in &workload.selectors {
            self.look_up(selector, &mut resolved).map_err(|error| match error {
                Miss::Failed(error) => error,
                Miss::Nothing(fix) => {
                    LinuxError::NoMatch { workload: workload.name.clone(), selector: selector.to_string(), fix }
                }
            })?;
        }
        // Two selectors may name one cgroup.
        let mut known = Vec::new();
        resolved.groups.retain(|group| !known.contains(&group.path) && (known.push(group.path.clone()), true).1);
        Ok(resolved)
    }

    /// Looks one selector up; the inner error is the fix for one without a match.
    ///
    /// # Errors
    /// If the machine cannot be read.
    pub fn find(&mut self, selector: &Selector) -> Result<Result<Resolved, String>, LinuxError> {
        let mut resolved = Resolved::default();
        match self.look_up(selector, &mut resolved) {
            Ok(()) => Ok(Ok(resolved)),
            Err(Miss::Nothing(fix)) => Ok(Err(fix)),
            Err(Miss::Failed(error)) => Err(error),
        }
    }

    fn look_up(&mut self, selector: &Selector, into: &mut Resolved) -> Result<(), Miss> {
        match selector {
            Selector::Cgroup(path) => {
                let below = path.strip_prefix("/").unwrap_or(path);
                // The root is the whole machine, and .. leads out of the tree.
                if below.as_os_str().is_empty() || below.components().any(|part| part.as_os_str() == "..") {
                    return Err(Miss::Nothing("name a cgroup below the root, such as system.slice/db.service".into()));
                }
                let nothing = || {
                    let there = foreign::path(existing(&self.roots.cgroup.join(below)));
                    format!("see what is there: ls {there}")
                };
                into.groups.extend(self.groups(selector, &nothing)?);
            }
            Selector::Unit(_) => {
                let fix = "start the unit first (systemctl start), or see its name in systemctl list-units; one of a \
                            user's own manager is selected by its cgroup";
                into.groups.extend(self.groups(selector, &|| fix.into())?);
            }
            Selector::Container(_) => {
                let fix = "start the container first, or see its id and name: docker ps, podman ps, or crictl ps";
                into.groups.extend(self.groups(selector, &|| fix.into())?);
            }
            Selector::Label(_) => {
                let fix = "start the container first, or see the labels: docker inspect NAME; those of Podman, containerd and CRI-O \
                            are not on disk: select by name";
                into.groups.extend(self.groups(selector, &|| fix.into())?);
            }
            Selector::Pod(_) => {
                let fix = "start the pod first, or see its uid: kubectl get pod NAME -o jsonpath='{.metadata.uid}'";
                into.groups.extend(self.groups(selector, &|| fix.into())?);
            }
            Selector::Pid(pid) => match self.proc.stat(*pid, *pid)? {
                Some(stat) => into.roots.push(ThreadId { tid: *pid, start: stat.start }),
                None => return Err(Miss::Nothing("there is no such process; see pgrep -a NAME".into())),
            },
            Selector::Command(line) => {
                let command = Command::look_up(line).map_err(Miss::Nothing)?;
                if self.sighting.running(self.proc, self.exempt, &command)?.is_empty() {
                    let fix = match &line.exe {
                        None => "start the program first, or compare with the output of pgrep -af",
                        Some(_) => {
                            "start the program first, or compare with the output of pgrep -af; to see which file \
                             another user's process executes takes CAP_SYS_PTRACE"
                        }
                    };
                    return Err(Miss::Nothing(fix.into()));
                }
                into.commands.push(command);
            }
        }
        Ok(())
    }

    fn groups(&self, selector: &Selector, nothing: &dyn Fn() -> String) -> Result<Vec<Group>, Miss> {
        let paths = self.sighting.tree.named(selector)?.unwrap_or_default();
        let groups: Vec<Group> = paths.into_iter().map(Group::at).filter(Group::exists).collect();
        if !groups.is_empty() {
            return Ok(groups);
        }
        Err(Miss::Nothing(self.sighting.tree.ambiguity(selector)?.unwrap_or_else(nothing)))
    }
}

enum Miss {
    Nothing(String),
    Failed(LinuxError),
}

impl From<LinuxError> for Miss {
    fn from(error: LinuxError) -> Miss {
        Miss::Failed(error)
    }
}

/// The deepest directory on the way to this path that exists.
fn existing(path: &Path) -> &Path {
    path.ancestors().find(|ancestor| ancestor.is_dir()).unwrap_or(path)
}

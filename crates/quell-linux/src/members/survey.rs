//! Present matches of selectors, each by itself, and the overlaps of workloads.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use quell_model::{Nanos, Selector, Workload, WorkloadId, foreign};

use super::finder::own_line;
use super::sighting::Sighting;
use super::{Finder, Found, Places, Resolved};
use crate::procfs::ProcFs;
use crate::{LinuxError, Roots, clock};

/// Matches of one selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matched {
    /// Processes, descendants included.
    pub processes: usize,
    /// Their threads.
    pub threads: usize,
    /// The users of the processes, ascending, if it is the selector's command line that names them.
    pub users: Vec<u32>,
}

/// Two workloads match the same process or cgroup, and no rule decides between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contested {
    /// The workloads' places in the list.
    pub workloads: (usize, usize),
    /// The selector of the first.
    pub first: Selector,
    /// The selector of the second.
    pub second: Selector,
    /// The common match: a process, or a cgroup.
    pub what: String,
}

/// Results of a survey.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// For each workload, for each of its selectors: its match, or else the fix.
    pub matched: Vec<Vec<Result<Matched, String>>>,
    /// Common matches of two workloads.
    pub contested: Vec<Contested>,
    /// Cgroups that could not be looked into, for want of a right.
    pub unreadable: usize,
}

/// Finds the present matches of these workloads' selectors. Quell's own processes match no command line.
///
/// # Errors
/// If the procfs cannot be read.
pub fn survey(roots: &Roots, workloads: &[&Workload]) -> Result<Survey, LinuxError> {
    let mut proc = ProcFs::open(&roots.proc)?;
    let exempt = own_line(&mut proc)?;
    let sighting = Sighting::of(&roots.cgroup);
    let mut survey = Survey::default();
    let mut groups: BTreeMap<PathBuf, (usize, Selector)> = BTreeMap::new();
    let mut commands: BTreeMap<i32, (usize, Selector)> = BTreeMap::new();
    for (at, workload) in workloads.iter().enumerate() {
        let mut matched = Vec::new();
        for selector in &workload.selectors {
            let resolved = Places { roots, proc: &mut proc, sighting: &sighting, exempt: &exempt }.find(selector);
            let resolved = match resolved? {
                Ok(resolved) => resolved,
                Err(fix) => {
                    matched.push(Err(fix));
                    continue;
                }
            };
            for group in &resolved.groups {
                let owner = groups.entry(group.path.clone()).or_insert_with(|| (at, selector.clone()));
                let shown = || format!("cgroup {}", shown(roots, &group.path));
                survey.contested.extend(contest(owner, at, selector, &shown));
            }
            let mut running = Vec::new();
            for command in &resolved.commands {
                running.extend(sighting.running(&mut proc, &exempt, command)?);
            }
            let mut users = Vec::new();
            for &pid in &running {
                users.extend(proc.user(pid)?);
            }
            users.sort_unstable();
            users.dedup();
            matched.push(Ok(Matched { users, ..count(&mut proc, &exempt, resolved)? }));
            for pid in running {
                let owner = commands.entry(pid).or_insert_with(|| (at, selector.clone()));
                let line = proc.command(pid)?.unwrap_or_default();
                survey.contested.extend(contest(owner, at, selector, &|| format!("process {pid} ({line})")));
            }
        }
        survey.matched.push(matched);
    }
    survey.unreadable = sighting.tree.unreadable();
    // One example for each pair of selectors is enough.
    let mut seen = Vec::new();
    survey.contested.retain(|found| {
        let pair = (found.workloads, found.first.clone(), found.second.clone());
        !seen.contains(&pair) && (seen.push(pair), true).1
    });
    Ok(survey)
}

/// The users of the processes that these selectors match now.
///
/// # Errors
/// If the procfs cannot be read.
pub fn users_of(roots: &Roots, selectors: &[Selector]) -> Result<BTreeSet<u32>, LinuxError> {
    let mut proc = ProcFs::open(&roots.proc)?;
    let exempt = own_line(&mut proc)?;
    let sighting = Sighting::of(&roots.cgroup);
    let mut users = BTreeSet::new();
    for selector in selectors {
        let found = Places { roots, proc: &mut proc, sighting: &sighting, exempt: &exempt }.find(selector)?;
        let Ok(resolved) = found else { continue };
        let mut threads = members(&mut proc, &exempt, resolved)?;
        threads.dedup_by_key(|thread| thread.pid);
        for thread in threads {
            users.extend(proc.user(thread.pid)?);
        }
    }
    Ok(users)
}

/// The threads of the processes that are meant, by process.
fn members(proc: &mut ProcFs, exempt: &[i32], resolved: Resolved) -> Result<Vec<Found>, LinuxError> {
    let mut found = Vec::new();
    let mut finder = Finder::new(exempt.to_vec());
    finder.scan(proc, &[(WorkloadId(0), resolved)], clock::now().max(Nanos(1)), &mut found)?;
    found.sort_unstable_by_key(|thread| thread.pid);
    Ok(found)
}

fn contest(owner: &(usize, Selector), at: usize, selector: &Selector, what: &dyn Fn() -> String) -> Option<Contested> {
    let (first, second) = (owner.1.clone(), selector.clone());
    (owner.0 != at).then(|| Contested { workloads: (owner.0, at), first, second, what: what() })
}

fn shown(roots: &Roots, group: &std::path::Path) -> String {
    foreign::path(group.strip_prefix(&roots.cgroup).unwrap_or(group))
}

fn count(proc: &mut ProcFs, exempt: &[i32], resolved: Resolved) -> Result<Matched, LinuxError> {
    let mut found = members(proc, exempt, resolved)?;
    let threads = found.len();
    found.dedup_by_key(|thread| thread.pid);
    Ok(Matched { processes: found.len(), threads, users: Vec::new() })
}

//! From a word to the one match that it means.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use quell_model::{ThreadId, foreign};

use super::home::{Home, home};
use super::processes::{Process, Processes};
use super::{Found, What};

/// The one that asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asker {
    /// Its users: the one that it runs as, and the one before sudo(8).
    pub users: Vec<u32>,
    /// Its process and those that started it, which no name matches.
    pub line: Vec<i32>,
    /// The user as which only root starts processes, if there is one: see [`overflow_user`](super::overflow_user).
    pub overflow_user: Option<u32>,
}

/// Why a target is no match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Miss {
    /// It means nothing that runs, or nothing that may be taken; with the fix.
    Nothing(String),
    /// It may mean these, of which one has to be chosen; a single one is a stranger's.
    Several(Vec<Found>),
}

/// Shells: what they start is not one service.
pub(super) const SHELLS: [&str; 9] = ["sh", "bash", "dash", "zsh", "fish", "ksh", "ash", "systemd", "screen"];

/// Users up to here are the system's, as which no person logs in (login.defs(5), UID_MIN) …
const SYSTEM_USERS: u32 = 1000;
/// … and so are those that systemd makes for services (systemd.exec(5), DynamicUser).
const DYNAMIC_USERS: std::ops::RangeInclusive<u32> = 61184..=65519;

/// Finds the one match of a target: `nginx.service`, `container:4f66ad9a`, `/system.slice/nginx.service`, `4711`, `nginx`; or with
/// its kind before it, as `unit:nginx`.
///
/// # Errors
/// If it matches nothing, or more than one.
pub fn resolve(processes: &Processes, target: &str, asker: &Asker) -> Result<Found, Miss> {
    let search = Search { processes, asker };
    let (kind, word) = match target.split_once(':') {
        Some((kind @ ("unit" | "container" | "cgroup" | "pid" | "program"), word)) => (kind, word),
        _ => ("", target),
    };
    if word.trim().is_empty() {
        return Err(Miss::Nothing(
            "the target is empty: name a unit, a container, a cgroup, a process or a program".into(),
        ));
    }
    let has_suffix = [".service", ".scope", ".slice"].iter().any(|suffix| word.ends_with(suffix));
    let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
    match kind {
        "pid" => search.by_pid(word),
        "unit" => search.by_unit(word),
        "container" => search.by_container(word),
        "cgroup" => search.by_cgroup(word),
        "program" => search.by_name(word, false),
        _ if is_number && word.len() < 8 => search.by_pid(word),
        _ if word.contains('/') => search.by_path(word),
        _ if has_suffix => search.by_unit(word),
        _ => search.by_name(word, true),
    }
}

/// What siblings that are one service have in common: parent, user and file; and, where they are none, their own number.
type Kin<'a> = (i32, Option<u32>, Option<&'a Path>, i32);

struct Search<'a> {
    processes: &'a Processes,
    asker: &'a Asker,
}

impl<'a> Search<'a> {
    fn by_pid(&self, word: &str) -> Result<Found, Miss> {
        let nothing = |why: String| Err(Miss::Nothing(why));
        let pid = word.parse().unwrap_or(0);
        if pid < 1 {
            return nothing(format!("'{}' is not a valid pid; see pgrep -a NAME", foreign::text(word)));
        }
        if self.asker.line.contains(&pid) {
            return nothing(format!("process {pid} is Quell itself or one of its ancestors: name another one"));
        }
        match self.processes.get(pid) {
            None => nothing(format!("there is no process {pid}; see pgrep -a NAME")),
            Some(process) if process.is_kernels => {
                nothing(format!("process {pid} is a kernel thread, which Quell does not manage: name another one"))
            }
            Some(_) if pid == 1 => nothing("process 1 is the ancestor of all others: name one of them".into()),
            Some(process) => Ok(self.found(What::Tree, process.comm.clone(), &[process])),
        }
    }

    fn by_unit(&self, word: &str) -> Result<Found, Miss> {
        let has_suffix = [".service", ".scope", ".slice"].iter().any(|suffix| word.ends_with(suffix));
        let unit = if has_suffix { word.to_owned() } else { format!("{word}.service") };
        let is_in = |process: &&Process| is_in_unit(&process.cgroup, &unit);
        self.group(What::Unit(unit.clone()), name_of_unit(&unit), is_in).ok_or_else(|| {
            let shown = foreign::text(&unit).into_owned();
            Miss::Nothing(format!("nothing runs in unit {shown}; start it first, or see systemctl list-units"))
        })
    }

    fn by_container(&self, word: &str) -> Result<Found, Miss> {
        let id = word.to_ascii_lowercase();
        let shown = foreign::text(word).into_owned();
        let is_id = id.len() >= 4 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_id {
            return Err(Miss::Nothing(format!(
                "a container is named by 4 digits of its id or more, not as '{shown}': see docker ps, podman ps, or crictl ps"
            )));
        }
        one_of(self.containers(&id)).unwrap_or_else(|| {
            Err(Miss::Nothing(format!("nothing runs in a container {shown}…; see docker ps, podman ps, or crictl ps")))
        })
    }

    fn containers(&self, id: &str) -> Vec<Found> {
        let homes = self.programs().filter_map(|process| match home(&process.cgroup) {
            Home::Container(found) if found.starts_with(id) => Some(found),
            _ => None,
        });
        let ids: BTreeSet<&str> = homes.collect();
        let found = |id: &&str| self.of_home(Home::Container(id));
        ids.iter().filter_map(found).collect()
    }

    fn by_cgroup(&self, word: &str) -> Result<Found, Miss> {
        let path = word.strip_prefix("/sys/fs/cgroup").unwrap_or(word).trim_matches('/');
        let shown = foreign::text(word).into_owned();
        if path.is_empty() || path.split('/').any(|part| part == "..") {
            return Err(Miss::Nothing("name a cgroup below the root, such as /system.slice/db.service".into()));
        }
        let full = format!("/{path}");
        let is_in = |process: &&Process| is_below(&process.cgroup, &full);
        let name = name_of_unit(path.rsplit('/').next().unwrap_or(path));
        self.group(What::Cgroup(full.clone()), name, is_in).ok_or_else(|| {
            Miss::Nothing(format!("nothing runs in cgroup {shown}; see systemd-cgls, or cat /proc/PID/cgroup"))
        })
    }

    /// A cgroup, or a program by its file.
    fn by_path(&self, word: &str) -> Result<Found, Miss> {
        let executes = |process: &Process| process.exe.as_ref().is_some_and(|exe| exe.to_str() == Some(word));
        match self.by_cgroup(word) {
            Ok(found) => Ok(found),
            Err(miss) => one_of(self.matches(&executes)).unwrap_or(Err(miss)),
        }
    }

    /// A program by its name, and, where `units_too`, units and containers that are called so.
    fn by_name(&self, word: &str, units_too: bool) -> Result<Found, Miss> {
        let mut found = self.matches(&|process| process.is_named(word));
        if units_too {
            let unit = self.by_unit(word).ok();
            let id = word.to_ascii_lowercase();
            let is_id = id.len() >= 4 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
            let containers = if is_id { self.containers(&id) } else { Vec::new() };
            for named in unit.into_iter().chain(containers) {
                match found.iter_mut().find(|other| other.what == named.what) {
                    // What has the name by itself is no stranger's.
                    Some(other) => *other = named,
                    None => found.push(named),
                }
            }
        }
        one_of(found).unwrap_or_else(|| {
            let name = foreign::text(word);
            Err(Miss::Nothing(format!(
                "no unit, container or program '{name}' runs here; start it first, or compare with pgrep -a NAME and systemctl list-units"
            )))
        })
    }

    /// The processes that a name may match.
    fn programs(&self) -> impl Iterator<Item = &'a Process> {
        let is_one = |process: &&Process| {
            let is_own = process.is_quells || self.asker.line.contains(&process.pid);
            process.pid > 1 && !process.is_kernels && !is_own
        };
        self.processes.iter().filter(is_one)
    }

    /// The matches of a test of processes: units, containers, trees.
    fn matches(&self, is_meant: &dyn Fn(&Process) -> bool) -> Vec<Found> {
        let mut homes: BTreeMap<Home<'_>, Vec<&Process>> = BTreeMap::new();
        for process in self.programs().filter(|process| is_meant(process)) {
            homes.entry(home(&process.cgroup)).or_default().push(process);
        }
        let trees = homes.remove(&Home::Tree).unwrap_or_default();
        let mut found = Vec::new();
        for (home, by) in homes {
            if let Some(mut group) = self.of_home(home) {
                group.is_strangers = by.iter().all(|process| self.is_strangers(process));
                found.push(group);
            }
        }
        let mut siblings: BTreeMap<Kin<'_>, Vec<&Process>> = BTreeMap::new();
        for root in self.roots(&trees) {
            let parent = self.processes.get(root.parent).filter(|parent| self.holds_together(parent));
            let alone = if parent.is_some() { 0 } else { root.pid };
            siblings.entry((root.parent, root.uid, root.exe.as_deref(), alone)).or_default().push(root);
        }
        found.extend(siblings.values().map(|roots| {
            let mut tree = self.found(What::Tree, roots[0].program().to_owned(), roots);
            tree.is_strangers = roots.iter().any(|root| self.is_strangers(root));
            tree
        }));
        found.sort_by_key(|found| found.roots[0].tid);
        found
    }

    /// Is what a process starts one service?
    fn holds_together(&self, parent: &Process) -> bool {
        let is_shell = SHELLS.contains(&parent.comm.as_str());
        parent.pid > 1 && !parent.is_kernels && !is_shell && !self.asker.line.contains(&parent.pid)
    }

    /// Is it another ordinary user's?
    fn is_strangers(&self, process: &Process) -> bool {
        let is_systems =
            |uid| uid < SYSTEM_USERS || DYNAMIC_USERS.contains(&uid) || self.asker.overflow_user == Some(uid);
        !process.uid.is_some_and(|uid| is_systems(uid) || self.asker.users.contains(&uid))
    }

    /// Of these processes those without an ancestor among them.
    fn roots(&self, among: &[&'a Process]) -> Vec<&'a Process> {
        let pids: BTreeSet<i32> = among.iter().map(|process| process.pid).collect();
        let is_root =
            |process: &&&Process| !self.processes.ancestors(process.pid).any(|ancestor| pids.contains(&ancestor.pid));
        among.iter().filter(is_root).copied().collect()
    }

    fn of_home(&self, which: Home<'_>) -> Option<Found> {
        let (what, name) = match which {
            Home::Unit(unit) => (What::Unit(unit.to_owned()), name_of_unit(unit)),
            Home::Container(id) => (What::Container(id.to_owned()), id.get(..12).unwrap_or(id).to_owned()),
            Home::Tree => return None,
        };
        self.group(what, name, |process| home(&process.cgroup) == which)
    }

    /// The processes for which a test holds, as one match.
    fn group(&self, what: What, name: String, is_in: impl Fn(&&Process) -> bool) -> Option<Found> {
        let members: Vec<&Process> = self.programs().filter(is_in).collect();
        let roots = self.roots(&members);
        let mut found = (!roots.is_empty()).then(|| self.found(what, name, &roots))?;
        found.processes = members.iter().map(|process| id(process)).collect();
        Some(found)
    }

    fn found(&self, what: What, name: String, roots: &[&Process]) -> Found {
        let pids: Vec<i32> = roots.iter().map(|root| root.pid).collect();
        let all = self.processes.with_descendants(&pids);
        let command: String = roots[0].command.chars().take(80).collect();
        let same_user = roots.iter().all(|root| root.uid == roots[0].uid);
        Found {
            what,
            name: foreign::text(&name).into_owned(),
            roots: roots.iter().map(|root| id(root)).collect(),
            processes: all.iter().filter_map(|pid| self.processes.get(*pid)).map(id).collect(),
            command: foreign::text(command.trim()).into_owned(),
            user: roots[0].uid.filter(|_| same_user),
            is_strangers: false,
        }
    }
}

/// The only one, if it is no stranger's; None: there is none.
fn one_of(mut found: Vec<Found>) -> Option<Result<Found, Miss>> {
    match &found[..] {
        [] => None,
        [only] if !only.is_strangers => found.pop().map(Ok),
        _ => Some(Err(Miss::Several(found))),
    }
}

fn id(process: &Process) -> ThreadId {
    ThreadId { tid: process.pid, start: process.start }
}

fn name_of_unit(unit: &str) -> String {
    unit.strip_suffix(".service").unwrap_or(unit).to_owned()
}

/// Does a cgroup lie in this unit of the machine's systemd? A service is the first one below slices.
fn is_in_unit(cgroup: &str, unit: &str) -> bool {
    if unit.ends_with(".service") {
        return home(cgroup) == Home::Unit(unit);
    }
    let parts = cgroup.split('/').filter(|part| !part.is_empty());
    let mut within_slices = true;
    for part in parts {
        if within_slices && part == unit {
            return true;
        }
        within_slices &= part.ends_with(".slice");
    }
    false
}

fn is_below(cgroup: &str, path: &str) -> bool {
    cgroup.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

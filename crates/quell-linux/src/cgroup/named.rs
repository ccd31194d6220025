//! Cgroups by the name in a selector: a path, a unit, a container, a pod, or a pattern of these.

use std::cell::OnceCell;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use glob::{MatchOptions, Pattern};
use quell_model::Selector;

use super::tree::{children, subtree};
use crate::LinuxError;

/// A `*` is within one cgroup's name, `**` any number of them.
const PATHS: MatchOptions =
    MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: false };

/// Has this text the letters of a pattern?
#[must_use]
pub fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// The fault of this text as a pattern, if it has the letters of one.
#[must_use]
pub fn pattern_error(text: &str) -> Option<String> {
    let error = Pattern::new(text).err().filter(|_| is_pattern(text))?;
    Some(format!("'{text}' is no pattern: {} (character {})", error.msg, error.pos + 1))
}

/// Does a command line, its arguments separated by spaces, contain this text, literally or as a pattern?
#[must_use]
pub fn line_contains(line: &[u8], text: &str) -> bool {
    if text.is_empty() {
        return false;
    }
    let literally = line.windows(text.len()).any(|part| part == text.as_bytes());
    let matches = |pattern: Pattern| pattern.matches(&String::from_utf8_lossy(line));
    literally || is_pattern(text) && Pattern::new(&format!("*{text}*")).is_ok_and(matches)
}

/// The cgroups below a root, by the names in selectors. Those that a unit, a container or a pod may have are read once at most,
/// when the first selector asks for them.
#[derive(Debug)]
pub struct Tree {
    root: PathBuf,
    systems: OnceCell<Vec<PathBuf>>,
}

impl Tree {
    /// Below this root.
    #[must_use]
    pub fn at(root: &Path) -> Tree {
        Tree { root: root.to_owned(), systems: OnceCell::new() }
    }

    /// The cgroups that a selector names, the outermost ones where one lies in another; None if it names processes.
    ///
    /// # Errors
    /// If a directory cannot be read.
    pub fn named(&self, selector: &Selector) -> Result<Option<Vec<PathBuf>>, LinuxError> {
        Ok(match selector {
            Selector::Cgroup(path) => {
                let below = path.strip_prefix("/").unwrap_or(path);
                let literal = self.root.join(below);
                match below.to_str().filter(|text| is_pattern(text) && !literal.is_dir()) {
                    Some(text) => Some(matching(&self.root, text)?),
                    None => Some(Vec::from_iter(literal.is_dir().then_some(literal))),
                }
            }
            Selector::Unit(name) => {
                let has_suffix = [".service", ".scope", ".slice"].iter().any(|suffix| name.ends_with(suffix));
                let name = if has_suffix { name.to_owned() } else { format!("{name}.service") };
                let pattern = is_pattern(&name).then(|| Pattern::new(&name).ok()).flatten();
                Some(self.outermost(&|found| {
                    found == name || pattern.as_ref().is_some_and(|pattern| pattern.matches(found))
                })?)
            }
            Selector::Container(id) => {
                let id = id.to_ascii_lowercase();
                Some(self.outermost(&|name| container(name).is_some_and(|found| found.starts_with(&id)))?)
            }
            Selector::Pod(uid) => {
                let uid = uid.to_ascii_lowercase().replace('_', "-");
                Some(self.outermost(&|name| pod(name).is_some_and(|found| found == uid))?)
            }
            Selector::Pid(_) | Selector::Command(_) => None,
        })
    }

    fn outermost(&self, is: &dyn Fn(&str) -> bool) -> Result<Vec<PathBuf>, LinuxError> {
        let named = |path: &&PathBuf| path.file_name().and_then(|name| name.to_str()).is_some_and(is);
        Ok(without_inner(self.systems()?.iter().filter(named).cloned().collect()))
    }

    /// The cgroups that root made, or this process's user, parents first. Below a cgroup that was given to another user, that
    /// user can make one of any name, and thousands.
    fn systems(&self) -> Result<&[PathBuf], LinuxError> {
        if let Some(known) = self.systems.get() {
            return Ok(known);
        }
        let own = rustix::process::geteuid().as_raw();
        let mut found = vec![self.root.clone()];
        let mut next = 0;
        while let Some(directory) = found.get(next) {
            next += 1;
            let Ok(is) = fs::metadata(directory) else { continue };
            // A directory has a link from its parent, one from itself and one from each child.
            if is.nlink() != 2 && [0, own].contains(&is.uid()) {
                let below = children(directory)?;
                found.extend(below);
            }
        }
        Ok(self.systems.get_or_init(|| found))
    }
}

/// As [`Tree::named`], of a tree that is read for this.
///
/// # Errors
/// If a directory cannot be read.
pub fn named(root: &Path, selector: &Selector) -> Result<Option<Vec<PathBuf>>, LinuxError> {
    Tree::at(root).named(selector)
}

/// The id of the container whose cgroup has this name: the id itself, or `docker-ID.scope`, `cri-containerd-ID.scope`,
/// `crio-ID.scope`, `libpod-ID.scope`. What a container engine runs beside one (`conmon`) is not in it.
fn container(name: &str) -> Option<&str> {
    let name = name.strip_suffix(".scope").unwrap_or(name);
    if name.contains("conmon") {
        return None;
    }
    let id = name.rsplit(['-', ':']).next()?;
    (id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(id)
}

/// The uid of the pod whose cgroup has this name: `podUID`, or `kubepods-burstable-podUID.slice` with `_` for `-`.
fn pod(name: &str) -> Option<String> {
    let (before, uid) = match name.strip_suffix(".slice") {
        Some(slice) => slice.split_once("pod").and_then(|_| slice.rsplit_once("-pod"))?,
        None => ("kubepods", name.strip_prefix("pod")?),
    };
    before.starts_with("kubepods").then(|| uid.replace('_', "-").to_ascii_lowercase())
}

fn matching(root: &Path, text: &str) -> Result<Vec<PathBuf>, LinuxError> {
    let Ok(pattern) = Pattern::new(text) else { return Ok(Vec::new()) };
    let is = |path: &PathBuf| {
        path.strip_prefix(root).is_ok_and(|below| pattern.matches_path_with(below, PATHS) && path != root)
    };
    // Beside what no pattern matches it is not looked.
    let names: Vec<_> = text.split('/').collect();
    let fixed: PathBuf = names.iter().take_while(|name| !is_pattern(name)).collect();
    let deepest = if text.contains("**") { usize::MAX } else { root.components().count() + names.len() };
    let may_lead = |path: &PathBuf| path.components().count() <= deepest;
    Ok(without_inner(subtree(&root.join(fixed), &may_lead)?.into_iter().filter(is).collect()))
}

/// Drops cgroups below others. `found` lists parents before children.
fn without_inner(found: Vec<PathBuf>) -> Vec<PathBuf> {
    let mut outer: Vec<PathBuf> = Vec::new();
    for path in found {
        if !outer.iter().any(|other| path.starts_with(other)) {
            outer.push(path);
        }
    }
    outer
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const ID: &str = "4f66ad9a0b2e4f66ad9a0b2e4f66ad9a0b2e4f66ad9a0b2e4f66ad9a0b2ef00d";
    const UID: &str = "6f1c2d9e-0b57-4c4a-9d0e-3a8d6f1b2c3d";

    fn found(groups: &[&str], selector: &Selector) -> Vec<String> {
        let root = tempfile::tempdir().unwrap();
        groups.iter().for_each(|group| fs::create_dir_all(root.path().join(group)).unwrap());
        let found = named(root.path(), selector).unwrap().unwrap();
        let mut found: Vec<String> =
            found.iter().map(|path| path.strip_prefix(root.path()).unwrap().display().to_string()).collect();
        found.sort();
        found
    }

    #[test]
    fn patterns_name_every_cgroup_that_they_match() {
        let groups = ["batch.slice/job-1/inner", "batch.slice/job-2", "web.slice/job-3", "odd[1]", "getty@1.service"];
        let cgroup = |path: &str| found(&groups, &Selector::Cgroup(path.into()));
        assert_eq!(cgroup("batch.slice/job-*"), ["batch.slice/job-1", "batch.slice/job-2"]);
        assert_eq!(cgroup("/*/job-[13]"), ["batch.slice/job-1", "web.slice/job-3"]);
        assert_eq!(cgroup("**/job-*").len(), 3);
        assert_eq!(cgroup("*").len(), 4, "the outermost ones");
        assert_eq!(cgroup("odd[1]"), ["odd[1]"], "what has the name of a pattern is found by its name");
        assert_eq!(cgroup("batch.slice"), ["batch.slice"]);
        assert!(cgroup("none").is_empty());
        assert_eq!(found(&groups, &Selector::Unit("getty@*".into())), ["getty@1.service"]);
        assert!(pattern_error("a[").unwrap().contains("no pattern"));
        assert_eq!((pattern_error("a*"), pattern_error("a")), (None, None));
    }

    #[test]
    fn containers_of_every_engine_are_found_by_the_beginning_of_their_id() {
        let groups = [
            format!("system.slice/docker-{ID}.scope"),
            format!("docker/{ID}"),
            format!("kubepods.slice/kubepods-pod1.slice/cri-containerd-{ID}.scope/init"),
            format!("kubepods/besteffort/podx/{ID}"),
            format!("kubepods.slice/crio-{ID}.scope"),
            format!("machine.slice/libpod-{ID}.scope"),
        ];
        for group in &groups {
            let outside = format!("machine.slice/libpod-conmon-{ID}.scope");
            let found = found(&[group, &outside, "batch"], &Selector::Container("4F66ad9a".into()));
            assert_eq!(found, [group.trim_end_matches("/init").to_owned()]);
        }
        assert!(found(&[&groups[0]], &Selector::Container("beef".into())).is_empty());
    }

    #[test]
    fn pods_are_found_by_their_uid() {
        let slice =
            format!("kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{}.slice", UID.replace('-', "_"));
        let plain = format!("kubepods/besteffort/pod{UID}");
        for group in [&slice, &plain] {
            let found = found(&[group, "other"], &Selector::Pod(UID.into()));
            assert_eq!(found, std::slice::from_ref(group));
        }
    }

    #[test]
    fn what_another_user_made_is_no_unit_container_or_pod() {
        if !rustix::process::geteuid().is_root() {
            println!("only root can give a directory to another user");
            return;
        }
        let root = tempfile::tempdir().unwrap();
        let delegated = root.path().join("user.slice/user@1000.service");
        let docker = format!("docker-{ID}.scope");
        for name in ["web.service", &docker, &format!("pod{UID}")] {
            fs::create_dir_all(delegated.join(name)).unwrap();
        }
        std::os::unix::fs::chown(&delegated, Some(1000), None).unwrap();
        let found = |selector: Selector| named(root.path(), &selector).unwrap().unwrap();
        for selector in [Selector::Unit("web".into()), Selector::Container("4f66".into()), Selector::Pod(UID.into())] {
            assert!(found(selector.clone()).is_empty(), "{selector}");
        }
        assert_eq!(found(Selector::Unit("user@1000".into())), std::slice::from_ref(&delegated), "which root made");
        assert_eq!(found(Selector::Cgroup("**/web.service".into())).len(), 1, "as asked for");
        std::os::unix::fs::chown(&delegated, Some(0), None).unwrap();
        assert_eq!(found(Selector::Unit("web".into())), [delegated.join("web.service")]);
    }

    #[test]
    fn a_tree_is_read_once() {
        let root = tempfile::tempdir().unwrap();
        let tree = Tree::at(root.path());
        assert_eq!(tree.named(&Selector::Unit("web".into())).unwrap().unwrap().len(), 0);
        fs::create_dir(root.path().join("web.service")).unwrap();
        assert_eq!(tree.named(&Selector::Unit("web".into())).unwrap().unwrap().len(), 0);
        assert_eq!(named(root.path(), &Selector::Unit("web".into())).unwrap().unwrap().len(), 1);
    }

    #[test]
    fn a_command_line_contains_a_text_or_a_pattern() {
        let line = b"redis-server 127.0.0.1:6379 [one]";
        for text in ["redis", "redis-server *:6379", "6379 [one]", "redis-*[0-9]:63??"] {
            assert!(line_contains(line, text), "{text}");
        }
        for text in ["", "redis-server *:6380", "rediss", "[two]x"] {
            assert!(!line_contains(line, text), "{text}");
        }
    }
}

//! Cgroups by the name in a selector: a path, a unit, a container, a pod, or a pattern of these.

use std::cell::{Cell, OnceCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use glob::{MatchOptions, Pattern};
use quell_model::Selector;

use super::spelling::{container, own_name, pod, unescaped};
use super::tree::{children, subtree_counted};
use crate::LinuxError;
use crate::engines::{Engines, Known};

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
    Some(format!("'{text}' is not a valid pattern: {} (character {})", error.msg, error.pos + 1))
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
    systems: OnceCell<Vec<Place>>,
    engines: PathBuf,
    /// What the engines say of the containers here, by id.
    called: OnceCell<BTreeMap<String, Known>>,
    unreadable: Cell<usize>,
}

/// A cgroup that root made, or this process's user.
#[derive(Debug)]
struct Place {
    path: PathBuf,
    around: Around,
}

/// The cgroups on the way to one, from the root on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Around {
    /// Slices alone: here systemd puts the units of this machine, and nothing else.
    Slices,
    /// No scope, service or container.
    Groups,
    /// A scope, a service or a container: it may give what is in it any name, as a systemd in a container does.
    Owned,
}

impl Place {
    fn name(&self) -> Option<&str> {
        self.path.file_name()?.to_str()
    }

    /// What is around the cgroups right below.
    fn below(&self) -> Around {
        let Some(name) = self.name() else { return self.around.max(Around::Groups) };
        let own = match () {
            () if name.ends_with(".slice") => Around::Slices,
            () if name.ends_with(".scope") || name.ends_with(".service") => Around::Owned,
            () if container(name).is_some() || name.starts_with("lxc.payload.") => Around::Owned,
            () => Around::Groups,
        };
        self.around.max(own)
    }
}

impl Tree {
    /// Below this root.
    #[must_use]
    pub fn at(root: &Path) -> Tree {
        Tree::with_engines(root, Path::new("/"))
    }

    /// Below this root, with the state of container engines below another directory than the machine's root.
    #[must_use]
    pub fn with_engines(root: &Path, engines: &Path) -> Tree {
        Tree {
            root: root.to_owned(),
            systems: OnceCell::new(),
            engines: engines.to_owned(),
            called: OnceCell::new(),
            unreadable: Cell::new(0),
        }
    }

    /// The cgroups that a selector names, the outermost ones where one lies in another; None if it names processes.
    ///
    /// # Errors
    /// If a directory cannot be read for another reason than a missing right.
    pub fn named(&self, selector: &Selector) -> Result<Option<Vec<PathBuf>>, LinuxError> {
        Ok(match selector {
            Selector::Cgroup(path) => {
                let below = path.strip_prefix("/").unwrap_or(path);
                let literal = self.root.join(below);
                match below.to_str().filter(|text| is_pattern(text) && !literal.is_dir()) {
                    Some(text) => Some(self.matching(text)?),
                    None => Some(Vec::from_iter(literal.is_dir().then_some(literal))),
                }
            }
            Selector::Unit(name) => Some(self.units(name)?),
            Selector::Container(id) => {
                let (found, which) = self.containers(id)?;
                Some(if which.len() > 1 { Vec::new() } else { found })
            }
            Selector::Label(label) => Some(self.called(&|known| known.has_label(label))?),
            Selector::Pod(uid) => {
                let uid = uid.to_ascii_lowercase().replace('_', "-");
                let is = |place: &Place, name: &str| {
                    place.around != Around::Owned && pod(name).is_some_and(|found| found == uid)
                };
                Some(self.outermost(&is)?)
            }
            Selector::Pid(_) | Selector::Command(_) => None,
        })
    }

    /// The reason why a selector names no cgroup although some fit, and the fix; None where none fits.
    ///
    /// # Errors
    /// As [`Tree::named`].
    pub fn ambiguity(&self, selector: &Selector) -> Result<Option<String>, LinuxError> {
        let Selector::Container(id) = selector else { return Ok(None) };
        let (_, which) = self.containers(id)?;
        let ids: Vec<&str> = which.iter().take(4).map(|id| id.get(..16).unwrap_or(id)).collect();
        Ok((which.len() > 1).then(|| {
            format!(
                "{} containers have ids that begin with it, or have it as their name: {} …; write more of the id",
                which.len(),
                ids.join(" …, ")
            )
        }))
    }

    /// Directories that could not be looked into so far, for want of a right.
    #[must_use]
    pub fn unreadable(&self) -> usize {
        self.unreadable.get()
    }

    /// The units of this machine's systemd: they lie in slices alone. What a scope, a service or a container has inside may
    /// have a unit's name, but is none.
    fn units(&self, name: &str) -> Result<Vec<PathBuf>, LinuxError> {
        let has_suffix = [".service", ".scope", ".slice"].iter().any(|suffix| name.ends_with(suffix));
        let name = if has_suffix { name.to_owned() } else { format!("{name}.service") };
        let pattern = is_pattern(&name).then(|| Pattern::new(&name).ok()).flatten();
        let fits = |found: &str| found == name || pattern.as_ref().is_some_and(|pattern| pattern.matches(found));
        let found = self.outermost(&|place, found| place.around == Around::Slices && fits(own_name(found)))?;
        if !found.is_empty() {
            return Ok(found);
        }
        // As people write it: systemd escapes what its names may not have.
        let name = unescaped(&name);
        let pattern = is_pattern(&name).then(|| Pattern::new(&name).ok()).flatten();
        let fits = |found: &str| found == name || pattern.as_ref().is_some_and(|pattern| pattern.matches(found));
        self.outermost(&|place, found| place.around == Around::Slices && fits(&unescaped(own_name(found))))
    }

    /// The cgroups of containers whose ids begin so, or else that have this name, and the ids. Those inside another container,
    /// scope or service count only where no other fits, and only for ids long enough not to be met by chance.
    fn containers(&self, id: &str) -> Result<(Vec<PathBuf>, BTreeSet<String>), LinuxError> {
        let (text, id) = (id, id.to_ascii_lowercase());
        let fits = |name: &str| container(name).is_some_and(|found| found.starts_with(&id));
        let mut found = self.outermost(&|place, name| place.around != Around::Owned && fits(name))?;
        if found.is_empty() && id.len() >= LONG_ENOUGH {
            found = self.outermost(&|_, name| fits(name))?;
        }
        if found.is_empty() {
            found = self.called(&|known| known.names.iter().any(|name| name == text))?;
        }
        let id_of = |path: &PathBuf| container(path.file_name()?.to_str()?).map(str::to_owned);
        let which = found.iter().filter_map(id_of).collect();
        Ok((found, which))
    }

    /// The cgroups of containers of which the engines say this. What is inside another container is not theirs.
    fn called(&self, is: &dyn Fn(&Known) -> bool) -> Result<Vec<PathBuf>, LinuxError> {
        let called = match self.called.get() {
            Some(called) => called,
            None => {
                let engines = Engines::at(&self.engines);
                let outer = self.systems()?.iter().filter(|place| place.around != Around::Owned);
                let ids = outer.filter_map(|place| container(place.name()?));
                let called = ids.map(|id| (id.to_owned(), engines.known(id))).collect();
                self.called.get_or_init(|| called)
            }
        };
        let fits = |name: &str| container(name).and_then(|id| called.get(id)).is_some_and(is);
        self.outermost(&|place, name| place.around != Around::Owned && fits(name))
    }

    fn outermost(&self, is: &dyn Fn(&Place, &str) -> bool) -> Result<Vec<PathBuf>, LinuxError> {
        let named = |place: &&Place| place.name().is_some_and(|name| is(place, name));
        Ok(without_inner(self.systems()?.iter().filter(named).map(|place| place.path.clone()).collect()))
    }

    /// The cgroups that root made, or this process's user, parents first. Below a cgroup that was given to another user, that
    /// user can make one of any name, and thousands.
    fn systems(&self) -> Result<&[Place], LinuxError> {
        if let Some(known) = self.systems.get() {
            return Ok(known);
        }
        let own = rustix::process::geteuid().as_raw();
        let mut found: Vec<Place> =
            self.below(&self.root)?.into_iter().map(|path| Place { path, around: Around::Slices }).collect();
        let mut next = 0;
        while let Some(place) = found.get(next) {
            next += 1;
            let Ok(is) = fs::metadata(&place.path) else { continue };
            // A directory has a link from its parent, one from itself and one from each child.
            if is.nlink() != 2 && [0, own].contains(&is.uid()) {
                let around = place.below();
                let below = self.below(&place.path)?;
                found.extend(below.into_iter().map(|path| Place { path, around }));
            }
        }
        Ok(self.systems.get_or_init(|| found))
    }

    /// The cgroups right below one; none, and it is counted, where they may not be listed.
    fn below(&self, directory: &Path) -> Result<Vec<PathBuf>, LinuxError> {
        let listed = children(directory)?;
        if listed.is_none() {
            self.unreadable.set(self.unreadable.get() + 1);
        }
        Ok(listed.unwrap_or_default())
    }

    fn matching(&self, text: &str) -> Result<Vec<PathBuf>, LinuxError> {
        let root = &self.root;
        let Ok(pattern) = Pattern::new(text) else { return Ok(Vec::new()) };
        let is = |path: &PathBuf| {
            path.strip_prefix(root).is_ok_and(|below| pattern.matches_path_with(below, PATHS)) && path != root
        };
        // Beside what no pattern matches it is not looked.
        let names: Vec<_> = text.split('/').collect();
        let fixed: PathBuf = names.iter().take_while(|name| !is_pattern(name)).collect();
        let deepest = if text.contains("**") { usize::MAX } else { root.components().count() + names.len() };
        let may_lead = |path: &PathBuf| path.components().count() <= deepest;
        let (found, unreadable) = subtree_counted(&root.join(fixed), &may_lead)?;
        self.unreadable.set(self.unreadable.get() + unreadable);
        Ok(without_inner(found.into_iter().filter(is).collect()))
    }
}

/// This many digits of a container's id are met by no other one by chance.
const LONG_ENOUGH: usize = 12;

/// As [`Tree::named`], of a tree that is read for this.
///
/// # Errors
/// If a directory cannot be read.
pub fn named(root: &Path, selector: &Selector) -> Result<Option<Vec<PathBuf>>, LinuxError> {
    Tree::at(root).named(selector)
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
#[path = "named_tests.rs"]
mod tests;

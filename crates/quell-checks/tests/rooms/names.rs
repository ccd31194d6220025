//! What a path means: in which room of the crate the thing is declared that it names.

use std::collections::{BTreeMap, BTreeSet};

use syn::{Item, UseTree, Visibility};

use crate::modules::{Module, room};

/// Names from the crate's root on.
pub type Path = Vec<String>;

/// The names that a crate's modules declare and bring in.
#[derive(Default)]
pub struct Names {
    modules: BTreeSet<Path>,
    declared: BTreeSet<Path>,
    imported: BTreeMap<Path, Path>,
    exported: BTreeSet<Path>,
    globs: BTreeMap<Path, Vec<Path>>,
}

impl Names {
    /// Of these modules.
    pub fn of(modules: &[Module]) -> Names {
        let mut names =
            Names { modules: modules.iter().map(|module| module.path.clone()).collect(), ..Names::default() };
        for module in modules {
            for item in &module.items {
                match item {
                    Item::Use(item) => {
                        let exports = !matches!(item.vis, Visibility::Inherited);
                        for used in flat(&item.tree) {
                            names.import(&module.path, used, exports);
                        }
                    }
                    item => names.declared.extend(name(item).map(|name| joined(&module.path, &name))),
                }
            }
        }
        names
    }

    fn import(&mut self, module: &Path, used: Used, exports: bool) {
        let Some(target) = self.absolute(module, &used.path) else { return };
        match used.name {
            None => self.globs.entry(module.clone()).or_default().push(target),
            Some(name) => {
                let here = joined(module, &name);
                if exports {
                    self.exported.insert(here.clone());
                }
                self.imported.insert(here, target);
            }
        }
    }

    /// A path as it stands in a module, from the root on; none if it leads out of the crate, or begins with a name that
    /// the module itself declares or imports for itself.
    pub fn absolute(&self, module: &Path, segments: &[String]) -> Option<Path> {
        let first = segments.first()?;
        match first.as_str() {
            "crate" => Some(segments[1..].to_vec()),
            "self" => Some([module, &segments[1..]].concat()),
            "super" => {
                let ups = segments.iter().take_while(|segment| *segment == "super").count();
                Some([&module[..module.len().checked_sub(ups)?], &segments[ups..]].concat())
            }
            _ => {
                let here = joined(module, first);
                let known = self.modules.contains(&here) || self.exported.contains(&here);
                known.then(|| [module, segments].concat())
            }
        }
    }

    /// The room in which the thing is declared that an absolute path names; none for the root.
    pub fn room(&self, path: &Path) -> Option<String> {
        room(&self.place(path).0)
    }

    /// Where the thing is declared that an absolute path names: its module, and its name there; no name for a module.
    pub fn place(&self, path: &Path) -> (Path, Option<String>) {
        let mut path = path.clone();
        // Re-exports of re-exports; a bound, for they may stand in a ring.
        for _ in 0..32 {
            match self.step(&path) {
                Ok(next) => path = next,
                Err(place) => return place,
            }
        }
        panic!("{path:?} is imported without end");
    }

    /// Follows one import of the path, or says where the path ends.
    fn step(&self, path: &Path) -> Result<Path, (Path, Option<String>)> {
        let mut at = Path::new();
        for (number, name) in path.iter().enumerate() {
            let here = joined(&at, name);
            let rest = &path[number + 1..];
            if self.modules.contains(&here) && !(rest.is_empty() && self.imported.contains_key(&here)) {
                at = here;
                continue;
            }
            if let Some(target) = self.imported.get(&here) {
                return Ok([target, rest].concat());
            }
            let globs = self.globs.get(&at).into_iter().flatten();
            let has = |target: &&Path| {
                let there = joined(target, name);
                **target != at && (self.declared.contains(&there) || self.exported.contains(&there))
            };
            if let (false, Some(target)) = (self.declared.contains(&here), globs.clone().find(has)) {
                return Ok([target, &path[number..]].concat());
            }
            return Err((at, Some(name.clone())));
        }
        Err((at, None))
    }
}

/// One name of a `use`; no name for `*`.
pub struct Used {
    /// What it names, as it stands there.
    pub path: Path,
    /// What it is called in the module.
    pub name: Option<String>,
}

/// All names of a `use`.
pub fn flat(tree: &UseTree) -> Vec<Used> {
    fn walk(tree: &UseTree, before: &Path, all: &mut Vec<Used>) {
        match tree {
            UseTree::Path(tree) => walk(&tree.tree, &joined(before, &tree.ident.to_string()), all),
            UseTree::Group(group) => group.items.iter().for_each(|tree| walk(tree, before, all)),
            UseTree::Glob(_) => all.push(Used { path: before.clone(), name: None }),
            UseTree::Name(name) if name.ident == "self" => {
                all.push(Used { path: before.clone(), name: before.last().cloned() });
            }
            UseTree::Name(name) => {
                let name = name.ident.to_string();
                all.push(Used { path: joined(before, &name), name: Some(name) });
            }
            UseTree::Rename(tree) => {
                let path = if tree.ident == "self" { before.clone() } else { joined(before, &tree.ident.to_string()) };
                all.push(Used { path, name: Some(tree.rename.to_string()) });
            }
        }
    }
    let mut all = Vec::new();
    walk(tree, &Path::new(), &mut all);
    all
}

fn name(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(it) => &it.ident,
        Item::Enum(it) => &it.ident,
        Item::Fn(it) => &it.sig.ident,
        Item::Static(it) => &it.ident,
        Item::Struct(it) => &it.ident,
        Item::Trait(it) => &it.ident,
        Item::Type(it) => &it.ident,
        Item::Union(it) => &it.ident,
        Item::Macro(it) => it.ident.as_ref()?,
        _ => return None,
    };
    Some(ident.to_string())
}

fn joined(path: &Path, name: &str) -> Path {
    let mut path = path.clone();
    path.push(name.to_owned());
    path
}

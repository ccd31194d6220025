//! How large rooms and structs are.

use std::collections::{BTreeMap, BTreeSet};

use syn::{Item, Type};

use crate::modules::{Module, room};
use crate::names::Names;

/// Lines of each room outside tests: of its top-level module and all below.
pub fn rooms(modules: &[Module]) -> BTreeMap<String, usize> {
    let mut rooms = BTreeMap::new();
    for module in modules {
        if let Some(room) = room(&module.path) {
            *rooms.entry(room).or_default() += module.lines;
        }
    }
    rooms
}

/// Of each struct, by its path: its fields, and the files with `impl` blocks of it.
pub fn structs(modules: &[Module]) -> BTreeMap<String, (usize, usize)> {
    let names = Names::of(modules);
    let mut fields = BTreeMap::new();
    let mut files: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for module in modules {
        for item in &module.items {
            match item {
                Item::Struct(item) => {
                    fields.insert((module.path.clone(), Some(item.ident.to_string())), item.fields.len());
                }
                Item::Impl(item) => {
                    if let Type::Path(path) = &*item.self_ty {
                        let segments: Vec<String> = path.path.segments.iter().map(|it| it.ident.to_string()).collect();
                        let absolute = names.absolute(&module.path, &segments);
                        let absolute = absolute.unwrap_or_else(|| [&module.path[..], &segments].concat());
                        files.entry(names.place(&absolute)).or_default().insert(&module.file);
                    }
                }
                _ => {}
            }
        }
    }
    let named = |(place, count): ((Vec<String>, Option<String>), usize)| {
        let files = files.get(&place).map_or(0, BTreeSet::len);
        let (module, name) = place;
        (module.into_iter().chain(name).collect::<Vec<_>>().join("::"), (count, files))
    };
    fields.into_iter().map(named).collect()
}

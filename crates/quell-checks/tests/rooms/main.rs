//! The rooms of a crate are its top-level modules, and of a program those below `commands`; a child and its parent are one room. They stand in no circle, none has
//! more than 4,000 lines, and no struct has more than 15 fields and `impl` blocks in more than three files.
//!
//! What breaks a rule today is listed. The lists can only shrink: a new entry is refused, and so is one that has been
//! fixed and still stands here.

mod modules;
mod names;
mod sizes;
mod uses;

use std::collections::BTreeMap;
use std::path::PathBuf;

use modules::Module;

const MOST_LINES: usize = 4_000;
const MOST_FIELDS: usize = 15;
const MOST_FILES: usize = 3;

/// Rooms that use each other in a circle: crate, rooms, why they still do.
const CIRCLES: &[(&str, &str, &str)] = &[
    ("quell-scx", "beside inspect layout program requests sockets", "`Grant` has its methods in every room"),
    (
        "quell-sim",
        "contention machine sim vm workload",
        "contention and virtual machines have methods of `Sim`, and their specifications stand in `workload`",
    ),
    ("quell-sim", "host scenario", "the simulated host has a scenario's watch"),
];

/// Rooms that are too long: crate, room, why.
const LONG: &[(&str, &str, &str)] = &[
    ("quell-lab", "commands::paper", "figures in Rust, to become data"),
    ("quell-sim", "kernel", "its classes are to become rooms of their own"),
];

/// Structs with too many fields and methods in too many files: crate, struct, why.
const WIDE: &[(&str, &str, &str)] = &[];

/// The modules of each crate of the workspace.
fn crates() -> BTreeMap<String, Vec<Module>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut crates = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let root = ["src/lib.rs", "src/main.rs"].map(|root| path.join(root)).into_iter().find(|root| root.exists());
        if let Some(root) = root {
            crates.insert(path.file_name().unwrap().to_string_lossy().into_owned(), modules::read(&root));
        }
    }
    assert!(crates.len() > 10, "{:?}", crates.keys());
    crates
}

/// What was found against what is listed; `found` has more to say of each that was found.
fn hold_against(list: &[(&str, &str, &str)], found: &BTreeMap<(String, String), String>) {
    let is_listed = |found: &(String, String)| list.iter().any(|(of, what, _)| found.0 == *of && found.1 == *what);
    let new: Vec<String> = found
        .iter()
        .filter(|(found, _)| !is_listed(found))
        .map(|((of, what), more)| format!("{of}: {what}\n{more}"))
        .collect();
    let is_found = |of: &str, what: &str| found.contains_key(&(of.to_owned(), what.to_owned()));
    let fixed: Vec<_> = list.iter().filter(|(of, what, _)| !is_found(of, what)).collect();
    assert!(new.is_empty(), "new:\n{}", new.join("\n"));
    assert!(fixed.is_empty(), "fixed, take them off the list: {fixed:#?}");
}

#[test]
fn the_rooms_of_a_crate_stand_in_no_circle() {
    let mut found = BTreeMap::new();
    for (name, modules) in crates() {
        let uses = uses::of(&modules);
        for circle in uses::circles(&uses) {
            let within = |room: &&str| circle.contains(room);
            let places = circle.iter().flat_map(|from| {
                let others = uses[*from].iter().filter(|(to, _)| within(&to.as_str()));
                others.map(move |(to, place)| format!("    {from} uses {to} ({place})"))
            });
            found.insert((name.clone(), circle.join(" ")), places.collect::<Vec<_>>().join("\n"));
        }
    }
    hold_against(CIRCLES, &found);
}

#[test]
fn no_room_is_longer_than_four_thousand_lines() {
    let mut found = BTreeMap::new();
    for (name, modules) in crates() {
        for (room, lines) in sizes::rooms(&modules) {
            if lines > MOST_LINES {
                found.insert((name.clone(), room), format!("    {lines} lines outside tests"));
            }
        }
    }
    hold_against(LONG, &found);
}

#[test]
fn no_struct_has_many_fields_and_methods_in_many_files() {
    let mut found = BTreeMap::new();
    for (name, modules) in crates() {
        for (what, (fields, files)) in sizes::structs(&modules) {
            if fields > MOST_FIELDS && files > MOST_FILES {
                found.insert((name.clone(), what), format!("    {fields} fields, impl blocks in {files} files"));
            }
        }
    }
    hold_against(WIDE, &found);
}

//! Which room of a crate uses which, and where.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, ImplItemFn, Item, ItemMod, ItemUse, Macro, Visibility};

use crate::modules::{Module, attributes, is_test, room};
use crate::names::{Names, Path, flat};

/// From a room to the rooms that it uses, each with one place where it does: `file: path`.
pub type Uses = BTreeMap<String, BTreeMap<String, String>>;

/// Of these modules. Tests and re-exports are left out; what is used through a re-export counts where it is declared.
pub fn of(modules: &[Module]) -> Uses {
    let names = Names::of(modules);
    let mut uses = Uses::new();
    for module in modules {
        let Some(room) = room(&module.path) else { continue };
        let mut found = Found { names: &names, module: &module.path, paths: BTreeSet::new() };
        module.items.iter().for_each(|item| found.visit_item(item));
        let all = uses.entry(room.clone()).or_default();
        for path in found.paths {
            if let Some(other) = names.room(&path).filter(|other| *other != room) {
                let file = module.file.file_name().unwrap().to_string_lossy();
                all.entry(other).or_insert_with(|| format!("{file}: {}", path.join("::")));
            }
        }
    }
    uses
}

/// The rooms that use each other in a circle, one entry a circle, in the order of their names.
pub fn circles(uses: &Uses) -> Vec<Vec<&str>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        uses.keys().map(|room| (room.as_str(), reachable(uses, room))).collect();
    let mut circles = BTreeSet::new();
    for (room, from_here) in &reached {
        let back = |other: &&&str| reached.get(**other).is_some_and(|from_there| from_there.contains(room));
        let circle: Vec<&str> = from_here.iter().filter(back).copied().collect();
        if circle.len() > 1 {
            circles.insert(circle);
        }
    }
    circles.into_iter().collect()
}

fn reachable<'a>(uses: &'a Uses, from: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut todo = vec![from];
    while let Some(room) = todo.pop() {
        for other in uses.get(room).into_iter().flat_map(BTreeMap::keys) {
            if reached.insert(other.as_str()) {
                todo.push(other);
            }
        }
    }
    reached
}

struct Found<'a> {
    names: &'a Names,
    module: &'a Path,
    paths: BTreeSet<Path>,
}

impl Found<'_> {
    fn add(&mut self, segments: &[String]) {
        self.paths.extend(self.names.absolute(self.module, segments));
    }

    /// The paths in a macro's arguments, which may be no Rust.
    fn add_tokens(&mut self, tokens: TokenStream) {
        let mut path = Path::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.add(&std::mem::take(&mut path));
                    }
                    path.push(ident.to_string());
                    colons = 0;
                }
                other => {
                    self.add(&std::mem::take(&mut path));
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        self.add_tokens(group.stream());
                    }
                }
            }
        }
        self.add(&path);
    }
}

impl<'ast> Visit<'ast> for Found<'_> {
    fn visit_attribute(&mut self, _: &'ast Attribute) {}

    /// Has its own turn.
    fn visit_item_mod(&mut self, _: &'ast ItemMod) {}

    fn visit_item(&mut self, item: &'ast Item) {
        if !is_test(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        if !is_test(&function.attrs) {
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        if matches!(item.vis, Visibility::Inherited) {
            flat(&item.tree).iter().for_each(|used| self.add(&used.path));
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            let segments: Path = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            self.add(&segments);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        self.add_tokens(call.tokens.clone());
        visit::visit_macro(self, call);
    }
}

/// Modules from (path, source): the root's path is empty.
#[cfg(test)]
fn modules(sources: &[(&str, &str)]) -> Vec<Module> {
    let module = |(path, source): &(&str, &str)| {
        let path = path.split("::").filter(|name| !name.is_empty()).map(str::to_owned).collect();
        let items = syn::parse_file(source).unwrap().items;
        Module { path, file: "x.rs".into(), lines: 0, items }
    };
    sources.iter().map(module).collect()
}

#[test]
fn a_use_counts_where_the_thing_is_declared_whatever_way_it_is_named() {
    let through = |user: &str| {
        let root = "mod a; mod b; mod c; pub use b::deep::Thing;";
        let sources = [("", root), ("a", user), ("b", "pub mod deep;"), ("b::deep", "pub struct Thing;"), ("c", "")];
        let uses = of(&modules(&sources));
        uses["a"].keys().cloned().collect::<Vec<_>>()
    };
    for user in [
        "use crate::b::deep::Thing;",
        "use crate::{Thing, Thing as Other};",
        "use super::b::{deep::{self, Thing}};",
        "fn f() -> Vec<crate::Thing> { Vec::new() }",
        "fn f() { println!(\"{}\", crate::b::deep::Thing); }",
        "fn f() { use super::Thing; }",
        "impl crate::Thing {}",
        "pub use crate::Thing; fn f(_: Thing) {}",
    ] {
        assert_eq!(through(user), ["b"], "{user}");
    }
    for user in [
        "pub use crate::Thing;",
        "#[cfg(test)] fn f(_: crate::Thing) {}",
        "use std::fmt; fn b() {}",
        "fn f(_: crate::a::Own) {}",
    ] {
        assert_eq!(through(user), Vec::<String>::new(), "{user}");
    }
}

#[test]
fn what_stands_below_commands_is_a_room() {
    let sources = [
        ("", "mod commands;"),
        ("commands", "mod a; mod b; use a::A;"),
        ("commands::a", "mod deep; pub struct A;"),
        ("commands::a::deep", "use crate::commands::b::B;"),
        ("commands::b", "use super::a::A; pub struct B;"),
    ];
    assert_eq!(circles(&of(&modules(&sources))), [["commands::a", "commands::b"]]);
}

#[test]
fn rooms_that_use_each_other_are_a_circle_however_long() {
    let sources = [
        ("", "mod a; mod b; mod c; mod d;"),
        ("a", "use crate::b::B; pub struct A;"),
        ("b", "use crate::c::C; pub struct B;"),
        ("c", "use crate::a::A; pub struct C; mod d; use self::d::E;"),
        ("c::d", "use super::C; pub struct E;"),
        ("d", "use crate::a::A; use crate::c::C;"),
    ];
    assert_eq!(circles(&of(&modules(&sources))), [["a", "b", "c"]]);
}

//! The modules of a crate, read from its files as the compiler reads them: from the root, along `mod`. Modules that are
//! compiled for tests only are left out.

use std::path::{Path, PathBuf};

use syn::{Attribute, Item};

/// A module that is compiled outside tests.
pub struct Module {
    /// Its names from the crate's root on; empty for the root.
    pub path: Vec<String>,
    /// The file that it stands in.
    pub file: PathBuf,
    /// Lines of its file outside `#[cfg(test)]` modules; 0 for a module within a file.
    pub lines: usize,
    /// What it declares, tests left out, modules included.
    pub items: Vec<Item>,
}

/// A module that is no room: those below it are.
const OF_ROOMS: &str = "commands";

/// The room of a module, by its names: its top-level module, or of a program that below `commands`. None for the root.
pub fn room(path: &[String]) -> Option<String> {
    match path {
        [] => None,
        [first, second, ..] if first == OF_ROOMS => Some(format!("{first}::{second}")),
        [first, ..] => Some(first.clone()),
    }
}

/// All modules of the crate with this root file.
pub fn read(root: &Path) -> Vec<Module> {
    let mut modules = Vec::new();
    read_file(root, root.parent().unwrap(), Vec::new(), &mut modules);
    modules
}

/// Does this stand there for tests only?
pub fn is_test(attributes: &[Attribute]) -> bool {
    let is_test = |attribute: &Attribute| match &attribute.meta {
        syn::Meta::List(list) if list.path.is_ident("cfg") => list.tokens.to_string() == "test",
        meta => meta.path().is_ident("test"),
    };
    attributes.iter().any(is_test)
}

/// The attributes of an item.
pub fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(it) => &it.attrs,
        Item::Enum(it) => &it.attrs,
        Item::ExternCrate(it) => &it.attrs,
        Item::Fn(it) => &it.attrs,
        Item::ForeignMod(it) => &it.attrs,
        Item::Impl(it) => &it.attrs,
        Item::Macro(it) => &it.attrs,
        Item::Mod(it) => &it.attrs,
        Item::Static(it) => &it.attrs,
        Item::Struct(it) => &it.attrs,
        Item::Trait(it) => &it.attrs,
        Item::TraitAlias(it) => &it.attrs,
        Item::Type(it) => &it.attrs,
        Item::Union(it) => &it.attrs,
        Item::Use(it) => &it.attrs,
        _ => &[],
    }
}

fn read_file(file: &Path, children: &Path, path: Vec<String>, modules: &mut Vec<Module>) {
    let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let items = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display())).items;
    let lines = lines_outside_tests(&text).count();
    read_items(Module { path, file: file.into(), lines, items }, children, modules);
}

fn read_items(mut module: Module, children: &Path, modules: &mut Vec<Module>) {
    module.items.retain(|item| !is_test(attributes(item)));
    for item in &mut module.items {
        let Item::Mod(child) = item else { continue };
        let name = child.ident.to_string();
        let mut path = module.path.clone();
        path.push(name.clone());
        let below = children.join(&name);
        match &mut child.content {
            Some((_, items)) => {
                let inner = Module { path, file: module.file.clone(), lines: 0, items: std::mem::take(items) };
                read_items(inner, &below, modules);
            }
            None => {
                let file = file_of(child, &module.file, &below);
                read_file(&file, &below, path, modules);
            }
        }
    }
    modules.push(module);
}

fn file_of(child: &syn::ItemMod, parent: &Path, below: &Path) -> PathBuf {
    let given = child.attrs.iter().find_map(|attribute| match &attribute.meta {
        syn::Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    });
    if let Some(given) = given {
        return parent.parent().unwrap().join(given);
    }
    let flat = below.with_extension("rs");
    if flat.exists() { flat } else { below.join("mod.rs") }
}

/// The lines of a file, formatted by rustfmt, without its `#[cfg(test)] mod … { … }`.
fn lines_outside_tests(text: &str) -> impl Iterator<Item = &str> {
    let mut lines = text.lines().peekable();
    std::iter::from_fn(move || {
        let line = lines.next()?;
        let opens = |next: &&str| next.starts_with("mod ") && next.ends_with('{');
        if line == "#[cfg(test)]" && lines.peek().is_some_and(opens) {
            lines.by_ref().find(|line| *line == "}");
            return lines.next();
        }
        Some(line)
    })
}

#[test]
fn test_modules_are_no_lines() {
    let text = "a\n#[cfg(test)]\nmod tests {\n    b\n}\nc\n#[cfg(test)]\nmod elsewhere;\n";
    let lines: Vec<&str> = lines_outside_tests(text).collect();
    assert_eq!(lines, ["a", "c", "#[cfg(test)]", "mod elsewhere;"]);
}

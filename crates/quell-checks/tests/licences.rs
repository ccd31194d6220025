//! The licences of what is linked, against `deny.toml`'s `[licenses]`; `make licences` asks cargo-deny the same and more.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;

use cargo_metadata::{CargoOpt, DependencyKind, Metadata, MetadataCommand, Package, PackageId};
use serde::Deserialize;
use spdx::expression::ExpressionReq;
use spdx::{Expression, ParseMode};

#[derive(Deserialize)]
struct Deny {
    licenses: Licenses,
}

#[derive(Deserialize)]
struct Licenses {
    allow: Vec<String>,
    exceptions: Vec<Exception>,
}

#[derive(Deserialize)]
struct Exception {
    #[serde(rename = "crate")]
    name: String,
    allow: Vec<String>,
}

impl Licenses {
    fn read() -> Licenses {
        let text = std::fs::read_to_string(root().join("deny.toml")).unwrap();
        toml::from_str::<Deny>(&text).unwrap().licenses
    }

    /// Why a crate of this name must not be linked under this licence; None: it may.
    fn objection(&self, name: &str, licence: Option<&str>) -> Option<String> {
        let Some(licence) = licence else { return Some(format!("{name} names no licence")) };
        let mode = ParseMode { allow_slash_as_or_operator: true, ..ParseMode::STRICT };
        let expression = match Expression::parse_mode(licence, mode) {
            Ok(expression) => expression,
            Err(error) => return Some(format!("{name}: '{licence}' is no licence: {error}")),
        };
        let own = self.exceptions.iter().filter(|exception| exception.name == name).flat_map(|it| &it.allow);
        let allowed: BTreeSet<&str> = self.allow.iter().chain(own).map(String::as_str).collect();
        let may = |required: &spdx::LicenseReq| allowed.contains(required.to_string().as_str());
        if expression.evaluate(may) {
            return None;
        }
        let lacks = |ExpressionReq { req, .. }: &ExpressionReq| (!may(req)).then(|| req.to_string());
        let lacking: Vec<String> = expression.requirements().filter_map(lacks).collect();
        Some(format!("{name} is {licence}; deny.toml allows no {}", lacking.join(", ")))
    }
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn metadata() -> Metadata {
    MetadataCommand::new()
        .manifest_path(root().join("Cargo.toml"))
        .features(CargoOpt::AllFeatures)
        .other_options(["--locked", "--filter-platform", "x86_64-unknown-linux-gnu"].map(String::from).to_vec())
        .exec()
        .unwrap()
}

/// What a crate of the workspace links, itself included; not what only builds or tests it.
fn linked<'a>(metadata: &'a Metadata, from: &str) -> BTreeMap<&'a PackageId, &'a Package> {
    let nodes = &metadata.resolve.as_ref().unwrap().nodes;
    let start = metadata.workspace_packages().into_iter().find(|package| package.name.as_str() == from).unwrap();
    let mut found = BTreeMap::from([(&start.id, start)]);
    let mut todo = VecDeque::from([&start.id]);
    while let Some(id) = todo.pop_front() {
        let node = nodes.iter().find(|node| node.id == *id).unwrap();
        for dependency in &node.deps {
            let normal = dependency.dep_kinds.iter().any(|kind| kind.kind == DependencyKind::Normal);
            if normal && !found.contains_key(&dependency.pkg) {
                found.insert(&dependency.pkg, &metadata[&dependency.pkg]);
                todo.push_back(&dependency.pkg);
            }
        }
    }
    found
}

#[test]
fn every_crate_has_a_licence_that_may_be_linked() {
    let licences = Licenses::read();
    let metadata = metadata();
    assert!(metadata.packages.len() > 100, "{} packages", metadata.packages.len());
    let objections: Vec<String> = metadata
        .packages
        .iter()
        .filter_map(|package| licences.objection(&package.name, package.license.as_deref()))
        .collect();
    assert!(objections.is_empty(), "{objections:#?}");
}

#[test]
fn every_exception_is_needed() {
    let licences = Licenses::read();
    let metadata = metadata();
    for exception in &licences.exceptions {
        let package = metadata.packages.iter().find(|package| package.name.as_str() == exception.name);
        let package = package.unwrap_or_else(|| panic!("deny.toml excepts {}, which is not there", exception.name));
        let without = Licenses { allow: licences.allow.clone(), exceptions: Vec::new() };
        let objection = without.objection(&package.name, package.license.as_deref());
        assert!(objection.is_some(), "{} needs no exception", exception.name);
    }
}

#[test]
fn the_agent_links_nothing_under_the_gpl_and_the_program_the_scheduler_alone() {
    let metadata = metadata();
    let strict = Licenses { exceptions: Vec::new(), ..Licenses::read() };
    let under_the_gpl = |from: &str| -> Vec<String> {
        let found = linked(&metadata, from);
        let objections =
            found.values().filter_map(|package| strict.objection(&package.name, package.license.as_deref()));
        objections.filter(|why| why.contains(" GPL-2.0-only")).collect()
    };
    assert_eq!(under_the_gpl("quell-agent"), Vec::<String>::new());
    assert_eq!(under_the_gpl("quell-sim"), Vec::<String>::new());
    for program in ["quell-cli", "quell-lab"] {
        let found = under_the_gpl(program);
        assert!(matches!(&found[..], [one] if one.starts_with("quell-scx is ")), "{program}: {found:?}");
    }
}

/// `packaging/test-dist` compares the list of `packaging/build-sbom` with the same.
#[test]
fn the_notice_names_everything_that_is_linked_and_its_text() {
    let notice = std::fs::read_to_string(root().join("NOTICE")).unwrap();
    let (list, texts) = notice.split_once("\n-----").unwrap();
    let listed: BTreeSet<&str> = list.lines().filter_map(|line| Some(line.split_once(": ")?.0)).collect();
    let with_text: BTreeSet<&str> =
        texts.lines().filter_map(|line| Some(line.split_once(", of: ")?.1)).flat_map(str::split_whitespace).collect();
    // Not by the metadata: those have the features that any crate of the workspace asks for.
    let mut tree = std::process::Command::new(env!("CARGO"));
    tree.current_dir(root()).args(["tree", "--locked", "--edges", "normal", "--prefix", "none", "--no-dedupe"]);
    tree.args(["--target", "x86_64-unknown-linux-gnu", "--format", "{p}"]);
    tree.args(["-p", "quell-cli", "-p", "quell-lab", "-p", "quell-cluster"]);
    let tree = String::from_utf8(tree.output().unwrap().stdout).unwrap();
    let mut missing = BTreeSet::new();
    for line in tree.lines().filter(|line| !line.is_empty()) {
        let mut words = line.split(' ');
        let (name, version) = (words.next().unwrap(), words.next().unwrap().trim_start_matches('v'));
        if !listed.contains(format!("{name} {version}").as_str()) || !with_text.contains(name) {
            missing.insert(format!("{name} {version}"));
        }
    }
    assert!(tree.lines().count() > 100, "cargo tree names too little: {tree}");
    assert!(missing.is_empty(), "run `make notice`: NOTICE lacks {missing:?}");
    let names: BTreeSet<&str> = listed.iter().filter_map(|crate_| crate_.split(' ').next()).collect();
    let unlisted: Vec<&&str> = with_text.difference(&names).collect();
    assert!(unlisted.is_empty(), "run `make notice`: NOTICE has a licence of {unlisted:?} and does not list them");
    let escaped = ["&quot;", "&lt;", "&amp;", "&#x"].into_iter().find(|escape| notice.contains(escape));
    assert_eq!(escaped, None, "NOTICE is text, and the template packaging/notice.hbs takes it for HTML");
}

#[test]
fn licences_that_may_not_be_linked_are_refused() {
    let licences = Licenses {
        allow: vec!["MIT".into(), "Apache-2.0".into()],
        exceptions: vec![Exception { name: "kernel-half".into(), allow: vec!["GPL-2.0-only".into()] }],
    };
    for (name, licence, allowed) in [
        ("a", Some("MIT OR GPL-3.0-only"), true),
        ("a", Some("MIT/Apache-2.0"), true),
        ("a", Some("MIT AND GPL-2.0-only"), false),
        ("a", Some("GPL-2.0-only"), false),
        ("kernel-half", Some("(MIT OR Apache-2.0) AND GPL-2.0-only"), true),
        ("a", Some("my own"), false),
        ("a", None, false),
    ] {
        let objection = licences.objection(name, licence);
        assert_eq!(objection.is_none(), allowed, "{licence:?}: {objection:?}");
    }
}

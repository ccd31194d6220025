//! The product and the laboratory are two programs: nothing of the second is linked into the first.

use std::collections::BTreeSet;
use std::process::Command;

/// The crates of the laboratory.
const LABORATORY: [&str; 6] =
    ["quell-cluster-sim", "quell-evidence", "quell-guest", "quell-lab", "quell-play", "quell-sim"];

/// The crates of the project that one links, and the client of an API server.
fn linked(package: &str) -> Vec<String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let words = ["tree", "--locked", "--edges", "normal", "--prefix", "none", "--format", "{p}", "--package"];
    let output = Command::new(cargo).args(words).arg(package).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let names = text.lines().filter_map(|line| line.split(' ').next());
    let mut names: Vec<String> =
        names.filter(|name| name.starts_with("quell-") || *name == "kube").map(str::to_owned).collect();
    names.sort();
    names.dedup();
    names
}

#[test]
fn the_product_links_nothing_of_the_laboratory() {
    for program in ["quell-cli", "quell-cluster"] {
        let product = linked(program);
        assert!(product.iter().any(|name| name == "quell-agent"), "{product:?}");
        let wrong: Vec<_> = product.iter().filter(|name| LABORATORY.contains(&name.as_str())).collect();
        assert!(wrong.is_empty(), "{program} links {wrong:?}");
    }
}

#[test]
fn the_agent_and_the_laboratory_link_no_client_of_an_api_server() {
    for program in ["quell-cli", "quell-lab"] {
        assert!(!linked(program).iter().any(|name| name == "kube"), "{program}");
    }
    assert!(linked("quell-cluster").iter().any(|name| name == "kube"));
}

#[test]
fn the_crates_of_the_laboratory_are_there() {
    let laboratory = linked("quell-lab");
    for name in LABORATORY {
        assert!(laboratory.iter().any(|linked| linked == name), "{name} is not in {laboratory:?}");
    }
}

/// Each crate with its features, as `packaging/compile` has Cargo compile them for this machine.
fn compiled(packages: &[&str]) -> BTreeSet<String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let mut tree = Command::new(cargo);
    tree.args(["tree", "--locked", "--edges", "normal", "--prefix", "none", "--no-dedupe", "--format", "{p} [{f}]"]);
    let output = tree.args(["--target", &target]).args(packages).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter(|line| !line.is_empty() && !line.starts_with("quell-cli ")).map(str::to_owned).collect()
}

/// Otherwise `packaging/build-static` compiles all of it a second time. `quell-cluster` has a client of the API server, whose features
/// the others do without: it is compiled by itself.
#[test]
fn the_static_program_is_linked_of_what_the_packages_programs_are() {
    let packages = compiled(&["-p", "quell-cli", "-p", "quell-lab"]);
    let of_its_own = |features: &[&str]| -> Vec<String> {
        compiled(&[&["-p", "quell-cli"], features].concat()).difference(&packages).cloned().collect()
    };
    let more = of_its_own(&["--features", "packaged"]);
    assert!(more.is_empty(), "quell-cli's feature `packaged` lacks what the laboratory asks of {more:#?}");
    assert!(!of_its_own(&[]).is_empty(), "the programs ask for the same without the feature `packaged`: remove it");
}

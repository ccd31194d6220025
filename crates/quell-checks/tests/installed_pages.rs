//! The pages of the Debian packages: each links only pages of its own package.

use std::path::{Path, PathBuf};
use std::process::Command;

use regex::Regex;

/// Installs both packages' pages below a folder.
fn installed(folder: &Path) -> [PathBuf; 2] {
    let roots = ["quell", "quell-lab"].map(|package| folder.join(package));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/pages");
    assert!(Command::new(script).args(&roots).status().unwrap().success());
    roots
}

fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { pages(&path, found) } else { found.push(path) }
    }
}

#[test]
fn a_page_links_only_pages_of_its_own_package() {
    let folder = tempfile::tempdir().unwrap();
    let link = Regex::new(r"\]\(([^):#]+)(#[^)]*)?\)").unwrap();
    for root in installed(folder.path()) {
        let mut found = Vec::new();
        pages(&root, &mut found);
        assert!(found.len() > 10, "{found:?}");
        let mut links = 0;
        for page in &found {
            let text = std::fs::read_to_string(page).unwrap();
            for target in link.captures_iter(&text) {
                links += 1;
                let target = page.parent().unwrap().join(&target[1]);
                assert!(target.is_file(), "{} links {}", page.display(), target.display());
            }
        }
        assert!(links > 10, "{links} links below {}", root.display());
    }
}

#[test]
fn a_page_of_the_other_package_is_named_with_its_package() {
    let folder = tempfile::tempdir().unwrap();
    let [quell, lab] = installed(folder.path());
    let text = |root: &Path, page: &str| std::fs::read_to_string(root.join("usr/share/doc/quell").join(page)).unwrap();
    assert!(text(&quell, "docs/operate/caladan.md").contains("peers (package quell-lab)"));
    assert!(text(&lab, "docs/extend/signal.md").contains("(package quell)"));
    assert!(text(&quell, "docs/README.md").contains("](operate/caladan.md)"), "links of its own remain");
}

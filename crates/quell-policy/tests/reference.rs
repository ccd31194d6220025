//! docs/reference/policies.md and docs/reference/signals.md are what is declared.

use std::path::Path;

/// Writes the page if it is asked to, and compares.
fn holds(name: &str, page: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(name);
    if std::env::var_os("QUELL_WRITE").is_some() {
        std::fs::write(&path, page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "docs/reference/{name} is behind: QUELL_WRITE=1 cargo test -p quell-policy --test reference"
    );
}

#[test]
fn the_page_of_signals_and_knobs_is_what_the_tables_say() {
    holds("signals.md", &quell_policy::signals_and_knobs());
}

#[test]
fn the_reference_of_parameters_is_what_the_policies_declare() {
    holds("policies.md", &quell_policy::reference());
}

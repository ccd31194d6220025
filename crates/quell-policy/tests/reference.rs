//! docs/policies.md is what the policies declare.

use std::path::Path;

#[test]
fn the_reference_of_parameters_is_what_the_policies_declare() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/policies.md");
    let page = quell_policy::reference();
    if std::env::var_os("QUELL_WRITE").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page, "docs/policies.md is behind: QUELL_WRITE=1 cargo test -p quell-policy --test reference");
}

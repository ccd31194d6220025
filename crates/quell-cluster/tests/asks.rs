//! The program where no controller is; what it asks one is tested with `quell-lab cluster live`, which controls a cluster.

use std::process::Command;

#[test]
fn without_a_controller_it_says_so_and_how_to_get_one() {
    let folder = tempfile::tempdir().unwrap();
    for words in [&["status"][..], &["why", "0"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quell-cluster"));
        let output = command.args(words).arg("--dir").arg(folder.path()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("no cluster answers") && said.contains("quell-lab cluster live SCENARIO"), "{said}");
    }
}

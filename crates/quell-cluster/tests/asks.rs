//! The program where no controller is; what it asks one is tested with `quell-lab cluster live`, which controls a cluster.

use std::process::Command;

#[test]
fn without_a_controller_it_says_so_and_how_to_get_one() {
    let folder = tempfile::tempdir().unwrap();
    for words in [&["status"][..], &["why", "0"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quell-cluster"));
        let output = command.args(words).arg("--dir").arg(folder.path()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.starts_with("quell-cluster: "), "{said}");
        assert!(said.contains("no cluster answers") && said.contains("quell-lab cluster live SCENARIO"), "{said}");
    }
}

#[test]
fn a_wrong_command_line_is_status_2_and_a_full_output_an_error() {
    let ended = |words: &[&str]| Command::new(env!("CARGO_BIN_EXE_quell-cluster")).args(words).output().unwrap();
    for words in [&["nonsense"][..], &["why"], &["why", "web"], &["status", "--frobnicate"]] {
        assert_eq!(ended(words).status.code(), Some(2), "{words:?}");
    }
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let status = Command::new(env!("CARGO_BIN_EXE_quell-cluster")).arg("--help").stdout(full).status().unwrap();
    assert_eq!(status.code(), Some(1));
}

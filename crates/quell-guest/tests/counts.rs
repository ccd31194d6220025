//! The counting plugin on a QEMU of the test's own making, and in a guest.

use std::path::Path;
use std::process::Command;

use quell_guest::counts::Counts;

#[test]
fn blocks_are_counted_by_cpu_between_the_marks() {
    let folder = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/counts_on_host.c");
    let program = folder.path().join("counts_on_host");
    assert!(Command::new("cc").arg("-o").arg(&program).arg(source).status().unwrap().success());
    let output = Command::new(program).output().unwrap();
    // All programs as one, the mark's own block included; a block of another length is another block.
    let text = "cpus 2\n\
                0 1 64 4\n\
                ffffffff81000000 5 3 2\n\
                ffffffff81000000 2 0 7\n\
                ffffffff81000040 1 1 0\n\
                ffffffff80fffff0 1 0 1\n";
    assert_eq!(String::from_utf8(output.stdout).unwrap(), text);
    assert_eq!(Counts::parse(text).unwrap().blocks.len(), 5);
}

//! What a guest whose root is the host's can do to the host's files: read them.

use std::fs;

use quell_guest::{Job, Lab, Machine, Silent};

#[test]
fn the_hosts_files_cannot_be_written_even_if_the_guest_mounts_them_again() {
    let folder = tempfile::tempdir().unwrap();
    let (file, new) = (folder.path().join("file"), folder.path().join("new"));
    fs::write(&file, "of the host").unwrap();
    let (path, new_path) = (file.display(), new.display());
    let script = format!(
        "mkdir /run/again && mount -t virtiofs labroot /run/again && cat /run/again{path}; \
         echo of the guest > /run/again{path} || echo refused; touch /run/again{new_path} || echo refused; \
         echo of the guest > {path} && cat {path}"
    );
    let lab = Lab::new(&Silent).unwrap();
    let ran = lab.output(&Machine { cpus: 1, ..Machine::default() }, &Job::new(["sh", "-c", &script]));
    if !rustix::process::geteuid().is_root() {
        assert!(ran.unwrap_err().to_string().contains("root"), "serving the host's files needs root");
        return;
    }
    let said = String::from_utf8(ran.unwrap().stdout).unwrap();
    assert_eq!(said, "of the hostrefused\nrefused\nof the guest\n", "its own view, under a tmpfs, is written");
    assert_eq!(fs::read_to_string(&file).unwrap(), "of the host");
    assert!(!new.exists());
}

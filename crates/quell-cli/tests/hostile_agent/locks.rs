//! A lock that a stranger takes keeps nothing from being put back.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::scene::{CRITICAL, Ours, STRANGER, Scene, is_root, said, until};

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

/// A stranger that has taken the lock, as it could while the file was readable for all.
fn locked_by_a_stranger(lock: &Path) -> Ours {
    fs::set_permissions(lock, Permissions::from_mode(0o644)).unwrap();
    let mut command = Command::new("flock");
    command.arg(lock).args(["sleep", "60"]).uid(STRANGER).gid(STRANGER);
    let stranger = Ours::of(command);
    let file = File::open(lock).unwrap();
    until("the stranger has the lock", || {
        let free = file.try_lock_shared().is_ok();
        let _ = file.unlock();
        !free
    });
    stranger
}

/// Before: mode 644; `run` did not start ("an agent is already running"), and `restore` put nothing back, with exit status 0.
#[test]
fn a_lock_that_a_stranger_holds_keeps_neither_run_nor_restore_from_its_work() {
    if !is_root() {
        return;
    }
    let scene = Scene::new("lock");
    let lock = scene.path("run/agent.lock");
    // As an earlier version left it.
    fs::create_dir(scene.path("run")).unwrap();
    for directory in [scene.path(""), scene.path("run")] {
        fs::set_permissions(directory, Permissions::from_mode(0o755)).unwrap();
    }
    fs::write(&lock, "999999999\n").unwrap();
    let first = locked_by_a_stranger(&lock);
    let server = Ours::sleeper(&scene.word("web"));
    scene.configure("guard", &[("web", CRITICAL)]);
    let agent = scene.run(&[]);
    let took = until("it is protected", || server.policy() == 1);
    println!("protected {took:?} after the start beside a stranger's lock; mode of agent.lock: {:o}", mode(&lock));
    assert_eq!(mode(&lock), 0o600);
    drop(first);

    agent.kill_with_its_worker();
    assert_eq!(server.policy(), 1, "nothing has put it back");
    let _second = locked_by_a_stranger(&lock);
    let restored = scene.restore();
    println!("restore: {}", said(&restored).trim());
    assert!(restored.status.success(), "{}", said(&restored));
    assert_eq!(server.policy(), 0);
}

/// Before: "nothing to put back", with exit status 0.
#[test]
fn restore_says_what_it_cannot_tell_and_fails() {
    let scene = Scene::new("unclear");
    fs::create_dir(scene.path("run")).unwrap();
    fs::set_permissions(scene.path("run"), Permissions::from_mode(0o755)).unwrap();
    fs::write(scene.path("run/agent.journal"), "").unwrap();
    let lock = File::create(scene.path("run/agent.lock")).unwrap();
    // A process of another pid namespace.
    fs::write(scene.path("run/agent.lock"), "7 7 7\n").unwrap();
    lock.try_lock().unwrap();
    let restored = scene.restore();
    assert_eq!(restored.status.code(), Some(1), "{}", said(&restored));
    assert!(said(&restored).contains("it is unknown whether"), "{}", said(&restored));
    assert!(!said(&restored).contains("nothing to put back"), "{}", said(&restored));
}

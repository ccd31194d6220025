//! The ends of it: the time is over, the target ends, Quell is killed.

use super::scene::{FIFO, IDLE, Scene, is_root, send, until};
use rustix::process::Signal;

#[test]
fn it_ends_when_its_time_is_over() {
    let scene = Scene::new("for");
    let server = scene.server();
    let pid = server.pid().to_string();
    let mut quell = scene.begin(&["protect", &pid, "--be", "--measure", "0", "--for", "3s"]);
    until("it is best-effort", || server.policy() == IDLE);
    assert_eq!((quell.ends(), server.policy()), (Some(0), 0), "{}", scene.log());
    assert!(scene.log().contains("are over; everything is put back"), "{}", scene.log());
}

#[test]
fn it_ends_with_its_target_and_names_the_command_for_the_next_one() {
    let scene = Scene::new("end");
    let mut server = scene.server();
    let pid = server.pid().to_string();
    let mut quell = scene.begin(&["protect", &pid, "--be", "--measure", "0"]);
    until("it is best-effort", || server.policy() == IDLE);
    server.0.kill().unwrap();
    server.0.wait().unwrap();
    assert_eq!(quell.ends(), Some(1), "{}", scene.log());
    let next = format!("has ended or was restarted; once it runs: quell protect {}", scene.name);
    assert!(scene.log().contains(&next), "{}", scene.log());
}

#[test]
fn a_target_that_ends_while_it_is_measured_is_said() {
    let scene = Scene::new("mea");
    let mut server = scene.server();
    let mut quell = scene.begin(&["protect", &server.pid().to_string(), "--be", "--measure", "60s"]);
    until("it is measured", || scene.log().contains("before anything is set"));
    server.0.kill().unwrap();
    server.0.wait().unwrap();
    assert_eq!(quell.ends(), Some(1), "{}", scene.log());
    assert!(scene.log().contains("has ended or was restarted"), "{}", scene.log());
}

#[test]
fn ctrl_c_while_it_is_measured_sets_nothing() {
    let scene = Scene::new("int");
    let server = scene.server();
    let mut quell = scene.begin(&["protect", &server.pid().to_string(), "--be", "--measure", "60s"]);
    until("it is measured", || scene.log().contains("before anything is set"));
    quell.signal(Signal::INT);
    assert_eq!((quell.ends(), server.policy()), (Some(130), 0), "{}", scene.log());
}

#[test]
fn a_killed_quell_leaves_nothing() {
    if !is_root() {
        return;
    }
    for kills_worker in [true, false] {
        let scene = Scene::new("kill");
        let server = scene.server();
        let mut quell = scene.begin(&["protect", &scene.name, "--measure", "0"]);
        until("it is protected", || server.policy() == FIFO);
        let worker = quell.child().unwrap();
        send(if kills_worker { worker } else { quell.pid() }, Signal::KILL);
        until("it is put back", || server.policy() == 0);
        assert_ne!(quell.ends(), Some(0));
    }
}

#[test]
fn a_program_gets_its_result_when_the_end_comes_before_it() {
    let scene = Scene::new("nul");
    let server = scene.server();
    let pid = server.pid().to_string();
    let mut quell = scene.begin(&["protect", &pid, "--be", "--measure", "1s", "--for", "100ms", "--json"]);
    assert_eq!(quell.ends(), Some(0), "{}", scene.log());
    let result = scene.output();
    assert!(result["effect"].is_null() && result["class"] == "be", "{result} {}", scene.log());
}

#[test]
fn a_group_is_protected_as_long_as_something_is_in_it() {
    let scene = Scene::new("grp");
    let unit = format!("{}.service", scene.name);
    let Some(group) = Group::new(&unit) else {
        eprintln!("not tested here: needs root and cgroup v2");
        return;
    };
    let (mut old, new) = (scene.server(), scene.server());
    group.enter(old.pid());
    let mut quell = scene.begin(&["protect", &unit, "--be", "--measure", "0"]);
    until("it is best-effort", || old.policy() == IDLE);
    // A new master takes over.
    group.enter(new.pid());
    until("the new one is best-effort, too", || new.policy() == IDLE);
    old.0.kill().unwrap();
    old.0.wait().unwrap();
    let last = scene.server();
    group.enter(last.pid());
    until("it goes on", || last.policy() == IDLE);
    drop(new);
    drop(last);
    assert_eq!(quell.ends(), Some(1), "{}", scene.log());
    assert!(scene.log().contains("has ended or was restarted"), "{}", scene.log());
}

/// A unit's cgroup that ends with the test.
struct Group(std::path::PathBuf);

impl Group {
    fn new(name: &str) -> Option<Group> {
        let root = std::path::Path::new("/sys/fs/cgroup");
        let path = root.join(name);
        let is_possible = root.join("cgroup.controllers").exists() && std::fs::create_dir(&path).is_ok();
        is_possible.then_some(Group(path))
    }

    fn enter(&self, pid: i32) {
        std::fs::write(self.0.join("cgroup.procs"), pid.to_string()).unwrap();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // What was in it may still end.
        let begun = std::time::Instant::now();
        while std::fs::remove_dir(&self.0).is_err() && begun.elapsed().as_secs() < 5 {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

#[test]
fn what_another_quell_has_is_refused() {
    if !is_root() {
        return;
    }
    let scene = Scene::new("two");
    let server = scene.server();
    let mut first = scene.begin(&["protect", &scene.name, "--be", "--measure", "0"]);
    until("it is best-effort", || server.policy() == IDLE);
    let second = scene.said(&["protect", &server.pid().to_string(), "--cpus", "0.5", "--measure", "60s"]);
    assert!(second.code == Some(1) && second.error.contains("is already managed: `quell protect`"), "{second:?}");
    let fix = format!("end that first: kill -INT {}", first.pid());
    assert!(second.error.contains(&fix) && second.error.lines().count() == 1, "before it measures: {second:?}");
    assert_eq!(server.policy(), IDLE, "it is as the first has set it");
    first.signal(Signal::INT);
    assert_eq!((first.ends(), server.policy()), (Some(0), 0));
}

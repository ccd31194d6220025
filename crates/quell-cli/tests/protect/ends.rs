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
fn what_another_quell_has_is_refused() {
    if !is_root() {
        return;
    }
    let scene = Scene::new("two");
    let server = scene.server();
    let mut first = scene.begin(&["protect", &scene.name, "--be", "--measure", "0"]);
    until("it is best-effort", || server.policy() == IDLE);
    let second = scene.said(&["protect", &server.pid().to_string(), "--cpus", "0.5", "--measure", "0"]);
    assert!(second.code == Some(1) && second.error.contains("is managed already"), "{second:?}");
    assert_eq!(server.policy(), IDLE, "it is as the first has set it");
    first.signal(Signal::INT);
    assert_eq!((first.ends(), server.policy()), (Some(0), 0));
}

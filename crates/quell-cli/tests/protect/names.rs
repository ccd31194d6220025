//! What a name means, and what it never means.

use super::scene::{FIFO, IDLE, Ours, STRANGER, Scene, is_root, until};
use rustix::process::Signal;
use std::os::unix::process::CommandExt as _;

#[test]
fn a_programs_name_is_enough() {
    if !is_root() {
        return;
    }
    let scene = Scene::new("name");
    let server = scene.server();
    let mut quell = scene.begin(&["protect", &scene.name, "--measure", "0"]);
    until("it is protected", || server.policy() == FIFO);
    quell.ctrl_c();
    assert_eq!((quell.ends(), server.policy()), (Some(0), 0), "{}", scene.log());
    assert!(scene.log().contains("everything is put back"), "{}", scene.log());
}

#[test]
fn be_makes_it_best_effort() {
    let scene = Scene::new("be");
    let server = scene.server();
    let mut quell = scene.begin(&["protect", &server.pid().to_string(), "--be", "--measure", "0", "--quiet"]);
    until("it is best-effort", || server.policy() == IDLE);
    quell.signal(Signal::TERM);
    assert_eq!((quell.ends(), server.policy()), (Some(0), 0));
    assert_eq!(scene.log(), "");
}

#[test]
fn several_of_a_name_are_listed_with_the_command_for_each_and_none_is_taken() {
    let scene = Scene::new("two");
    let servers = [scene.server(), scene.server()];
    until("both have their name", || servers.iter().all(|server| name(server) == scene.name));
    let said = scene.said(&["protect", &scene.name, "--measure", "0"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.error.contains(&format!("'{}' matches 2 services here", scene.name)), "{said:?}");
    for server in &servers {
        let line = format!("  quell protect {} ", server.pid());
        assert!(said.error.lines().any(|listed| listed.starts_with(&line)), "{said:?}");
        assert_eq!(server.policy(), 0);
    }
}

#[test]
fn a_strangers_namesake_is_never_taken_by_its_name() {
    if !is_root() {
        return;
    }
    let scene = Scene::new("str");
    let stranger = scene.strangers_server();
    until("it has its name", || name(&stranger) == scene.name);
    let alone = scene.said(&["protect", &scene.name, "--measure", "0"]);
    let listed = format!("  quell protect {} ", stranger.pid());
    assert!(alone.code == Some(1) && alone.error.contains(&listed), "{alone:?}");
    assert!(alone.error.contains(&format!("user {STRANGER}")), "{alone:?}");
    let own = scene.server();
    until("it has its name", || name(&own) == scene.name);
    let both = scene.said(&["protect", &scene.name, "--measure", "0"]);
    assert!(both.code == Some(1) && both.error.contains("matches 2 services"), "{both:?}");
    assert_eq!((stranger.policy(), own.policy()), (0, 0));
}

#[test]
fn a_service_of_the_overflow_user_is_taken_by_its_name_and_its_line_for_good_is_the_one_that_was_typed() {
    if !is_root() || std::fs::read_to_string("/proc/sys/kernel/overflowuid").unwrap().trim() != "65534" {
        return;
    }
    let scene = Scene::new("nob");
    let mut command = std::process::Command::new(scene.path(&scene.name));
    command.arg("300").uid(65_534).gid(65_534);
    let server = Ours::of(command);
    until("it has its name", || name(&server) == scene.name);
    let said =
        scene.said(&["protect", &scene.name, "--policy", "guard", "--cpus", "0.3", "--measure", "0", "--for", "1s"]);
    let line = format!("for good: quell protect {} --policy guard --cpus 0.3 --keep\n", scene.name);
    assert!(said.code == Some(0) && said.out.ends_with(&line), "{said:?}");
}

#[test]
fn what_protects_nothing_is_refused_or_says_so() {
    let scene = Scene::new("non");
    let server = scene.server();
    let pid = server.pid().to_string();
    let zero = scene.said(&["protect", &pid, "--cpus", "0"]);
    assert!(zero.code == Some(2) && zero.error.contains("give 0.1 or more"), "{zero:?}");
    let none = scene.said(&["protect", &pid, "--policy", "none", "--measure", "0", "--for", "1s"]);
    assert!(none.code == Some(0) && none.out.contains("not protected, as policy none sets nothing"), "{none:?}");
    let short = scene.said(&["protect", &pid, "--policy", "none", "--for", "1s"]);
    assert!(short.code == Some(0) && short.error.contains("--for 1 s is too short to measure"), "{short:?}");
}

#[test]
fn a_command_that_observes_is_at_work_for_status() {
    if !is_root() {
        return;
    }
    let scene = Scene::new("sta");
    let server = scene.server();
    let pid = server.pid().to_string();
    let mut quell = scene.begin(&["protect", &pid, "--policy", "guard", "--measure", "10m"]);
    let is_said = || scene.said(&["status"]).error.contains(&format!("(process {}) is starting", quell.pid()));
    until("status says that it is starting", is_said);
    quell.ctrl_c();
    assert_eq!(quell.ends(), Some(130), "{}", scene.log());
    assert!(scene.log().trim_end().ends_with("interrupted; nothing was set"), "{}", scene.log());
}

#[test]
fn what_is_nothing_says_what_to_do() {
    let scene = Scene::new("none");
    let own = std::process::id().to_string();
    for (target, part) in [
        (scene.name.as_str(), "no unit, container or program"),
        ("2147483", "there is no process 2147483"),
        (&own, "Quell itself or one of its ancestors"),
        ("2", "a kernel thread"),
        ("no-such.service", "nothing runs in unit no-such.service"),
        ("/no/such/cgroup", "nothing runs in cgroup"),
        ("a\x1b[2Jb", "'a\\x1b[2Jb'"),
    ] {
        if target == "2" && std::fs::read_to_string("/proc/2/comm").ok().as_deref() != Some("kthreadd\n") {
            continue; // a pid namespace, which has no threads of the kernel
        }
        let said = scene.said(&["protect", target]);
        assert!(said.code == Some(1) && said.error.contains(part), "{target}: {said:?}");
        assert_eq!(said.error.lines().count(), 1, "{said:?}");
    }
}

#[test]
fn a_request_for_all_cpus_is_refused_with_the_most_that_is_left() {
    let scene = Scene::new("all");
    let server = scene.server();
    let pid = server.pid().to_string();
    let cpus = std::thread::available_parallelism().unwrap().to_string();
    let said = scene.said(&["protect", &pid, "--be", "--cpus", "1024"]);
    assert!(said.error.contains(&format!("run `quell protect {pid} --cpus ")), "{cpus}: {said:?}");
    assert!(said.error.contains("would take all") && said.code == Some(1), "{said:?}");
}

fn name(process: &Ours) -> String {
    std::fs::read_to_string(format!("/proc/{}/comm", process.pid())).unwrap_or_default().trim().to_owned()
}

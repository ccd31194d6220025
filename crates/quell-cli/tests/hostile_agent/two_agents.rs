//! No two agents have one thread, whatever their run directories.

use rustix::process::Signal;

use crate::scene::{CRITICAL, Ours, Scene, is_root, quell, said, until};

/// Before: after both had ended the server was SCHED_FIFO still: the second had taken the first's value for the original.
#[test]
fn a_second_agent_refuses_the_workload_and_names_the_first() {
    if !is_root() {
        return;
    }
    let scene = Scene::new("two");
    let (server, other) = (Ours::sleeper(&scene.word("web")), Ours::sleeper(&scene.word("own")));
    scene.configure("guard", &[("web", CRITICAL)]);
    let mut first = scene.run_in("first", &[]);
    until("it is protected", || server.policy() == 1);
    scene.configure("guard", &[("web", CRITICAL), ("own", CRITICAL)]);
    let mut second = scene.run_in("second", &[]);
    until("the second protects what is its alone", || other.policy() == 1);
    let took = until("the second refuses the other", || scene.log_of("second").contains("another agent manages it"));
    println!("refused {took:?} after the second's first setting");
    let log = scene.log_of("second");
    let (pid, directory) = (first.pid().to_string(), scene.path("first").display().to_string());
    assert!(log.contains(&pid) && log.contains(&directory), "{log}");
    let status = quell(&["status", "--socket"], &[&scene.path("second/api.sock")]);
    assert!(said(&status).contains("refused"), "{}", said(&status));

    first.signal(Signal::TERM);
    assert!(first.0.wait().unwrap().success(), "{}", scene.log_of("first"));
    let took = until("the second has it when the first lets go", || server.policy() == 1);
    println!("protected by the second {took:?} after the first's end");
    second.signal(Signal::TERM);
    assert!(second.0.wait().unwrap().success(), "{}", scene.log_of("second"));
    assert_eq!((server.policy(), other.policy()), (0, 0), "both ended");
}

/// Before: the killed agent's value was the second's original, and stayed for good.
#[test]
fn what_a_killed_agent_left_is_not_taken_for_the_original() {
    if !is_root() {
        return;
    }
    let scene = Scene::new("killed");
    let server = Ours::sleeper(&scene.word("web"));
    scene.configure("guard", &[("web", CRITICAL)]);
    let first = scene.run_in("run", &[]);
    until("it is protected", || server.policy() == 1);
    first.kill_with_its_worker();
    let mut second = scene.run_in("second", &[]);
    until("the second refuses it", || scene.log_of("second").contains("quell restore --run-dir"));
    assert!(scene.restore().status.success());
    let took = until("the second protects it", || server.policy() == 1);
    println!("protected {took:?} after restore");
    second.signal(Signal::TERM);
    assert!(second.0.wait().unwrap().success());
    assert_eq!(server.policy(), 0);
}

#[test]
fn an_agent_and_commands_of_different_processes_run_side_by_side() {
    if !is_root() {
        return;
    }
    let scene = Scene::new("beside");
    let (server, batch) = (Ours::sleeper(&scene.word("web")), Ours::sleeper(&scene.word("batch")));
    scene.configure("guard", &[("web", CRITICAL)]);
    let mut agent = scene.run(&[]);
    until("it is protected", || server.policy() == 1);
    let mut exec = scene.protect("exec", &["--be", "--measure", "0", &batch.pid().to_string()]);
    until("the batch is managed", || batch.policy() == 5);
    let mut refused = scene.protect("refused", &["--be", "--measure", "0", &server.pid().to_string()]);
    assert_eq!(refused.0.wait().unwrap().code(), Some(1));
    let why = scene.log_of("refused");
    assert!(why.contains("as workload 'web'") && why.contains(&agent.pid().to_string()), "{why}");
    exec.signal(Signal::INT);
    assert!(exec.0.wait().unwrap().success());
    agent.signal(Signal::TERM);
    assert!(agent.0.wait().unwrap().success());
    assert_eq!((server.policy(), batch.policy()), (0, 0));
}

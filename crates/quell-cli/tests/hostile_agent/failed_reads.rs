//! Reads that the kernel refuses for a while end neither the worker nor the guardian for good.

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, prlimit};

use crate::scene::{CRITICAL, Ours, Scene, is_root, until};

/// Sets the number of descriptors that a process may have; returns the one from before.
fn limit(pid: i32, descriptors: Option<u64>) -> Option<u64> {
    let rlimit = Rlimit { current: descriptors, maximum: getrlimit(Resource::Nofile).maximum };
    prlimit(Pid::from_raw(pid), Resource::Nofile, rlimit).unwrap().current
}

/// Before: agent and guardian had ended 3 s later, and nothing started again.
#[test]
fn a_worker_that_may_open_nothing_is_started_again() {
    if !is_root() {
        return;
    }
    let scene = Scene::new("descriptors");
    let server = Ours::sleeper(&scene.word("web"));
    scene.configure("guard", &[("web", CRITICAL)]);
    let mut agent = scene.run(&[]);
    until("it is protected", || server.policy() == 1);
    let worker = agent.child().unwrap();
    limit(worker, Some(10));
    let took = until("another worker protects it", || {
        assert!(agent.0.try_wait().unwrap().is_none(), "the agent has ended: {}", scene.log_of("run"));
        agent.child().is_some_and(|child| child != worker) && server.policy() == 1
    });
    println!("protected by another worker {took:?} after the limit");
    let failures = scene.log_of("run").matches("could not be read").count();
    assert_eq!(failures, 1, "logged once: {}", scene.log_of("run"));
    agent.signal(Signal::TERM);
    assert!(agent.0.wait().unwrap().success());
    assert_eq!(server.policy(), 0);
}

/// Before: as above.
#[test]
fn reads_that_fail_for_a_moment_are_tried_again_and_are_a_warning_of_status() {
    if !is_root() {
        return;
    }
    let scene = Scene::new("moment");
    let server = Ours::sleeper(&scene.word("web"));
    scene.configure("guard", &[("web", CRITICAL)]);
    let agent = scene.run(&[]);
    until("it is protected", || server.policy() == 1);
    // The API's thread opens its socket a moment later.
    until("status answers", || scene.status().is_some());
    let worker = agent.child().unwrap();
    let before = limit(worker, Some(10));
    until("a look has failed", || scene.log_of("run").contains("could not be read"));
    limit(worker, before);
    let warned = |status: serde_json::Value| {
        let warnings = status["agent"]["warnings"].as_array().cloned().unwrap_or_default();
        warnings.iter().filter_map(|line| line.as_str()).any(|line| line.contains("failed in the last minute"))
    };
    let took = until("status has a warning", || scene.status().is_some_and(warned));
    println!("a warning of status {took:?} after reads are possible again");
    assert_eq!(agent.child(), Some(worker), "the worker is the same");
    assert_eq!(server.policy(), 1, "what stood stands");
}

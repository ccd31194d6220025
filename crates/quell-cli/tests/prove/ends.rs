//! The ends of it: Ctrl-C, kill -9, the agent's own.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::process::Signal;

use super::scene::{FIFO, Ours, Scene, is_root, send, until};

/// A service that runs and sleeps all the time.
/// Its command line is its own: what is kept is found by it.
pub fn service() -> Ours {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let mut command = std::process::Command::new("sh");
    let name = format!("service-{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
    command.args(["-c", "while :; do sleep 0.01; done", &name]);
    Ours::of(command)
}

/// Up to 1.5 s, another one each time.
fn at_random() -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Duration::from_millis(u64::from(now.subsec_micros()) % 1_500)
}

/// Kills an experiment, its worker or its guardian, at some instant after its first block is on.
fn kill(kills_worker: bool, meanwhile: impl FnOnce(&Scene, &Ours, &str)) {
    let (scene, server) = (Scene::new("kil"), service());
    let pid = server.pid().to_string();
    let mut quell = scene.begin(&["prove", &pid, "--policy", "guard", "--off-share", "0.5", "--for", "60s"]);
    until("a block is on", || server.policy() == FIFO);
    meanwhile(&scene, &quell, &pid);
    let instant = at_random();
    std::thread::sleep(instant);
    match quell.child().filter(|_| kills_worker) {
        Some(worker) => send(worker, Signal::KILL),
        None => quell.signal(Signal::KILL),
    }
    quell.ends();
    until("everything is put back", || server.policy() == 0);
    until("and nothing is left", || scene.quell("run", &["restore"]).output().unwrap().status.success());
    assert_eq!(server.policy(), 0, "after {instant:?}, worker {kills_worker}");
}

#[test]
fn a_killed_experiment_leaves_nothing_and_one_runs_at_a_time() {
    if !is_root() {
        return;
    }
    for kills_worker in [true, false] {
        kill(kills_worker, |scene, quell, pid| {
            let second = scene.said(&["prove", pid, "--policy", "guard", "--off-share", "0.5", "--for", "60s"]);
            let first = format!("process {} proves already", quell.pid());
            assert!(second.code == Some(1) && second.error.contains(&first), "{second:?}");
        });
    }
}

/// `cargo test -p quell-cli --locked --test prove -- --ignored twenty`
#[test]
#[ignore = "three minutes; `make soak` runs it"]
fn killed_at_twenty_instants_it_leaves_nothing() {
    if is_root() {
        (0..20).for_each(|number| kill(number % 2 == 0, |_, _, _| {}));
    }
}

#[test]
fn ctrl_c_ends_it_with_what_there_is() {
    if !is_root() {
        return;
    }
    let (scene, server) = (Scene::new("int"), service());
    let pid = server.pid().to_string();
    let arguments = ["prove", &pid, "--policy", "guard", "--off-share", "0.5", "--for", "60s", "--json"];
    let mut quell = scene.begin(&arguments);
    until("a block is over", || scene.log().contains("block 1 of"));
    quell.ctrl_c();
    assert_eq!((quell.ends(), server.policy()), (Some(130), 0), "{}", scene.log());
    assert!(scene.output()["interrupted"].is_string() && scene.output()["result"]["verdict"] == "cannot-tell");
}

#[test]
fn the_agent_alternates_for_one_caller_until_that_is_gone_or_it_reads_its_configuration_again() {
    if !is_root() {
        return;
    }
    let (scene, server) = (Scene::new("agt"), service());
    let pid = server.pid();
    let configuration = format!(
        "[[policy]]\nname = \"guard\"\nworkloads = [\"web\"]\n[[workload]]\nname = \"web\"\nclass = \"lc\"\ncpus = 0.5\n\
         match = [{{ pid = {pid} }}]\n"
    );
    let agent = scene.agent(&configuration);
    until("it is protected", || server.policy() == FIFO);
    let arguments = ["prove", "--workload", "web", "--off-share", "0.5", "--for", "60s", "--json"];
    let is_off = || scene.status().is_some_and(|status| status["agent"]["off"].is_object());
    for reloads in [false, true] {
        let mut quell = scene.begin(&arguments);
        until("a block is off", || server.policy() == 0);
        until("the agent says so", is_off);
        let second = scene.said(&arguments);
        let first = format!("process {})", quell.pid());
        // In a block that is off the agent is switched off by the first one.
        assert!(second.code == Some(1) && second.error.contains(&first), "{second:?}");
        if reloads {
            send(agent.pid(), Signal::HUP);
            assert_eq!(quell.ends(), Some(1), "{}", scene.log());
            assert!(scene.log().contains("the agent ended it") || scene.output()["interrupted"].is_string());
        } else {
            quell.signal(Signal::KILL);
            quell.ends();
        }
        until("everything is as before", || server.policy() == FIFO && !is_off());
    }
    // Two policies of one workload: it is not protected while it is off, and the agent is on all the time.
    let against = [&arguments[..], &["--against", "none"]].concat();
    let mut quell = scene.begin(&against);
    until("a block has the other policy", || server.policy() == 0 && !is_off());
    quell.signal(Signal::INT);
    assert_eq!(quell.ends(), Some(130), "{}", scene.log());
    until("everything is as before", || server.policy() == FIFO);
}

#[test]
fn a_target_that_the_agent_does_not_manage_is_leased_in_turns() {
    if !is_root() {
        return;
    }
    let (scene, server, web) = (Scene::new("lea"), service(), service());
    let configuration = format!(
        "[[policy]]\nname = \"guard\"\nworkloads = [\"web\"]\n[[workload]]\nname = \"web\"\nclass = \"lc\"\ncpus = 0.5\n\
         match = [{{ pid = {} }}]\n",
        web.pid()
    );
    let _agent = scene.agent(&configuration);
    until("the other one is protected", || web.policy() == FIFO);
    let pid = server.pid().to_string();
    let mut quell = scene.begin(&["prove", &pid, "--policy", "guard", "--off-share", "0.5", "--for", "60s"]);
    until("a block is on", || server.policy() == FIFO);
    until("a block is off", || server.policy() == 0);
    assert_eq!(web.policy(), FIFO, "the others are not disturbed");
    until("a block is on again", || server.policy() == FIFO);
    quell.signal(Signal::KILL);
    quell.ends();
    until("everything is put back", || server.policy() == 0);
}

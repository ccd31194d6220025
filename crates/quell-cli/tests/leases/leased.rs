//! Workloads leased from an agent.

use std::process::{Command, Stdio};
use std::time::Duration;

use quell_agent::api::wire::{Class, Match, Protect};
use quell_agent::api::{Client, Leasing, Standing};
use rustix::process::Signal;

use super::scene::{FIFO, Ours, Scene, is_root, out, send, until};

/// Makes a test a process that leases a workload: `SOCKET NAME PID`.
const HOLDER: &str = "QUELL_TEST_HOLDER";

fn protect(name: &str, pid: i32) -> Protect {
    Protect {
        name: name.into(),
        class: Class::Lc,
        cpus: 0.25,
        limit: None,
        strict: false,
        selectors: vec![Match::Pid(pid)],
        processes: Vec::new(),
        policy: "guard".into(),
        parameters: serde_json::Map::default(),
    }
}

/// Only where another test starts it: leases until it is killed.
#[test]
fn holder() {
    let Ok(wanted) = std::env::var(HOLDER) else { return };
    let [socket, name, pid] = wanted.split(' ').collect::<Vec<_>>()[..] else { panic!("{wanted}") };
    let client = Client::new(socket.as_ref()).unwrap();
    let _leasing = client.protect(protect(name, pid.parse().unwrap())).unwrap();
    std::thread::sleep(Duration::from_secs(600));
}

fn other_process(scene: &Scene, name: &str, service: &Ours) -> Ours {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "leased::holder"]).stdout(Stdio::null());
    command.env(HOLDER, format!("{} {name} {}", scene.socket().display(), service.pid()));
    Ours::of(command)
}

#[test]
fn a_lease_ends_with_its_caller_and_disturbs_no_other_workload() {
    if !is_root() {
        return;
    }
    let (scene, web, db, cache) = (Scene::new(), Ours::sleeper(), Ours::sleeper(), Ours::sleeper());
    let own = db.class();
    let mut agent = scene.agent(&web);
    let attached = scene.configured("web").unwrap()["since_ns"].clone();
    let mut holder = other_process(&scene, "db", &db);
    until("it is guarded", || db.class() == FIFO);
    let client = Client::new(&scene.socket()).unwrap();
    let leasing = client.protect(protect("cache", cache.pid())).unwrap();
    assert_eq!(
        (leasing.answer.set.clone(), cache.class()),
        (vec!["SCHED_FIFO 1".to_owned()], FIFO),
        "set at the answer"
    );

    let by = format!("root (process {})", holder.pid());
    until("status marks it", || scene.configured("db").is_some_and(|db| db["leased_by"] == *by));
    assert!(scene.configured("web").unwrap()["leased_by"].is_null());
    let said = format!("db: leased by {by}");
    assert!(out(&scene.quell(&["status"])).contains(&said) && out(&scene.quell(&["why", "db"])).contains(&said));
    let verified = scene.quell(&["verify"]);
    assert!(out(&verified).contains("all settings are in force (3 workloads"), "{verified:?}");

    holder.end(Signal::KILL);
    until("what was killed has nothing set", || db.class() == own);
    until("and is gone", || scene.configured("db").is_none());
    assert_eq!((web.class(), cache.class()), (FIFO, FIFO));
    client.unprotect(leasing);
    until("what was ended has nothing set", || cache.class() == own);
    until("and is gone", || scene.configured("cache").is_none());
    assert_eq!(scene.configured("web").unwrap()["since_ns"], attached, "it was attached all the time");
    agent.end(Signal::TERM);
    assert_eq!(web.class(), own);
}

/// Looks until something has changed.
fn next(client: &Client, leasing: &mut Leasing) -> Standing {
    let mut standing = Standing::Stands;
    until("something changes", || {
        standing = client.watch(leasing, Duration::from_millis(50)).unwrap();
        standing != Standing::Stands
    });
    standing
}

#[test]
fn a_lease_outlasts_a_reload_and_is_asked_for_again_after_a_dead_worker() {
    if !is_root() {
        return;
    }
    let (scene, web, db, other) = (Scene::new(), Ours::sleeper(), Ours::sleeper(), Ours::sleeper());
    let own = db.class();
    let mut agent = scene.agent(&web);
    let client = Client::new(&scene.socket()).unwrap();
    let mut leasing = client.protect(protect("db", db.pid())).unwrap();
    client.resize(&mut leasing, 0.5).unwrap();
    until("it needs more", || scene.configured("db").is_some_and(|db| db["cpus_requested"] == 0.5));

    scene.configure(&web, &[("other", &other)]);
    send(agent.pid(), Signal::HUP);
    until("the configuration was reloaded", || other.class() == FIFO);
    assert_eq!(client.watch(&mut leasing, Duration::from_millis(50)).unwrap(), Standing::Stands);
    assert_eq!(db.class(), FIFO);
    // A name that is leased cannot come by a reload.
    scene.configure(&web, &[("db", &other)]);
    send(agent.pid(), Signal::HUP);
    until("it is refused", || scene.status().is_some_and(|it| it["agent"]["not_reloaded"].is_object()));
    let why = scene.status().unwrap()["agent"]["not_reloaded"]["why"].as_str().unwrap().to_owned();
    assert!(why.contains("lease of root") && why.contains("end the lease"), "{why}");
    assert_eq!((db.class(), other.class()), (FIFO, FIFO), "the previous one remains in force");
    scene.configure(&web, &[]);

    let worker = scene.status().unwrap()["agent"]["pid"].as_i64().unwrap();
    send(worker as i32, Signal::KILL);
    assert_eq!(next(&client, &mut leasing), Standing::Lost);
    assert_eq!(next(&client, &mut leasing), Standing::Again);
    assert_eq!((db.class(), leasing.answer.cpus_requested), (FIFO, 0.5));
    agent.end(Signal::TERM);
    until("everything is put back", || db.class() == own && web.class() == own);
}

#[test]
fn what_an_agent_cannot_lease_is_refused_in_a_line_with_the_fix() {
    if !is_root() {
        return;
    }
    let (scene, web, db) = (Scene::new(), Ours::sleeper(), Ours::sleeper());
    let own = db.class();
    let _agent = scene.agent(&web);
    let client = Client::new(&scene.socket()).unwrap();
    let refused = |protect: Protect, parts: &[&str]| {
        let error = client.protect(protect).unwrap_err().to_string();
        assert!(parts.iter().all(|part| error.contains(part)) && !error.contains('\n'), "{error}");
        assert_eq!(db.class(), own);
    };
    refused(protect("db", web.pid()), &["is already in workload 'web'; see `quell why web`"]);
    refused(protect("web", db.pid()), &["workload 'web' is already defined", "another name"]);
    refused(Protect { cpus: 1000.0, ..protect("db", db.pid()) }, &["more than Quell manages here", "request fewer"]);
    refused(Protect { policy: "caladan".into(), ..protect("db", db.pid()) }, &["'caladan' grants CPUs", "guard"]);
    refused(protect("db", i32::MAX), &["has ended"]);
    assert!(scene.quell(&["off"]).status.success());
    refused(protect("db", db.pid()), &["switched off by root", "`quell on`"]);
}

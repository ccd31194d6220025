//! Restarts, resizes, expiry, and synchronisation.

use super::*;

const SECOND: Nanos = Nanos::from_secs(1);

#[test]
fn a_restarted_container_gets_the_same_cpus() {
    let mut node = node(8);
    let db = strict("db");
    assert_eq!(run(&mut node, &db, "app", 1000).unwrap(), "7");
    assert_eq!(run(&mut node, &strict("other"), "other", 1000).unwrap(), "6");
    node.stops("app");
    node.removed("app");
    node.sandbox_ends("other");
    run(&mut node, &strict("new"), "new", 2000).unwrap();
    let again = node.create(SECOND, &db, container(&db, "app2", "app", 1000)).unwrap();
    assert_eq!(again, Some(cpus("7")));
    node.sandbox_ends("db");
    assert_eq!(node.reserved_for_strict(), cpus("5-6"), "it goes with the sandbox");
}

#[test]
fn what_is_never_started_gives_its_cpus_back() {
    let mut node = node(4);
    let db = strict("db");
    node.create(SECOND, &db, container(&db, "db", "db", 2000)).unwrap();
    assert_eq!(node.next_expiry(), Some(Nanos::from_secs(11)));
    assert!(!node.expire(Nanos::from_secs(10)));
    assert!(node.expire(Nanos::from_secs(11)));
    assert_eq!((node.reserved_for_strict(), node.next_expiry()), (CpuSet::EMPTY, None));
    node.starts("db");
    assert_eq!(set(&node, "db", "db").unwrap(), "2-3", "it started after all");
}

#[test]
fn what_started_does_not_expire_nor_does_its_restart() {
    let mut node = node(4);
    let db = strict("db");
    run(&mut node, &db, "db", 2000).unwrap();
    assert_eq!(node.next_expiry(), None);
    node.stops("db");
    node.create(SECOND, &db, container(&db, "db2", "db", 2000)).unwrap();
    assert!(!node.expire(Nanos::from_secs(60)));
    assert_eq!(node.reserved_for_strict(), cpus("2-3"));
}

#[test]
fn a_container_that_fails_before_it_starts_gives_its_cpus_back() {
    for end in [Node::stops, Node::removed] {
        let mut node = node(4);
        let db = strict("db");
        node.create(SECOND, &db, container(&db, "db", "db", 2000)).unwrap();
        end(&mut node, "db");
        assert!(node.reserved_for_strict().is_empty());
    }
}

#[test]
fn resizing_keeps_what_it_can() {
    let mut node = node(8);
    let db = strict("db");
    run(&mut node, &strict("old"), "old", 1000).unwrap();
    assert_eq!(run(&mut node, &db, "app", 2000).unwrap(), "5-6");
    node.sandbox_ends("old");
    let mut to = |milli: u64| {
        let answer = node.resize(SECOND, "app", milli * 1024 / 1000, 0, 0);
        (set(&node, "db", "app").unwrap(), answer.map_err(|refused| refused.to_string()))
    };
    assert_eq!(to(3000), ("5-7".to_owned(), Ok(())));
    assert_eq!(to(1000).1, Ok(()));
    assert_eq!(to(2000).1, Ok(()));
    let (before, _) = to(3000);
    let (after, refused) = to(7000);
    assert_eq!(after, before);
    assert!(refused.unwrap_err().contains("asks for 7 CPUs; 6 of 8 can be reserved"));
    for (milli, why) in [(1500, "request 1 or 2"), (500, "less than one")] {
        let (after, refused) = to(milli);
        assert_eq!(after, before);
        assert!(refused.unwrap_err().contains(why));
    }
}

#[test]
fn shrinking_keeps_a_part_and_the_rest_is_shared() {
    let mut node = node(8);
    run(&mut node, &strict("db"), "app", 3000).unwrap();
    let before = node.reserved_for_strict();
    node.resize(SECOND, "app", 1024, 0, 0).unwrap();
    assert_eq!(node.reserved_for_strict().len(), 1);
    assert!(node.reserved_for_strict().is_subset(&before));
    assert_eq!(node.shared().len(), 7);
}

#[test]
fn a_sidecar_that_grows_gets_cpus_of_its_own() {
    let mut node = node(8);
    let db = strict("db");
    run(&mut node, &db, "app", 1000).unwrap();
    run(&mut node, &db, "log", 100).unwrap();
    node.resize(SECOND, "log", 1024, 0, 0).unwrap();
    assert_eq!((set(&node, "db", "app").unwrap(), set(&node, "db", "log").unwrap()), ("7".into(), "6".into()));
}

#[test]
fn what_is_there_already_keeps_its_cpus() {
    let (a, b, c, plain) = (strict("a"), strict("b"), strict("c"), pod("plain"));
    let found = |sandbox: &Sandbox, cpus: &str, milli| Container {
        cpus: cpus.into(),
        is_running: true,
        ..container(sandbox, &format!("{}1", sandbox.id), "app", milli)
    };
    let mut node = node(8);
    let sandboxes = vec![c.clone(), plain.clone(), b.clone(), a.clone()];
    let containers =
        vec![found(&b, "4-5", 2000), found(&c, "5-6", 2000), found(&a, "0-7", 1000), found(&plain, "6-7", 100)];
    node.synchronize(SECOND, sandboxes.clone(), containers.clone());
    assert_eq!(set(&node, "b", "b1").unwrap(), "4-5", "as the runtime says");
    assert_eq!(set(&node, "a", "a1").unwrap(), "7");
    assert_eq!(set(&node, "c", "c1").unwrap(), "3,6", "5 was another's");
    assert_eq!(set(&node, "plain", "plain1").unwrap(), "0-2");
    let before = node.clone();
    node.synchronize(SECOND, sandboxes, containers);
    assert_eq!(node, before, "once more changes nothing");
    node.synchronize(SECOND, vec![a.clone()], vec![found(&a, "", 1000)]);
    assert_eq!(node.reserved_for_strict(), cpus("7"), "what is gone has none");
}

#[test]
fn what_does_not_fit_is_remarked_and_gets_its_cpus_when_there_is_room() {
    let (a, b) = (strict("a"), strict("b"));
    let found = |sandbox: &Sandbox| Container { is_running: true, ..container(sandbox, &sandbox.id, "app", 2000) };
    let mut node = node(4);
    node.synchronize(SECOND, vec![a.clone(), b.clone()], vec![found(&a), found(&b)]);
    assert_eq!((set(&node, "a", "a").unwrap(), set(&node, "b", "b").unwrap()), ("2-3".into(), "0-1".into()));
    assert!(remarks(&node, "b").starts_with("has no CPUs of its own: container app asks for 2 CPUs; 0 of 4"));
    node.sandbox_ends("a");
    assert_eq!((set(&node, "b", "b").unwrap(), remarks(&node, "b")), ("2-3".into(), String::new()));
}

#[test]
fn a_resize_while_nothing_watched_is_found() {
    let db = strict("db");
    let mut node = node(8);
    run(&mut node, &db, "app", 1000).unwrap();
    let found = Container { is_running: true, ..container(&db, "app", "app", 2000) };
    node.synchronize(SECOND, vec![db], vec![found]);
    assert_eq!(node.reserved_for_strict(), cpus("6-7"));
}

#[test]
fn a_reservation_that_waits_for_a_restart_survives_synchronisation() {
    let db = strict("db");
    let mut node = node(4);
    run(&mut node, &db, "app", 1000).unwrap();
    node.stops("app");
    node.synchronize(SECOND, vec![db.clone()], vec![container(&db, "app", "app", 1000)]);
    assert_eq!((node.reserved_for_strict(), node.next_expiry()), (cpus("3"), None));
}

#[test]
fn unknown_ids_are_ignored() {
    let mut node = node(4);
    run(&mut node, &strict("db"), "db", 1000).unwrap();
    let before = node.clone();
    node.starts("?");
    node.stops("?");
    node.removed("?");
    node.sandbox_ends("?");
    node.resize(SECOND, "?", 4096, 0, 0).unwrap();
    assert_eq!(node, before);
}

#[test]
fn a_partition_is_the_pods_and_nothing_is_set_for_others() {
    let mut node = node(4);
    node.set_partitions(true);
    assert_eq!(run(&mut node, &pod("web"), "web", 100).unwrap(), "unchanged");
    let own = run(&mut node, &strict("db"), "db", 1000).unwrap();
    assert_eq!(own, "3");
    assert_eq!(run(&mut node, &pod("late"), "late", 100).unwrap(), "unchanged");
    let expected = [
        ("kubepods/burstable/cpuset.cpus.exclusive", "3"),
        ("kubepods/burstable/poddb-uid/cpuset.cpus.exclusive", "3"),
        ("kubepods/burstable/poddb-uid/cpuset.cpus.partition", "root"),
        ("kubepods/burstable/poddb-uid/db/cpuset.cpus", "3"),
        ("kubepods/cpuset.cpus.exclusive", "3"),
    ];
    let wanted = node.wanted();
    let wanted: Vec<(&str, &str)> = wanted.iter().map(|(file, text)| (file.as_str(), text.as_str())).collect();
    assert_eq!(wanted, expected);
    run(&mut node, &strict("mq"), "mq", 1000).unwrap();
    assert_eq!(node.wanted()["kubepods/cpuset.cpus.exclusive"], "2-3");
    node.sandbox_ends("db");
    assert_eq!(node.wanted()["kubepods/burstable/cpuset.cpus.exclusive"], "2");
    node.set_partitions(false);
    assert_eq!(node.wanted()["kubepods/burstable/podweb-uid/web/cpuset.cpus"], "0-1,3");
}

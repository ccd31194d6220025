//! What is granted and what is refused.

use super::*;

#[test]
fn a_strict_container_has_whole_cpus_and_all_others_the_rest() {
    let mut node = node(4);
    assert_eq!(run(&mut node, &pod("web"), "web", 500).unwrap(), "unchanged", "nothing is strict yet");
    assert!(node.wanted().is_empty());
    assert_eq!(run(&mut node, &strict("db"), "db", 2000).unwrap(), "2-3");
    assert_eq!((set(&node, "db", "db").unwrap(), set(&node, "web", "web").unwrap()), ("2-3".into(), "0-1".into()));
    assert_eq!(run(&mut node, &pod("late"), "late", 0).unwrap(), "0-1");
    assert_eq!((node.shared(), node.reserved_for_strict()), (cpus("0-1"), cpus("2-3")));
    node.sandbox_ends("db");
    assert!(node.wanted().is_empty(), "nothing is strict any more");
}

#[test]
fn all_others_are_off_its_cpus_before_it_starts() {
    let mut node = node(4);
    run(&mut node, &pod("web"), "web", 500).unwrap();
    let db = strict("db");
    node.create(Nanos::ZERO, &db, container(&db, "db", "db", 1000)).unwrap();
    assert_eq!(set(&node, "web", "web").unwrap(), "0-2");
    assert_eq!(set(&node, "db", "db"), None, "its files are the runtime's until it runs");
}

#[test]
fn more_than_is_left_is_refused_with_the_numbers() {
    let mut node = node(4);
    run(&mut node, &strict("db"), "db", 1000).unwrap();
    let before = node.clone();
    let text = run(&mut node, &strict("web"), "web", 2000).unwrap_err();
    assert_eq!(
        text,
        "container web asks for 2 CPUs; 1 of 4 can be reserved: 1 shared remains, 1 reserved for the system, \
         1 has pod shop/db; request at most 1, or use another node"
    );
    assert_eq!(node, before, "a refusal changes nothing");
    run(&mut node, &strict("web"), "web", 1000).unwrap();
    let text = run(&mut node, &strict("third"), "third", 1000).unwrap_err();
    assert!(text.contains("asks for 1 CPU; 0 of 4 can be reserved") && text.ends_with("; use another node"), "{text}");
}

#[test]
fn many_holders_are_counted() {
    let mut node = node(8);
    for name in ["a", "b", "c", "d", "e", "f"] {
        run(&mut node, &strict(name), name, 1000).unwrap();
    }
    let text = run(&mut node, &strict("g"), "g", 1000).unwrap_err();
    assert!(text.contains("1 has pod shop/c, 3 have 3 more pods;"), "{text}");
}

#[test]
fn parts_of_cpus_are_refused() {
    let mut node = node(8);
    let refused = |node: &mut Node, sandbox: &Sandbox, milli, why: &str| {
        let before = node.clone();
        let text = run(node, sandbox, "app", milli).unwrap_err();
        assert!(text.contains(why), "{text}");
        assert_eq!(*node, before);
    };
    refused(&mut node, &strict("a"), 1500, "request 1 or 2 CPUs");
    refused(&mut node, &strict("a"), 500, "less than one; request 1 CPU");
    let elsewhere = Sandbox { namespace: "other".into(), ..strict("a") };
    refused(&mut node, &elsewhere, 1000, "namespace other may not reserve CPUs; ");
    refused(&mut node, &labelled(pod("a"), "quell.dev/reservation", "hard"), 1000, "=hard is unknown; use strict");
    let best_effort = Sandbox { cgroup: "/kubepods/besteffort/poda-uid".into(), ..strict("a") };
    refused(&mut node, &best_effort, 0, "less than one; request 1 CPU");
}

#[test]
fn observe_refuses_and_sets_nothing_and_says_what_would_be() {
    let mut node = observer(4);
    assert_eq!(run(&mut node, &strict("db"), "db", 2000).unwrap(), "unchanged");
    assert_eq!(run(&mut node, &strict("web"), "web", 1000).unwrap(), "unchanged");
    assert!(node.wanted().is_empty());
    assert_eq!(node.pods().iter().filter_map(|pod| pod.cpus).collect::<Vec<_>>(), [cpus("2-3")]);
    assert!(remarks(&node, "web").starts_with("would be refused: container web asks for 1 CPU; 0 of 4"));
    assert_eq!(remarks(&node, "db"), "");
    assert!(node.resize(Nanos::ZERO, "db", 1536, 0, 0).is_ok());
    assert!(remarks(&node, "db").contains("would be refused: container db of a strict pod asks for 1.5 CPUs"));
    node.sandbox_ends("db");
    assert_eq!(remarks(&node, "web"), "", "there is room now");
}

#[test]
fn sidecars_and_init_containers_run_with_their_pod() {
    let mut node = node(8);
    let db = strict("db");
    run(&mut node, &strict("other"), "other", 1000).unwrap();
    assert_eq!(run(&mut node, &db, "init", 0).unwrap(), "0-6", "its pod has no CPUs yet");
    assert_eq!(run(&mut node, &db, "app", 2000).unwrap(), "5-6");
    assert_eq!(run(&mut node, &db, "log", 100).unwrap(), "5-6");
    assert_eq!(run(&mut node, &db, "more", 1000).unwrap(), "4");
    assert_eq!(set(&node, "db", "log").unwrap(), "4-6", "the CPUs of all of its pod");
    assert_eq!(set(&node, "db", "init").unwrap(), "4-6");
}

#[test]
fn a_sidecar_that_comes_first_shares_until_its_pod_has_cpus() {
    let mut node = node(8);
    let db = Sandbox { shares: 2150, ..strict("db") };
    run(&mut node, &strict("other"), "other", 1000).unwrap();
    assert_eq!(run(&mut node, &db, "log", 100).unwrap(), "0-6", "its pod has no CPUs yet");
    assert_eq!(run(&mut node, &db, "app", 2000).unwrap(), "5-6");
    assert_eq!(set(&node, "db", "log").unwrap(), "5-6");
    let small = Sandbox { shares: 102, ..strict("small") };
    assert!(run(&mut node, &small, "alone", 100).unwrap_err().contains("request 1 CPU"));
}

#[test]
fn what_an_init_container_had_is_for_those_after_it() {
    let mut node = node(4);
    let db = strict("db");
    assert_eq!(run(&mut node, &db, "init", 2000).unwrap(), "2-3");
    node.stops("init");
    assert_eq!(run(&mut node, &db, "app", 2000).unwrap(), "2-3", "there are no two more");
    assert_eq!(node.reserved_for_strict(), cpus("2-3"));
}

#[test]
fn quotas_are_lifted_where_cpus_are_whole() {
    let mut node = node(8);
    let db = strict("db");
    let limited = |id: &str, milli, quota| Container { quota, period: 100_000, ..container(&db, id, id, milli) };
    let start = |node: &mut Node, container: Container| {
        let id = container.id.clone();
        node.create(Nanos::ZERO, &db, container).unwrap();
        node.starts(&id);
    };
    let max = |node: &Node| -> Vec<String> {
        let prefix = "kubepods/burstable/poddb-uid/";
        let files = node.wanted().into_iter().filter(|(file, text)| file.ends_with("cpu.max") && text == "max");
        files.map(|(file, _)| file.trim_start_matches(prefix).to_owned()).collect()
    };
    start(&mut node, limited("app", 2000, 200_000));
    assert_eq!(max(&node), ["app/cpu.max", "cpu.max"], "of the container and of its pod");
    start(&mut node, container(&db, "free", "free", 0));
    assert_eq!(max(&node).len(), 2, "a container without a limit is in no way");
    start(&mut node, limited("log", 100, 10_000));
    assert_eq!(max(&node), ["app/cpu.max"], "the pod's limit holds for the sidecar");
    node.stops("log");
    assert_eq!(max(&node).len(), 2);
}

#[test]
fn strange_cgroups_are_not_touched() {
    let mut node = node(4);
    run(&mut node, &strict("db"), "db", 1000).unwrap();
    let strange = Sandbox { cgroup: "/kubepods/burstable/../../poda-uid".into(), ..strict("a") };
    assert_eq!(run(&mut node, &strange, "app", 1000).unwrap(), "unchanged", "nothing could be corrected later");
    let normal = pod("b");
    let escaping =
        Container { cgroup: "/kubepods/burstable/podb-uid/../../x".into(), ..container(&normal, "x", "x", 0) };
    node.create(Nanos::ZERO, &normal, escaping).unwrap();
    node.starts("x");
    assert_eq!(node.wanted().len(), 1);
    assert!(remarks(&node, "a").contains("is no plain path: it is not managed; "), "{}", remarks(&node, "a"));
    assert!(remarks(&node, "b").contains("/../../x"));
}

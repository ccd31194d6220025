//! CPUs that go offline, and whole cores.

use super::*;

#[test]
fn a_lost_cpu_is_replaced_or_the_remark_says_so() {
    let mut node = node(4);
    run(&mut node, &strict("db"), "db", 2000).unwrap();
    run(&mut node, &pod("web"), "web", 100).unwrap();
    node.set_online(cpus("0-2"));
    assert_eq!((set(&node, "db", "db").unwrap(), set(&node, "web", "web").unwrap()), ("2".into(), "0-1".into()));
    let text = remarks(&node, "db");
    assert!(text.contains("reserved 2 CPUs and has only 2: others are offline and none is free; "), "{text}");
    node.set_online(cpus("0-3"));
    assert_eq!((set(&node, "db", "db").unwrap(), remarks(&node, "db")), ("2-3".into(), String::new()));
    node.set_online(cpus("0-1,3"));
    assert_eq!(set(&node, "db", "db").unwrap(), "3");
}

#[test]
fn a_free_cpu_replaces_a_lost_one() {
    let mut node = node(6);
    run(&mut node, &strict("db"), "db", 2000).unwrap();
    node.set_online(cpus("0-4"));
    assert_eq!((set(&node, "db", "db").unwrap(), remarks(&node, "db")), ("3-4".into(), String::new()));
}

#[test]
fn no_set_is_ever_empty() {
    let mut node = node(4);
    run(&mut node, &strict("db"), "db", 2000).unwrap();
    run(&mut node, &pod("web"), "web", 100).unwrap();
    node.set_online(cpus("2"));
    assert_eq!(node.shared(), cpus("2"));
    assert!(node.wanted().is_empty(), "nothing is reserved");
    assert!(remarks(&node, "db").contains("has none"));
    node.set_online(CpuSet::EMPTY);
    assert_eq!(node.shared(), cpus("2"), "no machine is without CPUs");
    node.set_online(cpus("0-3"));
    assert_eq!(set(&node, "db", "db").unwrap(), "2-3");
}

#[test]
fn whole_cores_leave_no_sibling_to_others() {
    let topology = Topology::synthetic(1, 1, 4, 2);
    let online = topology.all();
    let mut node = Node::new(Rules { whole_cores: true, ..rules(Mode::Enforce) }, topology, online);
    assert_eq!(run(&mut node, &strict("db"), "db", 2000).unwrap(), "2-3,6-7");
    let text = run(&mut node, &strict("web"), "web", 2000).unwrap_err();
    assert_eq!(
        text,
        "container web asks for 2 whole cores; 1 of 4 can be reserved: of 8 CPUs 1 shared remains, 1 reserved for the \
         system, 4 have pod shop/db; request at most 1, or use another node"
    );
    node.set_online(cpus("0-6"));
    assert_eq!((set(&node, "db", "db").unwrap(), remarks(&node, "db")), ("2-3,6".into(), String::new()));
    node.set_online(cpus("0-7"));
    assert_eq!(set(&node, "db", "db").unwrap(), "2-3,6-7");
}

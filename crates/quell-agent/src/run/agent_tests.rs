//! The whole agent on a machine of plain files, in a time that the tests make.

use std::path::Path;

use quell_linux::testkit::FakeTree;
use quell_linux::{HostOptions, LinuxHost};
use quell_model::{Nanos, Topology};

use super::super::rivals::{FIRST_PAUSE, ROUNDS};
use super::super::vigil;
use super::{Agent, Extras};
use crate::config;

const CPUS: &str = "cgroup/web/cpuset.cpus";
const OTHERS: &str = "0-3";

fn machine() -> FakeTree {
    let tree = FakeTree::new(&Topology::synthetic(1, 1, 4, 1));
    for (pid, group) in [(100, "web"), (200, "batch")] {
        tree.process(pid, 1, "work");
        tree.cgroup(group);
        tree.join(group, &[pid]);
    }
    tree
}

/// An agent whose rKube gives the workload `web` a CPU of its own.
fn agent(tree: &FakeTree, extras: Extras) -> Agent<LinuxHost> {
    let text = r#"
        [[policy]]
        name = "rkube"
        [[workload]]
        name = "web"
        class = "lc"
        cpus = 1
        reservation = "strict"
        match = [{ cgroup = "web" }]
        [[workload]]
        name = "batch"
        class = "be"
        match = [{ cgroup = "batch" }]
    "#;
    let config = config::read_text(Path::new("quell.toml"), text).unwrap();
    let options = HostOptions { dry_run: extras.dry_run, scan_interval: Nanos(1), ..HostOptions::default() };
    let mut agent = Agent::new(tree.host(options).unwrap(), config, extras).unwrap();
    agent.membership.configure(&agent.config, &mut agent.host);
    agent
}

/// One turn in each second from this one to that one.
fn turns(agent: &mut Agent<LinuxHost>, seconds: std::ops::Range<u64>) {
    for second in seconds {
        agent.turn(None, Nanos::from_secs(second)).unwrap();
    }
}

#[test]
fn somebody_who_keeps_overwriting_a_value_has_his_way_and_the_workload_is_left_alone_for_a_while() {
    let tree = machine();
    tree.write(CPUS, OTHERS);
    let mut agent = agent(&tree, Extras::default());
    let look = vigil::EVERY.0 / 1_000_000_000;
    turns(&mut agent, 0..1);
    let ours = tree.read(CPUS);
    assert_ne!(ours, OTHERS, "the workload has a CPU of its own");
    let mut second = 1;
    for round in 1..=u64::from(ROUNDS) {
        tree.write(CPUS, OTHERS);
        turns(&mut agent, second..round * look + 2);
        second = round * look + 2;
        assert_eq!(tree.read(CPUS), ours, "round {round}: set again");
    }
    tree.write(CPUS, OTHERS);
    let pause = FIRST_PAUSE.0 / 1_000_000_000;
    turns(&mut agent, second..second + look + pause - 2);
    assert_eq!(tree.read(CPUS), OTHERS, "Quell gave way");
    assert_eq!(agent.membership.ids(&agent.config)[0], None);
    assert!(agent.membership.ids(&agent.config)[1].is_some(), "the other workload is still managed");
    turns(&mut agent, second + look + pause - 2..second + 2 * look + pause);
    assert_eq!(tree.read(CPUS), ours, "it is tried again after the pause");
    agent.put_back();
    assert_eq!(tree.read(CPUS), OTHERS, "and put back at the end");
}

#[test]
fn one_change_by_somebody_else_is_set_again() {
    let tree = machine();
    let mut agent = agent(&tree, Extras::default());
    turns(&mut agent, 0..1);
    let ours = tree.read(CPUS);
    for hour in 1..8 {
        tree.write(CPUS, OTHERS);
        turns(&mut agent, hour * 3600..hour * 3600 + 7);
        assert_eq!(tree.read(CPUS), ours, "hour {hour}");
    }
}

#[test]
fn a_dry_run_leaves_everything_as_it_is_whoever_else_writes() {
    let tree = machine();
    tree.write(CPUS, OTHERS);
    let mut agent = agent(&tree, Extras { dry_run: true, ..Extras::default() });
    turns(&mut agent, 0..7);
    tree.write(CPUS, "1-2");
    turns(&mut agent, 7..60);
    assert_eq!(tree.read(CPUS), "1-2");
    assert!(agent.membership.ids(&agent.config).iter().all(Option::is_some));
    agent.put_back();
    assert_eq!(tree.read(CPUS), "1-2");
}

//! What goes away while it is used: CPUs, groups, a foreground in its solo run.

use quell_linux::HostOptions;
use quell_linux::resctrl::GroupCalls;
use quell_linux::testkit::FakeResctrl;
use quell_model::{CpuId, CpuSet, Event, Host, Knob, Lease, LeaseRequest, Nanos, Plan, SoloEnd, Target};

use crate::machines::*;

#[test]
fn resctrl_a_socket_that_goes_offline_gets_its_ways_again() {
    let tree = machine(Some(&WITH_MBA));
    (0..8).for_each(|cpu| tree.frequencies(cpu, &cpu.to_string()));
    let (mut host, [db, ..]) = attached(&tree, HostOptions::default());
    assert!(is_applied(&ways(&mut host, db, 0b111)));
    // The first CPU of a cache alone: the others show which one it is.
    tree.set_online((1..8).map(CpuId).collect());
    observe(&mut host);
    assert!(is_applied(&ways(&mut host, db, 0b1111)));
    assert!(schemata(&tree, "quell.0.db").contains("L3:0=f;1=f"));
    tree.set_online(CpuSet::first(4));
    observe(&mut host);
    let slow = (Target::Cpu(CpuId(5)), Knob::MaxFrequencyKhz(900_000));
    assert!(is_applied(&set(&mut host, &[(Target::Workload(db), Knob::CacheWays(0b11)), slow])));
    assert!(schemata(&tree, "quell.0.db").starts_with("L3:0=3\n"));
    tree.set_online(CpuSet::first(8));
    observe(&mut host);
    assert!(schemata(&tree, "quell.0.db").contains("L3:0=3;1=3"), "the kernel had made it everything");
    let limit = "sys/devices/system/cpu/cpufreq/policy5/scaling_max_freq";
    assert_eq!(tree.read(limit), "900000");
    host.restore();
    assert_eq!(tree.read(limit), "3000000");
}

#[test]
fn resctrl_a_group_that_another_program_frees_is_taken_later() {
    let tree = machine(Some(&FakeResctrl { groups: 2, ..INTEL }));
    let (mut host, [db, ..]) = attached(&tree, HostOptions::default());
    let theirs = tree.path().join(ROOT).join("pqos");
    tree.control().make(&theirs).unwrap();
    assert!(why(&ways(&mut host, db, 0b11)).contains("all 2 resctrl groups are in use"));
    tree.control().remove(&theirs).unwrap();
    assert!(is_applied(&ways(&mut host, db, 0b11)));
}

#[test]
fn resctrl_a_thread_that_another_program_takes_stays_with_it_and_the_others_go_on() {
    let tree = machine(Some(&INTEL));
    let (mut host, [db, ..]) = attached(&tree, HostOptions::default());
    assert!(is_applied(&ways(&mut host, db, 0b11)));
    let theirs = tree.path().join(ROOT).join("pqos");
    tree.control().make(&theirs).unwrap();
    tree.control().join(&theirs, 1001).unwrap();
    tree.thread(1000, 1002);
    observe(&mut host);
    let own = tree.read(format!("{}/tasks", group(&tree, "quell.0.db")));
    assert!(own.contains("1002") && !own.contains("1001"), "{own}");
    assert!(is_applied(&ways(&mut host, db, 0b111)));
    assert!(host.restore().left.is_empty());
    assert_eq!(tree.read(theirs.join("tasks")), "1001");
}

#[test]
fn resctrl_and_cpufreq_a_foreground_that_dies_in_its_solo_run_leaves_nothing_paused_or_lifted() {
    let tree = machine(Some(&WITH_MBA));
    (0..8).for_each(|cpu| tree.frequencies(cpu, &cpu.to_string()));
    let (mut host, [db, batch, _]) = attached(&tree, HostOptions::default());
    let slow = (Target::Cpu(CpuId(2)), Knob::MaxFrequencyKhz(1_000_000));
    let settings =
        [(Target::Workload(db), Knob::CacheWays(0b111)), (Target::Workload(batch), Knob::CacheWays(0b11000)), slow];
    assert!(is_applied(&set(&mut host, &settings)));
    let lease = Lease::of(db, true, Nanos::from_millis(30));
    host.apply(&Plan { leases: vec![LeaseRequest::Begin(lease)], ..Plan::default() }, &mut Vec::new()).unwrap();
    let (frozen, limit) =
        ("cgroup/batch.service/cgroup.freeze", "sys/devices/system/cpu/cpufreq/policy2/scaling_max_freq");
    assert_eq!((tree.read(frozen), tree.read(limit)), ("1".into(), "3000000".into()));
    for tid in [1001, 1000] {
        tree.ends(1000, tid);
    }
    tree.join("db.service", &[]);
    let (mut events, mut ended) = (Vec::new(), false);
    let begun = std::time::Instant::now();
    while !ended && begun.elapsed().as_secs() < 10 {
        let mut view = quell_model::View::new(host.topology());
        host.observe(quell_model::SignalSet::default(), &mut view, &mut events).unwrap();
        ended = events.contains(&Event::SoloEnded(db, SoloEnd::Elapsed));
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert!(ended, "{events:?}");
    assert_eq!((tree.read(frozen), tree.read(limit)), ("0".into(), "1000000".into()));
    assert!(schemata(&tree, "quell.1.batch").contains("L3:0=18;1=18"));
    // One that is started again has its ways.
    tree.process(3000, 1, "program db.service");
    tree.join("db.service", &[3000]);
    observe(&mut host);
    assert_eq!(tree.read(format!("{}/tasks", group(&tree, "quell.0.db"))), "3000");
    assert!(host.restore().left.is_empty());
    assert_eq!(tree.control_groups().len(), 0);
}

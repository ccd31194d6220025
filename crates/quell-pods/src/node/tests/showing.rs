//! What is shown of pods.

use super::*;
use crate::{Class, Qos};
use quell_model::CpuCount;

#[test]
fn a_pod_is_shown_with_what_it_has() {
    let mut node = node(4);
    let db = strict("db");
    let app = Container { quota: 200_000, period: 100_000, ..container(&db, "app1", "app", 1000) };
    node.create(Nanos::ZERO, &db, app).unwrap();
    run(&mut node, &db, "log", 100).unwrap();
    let view = node.pods().remove(0);
    assert_eq!((view.qos, view.class, view.strict), (Some(Qos::Burstable), Class::Unmanaged, true));
    assert_eq!((view.requested, view.limit), (CpuCount(1100), None), "one has no limit");
    assert_eq!((view.cpus, view.cgroup.as_deref()), (Some(cpus("3")), Some("kubepods/burstable/poddb-uid")));
    let shown: Vec<_> = view.containers.iter().map(|its| (its.name.as_str(), its.is_running, its.cpus)).collect();
    assert_eq!(shown, [("app", false, Some(cpus("3"))), ("log", true, None)]);
    assert_eq!(view.containers[0].cgroup.as_deref(), Some("kubepods/burstable/poddb-uid/app1"));
    node.stops("log");
    assert_eq!(node.pods()[0].limit, Some(CpuCount(2000)), "of those that did not stop");
}

#[test]
fn pods_are_in_order_of_namespace_and_name() {
    let mut node = node(4);
    for (id, namespace, name) in [("1", "b", "a"), ("2", "a", "z"), ("3", "a", "b")] {
        let sandbox = Sandbox { namespace: namespace.into(), name: name.into(), ..pod(id) };
        node.sandbox_runs(Nanos::ZERO, sandbox);
    }
    let names: Vec<String> = node.pods().iter().map(|pod| pod.sandbox.full_name()).collect();
    assert_eq!(names, ["a/b", "a/z", "b/a"]);
}

#[test]
fn a_label_that_cannot_be_is_remarked() {
    let mut node = node(4);
    run(&mut node, &labelled(pod("a"), "quell.dev/class", "lc"), "app", 0).unwrap();
    assert_eq!(node.pods()[0].class, Class::Unmanaged);
    assert!(remarks(&node, "a").contains("without a CPU request it is not managed; request CPUs"));
    node.resize(Nanos::ZERO, "app", 512, 0, 0).unwrap();
    assert_eq!((node.pods()[0].class, remarks(&node, "a")), (Class::LatencyCritical, String::new()));
}

#[test]
fn a_refusal_is_remarked_once_a_pod() {
    let mut node = observer(4);
    let elsewhere = Sandbox { namespace: "other".into(), ..strict("a") };
    run(&mut node, &elsewhere, "x", 1000).unwrap();
    run(&mut node, &elsewhere, "y", 1000).unwrap();
    let view = node.pods().remove(0);
    assert_eq!((view.remarks.len(), view.strict), (1, false), "{:?}", view.remarks);
    assert!(view.remarks[0].starts_with("would be refused: pods of namespace other may not"));
}

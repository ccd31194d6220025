//! A leader that dies while it moves workloads, and an API server that goes away again and again: none is moved twice.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use quell_control_plane::{Part, until};
use serde_json::{Value, json};

use crate::shop::Shop;

const NODES: usize = 10;

/// Each c-node has a service beyond its bound and a neighbour that contends, for as long as it is there.
fn report(plane: &Shop) {
    let pods = plane.pods();
    for at in 0..NODES {
        let node = format!("c{at}");
        let of = |class: &str| -> Vec<String> {
            let is = |pod: &&Value| {
                pod["spec"]["nodeName"] == node.as_str() && pod["metadata"]["labels"]["quell.dev/class"] == class
            };
            pods.iter().filter(is).map(|pod| format!("shop/{}", pod["metadata"]["name"].as_str().unwrap())).collect()
        };
        let heavy: Vec<Value> = of("be").iter().map(|pod| json!([pod, null, 0.8])).collect();
        let latency = if heavy.is_empty() { 300.0 } else { 900.0 };
        let services: Vec<Value> = of("lc").iter().map(|pod| json!([pod, latency, null, 500.0])).collect();
        plane.sharing(&node, if heavy.is_empty() { 0.02 } else { 0.4 }, &json!(heavy), &json!(services));
    }
    (0..NODES).for_each(|at| plane.quiet(&format!("q{at}")));
}

/// Pods that each set has made.
fn made(plane: &Shop) -> BTreeMap<String, u64> {
    let events = plane.get("/api/v1/namespaces/shop/events?fieldSelector=reason=SuccessfulCreate");
    let mut made = BTreeMap::new();
    for event in events["items"].as_array().into_iter().flatten() {
        let owner = event["involvedObject"]["name"].as_str().unwrap_or_default().to_owned();
        *made.entry(owner).or_default() += event["count"].as_u64().unwrap_or(1);
    }
    made
}

/// Neighbours that are on their first node.
fn left(plane: &Shop) -> usize {
    let is = |pod: &&Value| {
        pod["metadata"]["labels"]["quell.dev/class"] == "be"
            && pod["spec"]["nodeName"].as_str().is_none_or(|it| it.starts_with('c'))
    };
    plane.pods().iter().filter(is).count()
}

#[test]
#[ignore = "programs of Kubernetes, which compile for half an hour: make test-kubernetes"]
fn neither_a_dead_leader_nor_a_restarted_server_moves_a_workload_twice() {
    let Some(mut plane) = Shop::start(&[Part::Scheduler, Part::Controllers, Part::Kwok]) else { return };
    if !plane.install("act") {
        return;
    }
    let restarts = std::env::var("QUELL_RESTARTS").map_or(3, |text| text.parse().unwrap());
    for at in 0..NODES {
        plane.fake_node(&format!("c{at}"), 2);
        plane.replicas(&format!("web-{at}"), "lc", 1, &json!({}));
        plane.replicas(&format!("batch-{at}"), "be", 1, &json!({}));
        // The next node is made when this one has its two: they are its.
        until(60, "two pods more are placed", || {
            plane.pods().iter().filter(|pod| pod["spec"]["nodeName"].is_string()).count() == 2 * (at + 1)
        });
        plane.patch(&format!("/api/v1/nodes/c{at}"), &json!({"spec": {"unschedulable": true}}));
    }
    (0..NODES).for_each(|at| plane.fake_node(&format!("q{at}"), 8));
    (0..NODES)
        .for_each(|at| _ = plane.patch(&format!("/api/v1/nodes/c{at}"), &json!({"spec": {"unschedulable": null}})));
    report(&plane);

    // One at a time, so that there is much left when the leader dies.
    let mut one = plane.controller_with("controller", "one", "act", &["--at-once", "1"]);
    until(60, "one leads", || plane.leader() == "one");
    let mut two = plane.controller_with("controller", "two", "act", &["--at-once", "1"]);
    let evictions = |plane: &Shop| plane.said().matches("evicting pod").count();
    until(120, "two evictions", || {
        report(&plane);
        evictions(&plane) >= 2
    });
    let (killed, before) = (Instant::now(), evictions(&plane));
    one.kill();
    until(60, "another acts", || evictions(&plane) > before);
    let took = killed.elapsed().as_secs_f64();
    println!("another controller acted {took:.1} s after the leader's end");
    assert!(took < 20.0, "{took}");

    let mut one = plane.controller_with("controller", "three", "act", &["--at-once", "1"]);
    let mut seed = u64::from(std::process::id());
    let mut random = |most: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % most
    };
    for _ in 0..restarts {
        report(&plane);
        std::thread::sleep(Duration::from_millis(random(5000)));
        let gone = Duration::from_millis(random(6000));
        plane.restart_server(gone);
    }
    until(400, "all neighbours have moved", || {
        report(&plane);
        left(&plane) == 0
    });
    for (name, running) in [("two", &mut two), ("three", &mut one)] {
        assert_eq!(running.0.try_wait().unwrap(), None, "{name} has ended:\n{}", plane.said());
    }
    let made = made(&plane);
    println!("API server restarted {restarts} times; pods made by owner: {made:?}");
    let batch = made.iter().filter(|(name, _)| name.starts_with("batch"));
    assert!(batch.clone().all(|(_, pods)| *pods == 2) && batch.count() == NODES, "{made:?}\n{}", plane.said());
    let web = made.iter().filter(|(name, _)| name.starts_with("web"));
    assert!(web.clone().all(|(_, pods)| *pods == 1) && web.count() == NODES, "{made:?}");
}

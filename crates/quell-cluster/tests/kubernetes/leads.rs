//! One of two controllers leads; marks come, go, and are taken off where no controller is.

use std::time::Instant;

use serde_json::json;

use quell_control_plane::{now_ms, until};

use crate::shop::Shop;

#[test]
#[ignore = "etcd and an API server, which compile for half an hour: make test-kubernetes"]
fn another_controller_leads_after_a_crash_and_marks_come_and_go() {
    let Some(plane) = Shop::start(&[]) else { return };
    let quiet = |node: &str| plane.quiet(node);
    for node in ["n1", "n2", "n3", "n4"] {
        plane.node(node);
        quiet(node);
    }
    let mut one = plane.controller("admin", "one", "act");
    until(60, "one leads", || plane.leader() == "one");
    let _two = plane.controller("admin", "two", "act");

    // Another taint on the node is kept.
    let other = json!({"key": "gpu", "value": "yes", "effect": "PreferNoSchedule"});
    plane.patch("/api/v1/nodes/n1", &json!({"spec": {"taints": [other]}}));
    plane.sharing("n1", 0.4, &json!([]), &json!([]));
    until(60, "the taint of n1", || plane.is_tainted("n1"));
    let node = plane.get("/api/v1/nodes/n1");
    assert_eq!(node["metadata"]["labels"]["quell.dev/contention-class"], "contended", "{node}");
    assert_eq!(node["spec"]["taints"].as_array().unwrap().len(), 2, "{node}");
    assert_eq!(plane.leader(), "one");

    // Reports that say nothing change nothing.
    let good = |node: &str, at: u64| {
        json!({"v": 1, "node": node, "at": at, "window": 10_000, "by": {"sharing": [0.9, true]}, "heavy": [], "lc": []})
            .to_string()
    };
    plane.report("n2", &good("n2", now_ms()).replace("0.9", "NaN"));
    plane.report("n3", &good("n4", now_ms()));
    plane.report("n4", &good("n4", now_ms() + 600_000));
    until(30, "remarks of the bad reports", || {
        let status = plane.status("one");
        ["report of node n2", "of another node, n4", "in the future"].iter().all(|what| status.contains(what))
    });
    assert!(!["n2", "n3", "n4"].iter().any(|node| plane.is_tainted(node)));
    ["n2", "n3", "n4"].into_iter().for_each(quiet);

    // The leader dies.
    let killed = Instant::now();
    one.kill();
    until(60, "two leads", || plane.leader() == "two");
    let took = killed.elapsed().as_secs_f64();
    println!("another controller led after {took:.1} s");
    assert!(took < 30.0, "{took}");
    quiet("n1");
    until(90, "n1 without its taint", || !plane.is_tainted("n1"));
    let node = plane.get("/api/v1/nodes/n1");
    assert_eq!(node["spec"]["taints"], json!([other]), "{node}");
    assert!(!node["metadata"]["labels"]["quell.dev/contention-class"].is_string(), "{node}");

    // No controller at all: the node's publisher takes the mark off.
    plane.sharing("n1", 0.4, &json!([]), &json!([]));
    until(60, "the taint again", || plane.is_tainted("n1"));
    drop(_two);
    let socket = plane.at("none.sock");
    let arguments = ["publish", "--node", "n1", "--orphaned", "8", "--socket", socket.to_str().unwrap()];
    let _publisher = plane.quell_cluster("admin", &arguments);
    until(90, "no taint without a controller", || !plane.is_tainted("n1"));
}

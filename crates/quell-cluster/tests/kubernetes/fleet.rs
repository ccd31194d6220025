//! A hundred nodes of kwok's under the real scheduler, with and without marks.

use quell_control_plane::{Part, until};
use serde_json::json;

use crate::shop::{Shop, is_tainted};

const NODES: u32 = 100;

/// Critical pods on the quiet half, and all.
fn landed(plane: &Shop, app: &str) -> (usize, usize) {
    let pods = plane.pods();
    let of = pods.iter().filter(|pod| pod["metadata"]["labels"]["app"] == app);
    let nodes: Vec<&str> = of.filter_map(|pod| pod["spec"]["nodeName"].as_str()).collect();
    (nodes.iter().filter(|node| node.starts_with('q')).count(), nodes.len())
}

#[test]
#[ignore = "programs of Kubernetes, which compile for half an hour: make test-kubernetes"]
fn critical_pods_land_on_the_quiet_half() {
    let Some(plane) = Shop::start(&[Part::Scheduler, Part::Controllers, Part::Kwok]) else { return };
    if !plane.install("act") {
        return;
    }
    let name = |at: u32| format!("{}{at}", if at < NODES / 2 { "c" } else { "q" });
    (0..NODES).for_each(|at| plane.fake_node(&name(at), 8));
    let place = |app: &str| {
        plane.replicas(app, "lc", NODES, &json!({}));
        until(120, "all are placed", || landed(&plane, app).1 == NODES as usize);
        landed(&plane, app).0
    };
    let default = place("default");
    plane.delete("/apis/apps/v1/namespaces/shop/replicasets/default");
    until(120, "none is left", || plane.pods().is_empty());

    for at in 0..NODES {
        let sharing = if at < NODES / 2 { 0.4 } else { 0.02 };
        plane.sharing(&name(at), sharing, &json!([]), &json!([]));
    }
    let _controller = plane.controller("controller", "one", "act");
    let tainted = || {
        let nodes = plane.get("/api/v1/nodes");
        nodes["items"].as_array().map_or(0, |all| all.iter().filter(|node| is_tainted(node)).count())
    };
    until(120, "half are marked", || tainted() == NODES as usize / 2);
    let marked = place("marked");
    println!("of {NODES} critical pods on the quiet half: {default} by the default alone, {marked} with marks");
    assert!(default <= 65 && marked >= 95, "{default}, {marked}");
    assert!(!plane.said().contains("forbidden"), "{}", plane.said());
}

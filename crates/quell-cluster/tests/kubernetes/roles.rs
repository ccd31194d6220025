//! The chart's roles: the controller works with them alone, and a node's publisher writes its own report alone.

use serde_json::json;

use quell_control_plane::until;

use crate::shop::Shop;

#[test]
#[ignore = "etcd, an API server and helm, which compile for half an hour: make test-kubernetes"]
fn the_charts_roles_are_enough_and_no_more() {
    let Some(plane) = Shop::start(&[]) else { return };
    if !plane.install("act") {
        return;
    }
    for node in ["n1", "n2", "n3"] {
        plane.node(node);
    }
    ["n2", "n3"].into_iter().for_each(|node| plane.quiet(node));
    let batch = plane.owner("batch");
    let web = plane.owner("web");
    plane.pod("web-1", Some(("web", &web)), "lc", "n1");
    plane.pod("batch-1", Some(("batch", &batch)), "be", "n1");
    let heavy = json!([["shop/batch-1", null, 0.8]]);
    plane.sharing("n1", 0.4, &heavy, &json!([["shop/web-1", 900.0, null, 500.0]]));
    let _controller = plane.controller("controller", "one", "act");
    until(90, "taint and eviction", || plane.is_tainted("n1") && !plane.runs("batch-1"));
    assert!(!plane.said().contains("forbidden"), "{}", plane.said());

    // The node's side, with a token as its kubelet would get it.
    let of_n1 = plane.token("quell", Some("n1"));
    let of_no_node = plane.token("quell", None);
    let patch = |token: &str, path: &str, patch: serde_json::Value| {
        let answer: serde_json::Value =
            serde_json::from_str(&plane.ask_as(token, "PATCH", path, &[], Some(&patch))).unwrap();
        (answer["kind"] == "Node", answer["message"].to_string())
    };
    let report = json!({"metadata": {"annotations": {"quell.dev/contention": "{}"}}});
    // The server takes a policy up a moment after it was made.
    until(60, "the admission policy", || !patch(&of_no_node, "/api/v1/nodes/n1", report.clone()).0);
    let done = patch(&of_n1, "/api/v1/nodes/n1", report.clone());
    assert!(done.0, "{done:?}");
    let taken = patch(
        &of_n1,
        "/api/v1/nodes/n1",
        json!({"metadata": {"labels": {"quell.dev/contention-class": null}}, "spec": {"taints": []}}),
    );
    assert!(taken.0, "{taken:?}");
    for (path, change, word) in [
        ("n2", report, "its own node alone"),
        ("n1", json!({"metadata": {"annotations": {"other": "x"}}}), "of annotations"),
        ("n1", json!({"metadata": {"annotations": {"quell.dev/contention": "x".repeat(1024)}}}), "less than 1 KiB"),
        ("n1", json!({"metadata": {"labels": {"zone": "x"}}}), "of labels"),
        ("n1", json!({"spec": {"taints": [{"key": "x", "effect": "NoExecute"}]}}), "of taints"),
        ("n1", json!({"spec": {"unschedulable": true}}), "nothing else"),
    ] {
        let refused = patch(&of_n1, &format!("/api/v1/nodes/{path}"), change.clone());
        assert!(!refused.0 && refused.1.contains(word), "{change}: {refused:?}");
    }
}

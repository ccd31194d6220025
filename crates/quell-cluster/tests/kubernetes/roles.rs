//! The chart's roles: the controller works with them alone, and a node's publisher writes its own report alone.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::plane::{Plane, compiled, until};

#[test]
#[ignore = "etcd, an API server and helm, which compile for half an hour: make test-kubernetes"]
fn the_charts_roles_are_enough_and_no_more() {
    let (Some(helm), Some(plane)) = (compiled("helm"), Plane::start()) else { return };
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/chart/quell");
    let installed = Command::new(helm)
        .env("HOME", plane.folder.path())
        .env("KUBECONFIG", plane.folder.path().join("admin"))
        .args(["install", "quell", chart.to_str().unwrap(), "--namespace", "quell"])
        .args(["--set", "cluster.enabled=true,cluster.mode=act"])
        .output()
        .unwrap();
    assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
    for node in ["n1", "n2", "n3"] {
        plane.node(node);
    }
    let quiet = |node: &str| plane.sharing(node, 0.02, &json!([]), &json!([]));
    ["n2", "n3"].into_iter().for_each(quiet);
    let batch = plane.owner("batch");
    let web = plane.owner("web");
    plane.pod("web-1", Some(("web", &web)), "lc", "n1");
    plane.pod("batch-1", Some(("batch", &batch)), "be", "n1");
    let heavy = json!([["shop/batch-1", null, 0.8]]);
    plane.sharing("n1", 0.4, &heavy, &json!([["shop/web-1", 900.0, null, 500.0]]));
    let _controller = plane.controller("controller", "one", "act");
    until(90, "taint and eviction", || plane.is_tainted("n1") && !plane.runs("batch-1"));
    assert!(!plane.log().contains("forbidden"), "{}", plane.log());

    // The node's side, as its token says who it is.
    let user = ["Impersonate-User: system:serviceaccount:quell:quell", "Impersonate-Group: system:authenticated"];
    let node = "Impersonate-Extra-Authentication.kubernetes.io%2fnode-name: n1";
    let patch = |path: &str, headers: &[&str], patch: serde_json::Value| {
        let answer: serde_json::Value = serde_json::from_str(&plane.ask("PATCH", path, headers, Some(&patch))).unwrap();
        (answer["kind"] == "Node", answer["message"].to_string())
    };
    let own = [user[0], user[1], node];
    let report = json!({"metadata": {"annotations": {"quell.dev/contention": "{}"}}});
    // The server takes a policy up a moment after it was made.
    until(60, "the admission policy", || !patch("/api/v1/nodes/n1", &user, report.clone()).0);
    let done = patch("/api/v1/nodes/n1", &own, report.clone());
    assert!(done.0, "{done:?}");
    let taken = patch(
        "/api/v1/nodes/n1",
        &own,
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
        let refused = patch(&format!("/api/v1/nodes/{path}"), &own, change.clone());
        assert!(!refused.0 && refused.1.contains(word), "{change}: {refused:?}");
    }
}

//! Which pods go, with the real controllers of replica sets and disruption budgets, and the real scheduler for what replaces them.

use quell_control_plane::{Part, until};
use serde_json::{Value, json};

use crate::shop::Shop;

const BUDGETS: &str = "/apis/policy/v1/namespaces/shop/poddisruptionbudgets";

fn on(plane: &Shop, app: &str, node: &str) -> Vec<Value> {
    let is = |pod: &Value| pod["metadata"]["labels"]["app"] == app && pod["spec"]["nodeName"] == node;
    plane.pods().into_iter().filter(is).collect()
}

/// n1, where a service is beyond its bound, and the pods contend in this order.
fn report(plane: &Shop) {
    let path = |pod: &Value| format!("shop/{}", pod["metadata"]["name"].as_str().unwrap());
    let pods = plane.pods();
    let of = |app: &'static str| {
        pods.iter().filter(move |pod| pod["metadata"]["labels"]["app"] == app && pod["spec"]["nodeName"] == "n1")
    };
    let mut heavy = Vec::new();
    for (app, part) in [("bare", 0.4), ("fixed", 0.3), ("batch", 0.1)] {
        heavy.extend(of(app).map(|pod| json!([path(pod), null, part])));
    }
    let services: Vec<Value> = of("web").map(|pod| json!([path(pod), 900.0, null, 500.0])).collect();
    plane.sharing("n1", 0.4, &json!(heavy), &json!(services));
    ["n2", "n3", "n4"].into_iter().for_each(|node| plane.quiet(node));
}

#[test]
#[ignore = "programs of Kubernetes, which compile for half an hour: make test-kubernetes"]
fn budgets_hold_and_the_owners_words_and_what_is_recommended_stays() {
    let Some(plane) = Shop::start(&[Part::Scheduler, Part::Controllers, Part::Kwok]) else { return };
    if !plane.install("recommend") {
        return;
    }
    // What is made while there is one node is there.
    plane.fake_node("n1", 8);
    plane.replicas("web", "lc", 1, &json!({}));
    plane.replicas("batch", "be", 3, &json!({}));
    plane.replicas("fixed", "be", 1, &json!({"move": "never"}));
    plane.pod_of(&json!({"name": "bare", "labels": {"app": "bare", "quell.dev/class": "be"}}), &json!({}));
    let budget = |least: u32| {
        json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "batch"},
            "spec": {"minAvailable": least, "selector": {"matchLabels": {"app": "batch"}}},
        })
    };
    plane.post(BUDGETS, &budget(3));
    let is_ready = |pod: &Value| {
        pod["status"]["conditions"]
            .as_array()
            .is_some_and(|all| all.iter().any(|it| it["type"] == "Ready" && it["status"] == "True"))
    };
    until(90, "six pods are ready", || plane.pods().iter().filter(|pod| is_ready(pod)).count() == 6);
    ["n2", "n3", "n4"].into_iter().for_each(|node| plane.fake_node(node, 8));
    until(60, "the budget", || plane.get(&format!("{BUDGETS}/batch"))["status"]["desiredHealthy"] == 3);
    let before = plane.pods();
    report(&plane);

    let mut controller = plane.controller("controller", "one", "recommend");
    let events = "/api/v1/namespaces/shop/events?fieldSelector=reason=QuellRecommendsEviction";
    until(90, "an event", || plane.get(events)["items"].as_array().is_some_and(|all| !all.is_empty()));
    let event = plane.get(events)["items"][0].clone();
    assert!(event["involvedObject"]["name"].as_str().unwrap().starts_with("batch-"), "{event}");
    assert!(event["message"].as_str().unwrap().contains("contends with shop/web-"), "{event}");
    controller.kill();

    let upgraded = plane.helm(&["upgrade", "quell", chart(), "--reuse-values", "--set", "cluster.mode=act"]).unwrap();
    upgraded.unwrap();
    let _controller = plane.controller("controller", "two", "act");
    until(90, "the budget's refusal", || plane.status("two").contains("disruption budget"));
    let names = |pods: &[Value]| pods.iter().map(|pod| pod["metadata"]["name"].to_string()).collect::<Vec<_>>();
    assert_eq!(names(&plane.pods()), names(&before), "nothing has gone");

    // One may go: it comes back elsewhere, where the scheduler wants it, and its owner has its pause.
    plane.patch(&format!("{BUDGETS}/batch"), &json!({"spec": {"minAvailable": 2}}));
    until(180, "an arrival", || {
        report(&plane);
        plane.status("two").contains("\"arrived\": 1")
    });
    assert_eq!(on(&plane, "batch", "n1").len(), 2, "{}", plane.said());
    until(90, "the owner's pause", || {
        report(&plane);
        plane.status("two").contains("its owner moved lately")
    });
    assert_eq!(on(&plane, "batch", "n1").len(), 2);
    for app in ["bare", "fixed", "web"] {
        assert_eq!(on(&plane, app, "n1").len(), 1, "{app}");
    }
    let why = plane
        .asked("two", &["why", &format!("shop/{}", on(&plane, "web", "n1")[0]["metadata"]["name"].as_str().unwrap())]);
    assert!(why.contains("contends most      shop/bare (0.1600), which does not move"), "{why}");
    assert!(!plane.said().contains("forbidden"), "{}", plane.said());
}

fn chart() -> &'static str {
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/chart/quell")
}

//! Moves: recommended, held back by a disruption budget, made, and judged by the replacement.

use serde_json::json;

use quell_control_plane::until;

use crate::shop::Shop;

const EVENTS: &str = "/api/v1/namespaces/shop/events";

/// Two nodes: on the first a service beyond its bound beside a best-effort pod that contends, and a bare one that contends more.
fn contended(plane: &Shop) -> String {
    plane.node("n1");
    plane.node("n2");
    let service = plane.owner("web");
    let batch = plane.owner("batch");
    plane.pod("web-1", Some(("web", &service)), "lc", "n1");
    plane.pod("batch-1", Some(("batch", &batch)), "be", "n1");
    plane.pod("bare", None, "be", "n1");
    report(plane);
    batch
}

fn report(plane: &Shop) {
    let heavy = json!([["shop/bare", null, 0.5], ["shop/batch-1", null, 0.4]]);
    plane.sharing("n1", 0.4, &heavy, &json!([["shop/web-1", 900.0, null, 500.0]]));
    plane.sharing("n2", 0.02, &json!([]), &json!([]));
}

#[test]
#[ignore = "etcd and an API server, which compile for half an hour: make test-kubernetes"]
fn what_is_recommended_is_not_done() {
    let Some(plane) = Shop::start(&[]) else { return };
    contended(&plane);
    let _controller = plane.controller("admin", "one", "recommend");
    until(60, "an event", || plane.get(EVENTS)["items"].as_array().is_some_and(|all| !all.is_empty()));
    let event = &plane.get(EVENTS)["items"][0];
    assert_eq!(
        (&event["involvedObject"]["name"], &event["reason"]),
        (&json!("batch-1"), &json!("QuellRecommendsEviction"))
    );
    assert!(event["message"].as_str().unwrap().contains("would be evicted from n1"), "{event}");
    std::thread::sleep(std::time::Duration::from_secs(10));
    assert!(["web-1", "batch-1", "bare"].iter().all(|pod| plane.runs(pod)) && !plane.is_tainted("n1"));
    assert_eq!(plane.get(EVENTS)["items"].as_array().unwrap().len(), 1, "an event is not repeated");
    assert!(plane.status("one").contains("shop/batch-1: would be evicted"), "{}", plane.status("one"));
}

#[test]
#[ignore = "etcd and an API server, which compile for half an hour: make test-kubernetes"]
fn a_move_respects_the_disruption_budget_and_arrives_with_the_replacement() {
    let Some(plane) = Shop::start(&[]) else { return };
    let batch = contended(&plane);
    let budgets = "/apis/policy/v1/namespaces/shop/poddisruptionbudgets";
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "batch"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "batch"}}},
    });
    plane.post(budgets, &budget);
    let allowed = |number: u32| {
        let status = json!({
            "disruptionsAllowed": number, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1, "observedGeneration": 1,
        });
        plane.patch(&format!("{budgets}/batch/status"), &json!({"status": status}));
    };
    allowed(0);
    let _controller = plane.controller("admin", "one", "act");
    until(60, "the budget's refusal", || plane.status("one").contains("disruption budget"));
    std::thread::sleep(std::time::Duration::from_secs(10));
    let tries = plane.said().matches("evicting pod shop/batch-1").count();
    assert_eq!(tries, 1, "not again at once: {}", plane.said());
    assert!(plane.runs("batch-1"));

    // Allowed now: the pause of the refusal ends, and it goes.
    allowed(1);
    until(120, "the eviction", || {
        report(&plane);
        !plane.runs("batch-1")
    });
    let owner = plane.get("/apis/apps/v1/namespaces/shop/replicasets/batch");
    assert!(owner["metadata"]["annotations"]["quell.dev/cool-down"].as_str().unwrap().contains("until"), "{owner}");
    plane.pod("batch-2", Some(("batch", &batch)), "be", "n2");
    plane.gone("batch-1");
    until(30, "its arrival", || plane.status("one").contains("\"arrived\": 1"));

    // The service is well now: the move is judged.
    until(60, "the judgement", || {
        plane.sharing("n1", 0.05, &json!([]), &json!([["shop/web-1", 300.0, null, 500.0]]));
        let status: serde_json::Value = serde_json::from_str(&plane.status("one")).unwrap_or_default();
        status["judged"] == json!([1, 1])
    });
    assert!(plane.runs("bare") && plane.runs("web-1") && plane.runs("batch-2"));
}

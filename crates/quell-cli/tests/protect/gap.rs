//! What `quell top` offers to paste names a workload, and `quell gap` finds it.

use super::scene::{Scene, is_root, until};

#[test]
fn a_workload_is_found_by_the_name_that_top_shows() {
    if !is_root() {
        return;
    }
    let scene = Scene::new("gap");
    let server = scene.server();
    let name = format!("shop{}", scene.name);
    let _agent = scene.agent(&format!(
        "[[policy]]\nname = \"guard\"\n[[workload]]\nname = \"{name}\"\nclass = \"lc\"\ncpus = 1\nmatch = [{{ pid = {} }}]\n",
        server.pid()
    ));
    let is_managed = |status: &serde_json::Value| status["workloads"][0]["threads"]["value"].as_f64() > Some(0.0);
    until("it is managed", || scene.status().is_some_and(|status| is_managed(&status)));
    let gap = |name: &str| scene.said(&["gap", name, "--for", "200ms", "--json"]);
    let found = gap(&name);
    assert!(found.code == Some(0), "{found:?}");
    let report: serde_json::Value = serde_json::from_str(&found.out).unwrap();
    assert_eq!(report["services"].as_array().unwrap().len(), 1, "the service of its process: {report}");
    let unknown = gap("shop-that-is-not-there");
    assert!(unknown.code == Some(1) && unknown.error.lines().count() == 1, "{unknown:?}");
}

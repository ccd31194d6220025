//! With an agent: a lease, and what is kept for good.

use super::scene::{FIFO, Scene, is_root, until};
use rustix::process::Signal;
use serde_json::Value;

const ALL: &str = "[[policy]]\nname = \"guard\"\n\n[[workload]]\nname = \"other\"\nclass = \"be\"\nmatch = [{ unit = \"quell-no-such\" }]\n";

fn is_leased(scene: &Scene) -> bool {
    let is = |workload: &Value| workload["name"] == *scene.name && workload["leased_by"].is_string();
    scene.status().is_some_and(|status| status["configured"].as_array().is_some_and(|all| all.iter().any(is)))
}

#[test]
fn an_agent_protects_for_as_long_as_the_command_lasts() {
    if !is_root() {
        return;
    }
    let scene = Scene::new("lea");
    let server = scene.server();
    let _agent = scene.agent(ALL);
    for kill in [false, true] {
        let mut quell = scene.begin(&["protect", &scene.name, "--measure", "0", "--json"]);
        until("it is protected", || server.policy() == FIFO);
        until("the agent says so", || is_leased(&scene));
        until("the result is there", || scene.output()["by"] == "agent");
        quell.signal(if kill { Signal::KILL } else { Signal::INT });
        quell.ends();
        until("it is put back", || server.policy() == 0 && !is_leased(&scene));
    }
}

#[test]
fn what_the_agent_manages_already_is_refused_by_its_name() {
    if !is_root() {
        return;
    }
    let scene = Scene::new("mng");
    let server = scene.server();
    let workload = format!(
        "[[policy]]\nname = \"guard\"\n[[workload]]\nname = \"web\"\nclass = \"lc\"\ncpus = 1\nmatch = [{{ pid = {} }}]\n",
        server.pid()
    );
    let _agent = scene.agent(&workload);
    until("it is protected", || server.policy() == FIFO);
    let said = scene.said(&["protect", &scene.name, "--measure", "0"]);
    assert!(said.code == Some(1) && said.error.contains("as workload 'web': see `quell why web`"), "{said:?}");
}

#[test]
fn what_is_kept_lasts_and_is_taken_out_by_its_name() {
    if !is_root() {
        return;
    }
    let scene = Scene::new("keep");
    let server = scene.server();
    let config = scene.path("quell.toml");
    let config = config.to_str().unwrap();
    let _agent = scene.agent(ALL);
    let kept = scene.said(&["protect", &scene.name, "--measure", "0", "--keep", "--config", config]);
    assert!(kept.code == Some(0) && kept.out.contains("the agent manages it now"), "{kept:?}");
    until("it is protected", || server.policy() == FIFO);
    let file = scene.path(&format!("quell.d/protect-{}.toml", scene.name));
    assert!(std::fs::read_to_string(&file).unwrap().contains("quell disable"), "{}", file.display());
    let listed = scene.said(&["disable", "--list", "--config", config]);
    assert!(listed.out.contains(&scene.name) && listed.out.contains("lc"), "{listed:?}");
    let unknown = scene.said(&["disable", "nothing-such", "--config", config]);
    assert!(unknown.code == Some(1) && unknown.error.contains("disable --list"), "{unknown:?}");
    let removed = scene.said(&["disable", &scene.name, "--config", config]);
    assert!(removed.code == Some(0) && removed.out.contains("put everything back"), "{removed:?}");
    assert!(!file.exists());
    until("it is put back", || server.policy() == 0);
}

#[test]
fn without_an_agent_it_is_written_and_checked_and_nothing_is_set() {
    let scene = Scene::new("kpo");
    let server = scene.server();
    let config = scene.path("etc/quell.toml");
    std::fs::create_dir(scene.path("etc")).unwrap();
    let config = config.to_str().unwrap();
    let kept = scene.said(&["protect", &scene.name, "--be", "--measure", "0", "--keep", "--config", config, "--json"]);
    assert!(kept.code == Some(0), "{kept:?}");
    let result: Value = serde_json::from_str(&kept.out).unwrap();
    assert_eq!((&result["managed"], server.policy()), (&false.into(), 0), "{result}");
    let checked = scene.said(&["check", config]);
    assert!(checked.code == Some(0), "a configuration of drop-ins alone: {checked:?}");
    let removed = scene.said(&["disable", &scene.name, "--config", config, "--json"]);
    assert!(removed.code == Some(0), "{removed:?}");
    assert!(scene.said(&["disable", "--list", "--config", config]).out.contains("nothing is kept"));
}

#[test]
fn what_would_make_the_configuration_wrong_is_not_written() {
    let scene = Scene::new("bad");
    let _server = scene.server();
    let config = scene.path("quell.toml");
    std::fs::write(&config, "[[policy]]\nname = \"rkube\"\n").unwrap();
    let config = config.to_str().unwrap();
    let said = scene.said(&["protect", &scene.name, "--be", "--measure", "0", "--keep", "--config", config]);
    assert!(said.code == Some(1) && said.error.contains("--policy rkube"), "{said:?}");
    assert!(!scene.path("quell.d").exists());
}

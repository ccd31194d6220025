//! `quell enable`: the drop-in of `protect --keep` for a request that is known.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::scene::{FIFO, Scene, is_root, until};

/// A unit that every systemd has, and that runs on no machine that works.
const INSTALLED: &str = "emergency.service";
const OTHER: &str = "[[policy]]\nname = \"guard\"\n\n[[workload]]\nname = \"other\"\nclass = \"be\"\nmatch = [{ unit = \"quell-no-such\" }]\n";

#[test]
fn an_agent_manages_it_at_once_and_disable_takes_it_out() {
    if !is_root() {
        return;
    }
    let scene = Scene::new("ena");
    let server = scene.server();
    let config = scene.path("quell.toml");
    let config = config.to_str().unwrap();
    let _agent = scene.agent(OTHER);
    let enabled = scene.said(&["enable", &scene.name, "--cpus", "1", "--config", config]);
    assert!(enabled.code == Some(0) && enabled.out.contains("the agent manages it now"), "{enabled:?}");
    until("it is protected", || server.policy() == FIFO);
    let again = scene.said(&["enable", &scene.name, "--cpus", "1", "--config", config]);
    assert!(again.code == Some(1) && again.error.contains(&format!("quell disable {}", scene.name)), "{again:?}");
    let removed = scene.said(&["disable", &scene.name, "--config", config]);
    assert!(removed.code == Some(0) && removed.out.contains("restored everything"), "{removed:?}");
    until("it is put back", || server.policy() == 0);
}

#[test]
fn it_writes_what_protect_keeps() {
    let scene = Scene::new("enk");
    let server = scene.server();
    let pid = server.pid().to_string();
    let written = |command: &[&str], name: &str| {
        let config = scene.path(&format!("{name}/quell.toml"));
        fs::create_dir(config.parent().unwrap()).unwrap();
        let more = [&pid, "--cpus", "0.5", "--policy", "guard", "--config", config.to_str().unwrap()];
        let said = scene.said(&[command, &more].concat());
        assert!(said.code == Some(0), "{said:?}");
        let file = fs::read_dir(config.with_file_name("quell.d")).unwrap().next().unwrap().unwrap();
        (file.file_name(), fs::read_to_string(file.path()).unwrap())
    };
    assert_eq!(written(&["enable"], "a"), written(&["protect", "--measure", "0", "--keep"], "b"));
}

/// Before: the policy that stands in for none was taken for one of the configuration, and the drop-in had none.
#[test]
fn after_the_last_one_was_taken_out_the_next_one_has_its_policy_again() {
    let scene = Scene::new("enl");
    let server = scene.server();
    let pid = server.pid().to_string();
    let config = scene.path("etc/quell.toml");
    fs::create_dir(config.parent().unwrap()).unwrap();
    let config = config.to_str().unwrap();
    for _ in 0..2 {
        let enabled = scene.said(&["enable", &pid, "--name", "web", "--cpus", "0.5", "--config", config]);
        assert!(enabled.code == Some(0), "{enabled:?}");
        let removed = scene.said(&["disable", "web", "--config", config]);
        assert!(removed.code == Some(0), "{removed:?}");
    }
}

#[test]
fn a_unit_that_is_installed_may_be_enabled_before_it_runs() {
    let found = ["/lib", "/usr/lib"].iter().any(|lib| Path::new(lib).join("systemd/system").join(INSTALLED).exists());
    if !found || !is_root() {
        eprintln!("not tested here: needs systemd's units, and root");
        return;
    }
    let scene = Scene::new("enu");
    let config = scene.path("quell.toml");
    let config = config.to_str().unwrap();
    let _agent = scene.agent(OTHER);
    let enabled = scene.said(&["enable", INSTALLED, "--class", "lc", "--cpus", "0.5", "--config", config]);
    assert!(enabled.code == Some(0) && enabled.out.contains("does not run yet"), "{enabled:?}");
    let is_waiting = |workload: &Value| workload["name"] == "emergency" && workload["state"] == "waiting";
    until("the agent waits for it", || {
        scene.status().is_some_and(|status| status["configured"].as_array().unwrap().iter().any(is_waiting))
    });
    let removed = scene.said(&["disable", "emergency", "--config", config]);
    assert!(removed.code == Some(0), "{removed:?}");
}

#[test]
fn what_cannot_be_is_refused_in_a_line_with_the_fix_and_writes_nothing() {
    let scene = Scene::new("enr");
    let _server = scene.server();
    let config = scene.path("quell.toml");
    let name = scene.name.as_str();
    let rows: [(&[&str], &str); 8] = [
        (&[name], "--cpus 1"),
        (&[name, "--cpus", "0"], "--cpus 1"),
        (&[name, "--cpus", "1000"], "would take all of this machine"),
        (&["quell-no-such.service", "--cpus", "1"], "systemctl list-unit-files"),
        (&["unit:quell-no-such.service", "--cpus", "1"], "systemctl list-unit-files"),
        (&["label:quell.test=no-such", "--cpus", "1"], "docker inspect"),
        (&["container:quell_no-such", "--cpus", "1"], "docker ps"),
        (&[name, "quell-no-such.service", "--cpus", "1"], "systemctl list-unit-files"),
    ];
    for (targets, fix) in rows {
        let said = scene.said(&[&["enable"], targets, &["--config", config.to_str().unwrap()]].concat());
        let is_line = said.error.trim_end().lines().count() == 1;
        assert!(said.code == Some(1) && is_line && said.error.contains(fix), "{targets:?}: {said:?}");
        assert!(!scene.path("quell.d").exists());
    }
}

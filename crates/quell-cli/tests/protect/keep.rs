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
    assert!(removed.code == Some(0) && removed.out.contains("restored everything"), "{removed:?}");
    assert!(!file.exists());
    until("it is put back", || server.policy() == 0);
}

#[test]
fn without_an_agent_it_is_written_and_checked_and_nothing_is_set() {
    let scene = Scene::new("kpo");
    let server = scene.server();
    let config = scene.path("etc/quell.toml");
    let config = config.to_str().unwrap();
    let kept = scene.said(&["protect", &scene.name, "--be", "--measure", "0", "--keep", "--config", config, "--json"]);
    assert!(kept.code == Some(0), "{kept:?}");
    let result: Value = serde_json::from_str(&kept.out).unwrap();
    assert_eq!((&result["managed"], server.policy()), (&false.into(), 0), "{result}");
    assert_eq!(result["effect"], Value::Null, "{result}");
    let url =
        scene.said(&["protect", &scene.name, "--be", "--keep", "--config", config, "--url", "http://127.0.0.1:1/"]);
    assert!(url.code == Some(2) && url.error.contains("leave --url and --histogram out"), "{url:?}");
    let checked = scene.said(&["check", config]);
    assert!(checked.code == Some(0), "a configuration of drop-ins alone: {checked:?}");
    let removed = scene.said(&["disable", &scene.name, "--config", config, "--json"]);
    assert!(removed.code == Some(0), "{removed:?}");
    assert!(scene.said(&["disable", "--list", "--config", config]).out.contains("no drop-in is kept"));
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

#[test]
fn a_script_is_kept_by_its_whole_command_line_and_one_of_two_alike_is_not() {
    let scene = Scene::new("scr");
    let script = |mark: &str| {
        let mut command = std::process::Command::new("sh");
        command.args(["-c", "while :; do sleep 1; done", mark]);
        super::scene::Ours::of(command)
    };
    let (one, _other) = (script(&scene.name), script("another"));
    let config = scene.path("quell.toml");
    let config = config.to_str().unwrap();
    let pid = one.pid().to_string();
    let keep = ["protect", &pid, "--be", "--measure", "0", "--keep", "--config", config];
    let kept = scene.said(&keep);
    assert!(kept.code == Some(0), "{kept:?}");
    let file = scene.path("quell.d/protect-sh.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains(&format!("sh -c while :; do sleep 1; done {}", scene.name)), "{text}");
    std::fs::remove_file(&file).unwrap();
    let twin = script(&scene.name);
    let refused = scene.said(&keep);
    let names_it = refused.error.contains(&format!("process {}", twin.pid()));
    assert!(refused.code == Some(1) && names_it && refused.error.lines().count() == 1 && !file.exists(), "{refused:?}");
}

#[test]
fn an_agent_of_drop_ins_alone_reads_the_next_ones_and_the_last_one_goes() {
    if !is_root() {
        return;
    }
    let scene = Scene::new("two");
    let server = scene.server();
    let config = scene.path("quell.toml");
    let config = config.to_str().unwrap();
    let keep = |name: &str, pid: &str| {
        scene.said(&["protect", pid, "--name", name, "--measure", "0", "--keep", "--config", config])
    };
    let first = keep("one", &server.pid().to_string());
    assert!(first.code == Some(0) && first.out.contains("no agent runs"), "{first:?}");
    let _agent = scene.agent_of_drop_ins();
    until("it is protected", || server.policy() == FIFO);
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "while :; do sleep 1; done", &scene.name]);
    let script = super::scene::Ours::of(command);
    let second = keep("two", &script.pid().to_string());
    assert!(second.code == Some(0) && second.out.contains("the agent manages it now"), "{second:?}");
    until("the second one is protected", || script.policy() == FIFO);
    for name in ["one", "two"] {
        let removed = scene.said(&["disable", name, "--config", config]);
        assert!(removed.code == Some(0) && removed.out.contains("has restored everything"), "{removed:?}");
    }
    until("both are put back", || server.policy() == 0 && script.policy() == 0);
}

#[test]
fn a_place_that_cannot_take_it_is_refused_before_it_is_measured() {
    let scene = Scene::new("plc");
    let _server = scene.server();
    let config = scene.path("no/such/quell.toml");
    let said = scene.said(&["protect", &scene.name, "--be", "--keep", "--config", config.to_str().unwrap()]);
    let fix = format!("make it: mkdir -p {}", scene.path("no/such").display());
    assert!(said.code == Some(1) && said.error.trim_end().ends_with(&fix), "{said:?}");
    assert_eq!(said.error.lines().count(), 1, "{said:?}");
}

#[test]
fn a_directory_of_drop_ins_that_is_empty_takes_any_policy() {
    let scene = Scene::new("emp");
    let _server = scene.server();
    std::fs::create_dir(scene.path("quell.d")).unwrap();
    let config = scene.path("quell.toml");
    let config = config.to_str().unwrap();
    for policy in ["guard", "rkube"] {
        let keep = ["protect", &scene.name, "--be", "--policy", policy, "--name", policy, "--keep", "--config", config];
        let kept = scene.said(&keep);
        let checked = scene.said(&["check", config]);
        assert!(kept.code == Some(0) && checked.code == Some(0), "{kept:?} {checked:?}");
        let removed = scene.said(&["disable", policy, "--config", config]);
        assert!(removed.code == Some(0), "{removed:?}");
    }
}

#[test]
fn with_an_agent_what_is_kept_is_measured_before_and_after() {
    if !is_root() {
        return;
    }
    let scene = Scene::new("eff");
    let _server = scene.server();
    let config = scene.path("quell.toml");
    let _agent = scene.agent(ALL);
    let keep = ["protect", &scene.name, "--cpus", "0.5", "--measure", "1s", "--json", "--keep", "--config"];
    let kept = scene.said(&[&keep[..], &[config.to_str().unwrap()]].concat());
    let result: Value = serde_json::from_str(&kept.out).unwrap_or_else(|_| panic!("{kept:?}"));
    assert!(kept.code == Some(0) && result["managed"] == true, "{kept:?}");
    assert_eq!(result["effect"]["measure"], "queueing-delay", "{kept:?}");
    let top = scene.said(&["top"]);
    assert!(top.code == Some(2) && top.out.is_empty() && top.error.contains("use `quell status`"), "{top:?}");
}

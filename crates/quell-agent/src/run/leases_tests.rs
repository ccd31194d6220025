//! Leased workloads on a machine of plain files, in a time that the tests make.

use std::path::PathBuf;

use quell_linux::HostOptions;
use quell_linux::sched::ThreadCalls;
use quell_linux::testkit::FakeTree;
use quell_model::{Nanos, SchedClass, Topology};
use quell_policy::AnyPolicy;
use tokio::sync::oneshot::{Receiver, channel};

use super::*;
use crate::run::Extras;
use crate::wire::{Class, Match, Process};

const CPUS: &str = "cgroup/web/cpuset.cpus";
const FIFO: SchedClass = SchedClass::Fifo { priority: 1 };

/// rKube gives the workload `web` a CPU of its own; processes 300 and 400 are in no workload.
struct Scene {
    tree: FakeTree,
    agent: Agent,
    second: u64,
}

impl Scene {
    fn new() -> Scene {
        Scene::with(Extras::default())
    }

    fn with(extras: Extras) -> Scene {
        let tree = FakeTree::new(&Topology::synthetic(1, 1, 4, 1));
        for pid in [100, 300, 400] {
            tree.process(pid, 1, "work");
        }
        tree.cgroup("web");
        tree.join("web", &[100]);
        let file = configure(&tree, "");
        let options = HostOptions { scan_interval: Nanos(1), dry_run: extras.dry_run, ..HostOptions::default() };
        let mut agent = Agent::new(tree.host(options).unwrap(), config::read(&file).unwrap(), extras).unwrap();
        let config = agent.config.clone();
        agent.membership.configure(&config, &mut agent.host, Nanos::ZERO);
        let mut scene = Scene { tree, agent, second: 0 };
        scene.turns(2);
        scene
    }

    /// This number of turns, one a second.
    fn turns(&mut self, count: u64) {
        for _ in 0..count {
            self.agent.turn(None, Nanos::from_secs(self.second)).unwrap();
            self.second += 1;
        }
    }

    fn ask(&mut self, number: u64, protect: &Protect) -> Receiver<Result<Protected, Problem>> {
        let (answer, answered) = channel();
        self.agent.lease(protect, &format!("root (process {number})"), number, answer);
        answered
    }

    /// The answer after a few turns.
    fn lease(&mut self, number: u64, protect: &Protect) -> Result<Protected, String> {
        let mut answered = self.ask(number, protect);
        for _ in 0..10 {
            self.turns(1);
            if let Ok(answer) = answered.try_recv() {
                return answer.map_err(|Problem { error, fix }| format!("{error}; {fix}"));
            }
        }
        panic!("no answer")
    }

    fn class(&self, pid: i32) -> SchedClass {
        self.tree.threads().class(pid).unwrap().class
    }

    fn layers(&self) -> Vec<&'static str> {
        self.agent.stack.layers().iter().map(|layer| layer.policy.describe().name).collect()
    }
}

fn configure(tree: &FakeTree, more: &str) -> PathBuf {
    let text = format!(
        "[[policy]]\nname = \"rkube\"\nworkloads = [\"web\"]\n[[workload]]\nname = \"web\"\nclass = \"lc\"\ncpus = 1\n\
         reservation = \"strict\"\nmatch = [{{ cgroup = \"web\" }}]\n{more}"
    );
    tree.write("quell.toml", &text);
    tree.path().join("quell.toml")
}

fn protect(name: &str, pid: i32) -> Protect {
    Protect {
        name: name.into(),
        class: Class::Lc,
        cpus: 1.0,
        limit: None,
        strict: false,
        selectors: vec![Match::Pid(pid)],
        processes: Vec::new(),
        policy: "guard".into(),
        parameters: serde_json::Map::default(),
    }
}

#[test]
fn a_leased_workload_is_set_until_its_caller_is_gone_and_the_others_do_not_notice() {
    let mut scene = Scene::new();
    let (own, cpus) = (scene.class(300), scene.tree.read(CPUS));
    let web = scene.agent.membership.standing("web").unwrap().0;
    let protected = scene.lease(1, &protect("db", 300)).unwrap();
    assert_eq!((protected.policies, protected.threads), (vec!["guard".to_owned()], 1));
    assert_eq!(protected.set, ["SCHED_FIFO 1"]);
    assert_eq!((scene.class(300), scene.layers()), (FIFO, vec!["rkube", "guard"]));
    // A second one joins the layer, which stays when the first ends.
    scene.lease(2, &protect("cache", 400)).unwrap();
    scene.agent.end_lease(1);
    scene.turns(2);
    assert_eq!((scene.class(300), scene.class(400)), (own, FIFO));
    assert_eq!(scene.layers(), ["rkube", "guard"]);
    scene.agent.end_lease(2);
    scene.turns(2);
    assert_eq!((scene.class(400), scene.layers()), (own, vec!["rkube"]));
    assert_eq!(scene.agent.config, scene.agent.leases.base);
    assert_eq!(scene.agent.membership.standing("web").unwrap().0, web, "it was never let go");
    assert_eq!(scene.tree.read(CPUS), cpus);
    scene.agent.put_back();
}

#[test]
fn what_cannot_be_leased_is_refused_in_a_line_and_changes_nothing() {
    let mut scene = Scene::new();
    scene.lease(1, &protect("db", 300)).unwrap();
    let gone = Process { pid: 400, start: 1 };
    for (asked, parts) in [
        (protect("db", 400), &["'db' is already defined", "another name"][..]),
        (protect("other", 300), &["process 300 is already in workload 'db'", "quell why db"]),
        (protect("other", 100), &["process 100 is already in workload 'web'"]),
        (protect("other", 999), &["process 999 has ended"]),
        (Protect { processes: vec![gone], ..protect("other", 400) }, &["process 400 has ended"]),
        (Protect { cpus: 5.0, ..protect("other", 400) }, &["5 CPUs are more", "(0-3)", "fewer than 4"]),
        (Protect { cpus: 3.5, ..protect("other", 400) }, &["guarantee"]),
        (Protect { selectors: vec![Match::Cgroup("nowhere".into())], ..protect("other", 1) }, &["nowhere"]),
        (Protect { policy: "caladan".into(), ..protect("other", 400) }, &["'caladan' grants CPUs"]),
    ] {
        let before = (scene.agent.config.clone(), scene.layers());
        let error = scene.lease(2, &asked).unwrap_err();
        assert!(parts.iter().all(|part| error.contains(part)) && !error.contains('\n'), "{error}");
        assert_eq!((scene.agent.config.clone(), scene.layers()), before, "{error}");
        assert_ne!(scene.class(400), FIFO);
    }
    scene.agent.switch.off("root (process 8)", Nanos(1)).unwrap();
    let error = scene.lease(2, &protect("other", 400)).unwrap_err();
    assert!(error.contains("switched off by root (process 8)") && error.contains("quell on"), "{error}");
    let mut dry = Scene::with(Extras { dry_run: true, ..Extras::default() });
    assert!(dry.lease(1, &protect("db", 300)).unwrap_err().contains("only observes"));
}

#[test]
fn a_caller_that_is_gone_before_its_answer_leaves_nothing() {
    let mut scene = Scene::new();
    let own = scene.class(300);
    drop(scene.ask(1, &protect("db", 300)));
    scene.agent.end_lease(1);
    scene.turns(3);
    assert_eq!((scene.class(300), scene.layers()), (own, vec!["rkube"]));
}

#[test]
fn parameters_of_a_lease_remain_while_another_one_is_in_its_layer() {
    let mut scene = Scene::new();
    let parameters: serde_json::Map<_, _> = serde_json::from_str(r#"{"run_budget": "20ms"}"#).unwrap();
    let with = |name, pid| Protect { parameters: parameters.clone(), ..protect(name, pid) };
    scene.lease(1, &with("db", 300)).unwrap();
    scene.lease(2, &protect("cache", 400)).unwrap();
    scene.agent.end_lease(1);
    scene.turns(2);
    let AnyPolicy::Guard(runs) = &scene.agent.stack.layers()[1].policy else { panic!("the second layer is guard's") };
    assert_eq!(runs.run_budget(), Nanos::from_millis(20));
    let configured = &scene.agent.config.policies[1].policy;
    let with_parameters = AnyPolicy::build("guard", serde_json::Value::from(parameters.clone())).unwrap();
    assert_eq!(*configured, with_parameters, "the configuration says what runs");
    // One with the same parameters may join, and go again.
    scene.lease(3, &with("db", 300)).unwrap();
    scene.agent.end_lease(3);
    scene.turns(2);
    assert_eq!((scene.class(400), scene.layers()), (FIFO, vec!["rkube", "guard"]));
}

#[test]
fn a_reload_keeps_leased_workloads_or_is_refused_with_a_line() {
    let mut scene = Scene::new();
    scene.lease(1, &protect("db", 300)).unwrap();
    configure(&scene.tree, "[[workload]]\nname = \"new\"\nclass = \"be\"\nmatch = [{ pid = 400 }]\n");
    assert!(!scene.agent.reload(), "the agent goes on");
    scene.turns(2);
    assert_eq!((scene.class(300), scene.layers()), (FIFO, vec!["rkube", "guard"]));
    assert!(scene.agent.membership.standing("new").unwrap().0.is_some());

    configure(&scene.tree, "[[workload]]\nname = \"db\"\nclass = \"be\"\nmatch = [{ cgroup = \"web/x\" }]\n");
    let base = config::read(&scene.tree.path().join("quell.toml")).unwrap();
    let why = scene.agent.leases.over(&base).unwrap_err();
    assert!(why.contains("lease of root (process 1) for 'db'") && why.contains("or end the lease"), "{why}");
    assert!(!scene.agent.reload());
    scene.turns(2);
    assert_eq!(scene.class(300), FIFO, "the configuration before stays, and the lease");
    scene.agent.end_lease(1);
    scene.turns(2);
    assert_ne!(scene.class(300), FIFO);
}

#[test]
fn the_demand_of_a_leased_workload_may_be_followed() {
    let mut scene = Scene::new();
    scene.lease(1, &protect("db", 300)).unwrap();
    let resize = |scene: &mut Scene, workload: &str, cpus| {
        let answer = scene.agent.resize(&Resize { workload: workload.into(), cpus });
        answer.map(|protected| protected.cpus_requested).map_err(|problem| problem.error)
    };
    assert_eq!(resize(&mut scene, "db", 1.5), Ok(1.5));
    scene.turns(2);
    let spec = scene.agent.config.workload("db").unwrap();
    assert_eq!((spec.cpus, scene.class(300)), (CpuCount(1500), FIFO));
    for (name, cpus, part) in [
        ("db", 9.0, "more than"),
        ("db", f64::NAN, "expected"),
        ("web", 1.0, "in the configuration"),
        ("x", 1.0, "no workload"),
    ] {
        let error = resize(&mut scene, name, cpus).unwrap_err();
        assert!(error.contains(part), "{error}");
    }
    assert_eq!(scene.agent.config.workload("db").unwrap().cpus, CpuCount(1500));
}

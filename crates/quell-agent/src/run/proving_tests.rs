//! Experiments on a machine of plain files, in a time that the tests make.

use quell_linux::HostOptions;
use quell_linux::sched::ThreadCalls;
use quell_linux::testkit::FakeTree;
use quell_model::{SchedClass, Topology};

use super::*;
use crate::config;
use crate::run::Extras;

const CPUS: &str = "cgroup/web/cpuset.cpus";
const FREE: &str = "0-3";
const FIFO: SchedClass = SchedClass::Fifo { priority: 1 };
const BY: &str = "root (process 8)";
const LEASE: u64 = 7;

/// rKube gives the workload `web` a CPU of its own.
struct Scene {
    tree: FakeTree,
    agent: Agent,
    second: u64,
    ended: Arc<AtomicBool>,
}

fn configure(tree: &FakeTree, more: &str) -> std::path::PathBuf {
    let text = format!(
        "[[policy]]\nname = \"rkube\"\n[[workload]]\nname = \"web\"\nclass = \"lc\"\ncpus = 1\nreservation = \"strict\"\n\
         match = [{{ cgroup = \"web\" }}]\n{more}"
    );
    tree.write("quell.toml", &text);
    tree.path().join("quell.toml")
}

impl Scene {
    fn with(extras: Extras) -> Scene {
        let tree = FakeTree::new(&Topology::synthetic(1, 1, 4, 1));
        tree.process(100, 1, "work");
        tree.cgroup("web");
        tree.join("web", &[100]);
        tree.write(CPUS, FREE);
        let options = HostOptions { scan_interval: Nanos(1), dry_run: extras.dry_run, ..HostOptions::default() };
        let config = config::read(&configure(&tree, "")).unwrap();
        let mut agent = Agent::new(tree.host(options).unwrap(), config, extras).unwrap();
        agent.membership.configure(&agent.config.clone(), &mut agent.host, Nanos::ZERO);
        let mut scene = Scene { tree, agent, second: 0, ended: Arc::default() };
        scene.turns(2);
        scene
    }

    fn new() -> Scene {
        Scene::with(Extras::default())
    }

    /// This number of the loop's turns, one a second.
    fn turns(&mut self, count: u64) {
        for _ in 0..count {
            self.agent.turn(None, Nanos::from_secs(self.second)).unwrap();
            self.second += 1;
        }
    }

    fn now(&self) -> Nanos {
        Nanos::from_secs(self.second)
    }

    fn begin(&mut self, prove: &Prove, by: &str, lease: u64) -> Result<Controlled, String> {
        let (now, ended) = (self.now(), Arc::clone(&self.ended));
        let begun = self.agent.begin_proving(prove, by, lease, ended, None, now).unwrap();
        begun.map_err(|Problem { error, fix }| format!("{error}; {fix}"))
    }

    /// A block begins, and the loop turns in it.
    fn block(&mut self, on: bool) -> Controlled {
        let now = self.now();
        let taken = self.agent.next_turn(Turn { on }, BY, None, now).unwrap().unwrap();
        self.turns(2);
        taken
    }

    fn end(&mut self, lease: u64) {
        let now = self.now();
        self.agent.end_proving(lease, None, now).unwrap();
        self.turns(2);
    }

    fn cpus(&self) -> String {
        self.tree.read(CPUS)
    }

    fn class(&self) -> SchedClass {
        self.tree.threads().class(100).unwrap().class
    }

    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire) && self.agent.leases.proving.is_none()
    }
}

fn choice(policy: &str) -> Option<Choice> {
    Some(Choice { policy: policy.into(), parameters: serde_json::Map::new() })
}

fn of_web(on: Option<Choice>, off: Option<Choice>) -> Prove {
    Prove { workload: Some("web".into()), on, off }
}

#[test]
fn blocks_alternate_between_the_configuration_and_nothing_and_the_end_is_as_before() {
    for ends_off in [false, true] {
        let mut scene = Scene::new();
        let ours = scene.cpus();
        assert_ne!(ours, FREE);
        assert_eq!(scene.begin(&Prove::default(), BY, LEASE).unwrap().put_back, 0, "it begins as it is");
        assert_eq!(scene.cpus(), ours);
        for _ in 0..2 {
            let off = scene.block(false);
            assert!(off.put_back > 0 && off.off.is_some_and(|off| off.by == [BY]), "what was set is put back");
            assert_eq!(scene.cpus(), FREE);
            assert_eq!(scene.block(false).put_back, 0, "two blocks alike are one");
            assert!(scene.block(true).off.is_none());
            assert_eq!(scene.cpus(), ours);
        }
        scene.block(!ends_off);
        scene.end(LEASE + 1);
        assert!(!scene.has_ended(), "another caller's lease is not this one");
        scene.end(LEASE);
        assert!(scene.has_ended() && !scene.agent.switch.is_off());
        assert_eq!(scene.cpus(), ours);
        scene.agent.put_back();
        assert_eq!(scene.cpus(), FREE);
    }
}

#[test]
fn two_policies_of_a_workload_take_turns_and_the_configured_one_comes_back() {
    for ends_on in [true, false] {
        let mut scene = Scene::new();
        let (ours, own) = (scene.cpus(), scene.class());
        scene.begin(&of_web(choice("guard"), choice("none")), BY, LEASE).unwrap();
        scene.turns(2);
        assert_eq!((scene.cpus(), scene.class()), (FREE.into(), FIFO), "the first block is on");
        assert!(scene.block(false).off.is_none(), "the agent is on meanwhile");
        assert_eq!((scene.cpus(), scene.class()), (FREE.into(), own));
        scene.block(true);
        assert_eq!((scene.cpus(), scene.class()), (FREE.into(), FIFO));
        scene.block(ends_on);
        scene.end(LEASE);
        assert!(scene.has_ended());
        assert_eq!((scene.cpus(), scene.class()), (ours, own));
    }
}

#[test]
fn a_policy_against_nothing_takes_the_place_of_the_configured_one() {
    let mut scene = Scene::new();
    let (ours, own) = (scene.cpus(), scene.class());
    scene.begin(&of_web(choice("guard"), None), BY, LEASE).unwrap();
    scene.turns(2);
    assert_eq!((scene.cpus(), scene.class()), (FREE.into(), FIFO));
    assert!(scene.block(false).off.is_some());
    assert_eq!((scene.cpus(), scene.class()), (FREE.into(), own));
    scene.end(LEASE);
    assert_eq!((scene.cpus(), scene.class()), (ours, own));
}

#[test]
fn what_cannot_be_an_experiment_is_refused_in_a_line_and_changes_nothing() {
    let mut scene = Scene::new();
    let before = (scene.cpus(), scene.class());
    for (prove, parts) in [
        (of_web(choice("gaurd"), None), &["no policy 'gaurd'"][..]),
        (of_web(choice("caladan"), None), &["'caladan' hands out CPUs", "another policy"]),
        (of_web(None, choice("caladan")), &["'caladan' hands out CPUs"]),
        (Prove { workload: None, ..of_web(choice("guard"), None) }, &["none is named"]),
        (Prove { workload: Some("wev".into()), ..of_web(None, None) }, &["no workload 'wev'", "quell status"]),
    ] {
        let error = scene.begin(&prove, BY, LEASE).unwrap_err();
        assert!(parts.iter().all(|part| error.contains(part)) && !error.contains('\n'), "{error}");
        assert!(scene.agent.leases.proving.is_none());
    }
    scene.turns(2);
    assert_eq!((scene.cpus(), scene.class()), before);
    scene.agent.switch.off("root (process 9)", Nanos(1)).unwrap();
    let error = scene.begin(&Prove::default(), BY, LEASE).unwrap_err();
    assert!(error.contains("switched off by root (process 9)") && error.contains("quell on"), "{error}");
    let mut dry = Scene::with(Extras { dry_run: true, ..Extras::default() });
    assert!(dry.begin(&Prove::default(), BY, LEASE).unwrap_err().contains("only observes"));
}

#[test]
fn there_is_one_experiment_and_only_its_caller_takes_its_turns() {
    let mut scene = Scene::new();
    let ours = scene.cpus();
    scene.begin(&Prove::default(), BY, LEASE).unwrap();
    let error = scene.begin(&Prove::default(), "root (process 9)", LEASE + 1).unwrap_err();
    assert!(error.contains("root (process 8) proves already"), "{error}");
    let now = scene.now();
    let stranger = scene.agent.next_turn(Turn { on: false }, "root (process 9)", None, now).unwrap();
    assert!(stranger.unwrap_err().error.contains("no experiment of this caller"));
    scene.turns(2);
    assert_eq!(scene.cpus(), ours);
    scene.block(false);
    assert_eq!(scene.cpus(), FREE);
}

#[test]
fn what_changes_the_agent_ends_the_experiment_with_everything_as_configured() {
    for on in [false, true] {
        let mut scene = Scene::new();
        let ours = scene.cpus();
        scene.begin(&of_web(None, choice("none")), BY, LEASE).unwrap();
        scene.block(on);
        assert_eq!(scene.cpus(), if on { ours.as_str() } else { FREE });
        let now = scene.now();
        scene.agent.cut_proving(None, now).unwrap();
        assert!(scene.has_ended(), "its caller is notified");
        scene.turns(2);
        assert_eq!(scene.cpus(), ours);
        let late = scene.agent.next_turn(Turn { on: false }, BY, None, now).unwrap();
        assert!(late.unwrap_err().error.contains("it has ended"));
        // One that is over is not ended once more.
        scene.end(LEASE);
        assert_eq!(scene.cpus(), ours);
        scene.begin(&Prove::default(), BY, LEASE + 1).unwrap();
    }
}

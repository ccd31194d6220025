//! The whole agent on a machine of plain files, in a time that the tests make.

use std::path::Path;

use quell_linux::HostOptions;
use quell_linux::sched::{ThreadCalls, ThreadClass};
use quell_linux::testkit::FakeTree;
use quell_model::{CpuSet, Nanos, SchedClass, Topology, View};
use quell_policy::AnyPolicy;

use super::super::rivals::{FIRST_PAUSE, ROUNDS};
use super::super::vigil;
use super::{Agent, Extras};
use crate::api::{self, About, wire};
use crate::config;
use crate::observers::Observers;
use crate::stack::{Layer, Stack, Witness};
use crate::watch::{SIGNALS, Standing, watch};

const CPUS: &str = "cgroup/web/cpuset.cpus";
const OTHERS: &str = "0-3";

fn machine() -> FakeTree {
    let tree = FakeTree::new(&Topology::synthetic(1, 1, 4, 1));
    for (pid, group) in [(100, "web"), (200, "batch")] {
        tree.process(pid, 1, "work");
        tree.cgroup(group);
        tree.join(group, &[pid]);
    }
    tree
}

/// An agent whose rKube gives the workload `web` a CPU of its own.
fn agent(tree: &FakeTree, extras: Extras) -> Agent {
    let text = r#"
        [[policy]]
        name = "rkube"
        [[workload]]
        name = "web"
        class = "lc"
        cpus = 1
        reservation = "strict"
        match = [{ cgroup = "web" }]
        [[workload]]
        name = "batch"
        class = "be"
        match = [{ cgroup = "batch" }]
    "#;
    let config = config::read_text(Path::new("quell.toml"), text).unwrap();
    let options = HostOptions { dry_run: extras.dry_run, scan_interval: Nanos(1), ..HostOptions::default() };
    let mut agent = Agent::new(tree.host(options).unwrap(), config, extras).unwrap();
    agent.membership.configure(&agent.config, &mut agent.host, Nanos::ZERO);
    agent
}

/// The API's state of an agent.
fn watched(agent: &mut Agent) -> api::State {
    let (watch, watched) = watch(agent.stack.view(), agent.stack.layers());
    agent.observers = Observers::of(watch);
    agent.stack.also_measure(SIGNALS, quell_linux::cpu_time);
    api::state(About::default(), watched).0
}

/// One turn in each second from this one to that one.
fn turns(agent: &mut Agent, seconds: std::ops::Range<u64>) {
    for second in seconds {
        agent.turn(None, Nanos::from_secs(second)).unwrap();
    }
}

#[test]
fn somebody_who_keeps_overwriting_a_value_has_his_way_and_the_workload_is_left_alone_for_a_while() {
    let tree = machine();
    tree.write(CPUS, OTHERS);
    let mut agent = agent(&tree, Extras::default());
    let look = vigil::EVERY.0 / 1_000_000_000;
    turns(&mut agent, 0..1);
    let ours = tree.read(CPUS);
    assert_ne!(ours, OTHERS, "the workload has a CPU of its own");
    let mut second = 1;
    for round in 1..=u64::from(ROUNDS) {
        tree.write(CPUS, OTHERS);
        turns(&mut agent, second..round * look + 2);
        second = round * look + 2;
        assert_eq!(tree.read(CPUS), ours, "round {round}: set again");
    }
    tree.write(CPUS, OTHERS);
    let pause = FIRST_PAUSE.0 / 1_000_000_000;
    turns(&mut agent, second..second + look + pause - 2);
    assert_eq!(tree.read(CPUS), OTHERS, "Quell gave way");
    assert_eq!(agent.membership.ids(&agent.config)[0], None);
    assert!(agent.membership.ids(&agent.config)[1].is_some(), "the other workload is still managed");
    turns(&mut agent, second + look + pause - 2..second + 2 * look + pause);
    assert_eq!(tree.read(CPUS), ours, "it is tried again after the pause");
    agent.put_back();
    assert_eq!(tree.read(CPUS), OTHERS, "and put back at the end");
}

#[test]
fn one_change_by_somebody_else_is_set_again() {
    let tree = machine();
    let mut agent = agent(&tree, Extras::default());
    turns(&mut agent, 0..1);
    let ours = tree.read(CPUS);
    for hour in 1..8 {
        tree.write(CPUS, OTHERS);
        turns(&mut agent, hour * 3600..hour * 3600 + 7);
        assert_eq!(tree.read(CPUS), ours, "hour {hour}");
    }
}

#[test]
fn a_dry_run_leaves_everything_as_it_is_whoever_else_writes() {
    let tree = machine();
    tree.write(CPUS, OTHERS);
    let mut agent = agent(&tree, Extras { dry_run: true, ..Extras::default() });
    turns(&mut agent, 0..7);
    tree.write(CPUS, "1-2");
    turns(&mut agent, 7..60);
    assert_eq!(tree.read(CPUS), "1-2");
    assert!(agent.membership.ids(&agent.config).iter().all(Option::is_some));
    agent.put_back();
    assert_eq!(tree.read(CPUS), "1-2");
}

const MAX: &str = "cgroup/batch/cpu.max";

/// A configuration file in which `batch` has this line.
fn limited(tree: &FakeTree, line: &str) -> std::path::PathBuf {
    let text = format!(
        "[[policy]]\nname = \"guard\"\n[[workload]]\nname = \"batch\"\nclass = \"be\"\n{line}\n\
         match = [{{ cgroup = \"batch\" }}]\n"
    );
    tree.write("quell.toml", &text);
    tree.path().join("quell.toml")
}

fn agent_of(tree: &FakeTree, file: &Path) -> Agent {
    let options = HostOptions { scan_interval: Nanos(1), ..HostOptions::default() };
    let mut agent = Agent::new(tree.host(options).unwrap(), config::read(file).unwrap(), Extras::default()).unwrap();
    agent.membership.configure(&agent.config, &mut agent.host, Nanos::ZERO);
    agent
}

#[test]
fn a_limit_is_kept_under_a_policy_that_knows_none_changes_at_a_reload_and_ends_with_the_agent() {
    let tree = machine();
    let mut agent = agent_of(&tree, &limited(&tree, "limit = 0.5"));
    turns(&mut agent, 0..2);
    assert_eq!((tree.read(MAX), agent.warnings.lines()), ("50000 100000".into(), &[][..]));
    let mut second = 2;
    for (line, expected) in [("limit = 1.5", "150000 100000"), ("", "max 100000"), ("limit = 0.25", "25000 100000")] {
        limited(&tree, line);
        assert!(!agent.reload(), "the agent goes on");
        let begun = std::time::Instant::now();
        while tree.read(MAX) != expected {
            assert!(begun.elapsed().as_secs() < 60, "{line}: {}", tree.read(MAX));
            turns(&mut agent, second..second + 1);
            second += 1;
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }
    agent.put_back();
    assert_eq!(tree.read(MAX), "max 100000");
}

#[test]
fn a_limit_that_cannot_be_kept_is_a_warning_until_it_can() {
    let tree = machine();
    let file = limited(&tree, "limit = 0.5\nreservation = \"standard\"");
    let mut agent = agent_of(&tree, &file);
    turns(&mut agent, 0..1);
    assert_eq!(agent.warnings.lines(), [""; 0]);
    // Another program keeps removing the limit: Quell backs off, and says so.
    let mut second = 1;
    while agent.warnings.lines().is_empty() {
        assert!(second < 1000, "nothing is said");
        tree.write(MAX, "max 100000");
        turns(&mut agent, second..second + 1);
        second += 1;
    }
    let said = agent.warnings.lines()[0].clone();
    assert!(said.starts_with("workload 'batch': limit = 0.5 is not kept: another process keeps changing"), "{said}");
    while !agent.warnings.lines().is_empty() {
        assert!(second < 10_000, "it is not tried again");
        turns(&mut agent, second..second + 1);
        second += 1;
    }
    assert_eq!(tree.read(MAX), "50000 100000");
}

#[test]
fn every_configured_workload_is_told_to_be_waiting_attached_or_gone() {
    let tree = FakeTree::new(&Topology::synthetic(1, 1, 4, 1));
    tree.cgroup("batch");
    let mut agent = agent(&tree, Extras::default());
    let mut state = watched(&mut agent);
    let mut shown = |agent: &mut Agent, seconds: std::ops::Range<u64>| {
        turns(agent, seconds);
        state.refresh();
        (state.status().configured, state.why("web"))
    };
    let (configured, why) = shown(&mut agent, 0..2);
    let states: Vec<_> = configured.iter().map(|workload| (workload.name.as_str(), workload.state)).collect();
    assert_eq!(states, [("web", wire::State::Waiting), ("batch", wire::State::Waiting)]);
    let web = why.expect("a workload that waits is known").configured.unwrap();
    assert_eq!((web.selectors, web.threads), (vec!["cgroup web".to_owned()], None));
    assert!(web.why.unwrap().contains("matches nothing"));

    tree.cgroup("web");
    tree.process(100, 1, "work");
    tree.join("web", &[100]);
    let (configured, _) = shown(&mut agent, 2..4);
    assert_eq!((configured[0].state, configured[0].why.as_ref()), (wire::State::Attached, None));

    tree.join("web", &[]);
    tree.remove("proc/100");
    // The host scans for threads in its own time, not in the test's.
    let gone = (4..10_000).find_map(|second| {
        std::thread::sleep(std::time::Duration::from_millis(1));
        let (configured, _) = shown(&mut agent, second..second + 1);
        (configured[0].state == wire::State::Exited).then(|| (Nanos::from_secs(second), configured[0].since_ns))
    });
    let (seen, since) = gone.expect("it is gone");
    assert_eq!(Nanos(since), seen, "since the look that found nothing");
}

#[test]
fn rules_that_the_host_has_not_are_explained_as_refused() {
    let tree = machine();
    let mut agent = agent(&tree, Extras::default());
    agent.membership.look(&mut agent.host, Nanos::ZERO, &|| ());
    let layers = vec![Layer::new(AnyPolicy::named("caladan").unwrap(), None)];
    let mut stack = Stack::new(layers, View::new(agent.host.topology()), CpuSet::first(4)).unwrap();
    let (mut watch, watched) = watch(stack.view(), stack.layers());
    let mut state = api::state(About::default(), watched).0;
    for _ in 0..3 {
        stack.turn(&mut agent.host).unwrap();
        watch.turned(stack.view(), stack.layers());
    }
    state.refresh();
    let decisions = state.why("web").unwrap().decisions;
    let refused = |text: &str| {
        let shown = decisions.iter().find(|decision| decision.text.starts_with(text));
        shown.is_some_and(|shown| {
            shown.kind == wire::DecisionKind::Refused && shown.text.contains("no rules in the kernel")
        })
    };
    assert!(
        refused("1 CPU guaranteed on wake-up: refused: ") && refused("no limit on its CPUs: refused: "),
        "{decisions:#?}"
    );
    assert!(decisions.iter().all(|decision| decision.kind != wire::DecisionKind::Rule), "{decisions:#?}");
}

#[test]
fn a_workloads_own_cpus_are_not_exclusive_where_no_partition_keeps_others_out() {
    let tree = machine();
    let mut agent = agent(&tree, Extras::default());
    let mut state = watched(&mut agent);
    turns(&mut agent, 0..3);
    state.refresh();
    let status = state.status();
    let of = |name: &str| status.workloads.iter().find(|workload| workload.name == name).unwrap();
    assert_eq!(of("web").cpus_exclusive, Some(false), "{:?}", of("web"));
    assert_eq!(of("batch").cpus_exclusive, None, "it has what is left");
    let shown = state.why("web").unwrap().decisions;
    assert!(
        shown.iter().any(|note| note.text.ends_with("are its own, but unmanaged work may run there")),
        "{shown:#?}"
    );
}

#[test]
fn a_class_that_another_program_changed_is_a_state_and_not_only_a_line_in_the_log() {
    let tree = FakeTree::new(&Topology::synthetic(1, 1, 4, 1));
    tree.process(100, 1, "work");
    let text = "[[policy]]\nname = \"guard\"\n[[workload]]\nname = \"web\"\nclass = \"lc\"\ncpus = 1\n\
                match = [{ pid = 100 }]\n";
    tree.write("quell.toml", text);
    let mut agent = agent_of(&tree, &tree.path().join("quell.toml"));
    let mut state = watched(&mut agent);
    turns(&mut agent, 0..7);
    state.refresh();
    let overridden = |state: &mut api::State| state.status().configured[0].overridden.clone();
    assert_eq!(overridden(&mut state), None);
    assert_eq!(state.status().workloads[0].knobs, ["SCHED_FIFO 1"]);
    tree.threads().set_class(100, &ThreadClass::of(SchedClass::NORMAL)).unwrap();
    turns(&mut agent, 7..13);
    state.refresh();
    let found = overridden(&mut state).expect("it is found within the vigil's interval");
    assert_eq!((found.threads, found.of), (1, 1));
    let why = state.why("web").unwrap();
    assert_eq!(why.workload.unwrap().knobs, ["SCHED_OTHER nice 0 instead of SCHED_FIFO 1"]);
    assert_eq!(why.configured.unwrap().overridden, Some(found));
    tree.threads().set_class(100, &ThreadClass::of(SchedClass::Fifo { priority: 1 })).unwrap();
    turns(&mut agent, 13..19);
    state.refresh();
    assert_eq!(overridden(&mut state), None, "it stands again");
}

#[test]
fn a_refused_reload_is_told_until_it_is_repaired() {
    let tree = machine();
    let file = limited(&tree, "");
    let mut agent = agent_of(&tree, &file);
    let mut state = watched(&mut agent);
    let (news, followed) = std::sync::mpsc::channel();
    agent.observers.tell_news(news);
    state.follow(followed);
    turns(&mut agent, 0..1);
    limited(&tree, "limit = \"much\"");
    assert!(!agent.reload());
    state.refresh();
    let shown = state.status().agent;
    assert!(shown.not_reloaded.unwrap().why.contains("quell.toml:"), "{:?}", shown.warnings);
    assert!(shown.warnings[0].contains("is refused, the previous one remains in force"), "{:?}", shown.warnings);
    limited(&tree, "limit = 0.5");
    assert!(!agent.reload());
    state.refresh();
    let shown = state.status().agent;
    assert_eq!((shown.not_reloaded, shown.warnings), (None, vec![]));
}

#[test]
fn switched_off_it_puts_everything_back_and_observes_and_switched_on_it_sets_all_again() {
    let tree = machine();
    tree.write(CPUS, OTHERS);
    let kept = tree.path().join("switched-off.json");
    let extras = || Extras { switch: Some(kept.clone()), ..Extras::default() };
    let mut first = agent(&tree, extras());
    turns(&mut first, 0..1);
    let ours = tree.read(CPUS);
    assert_ne!(ours, OTHERS);
    first.switch.off("root (process 1)", Nanos(1)).unwrap();
    let (put_back, left) = first.follow_switch("root", None).unwrap();
    assert!(put_back > 0 && left.is_empty(), "{left:?}");
    assert_eq!(tree.read(CPUS), OTHERS);
    turns(&mut first, 1..20);
    assert_eq!(tree.read(CPUS), OTHERS, "nothing is set");
    assert!(first.membership.ids(&first.config).iter().all(Option::is_some), "it observes");
    // The worker dies; the next one is off.
    drop(first);
    let mut next = agent(&tree, extras());
    turns(&mut next, 0..3);
    assert_eq!(tree.read(CPUS), OTHERS, "a worker that is started again is off");
    next.switch.on();
    next.follow_switch("root", None).unwrap();
    turns(&mut next, 3..5);
    assert_eq!(tree.read(CPUS), ours, "set again");
    assert!(!kept.exists());
    next.put_back();
    assert_eq!(tree.read(CPUS), OTHERS);
}

#[test]
fn a_worker_that_starts_again_knows_why_a_workload_is_left() {
    let tree = machine();
    let kept = tree.path().join("departed.json");
    let extras = || Extras { departed: Some(kept.clone()), ..Extras::default() };
    let standing = |agent: &mut Agent| {
        let roster = agent.membership.news(&agent.config).expect("news");
        (roster[0].standing, roster[0].left.iter().map(ToString::to_string).collect::<Vec<_>>())
    };
    let mut first = agent(&tree, extras());
    turns(&mut first, 0..3);
    assert!(!kept.exists());
    tree.cgroup("else");
    tree.join("web", &[]);
    tree.join("else", &[100]);
    tree.write("proc/100/cgroup", "0::/else\n");
    tree.write("proc/100/task/100/cgroup", "0::/else\n");
    // Scans are paced by the clock.
    let turns_until = |agent: &mut Agent, from: u64, is_kept: bool| {
        for second in from..from + 3000 {
            turns(agent, second..second + 1);
            if kept.exists() == is_kept {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("in vain: {} {is_kept}", kept.display());
    };
    turns_until(&mut first, 3, true);
    // The worker dies; the next one finds an empty cgroup.
    drop(first);
    let mut next = agent(&tree, extras());
    let (stands, left) = standing(&mut next);
    assert_eq!(stands, Standing::Left);
    assert!(left[0].contains("its cgroup is now /else"), "{left:?}");
    turns(&mut next, 0..5);
    next.membership.forget_overridden();
    assert_eq!(standing(&mut next).0, Standing::Left, "after looks, too");
    tree.join("else", &[]);
    tree.ends(100, 100);
    turns_until(&mut next, 5, false);
    next.membership.forget_overridden();
    assert_eq!(standing(&mut next), (Standing::Gone, Vec::new()), "until the process has ended");
}

#[test]
fn a_long_first_look_goes_on_in_the_next_turn_and_leaves_no_workload_out() {
    let tree = machine();
    let mut agent = agent(&tree, Extras::default());
    let steps = std::cell::Cell::new(0);
    let slow = || {
        steps.set(steps.get() + 1);
        std::thread::sleep(std::time::Duration::from_millis(600));
    };
    let attached = |agent: &mut Agent| {
        agent.membership.look(&mut agent.host, Nanos::ZERO, &slow);
        let ids = agent.membership.ids(&agent.config);
        (ids.iter().flatten().count(), agent.membership.is_behind())
    };
    assert_eq!(attached(&mut agent), (1, true), "one that takes long is a look by itself");
    assert_eq!(attached(&mut agent), (2, false));
    assert_eq!(steps.get(), 2, "each is a sign of life");
}

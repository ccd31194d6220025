//! Deferrable servers on the kernel's own scheduler: SCHED_DEADLINE for one thread a server. On machines made of plain
//! files, and on a process that the test starts itself.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use quell_linux::sched::{Kernel, ThreadCalls};
use quell_linux::testkit::FakeTree;
use quell_linux::{HostOptions, LinuxHost, Roots};
use quell_model::{
    Class, CpuCount, CpuId, Event, Host, Nanos, Outcome, Part, Plan, Rule, RuleKind, SchedClass, Selector, SignalSet,
    Support, Topology, Verdict, View, Workload, WorkloadId,
};

fn workload(selector: Selector) -> Workload {
    let mut workload = Workload::new("service", Class::LatencyCritical, CpuCount::ZERO);
    workload.selectors.push(selector);
    workload
}

fn server(workload: WorkloadId, cpu: u32, budget: u64, period: u64) -> Rule {
    let (budget, period) = (Nanos::from_millis(budget), Nanos::from_millis(period));
    Rule::Server { workload, cpu: CpuId(cpu), budget, period, priority: 1 }
}

/// What became of the rules, one for all.
fn ask(host: &mut LinuxHost, rules: &[Rule]) -> Result<(), String> {
    let mut events = Vec::new();
    host.apply(&Plan { number: 1, rules: rules.to_vec(), ..Plan::default() }, &mut events).unwrap();
    let mut answers = events.iter().filter_map(|event| match event {
        Event::Outcome(Outcome { part: Part::Rule(_), verdict, .. }) => Some(verdict),
        _ => None,
    });
    let worst = answers.find(|verdict| !matches!(verdict, Verdict::Applied(_)));
    worst.map_or(Ok(()), |verdict| match verdict {
        Verdict::Refused(why) => Err(why.to_string()),
        other => Err(format!("{other:?}")),
    })
}

fn is_deadline(calls: &impl ThreadCalls, tid: i32) -> bool {
    matches!(calls.class(tid).unwrap().class, SchedClass::Deadline { .. })
}

/// Looks until it holds, for at most five seconds.
fn eventually(host: &mut LinuxHost, mut holds: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    let mut view = View::new(host.topology());
    while begun.elapsed() < Duration::from_secs(5) {
        host.observe(SignalSet::default(), &mut view, &mut Vec::new()).unwrap();
        if holds() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

#[test]
fn the_oldest_thread_has_the_server_and_another_one_when_it_ends() {
    let tree = FakeTree::new(&Topology::synthetic(1, 1, 2, 1));
    tree.cgroup("web");
    tree.process(1000, 1, "web");
    tree.process(1010, 1, "worker");
    tree.join("web", &[1000, 1010]);
    let mut host = tree.host(HostOptions::default()).unwrap();
    let id = host.attach(workload(Selector::Cgroup("web".into()))).unwrap();
    let served = |tree: &FakeTree, pids: &[i32]| -> Vec<i32> {
        pids.iter().copied().filter(|&pid| is_deadline(&tree.threads(), pid)).collect()
    };
    ask(&mut host, &[server(id, 1, 10, 100)]).unwrap();
    assert_eq!(served(&tree, &[1000, 1010]), [1000], "one thread a server, the oldest");
    assert_eq!(tree.read("cgroup/web/cpuset.cpus"), "1", "on the server's CPU");
    ask(&mut host, &[server(id, 1, 10, 100)]).unwrap();
    assert_eq!(served(&tree, &[1000, 1010]), [1000], "the same rule again changes nothing");

    tree.remove("proc/1000");
    tree.join("web", &[1010]);
    assert!(eventually(&mut host, || served(&tree, &[1010]) == [1010]), "the one that is left has it");

    ask(&mut host, &[server(id, 1, 0, 100)]).unwrap();
    assert!(served(&tree, &[1010]).is_empty(), "taken back");
    ask(&mut host, &[server(id, 1, 10, 100)]).unwrap();
    assert_eq!(served(&tree, &[1010]), [1010]);
    host.restore();
    assert_eq!(tree.read("cgroup/web/cpuset.cpus"), "", "put back");
}

#[test]
fn what_the_kernel_would_not_take_is_refused_with_the_fix() {
    let tree = FakeTree::new(&Topology::synthetic(1, 1, 2, 1));
    tree.cgroup("web");
    tree.process(1000, 1, "web");
    tree.join("web", &[1000]);
    tree.write("proc/sys/kernel/sched_deadline_period_max_us", "4194304\n");
    let mut host = tree.host(HostOptions::default()).unwrap();
    let id = host.attach(workload(Selector::Cgroup("web".into()))).unwrap();
    let why = ask(&mut host, &[server(id, 0, 1000, 5000)]).unwrap_err();
    assert!(why.contains("sched_deadline_period_max_us") && why.contains("--period 4194304us"), "{why}");
    let why = ask(&mut host, &[server(id, 0, 96, 100)]).unwrap_err();
    assert!(why.contains("95 %"), "{why}");
    let why = ask(&mut host, &[Rule::Guaranteed { workload: id, cpus: 1 }]).unwrap_err();
    assert!(why.contains("no rules"), "{why}");
    let Some(Support::Partly(limits)) = host.capabilities().rules.get(&RuleKind::Server).cloned() else {
        panic!("{:?}", host.capabilities().rules);
    };
    for limit in ["one thread a server", "exclusive cpuset partition", "95 %", "tick", "fair server", "children"] {
        assert!(limits.contains(limit), "'{limit}' is missing in: {limits}");
    }
}

/// A process that never sleeps; ended with the test.
struct Spins(Child);

impl Spins {
    fn start() -> Spins {
        let mut command = Command::new("sh");
        command.args(["-c", "while :; do :; done"]).stdin(Stdio::null()).stdout(Stdio::null());
        Spins(command.spawn().expect("a shell"))
    }

    fn pid(&self) -> i32 {
        self.0.id() as i32
    }

    fn ran(&self) -> Duration {
        let text = std::fs::read_to_string(format!("/proc/{}/schedstat", self.pid())).unwrap();
        Duration::from_nanos(text.split_whitespace().next().unwrap().parse().unwrap())
    }
}

impl Drop for Spins {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Servers on all CPUs: their threads may be anywhere, as the kernel wants it outside a partition.
#[test]
fn a_thread_that_never_sleeps_is_held_to_its_budget_by_the_running_kernel() {
    let spins = Spins::start();
    let options = HostOptions { threads_only: true, ..HostOptions::default() };
    let mut host = LinuxHost::new(Roots::default(), options).unwrap();
    let id = host.attach(workload(Selector::Pid(spins.pid()))).unwrap();
    let all = host.topology().all();
    let rules: Vec<Rule> = all.iter().map(|cpu| server(id, cpu.0, 10, 100)).collect();
    let kernel = Kernel::new().unwrap();
    if all.len() > 1 {
        let why = ask(&mut host, &rules[..1]).unwrap_err();
        assert!(why.contains("exclusive partition") || why.contains("root"), "{why}");
        assert!(!is_deadline(&kernel, spins.pid()), "nothing of a refused plan stays");
        assert_eq!(kernel.affinity(spins.pid()).unwrap(), all);
    }
    if let Err(why) = ask(&mut host, &rules) {
        println!("not here: {why}");
        return;
    }
    assert!(is_deadline(&kernel, spins.pid()));
    let (began, before) = (Instant::now(), spins.ran());
    std::thread::sleep(Duration::from_secs(2));
    let share = (spins.ran() - before).as_secs_f64() / began.elapsed().as_secs_f64();
    println!("{:.1} % of a CPU with 10 ms every 100 ms", share * 100.0);
    assert!((0.02..0.25).contains(&share), "{share}");
    let none: Vec<Rule> = all.iter().map(|cpu| server(id, cpu.0, 0, 100)).collect();
    ask(&mut host, &none).unwrap();
    assert!(!is_deadline(&kernel, spins.pid()), "taken back");
    ask(&mut host, &rules).unwrap();
    host.restore();
    assert!(!is_deadline(&kernel, spins.pid()), "put back");
}

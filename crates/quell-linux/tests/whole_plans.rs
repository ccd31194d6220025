//! Rules and knobs of a plan apply all or none, on machines made of plain files.

use std::io;

use quell_linux::sched::{ThreadCalls, ThreadClass};
use quell_linux::testkit::{FakeThreads, FakeTree};
use quell_linux::{HostOptions, LinuxError, LinuxHost};
use quell_model::{
    Class, CpuCount, CpuId, CpuSet, Event, Host, Knob, KnobSetting, Nanos, Outcome, Part, Plan, Rule, SchedClass,
    Selector, SignalSet, Stack, Target, ThreadId, Topology, Verdict, View, Wake, Workload, WorkloadId,
};
use quell_policy::AnyPolicy;

/// A kernel that takes no deadline thread, as for a thread of some CPUs of a domain.
#[derive(Debug)]
struct NoDeadline(FakeThreads);

impl ThreadCalls for NoDeadline {
    fn exists(&mut self, thread: ThreadId) -> Result<bool, LinuxError> {
        self.0.exists(thread)
    }
    fn affinity(&self, tid: i32) -> io::Result<CpuSet> {
        self.0.affinity(tid)
    }
    fn set_affinity(&mut self, tid: i32, cpus: &CpuSet) -> io::Result<()> {
        self.0.set_affinity(tid, cpus)
    }
    fn class(&self, tid: i32) -> io::Result<ThreadClass> {
        self.0.class(tid)
    }
    fn set_class(&mut self, tid: i32, class: &ThreadClass) -> io::Result<()> {
        match class.class {
            SchedClass::Deadline { .. } => Err(io::Error::from_raw_os_error(libc::EPERM)),
            _ => self.0.set_class(tid, class),
        }
    }
    fn set_stopped(&mut self, process: ThreadId, stopped: bool) -> io::Result<()> {
        self.0.set_stopped(process, stopped)
    }
}

fn machine(refuses: bool) -> (FakeTree, LinuxHost, WorkloadId) {
    let tree = FakeTree::new(&Topology::synthetic(1, 1, 2, 1));
    tree.cgroup("web");
    tree.process(1000, 1, "web");
    tree.join("web", &[1000]);
    let options = HostOptions { scan_interval: Nanos(1), ..HostOptions::default() };
    let mut host = match refuses {
        true => LinuxHost::with_calls(tree.roots(), options, Box::new(NoDeadline(tree.threads()))).unwrap(),
        false => tree.host(options).unwrap(),
    };
    let mut workload = Workload::new("web", Class::LatencyCritical, CpuCount::ZERO);
    workload.selectors.push(Selector::Cgroup("web".into()));
    workload.demand = serde_json::from_str(r#"{"budget":"3ms","period":"10ms"}"#).unwrap();
    let id = host.attach(workload).unwrap();
    (tree, host, id)
}

fn server(workload: WorkloadId, budget: u64) -> Rule {
    let (budget, period) = (Nanos::from_millis(budget), Nanos::from_millis(10));
    Rule::Server { workload, cpu: CpuId(1), budget, period, priority: 1 }
}

fn cpus(workload: WorkloadId, cpus: &str) -> KnobSetting {
    KnobSetting { target: Target::Workload(workload), knob: Knob::Cpus(cpus.parse().unwrap()) }
}

fn apply(host: &mut LinuxHost, rules: Vec<Rule>, knobs: Vec<KnobSetting>) -> Vec<(Part, bool)> {
    let mut events = Vec::new();
    host.apply(&Plan { number: 1, rules, knobs, ..Plan::default() }, &mut events).unwrap();
    let outcome = |event: &Event| match event {
        Event::Outcome(Outcome { part, verdict, .. }) => Some((*part, matches!(verdict, Verdict::Applied(_)))),
        _ => None,
    };
    events.iter().filter_map(outcome).collect()
}

fn look(host: &mut LinuxHost) {
    host.observe(SignalSet::default(), &mut View::new(host.topology()), &mut Vec::new()).unwrap();
}

#[test]
fn a_refused_rule_takes_the_knobs_along() {
    let (tree, mut host, id) = machine(true);
    let outcomes = apply(&mut host, vec![server(id, 3)], vec![cpus(id, "1")]);
    assert_eq!(outcomes, [(Part::Rule(0), false), (Part::Knobs, false)]);
    let untouched = |tree: &FakeTree| tree.read("cgroup/web/cpuset.cpus").is_empty();
    assert!(untouched(&tree));
    for _ in 0..5 {
        look(&mut host);
        assert!(untouched(&tree), "nor is it tried again behind the policy's back");
    }
    assert!(host.touched().is_empty());
}

#[test]
fn refused_knobs_take_the_rules_along() {
    let (tree, mut host, id) = machine(false);
    let none = KnobSetting { target: Target::Workload(id), knob: Knob::Weight(0) };
    assert_eq!(apply(&mut host, vec![server(id, 3)], vec![none]), [(Part::Rule(0), false), (Part::Knobs, false)]);
    look(&mut host);
    assert!(!matches!(tree.threads().class(1000).unwrap().class, SchedClass::Deadline { .. }));
    assert!(host.touched().is_empty());
    // And where one stood before, it stands.
    assert_eq!(apply(&mut host, vec![server(id, 3)], vec![]), [(Part::Rule(0), true)]);
    assert_eq!(apply(&mut host, vec![server(id, 5)], vec![none]), [(Part::Rule(0), false), (Part::Knobs, false)]);
    look(&mut host);
    assert!(matches!(tree.threads().class(1000).unwrap().class, SchedClass::Deadline { .. }));
    assert_eq!(tree.read("cgroup/web/cpuset.cpus"), "1");
    assert_eq!(apply(&mut host, vec![server(id, 0)], vec![]), [(Part::Rule(0), true)]);
    assert!(!matches!(tree.threads().class(1000).unwrap().class, SchedClass::Deadline { .. }));
}

#[test]
fn vas_leaves_nothing_where_the_kernel_takes_no_server_and_says_so_once() {
    let (tree, mut host, _) = machine(true);
    let mut stack = Stack::of_one(AnyPolicy::named("vas").unwrap(), View::new(host.topology()));
    let (mut warnings, mut refusals) = (0, 0);
    let end = std::time::Instant::now() + std::time::Duration::from_millis(1500);
    while std::time::Instant::now() < end {
        let wake = stack.turn(&mut host).unwrap();
        let layer = stack.first();
        if layer.stepped() {
            warnings += layer.plan.notes.iter().filter(|note| note.text.contains("the host refused")).count();
            refusals += layer.refusals().count();
        }
        assert!(tree.read("cgroup/web/cpuset.cpus").is_empty());
        let soon = Wake::At(host.now() + Nanos::from_millis(5));
        host.wait(wake.sooner(soon)).unwrap();
    }
    assert_eq!(warnings, 1, "said once");
    assert!((2..=6).contains(&refusals), "tried again after a second, both parts refused each time: {refusals}");
}

//! The machines, and what the tests ask of a host on them.

use quell_linux::testkit::{FakeResctrl, FakeTree};
use quell_linux::{HostOptions, LinuxHost};
use quell_model::{
    Class, CpuCount, Event, Host, Knob, KnobSetting, Nanos, Plan, Selector, SignalSet, Target, Topology, Verdict, View,
    Workload, WorkloadId,
};

pub const ROOT: &str = "sys/fs/resctrl";

/// Two sockets × 20 ways, Broadwell.
pub const INTEL: FakeResctrl =
    FakeResctrl { ways: 20, least: 1, cdp: false, sparse: false, throttle: None, groups: 16, ids: &[0, 1] };
/// CAT and MBA, Skylake.
pub const WITH_MBA: FakeResctrl = FakeResctrl { ways: 11, throttle: Some((10, 100, 10)), groups: 4, ..INTEL };
pub const CDP: FakeResctrl = FakeResctrl { cdp: true, least: 2, ..INTEL };
/// Cache ids are not ours, bandwidth is in eighths of GB/s.
pub const AMD: FakeResctrl =
    FakeResctrl { ways: 16, sparse: true, throttle: Some((1, 2048, 1)), ids: &[4, 9], groups: 16, ..INTEL };
/// MPAM.
pub const ARM: FakeResctrl =
    FakeResctrl { ways: 12, sparse: true, throttle: Some((1, 100, 1)), ids: &[1, 2], groups: 32, ..INTEL };

/// `mba_MBps`.
pub const IN_MEGABYTES: FakeResctrl = FakeResctrl { throttle: Some((1, u32::MAX, 1)), groups: 5, ..WITH_MBA };

pub fn machine(has: Option<&FakeResctrl>) -> FakeTree {
    let tree = FakeTree::new(&Topology::synthetic(2, 1, 4, 1));
    for (at, name) in ["db.service", "batch.service", "other.service"].into_iter().enumerate() {
        tree.cgroup(name);
        let pid = 1000 + 10 * at as i32;
        tree.process(pid, 1, &format!("program {name}"));
        tree.thread(pid, pid + 1);
        tree.join(name, &[pid]);
    }
    has.into_iter().for_each(|has| tree.resctrl(has));
    tree
}

pub fn attached(tree: &FakeTree, options: HostOptions) -> (LinuxHost, [WorkloadId; 3]) {
    let mut host = tree.host(HostOptions { scan_interval: Nanos::ZERO, ..options }).unwrap();
    let mut add = |name: &str, class| {
        let mut workload = Workload::new(name, class, CpuCount::whole(1));
        workload.selectors.push(Selector::Cgroup(format!("{name}.service").into()));
        host.attach(workload).unwrap()
    };
    let ids = [add("db", Class::LatencyCritical), add("batch", Class::BestEffort), add("other", Class::BestEffort)];
    observe(&mut host);
    (host, ids)
}

pub fn observe(host: &mut LinuxHost) -> View {
    let mut view = View::new(host.topology());
    host.observe(SignalSet::default(), &mut view, &mut Vec::new()).unwrap();
    view
}

pub fn set(host: &mut LinuxHost, settings: &[(Target, Knob)]) -> Verdict {
    let knobs = settings.iter().map(|&(target, knob)| KnobSetting { target, knob }).collect();
    let mut events = Vec::new();
    host.apply(&Plan { knobs, ..Plan::default() }, &mut events).unwrap();
    let outcome = events.into_iter().find_map(|event| match event {
        Event::Outcome(outcome) => Some(outcome.verdict),
        _ => None,
    });
    outcome.expect("an outcome")
}

pub fn ways(host: &mut LinuxHost, id: WorkloadId, mask: u32) -> Verdict {
    set(host, &[(Target::Workload(id), Knob::CacheWays(mask))])
}

pub fn why(verdict: &Verdict) -> String {
    let Verdict::Refused(why) = verdict else { panic!("{verdict:?}") };
    why.to_string()
}

pub fn is_applied(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Applied(_))
}

pub fn group(tree: &FakeTree, name: &str) -> String {
    let groups = tree.control_groups();
    let found = groups.iter().find(|path| path.to_str().is_some_and(|path| path.ends_with(name)));
    found.unwrap_or_else(|| panic!("no group {name}: {groups:?}")).display().to_string()
}

pub fn schemata(tree: &FakeTree, name: &str) -> String {
    tree.read(format!("{}/schemata", group(tree, name))).replace(' ', "")
}

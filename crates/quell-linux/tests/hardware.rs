//! resctrl, cpufreq and cpuset.mems on machines made of plain files that obey the kernel's rules.

use proptest::prelude::*;
use quell_linux::testkit::{FakeResctrl, FakeTree};
use quell_linux::{HostOptions, LinuxHost};
use quell_model::{
    Class, CpuCount, CpuId, Event, Host, Knob, KnobKind, KnobSetting, Lease, LeaseRequest, LlcWays, Nanos, NodeSet,
    Plan, Refusal, Selector, SignalSet, Support, Target, ThrottleUnit, Topology, Verdict, View, Workload, WorkloadId,
};

const ROOT: &str = "sys/fs/resctrl";

/// Two sockets × 20 ways, Broadwell.
const INTEL: FakeResctrl = FakeResctrl { ways: 20, least: 1, cdp: false, throttle: None, groups: 16, ids: &[0, 1] };
/// CAT and MBA, Skylake.
const WITH_MBA: FakeResctrl = FakeResctrl { ways: 11, throttle: Some((10, 100, 10)), groups: 4, ..INTEL };
const CDP: FakeResctrl = FakeResctrl { cdp: true, least: 2, ..INTEL };
/// Cache ids are not ours, bandwidth is in eighths of GB/s.
const AMD: FakeResctrl = FakeResctrl { ways: 16, throttle: Some((1, 2048, 1)), ids: &[4, 9], groups: 16, ..INTEL };
const ARM: FakeResctrl = FakeResctrl { ways: 12, throttle: Some((1, 100, 1)), ids: &[1, 2], groups: 32, ..INTEL };

fn machine(has: Option<&FakeResctrl>) -> FakeTree {
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

fn attached(tree: &FakeTree, options: HostOptions) -> (LinuxHost, [WorkloadId; 3]) {
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

fn observe(host: &mut LinuxHost) -> View {
    let mut view = View::new(host.topology());
    host.observe(SignalSet::default(), &mut view, &mut Vec::new()).unwrap();
    view
}

fn set(host: &mut LinuxHost, settings: &[(Target, Knob)]) -> Verdict {
    let knobs = settings.iter().map(|&(target, knob)| KnobSetting { target, knob }).collect();
    let mut events = Vec::new();
    host.apply(&Plan { knobs, ..Plan::default() }, &mut events).unwrap();
    let outcome = events.into_iter().find_map(|event| match event {
        Event::Outcome(outcome) => Some(outcome.verdict),
        _ => None,
    });
    outcome.expect("an outcome")
}

fn ways(host: &mut LinuxHost, id: WorkloadId, mask: u32) -> Verdict {
    set(host, &[(Target::Workload(id), Knob::CacheWays(mask))])
}

fn why(verdict: &Verdict) -> String {
    let Verdict::Refused(why) = verdict else { panic!("{verdict:?}") };
    why.to_string()
}

fn is_applied(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Applied(_))
}

fn group(tree: &FakeTree, name: &str) -> String {
    let groups = tree.control_groups();
    let found = groups.iter().find(|path| path.to_str().is_some_and(|path| path.ends_with(name)));
    found.unwrap_or_else(|| panic!("no group {name}: {groups:?}")).display().to_string()
}

fn schemata(tree: &FakeTree, name: &str) -> String {
    tree.read(format!("{}/schemata", group(tree, name))).replace(' ', "")
}

#[test]
fn resctrl_a_workload_with_ways_is_a_group_with_all_its_threads() {
    let tree = machine(Some(&INTEL));
    let (mut host, [db, batch, _]) = attached(&tree, HostOptions::default());
    let both = [(db, 0xffc00), (batch, 0x3ff)].map(|(id, mask)| (Target::Workload(id), Knob::CacheWays(mask)));
    assert!(is_applied(&set(&mut host, &both)));
    assert_eq!(schemata(&tree, "quell.0.db"), "L3:0=ffc00;1=ffc00");
    assert_eq!(schemata(&tree, "quell.1.batch"), "L3:0=3ff;1=3ff");
    assert_eq!(
        tree.read(format!("{}/tasks", group(&tree, "quell.0.db"))).split_whitespace().collect::<Vec<_>>(),
        ["1000", "1001"]
    );
    let one = Knob::WaysOfLlc(LlcWays { llc: 1, mask: 0xc0000 });
    assert!(is_applied(&set(&mut host, &[(Target::Workload(db), one)])));
    assert_eq!(schemata(&tree, "quell.0.db"), "L3:0=ffc00;1=c0000", "line by line");
    assert_eq!(tree.read(format!("{ROOT}/schemata")).replace(' ', ""), "L3:0=fffff;1=fffff", "the root's stays");
    tree.thread(1000, 1002);
    observe(&mut host);
    assert!(tree.read(format!("{}/tasks", group(&tree, "quell.0.db"))).contains("1002"), "a thread that came later");
    let report = host.restore();
    assert!(report.left.is_empty(), "{report:?}");
    assert!(tree.control_groups().is_empty());
}

#[test]
fn resctrl_every_kind_of_machine_gives_what_it_has() {
    for (has, throttle, unit, lines) in [
        (&WITH_MBA, 45, Some(ThrottleUnit::PerCent), "L3:0=7;1=7 MB:0=50;1=50"),
        (&CDP, 0, None, "L3CODE:0=7;1=7 L3DATA:0=7;1=7"),
        (&ARM, 33, Some(ThrottleUnit::PerCent), "L3:1=7;2=7 MB:1=33;2=33"),
        (&AMD, 64, Some(ThrottleUnit::EighthsOfGigabyte), "L3:4=7;9=7 MB:4=64;9=64"),
    ] {
        let tree = machine(Some(has));
        if has.ids == AMD.ids {
            tree.write("proc/cpuinfo", "vendor_id : AuthenticAMD");
        }
        let (mut host, [db, ..]) = attached(&tree, HostOptions::default());
        let view = observe(&mut host);
        assert_eq!(view.controls.ways(), Some((has.ways, has.least)));
        assert_eq!(view.controls.groups_left, Some(has.groups - 1));
        assert_eq!(view.controls.throttle.map(|control| control.unit), unit);
        let mut settings = vec![(Target::Workload(db), Knob::CacheWays(7))];
        settings.extend(unit.map(|_| (Target::Workload(db), Knob::Throttle(throttle))));
        assert!(is_applied(&set(&mut host, &settings)), "{has:?}");
        assert_eq!(schemata(&tree, "quell.0.db").split_whitespace().collect::<Vec<_>>().join(" "), lines);
        assert_eq!(observe(&mut host).controls.groups_left, Some(has.groups - 2));
        host.restore();
        assert!(tree.control_groups().is_empty());
    }
    let tree = machine(None);
    let (mut host, [db, ..]) = attached(&tree, HostOptions::default());
    for kind in [KnobKind::CacheWays, KnobKind::Throttle, KnobKind::MaxFrequencyKhz, KnobKind::MemoryNodes] {
        let Support::No { why, mend } = &host.capabilities().knobs[&kind] else { panic!("{kind:?}") };
        assert!(!why.is_empty() && !mend.is_empty());
    }
    assert!(why(&ways(&mut host, db, 3)).contains("mount -t resctrl"), "a VM with nothing");
    assert_eq!(observe(&mut host).controls.ways(), None);
}

#[test]
fn resctrl_what_the_kernel_would_refuse_changes_nothing() {
    let tree = machine(Some(&FakeResctrl { groups: 2, ..CDP }));
    let (mut host, [db, batch, _]) = attached(&tree, HostOptions::default());
    assert!(why(&ways(&mut host, db, 0b1)).contains("at least 2"));
    assert!(why(&ways(&mut host, db, 0b1011)).contains("one run of bits"));
    assert!(tree.control_groups().is_empty());
    let both = [(db, 0b11), (batch, 0b1100)].map(|(id, mask)| (Target::Workload(id), Knob::CacheWays(mask)));
    assert!(why(&set(&mut host, &both)).contains("all 2 resctrl groups are in use"));
    assert!(tree.control_groups().is_empty(), "not even the first");
    assert!(is_applied(&ways(&mut host, db, 0b11)));
    assert!(why(&ways(&mut host, batch, 0b11)).contains("in use"));
    tree.fail_in(1);
    let error = why(&ways(&mut host, db, 0b111));
    assert!(error.contains("injected"), "the kernel's own words: {error}");
    assert!(schemata(&tree, "quell.0.db").contains("0=3;1=3"));
}

#[test]
fn resctrl_a_workload_in_another_programs_group_is_refused_by_name() {
    let tree = machine(Some(&INTEL));
    tree.write(format!("{ROOT}/pqos/schemata"), "L3:0=f;1=f");
    tree.write(format!("{ROOT}/pqos/tasks"), "1001");
    let (mut host, [db, batch, _]) = attached(&tree, HostOptions::default());
    let error = why(&ways(&mut host, db, 0b11));
    assert!(error.contains("thread 1001") && error.contains("pqos"), "{error}");
    assert!(is_applied(&ways(&mut host, batch, 0b11)), "others are not concerned");
    host.restore();
    assert_eq!(tree.control_groups().len(), 1, "theirs stays");
}

#[test]
fn resctrl_the_roots_mask_follows_only_where_it_is_allowed() {
    let tree = machine(Some(&INTEL));
    let (mut host, [db, batch, _]) = attached(&tree, HostOptions { cache: true, ..HostOptions::default() });
    assert_eq!(host.capabilities().knobs[&KnobKind::CacheWays], Support::Yes);
    let both = [(db, 0xffc00), (batch, 0x3ff)].map(|(id, mask)| (Target::Workload(id), Knob::CacheWays(mask)));
    assert!(is_applied(&set(&mut host, &both)));
    assert_eq!(tree.read(format!("{ROOT}/schemata")).replace(' ', ""), "L3:0=3ff;1=3ff");
    host.restore();
    assert_eq!(tree.read(format!("{ROOT}/schemata")).replace(' ', ""), "L3:0=fffff;1=fffff");
}

#[test]
fn a_solo_run_lifts_ways_throttle_and_frequencies_to_what_stood_before() {
    let tree = machine(Some(&WITH_MBA));
    (0..8).for_each(|cpu| tree.frequencies(cpu, &cpu.to_string()));
    let limit = |cpu: u32| format!("sys/devices/system/cpu/cpufreq/policy{cpu}/scaling_max_freq");
    tree.write(limit(3), "2000000");
    let (mut host, [db, batch, _]) = attached(&tree, HostOptions::default());
    let mut settings: Vec<_> = (2..4).map(|cpu| (Target::Cpu(CpuId(cpu)), Knob::MaxFrequencyKhz(1_000_000))).collect();
    settings.push((Target::Workload(db), Knob::CacheWays(0b111)));
    settings.push((Target::Workload(batch), Knob::Throttle(20)));
    assert!(is_applied(&set(&mut host, &settings)));
    let read = |cpu| tree.read(limit(cpu));
    assert_eq!((read(2), read(3)), ("1000000".into(), "1000000".into()));
    let lease = Lease { within: Some("0-3".parse().unwrap()), ..Lease::of(db, true, Nanos::from_secs(1)) };
    host.apply(&Plan { leases: vec![LeaseRequest::Begin(lease)], ..Plan::default() }, &mut Vec::new()).unwrap();
    assert_eq!((read(2), read(3)), ("3000000".into(), "2000000".into()), "another program's limit stays");
    assert!(schemata(&tree, "quell.0.db").contains("L3:0=7ff;1=7ff"));
    assert!(schemata(&tree, "quell.1.batch").contains("MB:0=20;1=20"), "the paused one keeps its own");
    host.apply(&Plan { leases: vec![LeaseRequest::End(db)], ..Plan::default() }, &mut Vec::new()).unwrap();
    assert_eq!((read(2), read(3)), ("1000000".into(), "1000000".into()));
    assert!(schemata(&tree, "quell.0.db").contains("L3:0=7;1=7"));
    host.restore();
    assert_eq!((read(2), read(3)), ("3000000".into(), "2000000".into()));
}

#[test]
fn cpufreq_cpus_of_a_domain_are_set_alike_with_one_write() {
    let tree = machine(None);
    tree.frequencies(0, "0 1 2 3");
    tree.frequencies(4, "4 5 6 7");
    let (mut host, _) = attached(&tree, HostOptions::default());
    let view = observe(&mut host);
    assert_eq!(view.controls.frequency_of(CpuId(2)).map(|control| control.cpus.to_string()).as_deref(), Some("0-3"));
    let on = |cpus: std::ops::Range<u32>| -> Vec<(Target, Knob)> {
        cpus.map(|cpu| (Target::Cpu(CpuId(cpu)), Knob::MaxFrequencyKhz(1_500_000))).collect()
    };
    let error = why(&set(&mut host, &on(2..6)));
    assert!(error.contains("one frequency together"), "{error}");
    assert!(is_applied(&set(&mut host, &on(0..4))));
    let limit = |number| tree.read(format!("sys/devices/system/cpu/cpufreq/policy{number}/scaling_max_freq"));
    assert_eq!((limit(0), limit(4)), ("1500000".into(), "3000000".into()));
    host.restore();
    assert_eq!(limit(0), "3000000");
}

#[test]
fn memory_moves_only_where_there_is_room_for_it() {
    let tree = machine(None);
    tree.memory_node(0, 2000, "0-1");
    tree.memory_node(1, 100, "0-1");
    let (mut host, [db, ..]) = attached(&tree, HostOptions::default());
    let nodes =
        |set: &mut LinuxHost, nodes| self::set(set, &[(Target::Workload(db), Knob::MemoryNodes(NodeSet(nodes)))]);
    tree.write("cgroup/db.service/memory.current", &(95u64 << 20).to_string());
    let error = why(&nodes(&mut host, 0b10));
    assert!(error.contains("95 MiB resident") && error.contains("100 MiB free"), "{error}");
    assert!(is_applied(&nodes(&mut host, 0b01)));
    assert_eq!(tree.read("cgroup/db.service/cpuset.mems"), "0");
    host.restore();
    assert_eq!(tree.read("cgroup/db.service/cpuset.mems"), "");
    // Without the memory controller its processes are asked.
    tree.remove("cgroup/db.service/memory.current");
    tree.write("proc/1000/status", "Name: db\nVmRSS:   97280 kB");
    assert!(why(&nodes(&mut host, 0b10)).contains("95 MiB resident"));
}

fn any_setting() -> impl Strategy<Value = (usize, Knob)> {
    let knob = prop_oneof![
        (0u32..12, 1u32..12).prop_map(|(low, count)| Knob::CacheWays(((1 << count) - 1) << low)),
        any::<u32>().prop_map(Knob::CacheWays),
        (0u32..3, 1u32..8).prop_map(|(llc, mask)| Knob::WaysOfLlc(LlcWays { llc, mask })),
        (0u32..130).prop_map(Knob::Throttle),
        prop_oneof![Just(700_000), Just(1_000_000), Just(4_000_000)].prop_map(Knob::MaxFrequencyKhz),
    ];
    (0usize..3, knob)
}

/// All that the test's knobs may change.
fn state(tree: &FakeTree) -> Vec<String> {
    let mut all: Vec<String> =
        (0..8).map(|cpu| tree.read(format!("sys/devices/system/cpu/cpufreq/policy{cpu}/scaling_max_freq"))).collect();
    for group in tree.control_groups() {
        let mut tasks: Vec<String> = tree.read(group.join("tasks")).split_whitespace().map(str::to_owned).collect();
        tasks.sort();
        all.push(format!("{} {} {}", group.display(), tree.read(group.join("schemata")), tasks.join(" ")));
    }
    all.push(tree.read(format!("{ROOT}/schemata")));
    all.sort();
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.div_ceil(8), ..ProptestConfig::default() })]

    /// A plan is made whole or not at all, whatever fails, and in the end everything is as before.
    #[test]
    fn resctrl_random_commands_with_failures_leave_nothing_half_done(
        cdp in any::<bool>(),
        plans in prop::collection::vec((prop::collection::vec(any_setting(), 1..5), 0u32..12, 0u8..8), 1..12),
    ) {
        let tree = machine(Some(&FakeResctrl { cdp, ..WITH_MBA }));
        (0..8).for_each(|cpu| tree.frequencies(cpu, &cpu.to_string()));
        let before = state(&tree);
        let (mut host, ids) = attached(&tree, HostOptions { cache: cdp, ..HostOptions::default() });
        let mut next = 2000;
        for (settings, fails_in, happens) in plans {
            if happens == 0 {
                next += 1;
                tree.thread(1000, next);
                observe(&mut host);
            }
            let standing = state(&tree);
            let settings: Vec<(Target, Knob)> = settings
                .into_iter()
                .map(|(at, knob)| match knob {
                    Knob::MaxFrequencyKhz(_) => (Target::Cpu(CpuId(at as u32)), knob),
                    _ => (Target::Workload(ids[at]), knob),
                })
                .collect();
            tree.fail_in(fails_in);
            let verdict = set(&mut host, &settings);
            let failed = fails_in > 0;
            tree.fail_in(0);
            match verdict {
                Verdict::Refused(Refusal::System(why)) if why.contains("could not be put back") => prop_assert!(failed),
                Verdict::Refused(_) => prop_assert_eq!(state(&tree), standing),
                _ => {}
            }
        }
        let report = host.restore();
        prop_assert!(report.left.is_empty(), "{:?}", report.left);
        prop_assert_eq!(state(&tree), before);
    }
}

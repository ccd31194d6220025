//! resctrl, cpufreq and cpuset.mems on machines made of plain files that obey the kernel's rules.

mod departures;
mod machines;
mod random;
mod standing;

use machines::*;
use quell_linux::testkit::FakeResctrl;
use quell_linux::{HostOptions, LinuxHost};
use quell_model::{
    CpuId, Host, Knob, KnobKind, Lease, LeaseRequest, LlcWays, Nanos, NodeSet, Plan, Support, Target, ThrottleUnit,
};

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
        let Support::No { why, fix } = &host.capabilities().knobs[&kind] else { panic!("{kind:?}") };
        assert!(!why.is_empty() && !fix.is_empty());
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
fn resctrl_and_cpufreq_a_solo_run_lifts_ways_throttle_and_frequencies_to_what_stood_before() {
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

#[test]
fn devfreq_the_gpu_is_slower_with_leave_alone_and_put_back() {
    let tree = machine(None);
    tree.devfreq("57000000.gpu", "DRIVER=nvgpu", &[140, 500, 1300]);
    let limit = "sys/class/devfreq/57000000.gpu/max_freq";
    let to = |khz| [(Target::Machine, Knob::GpuFrequencyKhz(khz))];
    let (mut host, _) = attached(&tree, HostOptions::default());
    assert!(why(&set(&mut host, &to(500_000))).contains("machine.gpu = true"));
    assert_eq!(observe(&mut host).controls.gpu, None);
    let Support::No { fix, .. } = &host.capabilities().knobs[&KnobKind::GpuFrequencyKhz] else { panic!() };
    assert!(fix.contains("machine.gpu = true"), "{fix}");
    drop(host);
    let (mut host, [db, ..]) = attached(&tree, HostOptions { gpu: true, ..HostOptions::default() });
    assert_eq!(host.capabilities().knobs[&KnobKind::GpuFrequencyKhz], Support::Yes);
    assert_eq!(observe(&mut host).controls.gpu.map(|gpu| (gpu.min_khz, gpu.max_khz)), Some((140_000, 1_300_000)));
    assert!(is_applied(&set(&mut host, &to(600_000))));
    assert_eq!(tree.read(limit), "500000000", "one of its own");
    let lease = Lease::of(db, true, Nanos::from_secs(1));
    host.apply(&Plan { leases: vec![LeaseRequest::Begin(lease)], ..Plan::default() }, &mut Vec::new()).unwrap();
    assert_eq!(tree.read(limit), "1300000000", "lifted");
    host.apply(&Plan { leases: vec![LeaseRequest::End(db)], ..Plan::default() }, &mut Vec::new()).unwrap();
    assert_eq!(tree.read(limit), "500000000");
    let report = host.restore();
    assert!(report.left.is_empty(), "{report:?}");
    assert_eq!(tree.read(limit), "1300000000");
    let bare = machine(None);
    let (host, _) = attached(&bare, HostOptions { gpu: true, ..HostOptions::default() });
    let Support::No { fix, .. } = &host.capabilities().knobs[&KnobKind::GpuFrequencyKhz] else { panic!() };
    assert!(fix.contains("NVML"), "{fix}");
}

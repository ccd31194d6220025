use super::super::{SchedExt, Turbo, Valued, examine};
use super::*;
use crate::testkit::FakeTree;
use quell_model::Topology;

fn kinds(found: &[Finding]) -> Vec<&str> {
    found.iter().map(|finding| finding.what.as_str()).collect()
}

/// A machine about which there is nothing to say.
fn clean() -> FakeTree {
    let tree = FakeTree::new(&Topology::synthetic(1, 1, 4, 1));
    tree.write("sys/kernel/sched_ext/state", "disabled");
    tree.write("proc/irq/default_smp_affinity", "f");
    tree.write("proc/irq/9/smp_affinity_list", "0-1");
    tree.write(
        "proc/interrupts",
        "           CPU0       CPU1       CPU2       CPU3\n  9:  1  2  0  0  PCI-MSI 0-edge  eth0",
    );
    tree.write("sys/devices/virtual/workqueue/cpumask", "3");
    tree.write("sys/class/net/eth0/queues/rx-0/rps_cpus", "00000003");
    tree.write("sys/devices/system/cpu/intel_pstate/no_turbo", "1");
    tree.write("sys/kernel/debug/sched/preempt", "none voluntary (full) lazy");
    tree.write("proc/sys/kernel/sched_autogroup_enabled", "0");
    for (state, name, latency) in [("state0", "POLL", "0"), ("state1", "C1", "2")] {
        tree.write(format!("sys/devices/system/cpu/cpu2/cpuidle/{state}/name"), name);
        tree.write(format!("sys/devices/system/cpu/cpu2/cpuidle/{state}/latency"), latency);
        tree.write(format!("sys/devices/system/cpu/cpu2/cpuidle/{state}/disable"), "0");
    }
    tree
}

fn found(tree: &FakeTree) -> Vec<Finding> {
    findings(&examine(&tree.roots()).unwrap(), &"2-3".parse().unwrap())
}

#[test]
fn a_machine_that_was_prepared_has_no_finding() {
    assert_eq!(found(&clean()), []);
}

/// Each change to the clean machine leads to exactly one finding, whose evidence is that file.
#[test]
fn every_trouble_is_found_by_its_file() {
    let cases = [
        ("proc/cmdline", "quiet isolcpus=2-3 ro", "CPUs are isolated at boot", "isolcpus=2-3"),
        ("proc/cmdline", "isolcpus=nohz,domain,2", "CPUs are isolated at boot", "isolcpus=nohz,domain,2"),
        ("sys/kernel/sched_ext/root/ops", "lavd", "another sched_ext scheduler is loaded", "lavd"),
        ("cgroup/cgroup.controllers", "cpuset memory", "cgroup v2 lacks the controllers cpu", "'cpuset memory'"),
        ("proc/irq/9/smp_affinity_list", "1-2", "1 interrupts may go to CPUs 2-3", "1-2 (eth0, 0 came here)"),
        ("sys/devices/virtual/workqueue/cpumask", "f", "unbound kernel work may run there", "CPUs 0-3"),
        ("sys/class/net/eth0/queues/rx-0/rps_cpus", "4", "1 network queues hand packets to CPUs there (RPS)", "CPUs 2"),
        (
            "sys/devices/system/cpu/cpu2/cpuidle/state1/latency",
            "133",
            "1 deep sleep states (C-states) are enabled",
            "C1: 133 µs to wake up, on CPUs 2",
        ),
        ("sys/devices/system/cpu/intel_pstate/no_turbo", "0", "turbo is on", "0"),
        ("sys/kernel/debug/sched/preempt", "none full (lazy)", "preemption is lazy", "lazy"),
        ("proc/sys/kernel/sched_autogroup_enabled", "1", "autogroup is on", "1"),
        ("proc/sys/kernel/sched_rt_runtime_us", "950000", "real-time threads are throttled", "950000 of 1000000 µs"),
        ("proc/sys/kernel/sched_rt_runtime_us", "-1", "real-time threads may occupy a CPU forever", "-1 of 1000000 µs"),
    ];
    for (file, text, what, value) in cases {
        let tree = clean();
        tree.write(file, text);
        let found = found(&tree);
        assert_eq!(kinds(&found), [what], "{file}: {text}");
        let shown = &found[0].evidence[0];
        assert_eq!(shown.value, value);
        let place = shown.path.strip_prefix(tree.path().to_str().unwrap()).unwrap();
        assert!(file.starts_with(place.trim_start_matches('/')), "{place} is not {file}");
        assert!(!found[0].fix.is_empty() && !found[0].consequence.is_empty());
    }
}

#[test]
fn what_does_not_touch_the_exclusive_cpus_is_not_said() {
    let tree = clean();
    tree.write("sys/devices/system/cpu/cpu0/cpuidle/state9/name", "C9");
    tree.write("sys/devices/system/cpu/cpu0/cpuidle/state9/latency", "900");
    tree.write("proc/cmdline", "isolcpus=managed_irq,3 nohz_full=2-3");
    assert_eq!(found(&tree), []);
    tree.write("sys/devices/system/cpu/cpu2/cpuidle/state1/latency", "133");
    tree.write("sys/devices/system/cpu/cpu2/cpuidle/state1/disable", "1");
    assert_eq!(found(&tree), [], "a state that is disabled hurts no one");
}

#[test]
fn cgroup_v1_mounts_are_named() {
    let tree = clean();
    tree.write("cgroup/cgroup.controllers", "");
    tree.write(
        "proc/self/mountinfo",
        "30 23 0:26 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid - cgroup cgroup rw,cpu,cpuacct\n\
         31 23 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
         32 23 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
    );
    let found = found(&tree);
    assert_eq!(kinds(&found), ["cgroup v2 lacks the controllers cpu and cpuset"]);
    let shown: Vec<&str> = found[0].evidence.iter().map(|shown| shown.value.as_str()).collect();
    assert_eq!(shown, ["''", "cgroup v1 with cpu"]);
    assert!(found[0].fix.contains("cgroup_no_v1=all"));
}

#[test]
fn interrupts_are_named_by_how_often_they_came_there() {
    let tree = clean();
    let mut table = "  CPU0 CPU1 CPU2 CPU3\n".to_owned();
    for number in 20..30 {
        tree.write(format!("proc/irq/{number}/smp_affinity_list"), "0-3");
        table += &format!(" {number}: 1 1 {number} 0 PCI-MSI 0-edge nvme{number}\n");
    }
    tree.write("proc/interrupts", &table);
    let found = found(&tree);
    assert_eq!(kinds(&found), ["10 interrupts may go to CPUs 2-3"]);
    assert_eq!(found[0].evidence.len(), NAMED);
    assert_eq!(found[0].evidence[0].value, "0-3 (nvme29, 29 came here)");
    assert!(found[0].fix.starts_with("echo 0-1 > /proc/irq/29/"), "{}", found[0].fix);
}

#[test]
fn a_real_time_kernel_cannot_load_quells_scheduler() {
    let tree = clean();
    tree.write("proc/sys/kernel/version", "#1 SMP PREEMPT_RT Debian 6.18.15-1");
    let found = found(&tree);
    assert_eq!(kinds(&found), ["the kernel is a real-time one (PREEMPT_RT)"]);
    assert!(found[0].consequence.contains("SCHED_DEADLINE"), "{}", found[0].consequence);
}

#[test]
fn a_machine_without_these_files_says_only_what_it_lacks() {
    let tree = FakeTree::new(&Topology::synthetic(1, 1, 2, 2));
    let facts = examine(&tree.roots()).unwrap();
    assert_eq!(facts.unread, Vec::<String>::new());
    let found = findings(&facts, &facts.online);
    assert_eq!(kinds(&found), ["the kernel has no sched_ext", "CPUs 0-3 share their cores with siblings"]);
}

#[test]
fn a_file_that_cannot_be_read_is_noted() {
    let tree = clean();
    tree.remove("proc/sys/kernel/sched_autogroup_enabled");
    tree.write("proc/sys/kernel/sched_autogroup_enabled/x", "a directory, which cannot be read");
    let facts = examine(&tree.roots()).unwrap();
    assert_eq!(facts.unread.len(), 1);
    assert!(facts.unread[0].contains("sched_autogroup_enabled"), "{}", facts.unread[0]);
}

#[test]
fn judging_needs_no_files() {
    let turbo = |enabled| Turbo { path: "t".into(), text: "?".into(), enabled, off: "0" };
    let facts = Facts {
        online: CpuSet::first(2),
        turbo: Some(turbo(true)),
        sched_ext: Some(SchedExt { path: "s".into(), loaded: Some("quell_grant".into()) }),
        cgroup_v2: Some(Valued { path: "c".into(), value: "cpu cpuset".into() }),
        preemption: Some(Valued { path: "p".into(), value: "lazy".into() }),
        real_time_kernel: true,
        ..Facts::default()
    };
    assert_eq!(kinds(&findings(&facts, &facts.online)), ["turbo is on"], "Quell's own scheduler is no trouble");
    let facts = Facts { turbo: Some(turbo(false)), ..facts };
    assert_eq!(findings(&facts, &facts.online), []);
}

#[test]
fn cpus_of_different_speed_are_found_by_their_capacity() {
    let tree = clean();
    for (cpu, capacity) in [(0, 446), (1, 446), (2, 1024), (3, 1010)] {
        tree.write(format!("sys/devices/system/cpu/cpu{cpu}/cpu_capacity"), &capacity.to_string());
    }
    let found = found(&tree);
    assert_eq!(kinds(&found), ["CPUs differ in speed: 2-3 are the fastest"]);
    let shown: Vec<&str> = found[0].evidence.iter().map(|shown| shown.value.as_str()).collect();
    assert_eq!(shown, ["1024 (CPUs 2-3)", "446 (CPUs 0-1)"]);
    assert!(found[0].evidence[1].path.ends_with("cpu0/cpu_capacity"));
    assert!(found[0].consequence.contains("rkube and caladan") && found[0].fix.contains("AllowedCPUs=2-3"));
}

#[test]
fn mpam_without_resctrl_is_found_by_the_firmwares_table() {
    let tree = clean();
    tree.write("sys/firmware/acpi/tables/MPAM", "MPAM");
    assert_eq!(kinds(&found(&tree)), ["MPAM is there, and this kernel has no resctrl for it"]);
    tree.write("proc/filesystems", "nodev\tresctrl");
    assert_eq!(kinds(&found(&tree)), ["resctrl is not mounted"]);
}

#[test]
fn core_scheduling_is_found_by_its_thread() {
    let mut facts = examine(&clean().roots()).unwrap();
    facts.core_scheduled = Some(Valued { path: "/proc/80/task/81".into(), value: "cookie 0x2".into() });
    let found = findings(&facts, &"2-3".parse().unwrap());
    assert_eq!(kinds(&found), ["threads are scheduled by cores (core scheduling)"]);
    assert_eq!(found[0].evidence[0].path, "/proc/80/task/81");
}

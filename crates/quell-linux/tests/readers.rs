//! Readers of pseudo-files, on machines made of plain files.

use std::fs;
use std::path::Path;

use quell_linux::testkit::FakeTree;
use quell_linux::{cgroup, procfs, procfs::ProcFs, sysfs};
use quell_model::{Cpu, CpuId, Nanos, Topology};

fn one_cpu() -> FakeTree {
    FakeTree::new(&Topology::synthetic(1, 1, 1, 1))
}

#[test]
fn a_topology_is_read_as_it_was_written() {
    for machine in [Topology::synthetic(2, 2, 3, 2), Topology::synthetic(1, 1, 2, 1), Topology::synthetic(4, 1, 16, 2)]
    {
        let tree = FakeTree::new(&machine);
        assert_eq!(sysfs::topology(&tree.roots().sys).unwrap(), machine);
    }
}

#[test]
fn cores_of_two_sockets_with_the_same_number_are_two_cores() {
    let cpu = |id, core, socket| Cpu { id: CpuId(id), core, llc: socket, node: socket, socket, capacity: Cpu::FULL };
    let tree = FakeTree::new(&Topology::new(vec![cpu(0, 0, 0), cpu(1, 1, 1)]).unwrap());
    // The kernel counts cores anew in each socket.
    tree.write("sys/devices/system/cpu/cpu0/topology/core_id", "0");
    tree.write("sys/devices/system/cpu/cpu1/topology/core_id", "0");
    assert_eq!(sysfs::topology(&tree.roots().sys).unwrap().cores().len(), 2);
}

#[test]
fn offline_cpus_are_left_out_and_missing_files_mean_the_simplest_machine() {
    let tree = FakeTree::new(&Topology::synthetic(1, 1, 4, 1));
    tree.write("sys/devices/system/cpu/online", "0,2-3");
    assert_eq!(sysfs::topology(&tree.roots().sys).unwrap().all().to_string(), "0,2-3");
    for directory in ["cpu0/topology", "cpu0/cache", "cpu2/topology", "cpu2/cache", "cpu3/topology", "cpu3/cache"] {
        tree.remove(Path::new("sys/devices/system/cpu").join(directory));
    }
    tree.remove("sys/devices/system/node");
    let plain = sysfs::topology(&tree.roots().sys).unwrap();
    assert_eq!((plain.cores().len(), plain.llcs().len(), plain.sockets().len()), (3, 1, 1));
    let nothing = tempfile::tempdir().unwrap();
    assert_eq!(sysfs::topology(nothing.path()).unwrap().all().to_string(), "0");
}

#[test]
fn nonsense_is_named_with_its_path() {
    let tree = one_cpu();
    tree.write("sys/devices/system/cpu/online", "zero");
    let error = sysfs::topology(&tree.roots().sys).unwrap_err().to_string();
    assert!(error.contains("cpu/online holds 'zero'"), "{error}");
    tree.process(7, 1, "p");
    tree.write("proc/7/task/7/stat", "7 (p) S x");
    let error = ProcFs::open(&tree.roots().proc).unwrap().stat(7, 7).unwrap_err().to_string();
    assert!(error.contains("/7/task/7/stat holds '7 (p) S x'"), "{error}");
}

#[test]
fn processes_are_listed_and_the_vanished_are_a_value() {
    let tree = one_cpu();
    tree.process(30, 1, "server --port 80");
    tree.process(4, 30, "worker");
    tree.thread(30, 31);
    let mut proc = ProcFs::open(&tree.roots().proc).unwrap();
    let (mut pids, mut tids) = (Vec::new(), Vec::new());
    proc.pids(&mut pids).unwrap();
    proc.threads(30, &mut tids).unwrap();
    assert_eq!((pids, tids), (vec![4, 30], vec![30, 31]));
    assert_eq!(proc.stat(4, 4).unwrap().unwrap().parent, 30);
    assert!(proc.command_contains(30, "server --port").unwrap());
    assert!(!proc.command_contains(30, "worker").unwrap() && !proc.command_contains(30, "").unwrap());
    assert_eq!(proc.stat(5, 5).unwrap(), None);
    assert_eq!(proc.schedstat(5, 5).unwrap(), None);
    assert_eq!(proc.switches(5, 5).unwrap(), None);
    assert!(!proc.command_contains(5, "x").unwrap());
}

#[test]
fn a_file_of_a_process_is_read_to_a_bound() {
    let tree = one_cpu();
    tree.process(30, 1, "x");
    let line = |before: usize| format!("{}needle{}", "a".repeat(before), "\0b".repeat(1 << 20));
    let mut proc = ProcFs::open(&tree.roots().proc).unwrap();
    fs::write(tree.path().join("proc/30/cmdline"), line(4090)).unwrap();
    assert!(
        proc.command_contains(30, "a needle").is_ok_and(|fits| !fits) && proc.command_contains(30, "aneedle").unwrap()
    );
    assert_eq!(proc.command_line(30).unwrap().unwrap().len(), 4096);
    fs::write(tree.path().join("proc/30/cmdline"), line(4091)).unwrap();
    assert!(!proc.command_contains(30, "needle").unwrap());
    let status = |before: usize| format!("Name:\t{}\nUid:\t1\t1\t1\t1\n", "x".repeat(before));
    fs::write(tree.path().join("proc/30/status"), status(64 * 1024 - 30)).unwrap();
    assert_eq!(proc.user(30).unwrap(), Some(1));
    fs::write(tree.path().join("proc/30/status"), status(1 << 20)).unwrap();
    assert_eq!(proc.user(30).unwrap(), None);
    assert_eq!(proc.schedstat(30, 30).unwrap().unwrap().runs, 1);
}

#[test]
fn this_process_is_in_the_real_procfs() {
    let mut proc = ProcFs::open(Path::new("/proc")).unwrap();
    let pid = std::process::id() as i32;
    let stat = proc.stat(pid, pid).unwrap().unwrap();
    assert!(stat.start > 0);
    assert!(proc.switches(pid, pid).unwrap().is_some());
    let mut tids = Vec::new();
    proc.threads(pid, &mut tids).unwrap();
    assert!(tids.contains(&pid) && tids.len() > 1);
    let other = *tids.iter().find(|tid| **tid != pid).unwrap();
    // A thread's own number leads to it too, and not to its process.
    assert_eq!(
        proc.stat(other, other).unwrap().map(|stat| stat.start),
        proc.stat(pid, other).unwrap().map(|stat| stat.start)
    );
}

#[test]
fn switches_steal_and_pressure_are_read() {
    let tree = one_cpu();
    tree.process(9, 1, "x");
    tree.write("proc/9/task/9/status", "Name:\tx\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3");
    assert_eq!(ProcFs::open(&tree.roots().proc).unwrap().switches(9, 9).unwrap(), Some((12, 3)));
    assert_eq!(procfs::steal(&tree.roots().proc).unwrap(), Nanos::from_millis(80));
    tree.write("proc/stat", "intr 0");
    assert!(procfs::steal(&tree.roots().proc).is_err());

    let group = tree.cgroup("a");
    assert_eq!(cgroup::pressure(&group).unwrap(), None);
    let full = "full avg10=0.00 avg60=0.00 avg300=0.00 total=0";
    tree.write("cgroup/a/cpu.pressure", &format!("some avg10=1.50 avg60=0.25 avg300=0.00 total=4321\n{full}"));
    let pressure = cgroup::pressure(&group).unwrap().unwrap();
    assert_eq!((pressure.avg10, pressure.avg60, pressure.total), (1.5, 0.25, Nanos::from_micros(4321)));
    tree.write("cgroup/a/cpu.stat", "usage_usec 7\nnr_throttled 2\nthrottled_usec 5");
    let stat = cgroup::cpu_stat(&group).unwrap().unwrap();
    assert_eq!((stat.usage, stat.throttled_periods, stat.throttled), (Nanos(7000), 2, Nanos(5000)));
    assert_eq!(cgroup::cpu_stat(&tree.path().join("cgroup/none")).unwrap(), None);
}

#[test]
fn an_invalid_partition_is_an_error_with_the_kernels_reason() {
    let tree = one_cpu();
    let path = tree.cgroup("a").join("cpuset.cpus.partition");
    assert!(cgroup::write_file(&path, "root").is_ok());
    // The kernel takes the word, and says something else when it is read.
    tree.write("cgroup/a/cpuset.cpus.partition", "root invalid (Cpu list in cpuset.cpus not exclusive)");
    let error = cgroup::verify_partition(&path, "root").unwrap_err().to_string();
    assert!(error.contains("reads 'root invalid (Cpu list") && error.contains("no other cgroup"), "{error}");
}

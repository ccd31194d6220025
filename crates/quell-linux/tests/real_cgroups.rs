//! What the fake trees of the other tests assume, checked against a real kernel's files in the lab; and the host at work
//! on them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

mod packets;

use quell_guest::{Machine, lab_tests};
use quell_linux::cgroup::{controllers_given, cpu_stat, give_controllers, members, pressure, read_file, write_file};
use quell_linux::debugfs::preempt;
use quell_linux::sched::{Kernel, ThreadCalls};
use quell_linux::testkit::FakeTree;
use quell_linux::write::Written;
use quell_linux::{HostOptions, Level, LinuxError, LinuxHost, Roots, sysfs};
use quell_model::{
    Class, CpuCount, CpuSet, Event, Host, Knob, KnobSetting, Lease, LeaseRequest, Nanos, Plan, SchedClass, Selector,
    Signal, SignalSet, SoloEnd, Target, Verdict, View, Wake, Workload, WorkloadId,
};

const ROOT: &str = "/sys/fs/cgroup";

/// A cgroup below one that gives the cpu and cpuset controllers alone; both are removed with the test, and processes
/// that it started are killed.
struct Real {
    parent: PathBuf,
    group: PathBuf,
    processes: Vec<Child>,
}

impl Real {
    fn new(parent: &str) -> Real {
        let parent = Path::new(ROOT).join(parent);
        let group = parent.join("a");
        fs::create_dir(&parent).unwrap();
        give_controllers(&parent, "cpu cpuset").unwrap();
        fs::create_dir(&group).unwrap();
        Real { parent, group, processes: Vec::new() }
    }

    fn at(&self, file: &str) -> PathBuf {
        self.group.join(file)
    }

    fn read(&self, file: &str) -> String {
        read_file(&self.at(file)).unwrap().unwrap_or_else(|| panic!("{file} is not there"))
    }

    fn write(&self, file: &str, text: &str) {
        assert_eq!(write_file(&self.at(file), text).unwrap(), Written::Done, "{text} > {file}");
    }

    /// The text of the error with which a value is refused.
    fn refusal(&self, file: &str, text: &str) -> String {
        write_file(&self.at(file), text).expect_err(&format!("{text} > {file} was taken")).to_string()
    }

    /// Starts a process in a cgroup: a shell script.
    fn start(&mut self, group: &Path, script: &str) -> i32 {
        let joined = format!("echo $$ > {}/cgroup.procs && {script}", group.display());
        let child = Command::new("sh").args(["-c", &joined]).spawn().unwrap();
        let pid = child.id().cast_signed();
        self.processes.push(child);
        let begin = Instant::now();
        while !processes_of(group).contains(&pid) {
            assert!(begin.elapsed() < Duration::from_secs(30), "the process does not join {}", group.display());
            std::thread::sleep(Duration::from_millis(5));
        }
        pid
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        for child in &mut self.processes {
            let _ = child.kill();
            let _ = child.wait();
        }
        let below = fs::read_dir(&self.parent).into_iter().flatten().flatten().map(|entry| entry.path());
        for group in below.filter(|path| path.is_dir()).collect::<Vec<_>>().iter().chain([&self.parent]) {
            let begin = Instant::now();
            while fs::remove_dir(group).is_err() && begin.elapsed() < Duration::from_secs(5) {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

fn processes_of(group: &Path) -> Vec<i32> {
    let mut found = Vec::new();
    members(group, &mut found).unwrap();
    found
}

/// All files below a directory, relative to it.
fn files(directory: &Path) -> Vec<PathBuf> {
    let (mut found, mut open) = (Vec::new(), vec![directory.to_owned()]);
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(next).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                open.push(entry)
            } else {
                found.push(entry.strip_prefix(directory).unwrap().to_owned())
            }
        }
    }
    assert!(!found.is_empty());
    found
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).trim().to_owned()
}

fn cpus(text: &str) -> CpuSet {
    text.parse().unwrap()
}

fn attach(host: &mut LinuxHost, name: &str, class: Class, group: &Path) -> WorkloadId {
    let mut workload = Workload::new(name, class, CpuCount::whole(1));
    workload.selectors.push(Selector::Cgroup(group.strip_prefix(ROOT).unwrap().into()));
    host.attach(workload).unwrap()
}

fn observe(host: &mut LinuxHost) -> (View, Vec<Event>) {
    let (mut view, mut events) = (View::new(host.topology()), Vec::new());
    host.observe(SignalSet::of(&[Signal::Threads]), &mut view, &mut events).unwrap();
    (view, events)
}

fn carry_out(host: &mut LinuxHost, plan: &Plan) -> Vec<Event> {
    let mut events = Vec::new();
    host.apply(plan, &mut events).unwrap();
    for event in &events {
        if let Event::Outcome(outcome) = event {
            assert!(matches!(outcome.verdict, Verdict::Applied(_)), "{:?}", outcome.verdict);
        }
    }
    events
}

fn set(host: &mut LinuxHost, settings: &[(WorkloadId, Knob)]) {
    let knobs = settings.iter().map(|&(id, knob)| KnobSetting { target: Target::Workload(id), knob }).collect();
    carry_out(host, &Plan { knobs, ..Plan::default() });
}

fn host() -> LinuxHost {
    LinuxHost::new(Roots::default(), HostOptions { partitions: true, ..HostOptions::default() }).unwrap()
}

lab_tests! {
    mod kernel {
        machine: Machine { topology: "1,2,2".parse().ok(), ..Machine::packed(Vec::new()) };

        fn a_fake_cgroup_is_like_a_new_real_one() {
            let fake = FakeTree::new(&sysfs::topology(Path::new("/sys")).unwrap());
            fake.cgroup("like/a");
            let _real = Real::new("like");
            for file in files(&fake.path().join("cgroup/like")) {
                let (ours, theirs) = (fake.read(Path::new("cgroup/like").join(&file)), text(&Path::new(ROOT).join("like").join(&file)));
                if file.ends_with("cpu.stat") {
                    for key in ours.lines().map(|line| line.split(' ').next().unwrap()) {
                        assert!(theirs.lines().any(|line| line.starts_with(key)), "{key}: {theirs}");
                    }
                } else if file != Path::new("cgroup.controllers") {
                    assert_eq!(ours, theirs, "{}", file.display());
                }
            }
        }

        fn packets_are_soft_interrupts_of_who_they_wake() {
            packets::packets_count_and_pipes_do_not();
        }

        fn the_fake_root_is_like_the_real_one() {
            let fake = FakeTree::new(&sysfs::topology(Path::new("/sys")).unwrap());
            for file in files(&fake.path().join("cgroup")) {
                let (ours, theirs) = (fake.read(Path::new("cgroup").join(&file)), text(&Path::new(ROOT).join(&file)));
                for word in ours.split_whitespace() {
                    assert!(theirs.split_whitespace().any(|other| other == word), "{}: {theirs}", file.display());
                }
            }
            // What has no file in the fake root has none in the real one.
            for file in ["cpu.weight", "cpu.idle", "cpu.max", "cpuset.cpus", "cgroup.freeze"] {
                assert!(!Path::new(ROOT).join(file).exists(), "{file}");
            }
        }

        fn a_fake_machine_is_like_the_real_one() {
            let topology = sysfs::topology(Path::new("/sys")).unwrap();
            assert_eq!((topology.cpus().len(), topology.cores().len(), topology.sockets().len()), (4, 2, 1));
            let fake = FakeTree::new(&topology);
            // Emulated first-level caches are not shared by siblings.
            let same = |file: &PathBuf| !file.to_string_lossy().contains("cache/index0");
            for file in files(&fake.path().join("sys")).into_iter().filter(same) {
                let ours = fake.read(Path::new("sys").join(&file));
                assert_eq!(ours, text(&Path::new("/sys").join(&file)), "{}", file.display());
            }
        }

        fn values_read_back_as_they_were_written() {
            let fake = FakeTree::new(&sysfs::topology(Path::new("/sys")).unwrap());
            let (fake, real) = (fake.cgroup("back/a"), Real::new("back"));
            for (file, value) in [
                ("cpuset.cpus", "0-1"),
                ("cpuset.cpus", "0,2-3"),
                ("cpuset.cpus", ""),
                ("cpuset.cpus.exclusive", "2-3"),
                ("cpuset.cpus.exclusive", ""),
                ("cpuset.cpus.partition", "member"),
                ("cpu.weight", "1"),
                ("cpu.weight", "10000"),
                ("cpu.max", "1000 100000"),
                ("cpu.max", "250000 50000"),
                ("cpu.max", "max 50000"),
                ("cpu.max", "max 100000"),
                ("cgroup.freeze", "1"),
                ("cgroup.freeze", "0"),
                ("cpu.weight", "100"),
                ("cpu.idle", "1"),
                ("cpu.idle", "0"),
            ] {
                if file == "cpuset.cpus.exclusive" {
                    write_file(&real.parent.join(file), value).unwrap();
                }
                real.write(file, value);
                write_file(&fake.join(file), value).unwrap();
                let theirs = read_file(&fake.join(file)).unwrap().unwrap();
                assert_eq!(real.read(file), theirs, "{value} > {file}");
            }
        }

        fn an_idle_cgroup_has_the_least_weight_and_the_default_one_afterwards() {
            let real = Real::new("idle");
            real.write("cpu.weight", "50");
            real.write("cpu.idle", "1");
            assert!(["0", "1"].contains(&&*real.read("cpu.weight")), "{}", real.read("cpu.weight"));
            assert!(real.refusal("cpu.weight", "70").contains("write 0 to cpu.idle first"));
            real.write("cpu.idle", "0");
            assert_eq!(real.read("cpu.weight"), "100");
        }

        fn refusals_carry_the_fix() {
            let mut real = Real::new("refused");
            for value in ["0", "10001"] {
                let refusal = real.refusal("cpu.weight", value);
                assert!(refusal.contains("from 1 to 10000"), "{refusal}");
            }
            let refusal = real.refusal("cpu.max", "999 100000");
            assert!(refusal.contains("at least 1000 us"), "{refusal}");
            let refusal = real.refusal("cpuset.cpus", "63");
            assert!(refusal.contains("the CPUs must exist"), "{refusal}");
            let group = real.group.clone();
            real.start(&group, "sleep 1000");
            // The parent gives it no memory controller.
            let refusal = give_controllers(&group, "memory").unwrap_err().to_string();
            assert!(refusal.contains("its parent does not enable that controller for it"), "{refusal}");
            give_controllers(&real.parent, "cpu cpuset memory").unwrap();
            let refusal = give_controllers(&group, "memory").unwrap_err().to_string();
            assert!(refusal.contains("move them to a child first"), "{refusal}");
        }

        /// A list that lies outside the parent's is taken, and has no effect.
        fn cpu_lists_outside_the_parents_are_taken() {
            let real = Real::new("outside");
            write_file(&real.parent.join("cpuset.cpus"), "0-1").unwrap();
            for (list, effect) in [("2-3", "0-1"), ("1-2", "1"), ("", "0-1")] {
                real.write("cpuset.cpus", list);
                assert_eq!((real.read("cpuset.cpus"), real.read("cpuset.cpus.effective")), (list.into(), effect.into()));
            }
        }

        /// The kernel refuses an empty list while threads are there; what stands there instead has the same effect,
        /// whatever the parent's list becomes.
        fn a_cpu_list_is_opened_again_while_threads_are_there() {
            let mut real = Real::new("opened");
            let group = real.group.clone();
            real.start(&group, "sleep 1000");
            write_file(&real.parent.join("cpuset.cpus"), "0-1").unwrap();
            real.write("cpuset.cpus", "1");
            real.write("cpuset.cpus", "");
            assert_eq!(real.read("cpuset.cpus.effective"), "0-1");
            write_file(&real.parent.join("cpuset.cpus"), "1-3").unwrap();
            assert_eq!(real.read("cpuset.cpus.effective"), "1-3");
        }

        fn a_cpu_list_is_opened_again_beside_a_partition() {
            let mut real = Real::new("beside");
            let (group, partition) = (real.group.clone(), real.parent.join("partition"));
            fs::create_dir(&partition).unwrap();
            real.start(&group, "sleep 1000");
            real.write("cpuset.cpus", "0");
            write_file(&real.parent.join("cpuset.cpus.exclusive"), "2-3").unwrap();
            for (file, value) in [("cpuset.cpus", "2-3"), ("cpuset.cpus.exclusive", "2-3"), ("cpuset.cpus.partition", "root")] {
                write_file(&partition.join(file), value).unwrap();
            }
            real.write("cpuset.cpus", "");
            assert_eq!(real.read("cpuset.cpus.effective"), "0-1");
            assert_eq!(text(&partition.join("cpuset.cpus.partition")), "root");
        }

        fn a_partition_that_cannot_be_is_an_error_with_the_kernels_reason() {
            let real = Real::new("invalid");
            let error = write_file(&real.at("cpuset.cpus.partition"), "root").unwrap_err();
            assert!(matches!(&error, LinuxError::Partition { verdict, .. } if verdict.starts_with("root invalid (")), "{error}");
            real.write("cpuset.cpus.partition", "member");
        }

        fn controllers_are_given_and_taken() {
            let real = Real::new("given");
            assert_eq!(controllers_given(&real.group).unwrap().unwrap(), "");
            give_controllers(&real.group, "cpu cpuset").unwrap();
            assert_eq!(controllers_given(&real.group).unwrap().unwrap(), "cpu cpuset");
            give_controllers(&real.group, "cpu").unwrap();
            assert_eq!(controllers_given(&real.group).unwrap().unwrap(), "cpu");
        }

        fn what_vanished_is_a_value() {
            let real = Real::new("vanished");
            fs::remove_dir(&real.group).unwrap();
            assert_eq!(read_file(&real.at("cpu.weight")).unwrap(), None);
            assert_eq!(write_file(&real.at("cpu.weight"), "7").unwrap(), Written::Vanished);
            assert_eq!(controllers_given(&real.group).unwrap(), None);
            assert!(cpu_stat(&real.group).unwrap().is_none() && pressure(&real.group).unwrap().is_none());
            assert!(processes_of(&real.group).is_empty());
        }

        fn a_threaded_cgroup_tells_its_threads() {
            let mut real = Real::new("threaded");
            let group = real.group.clone();
            let pid = real.start(&group, "sleep 1000");
            let below = group.join("below");
            fs::create_dir(&below).unwrap();
            fs::write(below.join("cgroup.type"), "threaded").unwrap();
            fs::write(below.join("cgroup.threads"), pid.to_string()).unwrap();
            assert_eq!(processes_of(&below), [pid]);
            // Its weight is that of this group, which it has for itself.
            fs::write(group.join("cgroup.subtree_control"), "+cpu").unwrap();
            let mut host = LinuxHost::new(Roots::default(), HostOptions::default()).unwrap();
            attach(&mut host, "vm", Class::LatencyCritical, &group);
            let (view, _) = observe(&mut host);
            let target = Target::Thread(*view.threads.id.iter().find(|id| id.tid == pid).unwrap());
            let knobs = vec![KnobSetting { target, knob: Knob::Weight(161) }];
            let mut events = Vec::new();
            host.apply(&Plan { knobs, ..Plan::default() }, &mut events).unwrap();
            assert_eq!(read_file(&below.join("cpu.weight")).unwrap().as_deref(), Some("161"), "{events:?}");
            assert!(host.restore().left.is_empty());
            assert_eq!(read_file(&below.join("cpu.weight")).unwrap().as_deref(), Some("100"));
            fs::write(group.join("cgroup.threads"), pid.to_string()).unwrap();
            fs::remove_dir(&below).unwrap();
        }

        fn use_and_waiting_are_counted() {
            let mut real = Real::new("counted");
            let group = real.group.clone();
            real.write("cpuset.cpus", "0");
            real.write("cpu.max", "10000 100000");
            (0..2).for_each(|_| { real.start(&group, "while :; do :; done"); });
            let begin = Instant::now();
            loop {
                let (stat, waiting) = (cpu_stat(&group).unwrap().unwrap(), pressure(&group).unwrap().unwrap());
                let counted = [stat.usage, stat.throttled, waiting.total].iter().all(|time| *time > Nanos::ZERO);
                if counted && stat.throttled_periods > 0 {
                    break;
                }
                assert!(begin.elapsed() < Duration::from_secs(60), "{stat:?} {waiting:?}");
                std::thread::sleep(Duration::from_millis(50));
            }
        }

        fn the_preemption_mode_is_read_and_set() {
            let path = preempt::path(Path::new("/sys"));
            let before = read_file(&path).unwrap().unwrap();
            assert_eq!(before, "lazy");
            for mode in ["full", "lazy"] {
                write_file(&path, mode).unwrap();
                assert_eq!(read_file(&path).unwrap().unwrap(), mode);
            }
        }

        /// The plan of the fake tree's test, on real cgroups: two workloads, every kind of file, and all put back.
        fn a_plan_is_carried_out_and_put_back() {
            let (mut server, mut batch) = (Real::new("server"), Real::new("batch"));
            let groups = [server.group.clone(), batch.group.clone()];
            let pid = server.start(&groups[0], "sleep 1000");
            let other = batch.start(&groups[1], "sleep 1000");
            let files = ["cpuset.cpus", "cpuset.cpus.exclusive", "cpuset.cpus.partition", "cpu.weight", "cpu.idle", "cpu.max"];
            let contents = || groups.clone().map(|group| files.map(|file| text(&group.join(file))));
            let before = contents();
            let mut host = host();
            let lc = attach(&mut host, "server", Class::LatencyCritical, &groups[0]);
            let be = attach(&mut host, "batch", Class::BestEffort, &groups[1]);
            observe(&mut host);
            assert_eq!((host.level(lc), host.level(be)), (Some(Level::Cgroup), Some(Level::Cgroup)));
            set(&mut host, &[
                (lc, Knob::Cpus(cpus("2-3"))),
                (be, Knob::Cpus(cpus("0-1"))),
                (lc, Knob::Weight(10_000)),
                (be, Knob::Quota(Some(CpuCount(1500)))),
                (be, Knob::Weight(20)),
                (be, Knob::IdleOnly(true)),
                (lc, Knob::Partition(true)),
                (lc, Knob::Class(SchedClass::Fifo { priority: 1 })),
            ]);
            assert_eq!(contents()[0], ["2-3", "2-3", "root", "10000", "0", "max 100000"]);
            let idle_weight = &contents()[1][3].clone();
            assert!(["0", "1"].contains(&&**idle_weight), "{idle_weight}");
            assert_eq!(contents()[1], ["0-1", "", "member", idle_weight, "1", "150000 100000"]);
            let kernel = Kernel::new().unwrap();
            assert_eq!(kernel.class(pid).unwrap().class, SchedClass::Fifo { priority: 1 });
            assert_eq!([pid, other].map(|pid| kernel.affinity(pid).unwrap()), [cpus("2-3"), cpus("0-1")]);
            // No other workload has the partition's CPUs.
            assert_eq!(text(&Path::new(ROOT).join("cpuset.cpus.effective")), "0-1");
            // They move: a partition cannot give up CPUs before it has ended.
            set(&mut host, &[(lc, Knob::Cpus(cpus("1-3"))), (be, Knob::Cpus(cpus("0"))), (be, Knob::IdleOnly(false))]);
            assert_eq!(contents()[0][..3], ["1-3", "1-3", "root"]);
            assert_eq!(contents()[1], ["0", "", "member", "20", "0", "150000 100000"]);
            let report = host.restore();
            assert!(report.left.is_empty(), "{report:?}");
            // The lists cannot be empty again while threads are in it, and have the effect of empty ones.
            let after = contents().map(|files| files[1..].to_vec());
            assert_eq!(after, before.map(|files| files[1..].to_vec()));
            assert_eq!([pid, other].map(|pid| kernel.affinity(pid).unwrap()), [cpus("0-3"), cpus("0-3")]);
            assert_eq!(kernel.class(pid).unwrap().class, SchedClass::NORMAL);
            assert_eq!(text(&Path::new(ROOT).join("cpuset.cpus.effective")), "0-3");
        }

        fn a_solo_run_freezes_the_others() {
            let (mut server, mut batch) = (Real::new("solo"), Real::new("frozen"));
            let groups = [server.group.clone(), batch.group.clone()];
            server.start(&groups[0], "sleep 1000");
            batch.start(&groups[1], "sleep 1000");
            let mut host = host();
            let lc = attach(&mut host, "server", Class::LatencyCritical, &groups[0]);
            attach(&mut host, "batch", Class::BestEffort, &groups[1]);
            observe(&mut host);
            let lease = Lease::of(lc, false, Nanos::from_millis(500));
            carry_out(&mut host, &Plan { leases: vec![LeaseRequest::Begin(lease)], ..Plan::default() });
            let begin = Instant::now();
            while !text(&groups[1].join("cgroup.events")).contains("frozen 1") {
                assert!(begin.elapsed() < Duration::from_secs(5), "{}", text(&groups[1].join("cgroup.events")));
            }
            assert_eq!(text(&groups[0].join("cgroup.freeze")), "0");
            host.wait(Wake::OnEvent).unwrap();
            while !observe(&mut host).1.contains(&Event::SoloEnded(lc, SoloEnd::Elapsed)) {
                assert!(begin.elapsed() < Duration::from_secs(30), "the solo run does not end");
                std::thread::sleep(Duration::from_millis(10));
            }
            assert_eq!(text(&groups[1].join("cgroup.freeze")), "0");
        }
    }
}

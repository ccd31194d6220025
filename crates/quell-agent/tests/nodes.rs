//! A guest of two memory nodes: a workload's threads and memory move to the other node, and are put back after the agent was
//! killed.

use std::env;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use quell_agent::guardian::{Site, put_back_journal};
use quell_agent::journal::FileJournal;
use quell_guest::{Machine, lab_tests};
use quell_linux::{HostOptions, LinuxHost, Roots};
use quell_model::{
    Class, CpuCount, Event, Host, Knob, KnobKind, KnobSetting, NodeSet, Outcome, Plan, Selector, SignalSet, Support,
    Target, Verdict, View, Workload,
};

const ROLE: &str = "QUELL_NODES_ROLE";
const GROUP: &str = "/sys/fs/cgroup/moved";
const JOURNAL: &str = "/tmp/nodes.journal";
const MIB: u64 = 1 << 20;
/// What the workload has in memory.
const RESIDENT: u64 = 64 * MIB;
const PATIENCE: Duration = Duration::from_secs(120);

/// This program in another role; it ends with the test.
struct Role(Child);

impl Role {
    fn start(role: &str) -> Role {
        let own = env::current_exe().unwrap();
        let test = "nodes::threads_and_memory_move_and_are_put_back_after_a_kill";
        Role(Command::new(own).args(["--exact", test]).env(ROLE, role).stdout(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Fills memory once it is in its cgroup, and keeps it.
fn work() {
    until("the cgroup has it", || fs::read_to_string("/proc/self/cgroup").unwrap().contains("moved"));
    let memory = vec![1u8; RESIDENT as usize];
    sleep(PATIENCE);
    assert_eq!(std::hint::black_box(memory)[17], 1);
}

/// Moves the workload to the second node, and is killed then.
fn agent() {
    let roots = Roots::default();
    let journal = FileJournal::create(Path::new(JOURNAL), &roots).unwrap();
    let mut host = LinuxHost::new(roots, HostOptions::default()).unwrap().with_journal(Box::new(journal));
    assert_eq!(host.capabilities().knobs[&KnobKind::MemoryNodes], Support::Yes);
    let mut workload = Workload::new("moved", Class::BestEffort, CpuCount::whole(1));
    workload.selectors.push(Selector::Cgroup("moved".into()));
    let id = host.attach(workload).unwrap();
    host.observe(SignalSet::default(), &mut View::new(host.topology()), &mut Vec::new()).unwrap();
    let set = |knob| KnobSetting { target: Target::Workload(id), knob };
    let knobs = vec![set(Knob::Cpus("2-3".parse().unwrap())), set(Knob::MemoryNodes(NodeSet(0b10)))];
    let mut events = Vec::new();
    host.apply(&Plan { knobs, ..Plan::default() }, &mut events).unwrap();
    let applied = |event: &Event| matches!(event, Event::Outcome(Outcome { verdict: Verdict::Applied(_), .. }));
    assert!(events.iter().any(applied), "{events:?}");
    sleep(PATIENCE);
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "not yet: {what}");
        sleep(Duration::from_millis(20));
    }
}

/// Bytes that a process has on a node.
fn resident(pid: u32, node: u32) -> u64 {
    let maps = fs::read_to_string(format!("/proc/{pid}/numa_maps")).unwrap();
    let pages = maps.split_whitespace().filter_map(|word| word.strip_prefix(&format!("N{node}="))?.parse::<u64>().ok());
    pages.sum::<u64>() * 4096
}

fn allowed(pid: u32) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim().to_owned()
}

fn read(file: &str) -> String {
    fs::read_to_string(format!("{GROUP}/{file}")).unwrap().trim().to_owned()
}

fn write(file: &str, text: &str) {
    fs::write(format!("{GROUP}/{file}"), text).unwrap_or_else(|error| panic!("{file}: {error}"));
}

lab_tests! {
    mod nodes {
        machine: Machine { nodes: 2, memory_mib: Some(2048), ..Machine::packed(Vec::new()) };

        fn threads_and_memory_move_and_are_put_back_after_a_kill() {
            match env::var(ROLE).as_deref() {
                Ok("work") => return work(),
                Ok("agent") => return agent(),
                _ => {}
            }
            assert_eq!(fs::read_to_string("/sys/devices/system/node/has_memory").unwrap().trim(), "0-1");
            fs::create_dir(GROUP).unwrap();
            // What a group allows itself bounds what policies choose.
            write("cpuset.cpus", "0-3");
            write("cpuset.mems", "0");
            let work = Role::start("work");
            let pid = work.0.id();
            write("cgroup.procs", &pid.to_string());
            until("its memory is on node 0", || resident(pid, 0) > RESIDENT);
            let agent = Role::start("agent");
            until("its memory is on node 1", || resident(pid, 1) > RESIDENT);
            let left = resident(pid, 0);
            assert!(left < RESIDENT / 4, "{} MiB stay", left / MIB);
            assert_eq!((allowed(pid), read("cpuset.mems")), ("2-3".into(), "1".into()));
            drop(agent);
            let report = put_back_journal(Path::new(JOURNAL), &Site::default(), &mut || {}).unwrap();
            assert!(report.left.is_empty(), "{:?}", report.left);
            assert_eq!((read("cpuset.cpus"), read("cpuset.mems"), allowed(pid)), ("0-3".into(), "0".into(), "0-3".into()));
            until("its memory is back", || resident(pid, 0) > RESIDENT && resident(pid, 1) < RESIDENT / 4);
        }
    }
}

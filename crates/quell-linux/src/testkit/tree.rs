//! A machine's pseudo-filesystems as plain files in a temporary directory.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use quell_model::{CpuSet, Topology};
use tempfile::TempDir;

use super::{FakeGroups, FakeResctrl, FakeThreads};
use crate::{HostOptions, LinuxError, LinuxHost, Roots};

/// A machine: CPUs, processes with threads, cgroups. It does nothing by itself: a file holds its last write.
///
/// # Panics
/// Every method panics if the temporary directory cannot be written.
#[derive(Debug)]
pub struct FakeTree {
    directory: TempDir,
    next_start: Cell<u64>,
    fails_in: Arc<AtomicU32>,
}

impl FakeTree {
    /// A machine with these CPUs, no process, and a cgroup root with all controllers.
    #[must_use]
    pub fn new(topology: &Topology) -> FakeTree {
        // In memory where there is such a place, as the real ones are.
        let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let directory = directory.expect("a temporary directory");
        let tree = FakeTree { directory, next_start: Cell::new(1), fails_in: Arc::default() };
        tree.write("proc/stat", "cpu  1 2 3 4 5 6 7 8 0 0");
        tree.cpus(topology);
        tree.write("cgroup/cgroup.controllers", "cpuset cpu io memory pids");
        tree.write("cgroup/cgroup.subtree_control", "cpuset cpu io memory pids");
        tree.write("cgroup/cpuset.cpus.effective", &topology.all().to_string());
        tree.write("cgroup/cgroup.procs", "");
        tree
    }

    /// The root of everything.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The roots of the pseudo-filesystems.
    #[must_use]
    pub fn roots(&self) -> Roots {
        Roots::under(self.path())
    }

    /// A host on this machine, whose threads obey by changing their files.
    ///
    /// # Errors
    /// The host's.
    pub fn host(&self, options: HostOptions) -> Result<LinuxHost, LinuxError> {
        LinuxHost::with_calls(self.roots(), options, Box::new(self.threads()))
    }

    /// Calls that act on this machine's threads.
    #[must_use]
    pub fn threads(&self) -> FakeThreads {
        let groups = FakeGroups::new(self.path().join("sys/fs/resctrl"), Arc::clone(&self.fails_in));
        FakeThreads::new(self.path().join("proc"), self.online(), groups)
    }

    /// resctrl is mounted, and the machine has this.
    pub fn resctrl(&self, has: &FakeResctrl) {
        let root = Path::new("sys/fs/resctrl");
        let each = |value: &str| has.ids.iter().map(|id| format!("{id}={value}")).collect::<Vec<_>>().join(";");
        let mut lines = Vec::new();
        let mask = format!("{:x}", u32::MAX >> (32 - has.ways.clamp(1, 32)));
        let caches: &[&str] = match (has.ways, has.cdp) {
            (0, _) => &[],
            (_, false) => &["L3"],
            (_, true) => &["L3CODE", "L3DATA"],
        };
        for name in caches {
            let info = root.join("info").join(name);
            self.write(info.join("cbm_mask"), &mask);
            self.write(info.join("min_cbm_bits"), &has.least.to_string());
            self.write(info.join("shareable_bits"), "0");
            self.write(info.join("num_closids"), &has.groups.to_string());
            lines.push(format!("{name:>10}:{}", each(&mask)));
        }
        if let Some((least, most, step)) = has.throttle {
            let info = root.join("info/MB");
            self.write(info.join("min_bandwidth"), &least.to_string());
            self.write(info.join("bandwidth_gran"), &step.to_string());
            self.write(info.join("most"), &most.to_string());
            self.write(info.join("num_closids"), &has.groups.to_string());
            lines.push(format!("{:>10}:{}", "MB", each(&most.to_string())));
        }
        self.write(root.join("info/last_cmd_status"), "ok");
        self.write(root.join("info/default"), &lines.join("\n"));
        self.write(root.join("schemata"), &lines.join("\n"));
        self.write(root.join("tasks"), "");
        let llcs = quell_model::CpuSet::from_iter(self.online().iter());
        for cpu in llcs.iter() {
            let shared = self.read(format!("sys/devices/system/cpu/cpu{cpu}/cache/index3/shared_cpu_list"));
            let mut firsts: Vec<String> = llcs
                .iter()
                .map(|cpu| self.read(format!("sys/devices/system/cpu/cpu{cpu}/cache/index3/shared_cpu_list")))
                .collect();
            firsts.dedup();
            let at = firsts.iter().position(|list| *list == shared).unwrap_or(0);
            let id = has.ids.get(at).copied().unwrap_or(0);
            self.write(format!("sys/devices/system/cpu/cpu{cpu}/cache/index3/id"), &id.to_string());
        }
    }

    /// The control groups of resctrl, but the root.
    #[must_use]
    pub fn control_groups(&self) -> Vec<PathBuf> {
        FakeGroups::new(self.path().join("sys/fs/resctrl"), Arc::default()).groups()
    }

    /// After that many more changes of resctrl one fails; 0: none does.
    pub fn fail_in(&self, changes: u32) {
        self.fails_in.store(changes, std::sync::atomic::Ordering::SeqCst);
    }

    /// CPUs that have one frequency together, from 800 to 3,000 MHz.
    pub fn frequencies(&self, number: u32, cpus: &str) {
        let policy = PathBuf::from(format!("sys/devices/system/cpu/cpufreq/policy{number}"));
        for (name, value) in [
            ("affected_cpus", cpus),
            ("cpuinfo_min_freq", "800000"),
            ("cpuinfo_max_freq", "3000000"),
            ("scaling_max_freq", "3000000"),
        ] {
            self.write(policy.join(name), value);
        }
    }

    /// A memory node with free memory, and those that have memory.
    pub fn memory_node(&self, node: u32, free_mib: u64, all: &str) {
        let base = Path::new("sys/devices/system/node");
        self.write(base.join("has_memory"), all);
        let text = format!("Node {node} MemTotal: 99999999 kB\nNode {node} MemFree: {} kB", free_mib * 1024);
        self.write(base.join(format!("node{node}/meminfo")), &text);
    }

    /// Writes a file, and the directories on the way to it.
    pub fn write(&self, path: impl AsRef<Path>, text: &str) {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().expect("a file has a directory")).expect("create a directory");
        fs::write(&path, format!("{text}\n")).expect("write a file");
    }

    /// A file's text without surrounding white space.
    #[must_use]
    pub fn read(&self, path: impl AsRef<Path>) -> String {
        fs::read_to_string(self.path().join(path)).expect("read a file").trim().to_owned()
    }

    /// Takes a file or directory away.
    pub fn remove(&self, path: impl AsRef<Path>) {
        let path = self.path().join(path);
        let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.expect("remove a file");
    }

    /// The CPUs that are online.
    #[must_use]
    pub fn online(&self) -> CpuSet {
        self.read("sys/devices/system/cpu/online").parse().expect("a CPU list")
    }

    /// A cgroup with the cpu and cpuset controllers, and those above it; the path is below the cgroup root. Returns its
    /// directory.
    pub fn cgroup(&self, path: &str) -> PathBuf {
        let mut at = PathBuf::from("cgroup");
        for part in Path::new(path) {
            at.push(part);
            if self.path().join(&at).join("cgroup.procs").exists() {
                continue;
            }
            let files = [
                ("cgroup.procs", ""),
                ("cgroup.controllers", "cpuset cpu"),
                ("cgroup.subtree_control", ""),
                ("cgroup.freeze", "0"),
                ("cpu.weight", "100"),
                ("cpu.idle", "0"),
                ("cpu.max", "max 100000"),
                ("cpu.stat", "usage_usec 0\nuser_usec 0\nsystem_usec 0"),
                ("cpuset.cpus", ""),
                ("cpuset.mems", ""),
                ("cpuset.cpus.effective", &self.online().to_string()),
                ("cpuset.cpus.exclusive", ""),
                ("cpuset.cpus.partition", "member"),
            ];
            files.iter().for_each(|(name, text)| self.write(at.join(name), text));
            if let Some(parent) = at.parent().filter(|parent| *parent != Path::new("cgroup")) {
                self.write(parent.join("cgroup.subtree_control"), "cpuset cpu");
            }
        }
        self.path().join(at)
    }

    /// Puts processes into a cgroup; the path is below the cgroup root.
    pub fn join(&self, cgroup: &str, pids: &[i32]) {
        let lines: Vec<String> = pids.iter().map(i32::to_string).collect();
        self.write(Path::new("cgroup").join(cgroup).join("cgroup.procs"), &lines.join("\n"));
    }

    /// A process with a first thread, younger than all others.
    pub fn process(&self, pid: i32, parent: i32, command: &str) {
        self.thread_of(pid, pid, parent);
        let line = format!("{}\0", command.replace(' ', "\0"));
        fs::write(self.path().join(format!("proc/{pid}/cmdline")), line).expect("write a command line");
    }

    /// One more thread of a process.
    pub fn thread(&self, pid: i32, tid: i32) {
        self.thread_of(pid, tid, 1);
    }

    /// A thread's times: CPU time and waiting, nanoseconds.
    pub fn ran(&self, pid: i32, tid: i32, run_time: u64, run_delay: u64) {
        self.write(format!("proc/{pid}/task/{tid}/schedstat"), &format!("{run_time} {run_delay} 1"));
    }

    /// A thread runs on a CPU from now on.
    pub fn runs_on(&self, pid: i32, tid: i32, cpu: u32) {
        let path = format!("proc/{pid}/task/{tid}/stat");
        let line = self.read(&path).replacen(" S ", " R ", 1).replacen(" 17 0 ", &format!(" 17 {cpu} "), 1);
        self.write(path, &line);
    }

    fn thread_of(&self, pid: i32, tid: i32, parent: i32) {
        let start = self.next_start.replace(self.next_start.get() + 1);
        let line = format!(
            "{tid} (fake) S {parent} 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 {start} 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0"
        );
        self.write(format!("proc/{pid}/task/{tid}/stat"), &line);
        self.ran(pid, tid, 0, 0);
    }

    fn cpus(&self, topology: &Topology) {
        let base = Path::new("sys/devices/system");
        self.write(base.join("cpu/online"), &topology.all().to_string());
        for cpu in topology.cpus() {
            let shares = |same: &dyn Fn(&quell_model::Cpu) -> bool| {
                let set: CpuSet = topology.cpus().iter().filter(|other| same(other)).map(|other| other.id).collect();
                set.to_string()
            };
            let directory = base.join(format!("cpu/cpu{}", cpu.id));
            self.write(directory.join("topology/physical_package_id"), &cpu.socket.to_string());
            self.write(directory.join("topology/core_cpus_list"), &topology.core_of(cpu.id).to_string());
            self.write(directory.join("cache/index0/level"), "1");
            self.write(directory.join("cache/index0/shared_cpu_list"), &topology.core_of(cpu.id).to_string());
            self.write(directory.join("cache/index3/level"), "3");
            self.write(directory.join("cache/index3/shared_cpu_list"), &shares(&|other| other.llc == cpu.llc));
            let node = base.join(format!("node/node{}/cpulist", cpu.node));
            self.write(node, &shares(&|other| other.node == cpu.node));
        }
    }
}

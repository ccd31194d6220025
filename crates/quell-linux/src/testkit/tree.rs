//! A machine's pseudo-filesystems as plain files in a temporary directory.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use quell_model::{CpuSet, Topology};
use tempfile::TempDir;

use super::{FakeGroups, FakeThreads};
use crate::{HostOptions, LinuxError, LinuxHost, Roots};

/// A machine: CPUs, processes with threads, cgroups. It does nothing by itself: a file holds its last write.
///
/// # Panics
/// Every method panics if the temporary directory cannot be written.
#[derive(Debug)]
pub struct FakeTree {
    directory: TempDir,
    next_start: Cell<u64>,
    pub(super) fails_in: Arc<AtomicU32>,
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

    /// A process is in this session from now on.
    pub fn set_session(&self, pid: i32, session: i32) {
        let path = format!("proc/{pid}/task/{pid}/stat");
        let text = self.read(&path);
        let (name, rest) = text.rsplit_once(") ").expect("a stat line");
        let mut fields: Vec<String> = rest.split(' ').map(str::to_owned).collect();
        fields[6 - 3] = session.to_string();
        self.write(&path, &format!("{name}) {}", fields.join(" ")));
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

    /// These CPUs of a machine are online from now on, the others offline: those have no files on their place.
    pub fn online_are(&self, machine: &Topology, online: &CpuSet) {
        self.write("sys/devices/system/cpu/possible", &machine.all().to_string());
        for cpu in machine.cpus() {
            let directory = self.path().join(format!("sys/devices/system/cpu/cpu{}", cpu.id));
            let _ = fs::remove_dir_all(directory);
        }
        let there = machine.cpus().iter().filter(|cpu| online.contains(cpu.id)).copied().collect();
        self.cpus(&Topology::new(there).expect("a CPU that is online"));
        self.write("cgroup/cpuset.cpus.effective", &online.to_string());
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
        let first = fs::read_to_string(self.path().join(format!("proc/{pid}/task/{pid}/stat"))).unwrap_or_default();
        let parent = first.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)?.parse().ok());
        self.thread_of(pid, tid, parent.unwrap_or(1));
    }

    /// A thread ends; a process's first one takes the process along.
    pub fn ends(&self, pid: i32, tid: i32) {
        let gone = if pid == tid { format!("proc/{pid}") } else { format!("proc/{pid}/task/{tid}") };
        self.remove(gone);
        if self.path().join("sys/fs/resctrl/tasks").is_file() {
            self.control().forget(tid);
        }
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

    /// Writes the time since the machine started: all threads so far are older.
    pub fn write_uptime(&self) {
        let now = self.next_start.get();
        self.write("proc/uptime", &format!("{}.{:02} 0.00", now / 100, now % 100));
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
            if topology.speeds().len() > 1 {
                self.write(directory.join("cpu_capacity"), &cpu.capacity.to_string());
            }
            self.write(directory.join("cache/index0/level"), "1");
            self.write(directory.join("cache/index0/shared_cpu_list"), &topology.core_of(cpu.id).to_string());
            self.write(directory.join("cache/index3/level"), "3");
            self.write(directory.join("cache/index3/shared_cpu_list"), &shares(&|other| other.llc == cpu.llc));
            let node = base.join(format!("node/node{}/cpulist", cpu.node));
            self.write(node, &shares(&|other| other.node == cpu.node));
        }
    }
}

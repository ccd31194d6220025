//! A machine's hardware as plain files: control groups, frequencies, memory nodes, CPUs that go offline.

use std::fs;
use std::path::{Path, PathBuf};

use quell_model::{CpuId, CpuSet};

use super::{FakeGroups, FakeResctrl, FakeTree};

const RESCTRL: &str = "sys/fs/resctrl";
const CPUS: &str = "sys/devices/system/cpu";

impl FakeTree {
    /// resctrl is mounted, and the machine has this.
    pub fn resctrl(&self, has: &FakeResctrl) {
        let root = Path::new(RESCTRL);
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
            self.write(info.join("sparse_masks"), &u32::from(has.sparse).to_string());
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
        let mut caches: Vec<String> = self.online().iter().map(|cpu| self.cpus_of_cache(cpu)).collect();
        caches.dedup();
        for cpu in self.online().iter() {
            let own = self.cpus_of_cache(cpu);
            let at = caches.iter().position(|list| *list == own).unwrap_or(0);
            let id = has.ids.get(at).copied().unwrap_or(0);
            self.write(format!("{CPUS}/cpu{cpu}/cache/index3/id"), &id.to_string());
        }
    }

    fn cpus_of_cache(&self, cpu: CpuId) -> String {
        self.read(format!("{CPUS}/cpu{cpu}/cache/index3/shared_cpu_list"))
    }

    /// Changes of resctrl by another program; none fails.
    #[must_use]
    pub fn control(&self) -> FakeGroups {
        FakeGroups::at(self.path().join(RESCTRL))
    }

    /// The control groups of resctrl, but the root.
    #[must_use]
    pub fn control_groups(&self) -> Vec<PathBuf> {
        self.control().groups()
    }

    /// After that many more changes of resctrl one fails; 0: none does.
    pub fn fail_in(&self, changes: u32) {
        self.fails_in.store(changes, std::sync::atomic::Ordering::SeqCst);
    }

    /// CPUs that have one frequency together, from 800 to 3,000 MHz.
    pub fn frequencies(&self, number: u32, cpus: &str) {
        let policy = PathBuf::from(format!("{CPUS}/cpufreq/policy{number}"));
        for (name, value) in [
            ("affected_cpus", cpus),
            ("related_cpus", cpus),
            ("cpuinfo_min_freq", "800000"),
            ("cpuinfo_max_freq", "3000000"),
            ("scaling_max_freq", "3000000"),
        ] {
            self.write(policy.join(name), value);
        }
    }

    /// A device with frequencies of its own, MHz, and what it reports of itself.
    pub fn devfreq(&self, name: &str, uevent: &str, mhz: &[u32]) {
        let device = PathBuf::from(format!("sys/class/devfreq/{name}"));
        let listed: Vec<String> = mhz.iter().map(|mhz| format!("{mhz}000000")).collect();
        self.write(device.join("available_frequencies"), &listed.join(" "));
        self.write(device.join("max_freq"), &format!("{}000000", mhz.iter().max().unwrap_or(&0)));
        self.write(device.join("device/uevent"), uevent);
    }

    /// A memory node with free memory, and those that have memory.
    pub fn memory_node(&self, node: u32, free_mib: u64, all: &str) {
        let base = Path::new("sys/devices/system/node");
        self.write(base.join("has_memory"), all);
        let text = format!("Node {node} MemTotal: 99999999 kB\nNode {node} MemFree: {} kB", free_mib * 1024);
        self.write(base.join(format!("node{node}/meminfo")), &text);
    }

    /// These CPUs are online, no others. As in the kernel, a CPU that is not has no caches, a frequency domain without CPUs
    /// cannot be read, and a cache without CPUs is no domain of resctrl; it has its defaults when it is one again.
    pub fn set_online(&self, cpus: CpuSet) {
        let all: CpuSet =
            self.names(CPUS).iter().filter_map(|name| name.strip_prefix("cpu")?.parse().ok()).map(CpuId).collect();
        self.write(format!("{CPUS}/online"), &cpus.to_string());
        for cpu in all.iter() {
            self.hide(&format!("{CPUS}/cpu{cpu}/cache"), !cpus.contains(cpu));
        }
        for policy in self.names(&format!("{CPUS}/cpufreq")) {
            let policy = format!("{CPUS}/cpufreq/{policy}");
            let related = self.read(format!("{policy}/related_cpus"));
            let own: Vec<&str> =
                related.split_whitespace().filter(|cpu| cpus.contains(CpuId(cpu.parse().unwrap_or(0)))).collect();
            self.write(format!("{policy}/affected_cpus"), &own.join(" "));
            self.hide(&format!("{policy}/scaling_max_freq"), own.is_empty());
        }
        let id = |cpu: CpuId| {
            fs::read_to_string(self.path().join(format!("{CPUS}/cpu{cpu}/cache/index3/id"))).ok()?.trim().parse().ok()
        };
        let mut ids: Vec<u32> = cpus.iter().filter_map(id).collect();
        ids.dedup();
        if !ids.is_empty() {
            self.control().keep_domains(&ids);
        }
    }

    /// The names in a directory; none if there is none.
    fn names(&self, directory: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path().join(directory)).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }

    /// Takes a file or directory out of sight, or shows it again.
    fn hide(&self, path: &str, hidden: bool) {
        let (shown, aside) = (self.path().join(path), self.path().join(format!("{path}.offline")));
        let (from, to) = if hidden { (shown, aside) } else { (aside, shown) };
        if from.exists() {
            fs::rename(from, to).expect("rename a file");
        }
    }
}

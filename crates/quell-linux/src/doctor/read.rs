//! Reading the facts. A file that cannot be read is noted and nothing else is lost.

use std::fs;
use std::path::{Path, PathBuf};

use quell_model::{CpuId, CpuSet, Nanos, Topology};

use super::facts::{CgroupV1, Facts, IdleState, Interrupt, Receive, SchedExt, Turbo, Valued};
use super::mask;
use crate::cgroup::CpuV1;
use crate::debugfs::preempt;
use crate::procfs::ProcFs;
use crate::resctrl::Resctrl;
use crate::sched::first_cookied;
use crate::{LinuxError, Roots, file, sysfs};

/// Reads the facts of this machine.
///
/// # Errors
/// If not even its CPUs can be read.
pub fn examine(roots: &Roots) -> Result<Facts, LinuxError> {
    let topology = sysfs::topology(&roots.sys)?;
    let mut reader = Reader::default();
    let (proc, sys) = (&roots.proc, &roots.sys);
    let kernel = reader.text(&proc.join("sys/kernel/osrelease"));
    let mut facts = Facts {
        online: topology.all(),
        kernel,
        real_time_kernel: reader
            .text(&proc.join("sys/kernel/version"))
            .is_some_and(|version| version.value.split_whitespace().any(|word| word == "PREEMPT_RT")),
        isolcpus: reader.isolcpus(&proc.join("cmdline")),
        core_scheduled: reader.core_scheduled(roots),
        interrupts: reader.interrupts(proc),
        workqueues: reader.text(&sys.join("devices/virtual/workqueue/cpumask")).and_then(as_mask),
        receive: reader.receive(&sys.join("class/net")),
        idle_states: reader.idle_states(sys, &topology),
        turbo: reader.turbo(sys),
        preemption: reader.text(&preempt::path(sys)).and_then(|read| {
            let value = preempt::chosen(&read.value)?.to_owned();
            Some(Valued { path: read.path, value })
        }),
        speeds: speeds(sys, &topology),
        mpam: Some(sys.join("firmware/acpi/tables/MPAM")).filter(|table| table.exists()),
        autogroup: reader.number(&proc.join("sys/kernel/sched_autogroup_enabled")).map(|read| {
            let value = read.value != 0;
            Valued { path: read.path, value }
        }),
        rt_runtime_us: reader.number(&proc.join("sys/kernel/sched_rt_runtime_us")),
        rt_period_us: reader.number(&proc.join("sys/kernel/sched_rt_period_us")).map(|read| read.value),
        rt_groups: CpuV1::find(roots).filter(CpuV1::has_real_time_budgets).map(|cpu| cpu.closed_below()),
        cgroup_v1: reader.cgroup_v1(&proc.join("self/mountinfo")),
        cgroup_v2: reader.text(&roots.cgroup.join("cgroup.controllers")),
        sched_ext: reader.sched_ext(&sys.join("kernel/sched_ext")),
        resctrl: Resctrl::find(roots).map(|found| Valued {
            path: found.root().to_owned(),
            value: (
                ["L3", "L3CODE"].iter().any(|name| found.root().join("info").join(name).is_dir()),
                found.root().join("info/MB").is_dir(),
            ),
        }),
        has_resctrl: reader.text(&proc.join("filesystems")).is_some_and(|list| list.value.contains("resctrl")),
        frequencies: sysfs::frequency_domains(sys, &topology.all())
            .unwrap_or_default()
            .iter()
            .fold(CpuSet::EMPTY, |all, domain| all.union(&domain.control.cpus)),
        siblings: siblings(&topology),
        unread: Vec::new(),
    };
    facts.unread = reader.unread;
    Ok(facts)
}

fn speeds(sys: &Path, topology: &Topology) -> Vec<(Valued<u32>, CpuSet)> {
    let first = |cpus: &CpuSet| {
        let cpu = topology.cpu(cpus.lowest()?)?;
        let path = sys.join(format!("devices/system/cpu/cpu{}/cpu_capacity", cpu.id));
        Some((Valued { path, value: cpu.capacity }, *cpus))
    };
    match topology.speeds() {
        [_] => Vec::new(),
        several => several.iter().filter_map(first).collect(),
    }
}

fn siblings(topology: &Topology) -> CpuSet {
    topology.cpus().iter().map(|cpu| cpu.id).filter(|&cpu| !topology.siblings_of(cpu).is_empty()).collect()
}

fn as_mask(read: Valued<String>) -> Option<Valued<CpuSet>> {
    let value = mask::parse(&read.value)?;
    Some(Valued { path: read.path, value })
}

/// Reads, and notes what could not be read.
#[derive(Default)]
pub(super) struct Reader {
    /// With the reasons.
    pub unread: Vec<String>,
}

impl Reader {
    /// A file's text.
    pub fn text(&mut self, path: &Path) -> Option<Valued<String>> {
        match file::read(path) {
            Ok(text) => text.map(|value| Valued { path: path.to_owned(), value }),
            Err(error) => {
                self.unread.push(error.to_string());
                None
            }
        }
    }

    fn number(&mut self, path: &Path) -> Option<Valued<i64>> {
        let read = self.text(path)?;
        let value = read.value.parse().ok()?;
        Some(Valued { path: read.path, value })
    }

    /// The names in a directory, sorted; none if it does not exist.
    pub fn names(&mut self, directory: &Path) -> Vec<String> {
        match fs::read_dir(directory) {
            Ok(entries) => {
                let mut names: Vec<String> =
                    entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
                names.sort();
                names
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(error) => {
                self.unread.push(LinuxError::io("list", directory)(error).to_string());
                Vec::new()
            }
        }
    }

    /// Threads of another machine are not asked about.
    fn core_scheduled(&mut self, roots: &Roots) -> Option<Valued<String>> {
        if !roots.is_this_machine() {
            return None;
        }
        let found = ProcFs::open(&roots.proc).and_then(|mut proc| first_cookied(&mut proc));
        let found = found.map_err(|error| self.unread.push(error.to_string())).ok().flatten()?;
        let path = roots.proc.join(format!("{}/task/{}", found.pid, found.tid));
        Some(Valued { path, value: format!("cookie {:#x}", found.cookie) })
    }

    /// `isolcpus=` isolates scheduling domains unless only other flags stand before its list
    /// (kernel-parameters.txt: `isolcpus=[flag-list,]<cpu-list>`; without a flag, `domain`).
    pub fn isolcpus(&mut self, path: &Path) -> Option<Valued<String>> {
        let read = self.text(path)?;
        let parameter = read.value.split_whitespace().find_map(|word| word.strip_prefix("isolcpus="))?;
        let flags: Vec<&str> =
            parameter.split(',').take_while(|part| part.starts_with(|first: char| first.is_alphabetic())).collect();
        let isolates = flags.is_empty() || flags.contains(&"domain");
        isolates.then(|| Valued { path: read.path, value: format!("isolcpus={parameter}") })
    }

    fn interrupts(&mut self, proc: &Path) -> Vec<Interrupt> {
        let table = self.text(&proc.join("interrupts")).map(|read| read.value).unwrap_or_default();
        let mut found = Vec::new();
        for name in self.names(&proc.join("irq")) {
            let Ok(number) = name.parse::<u32>() else { continue };
            let path = proc.join("irq").join(&name).join("smp_affinity_list");
            let Some(allowed) = self.text(&path).and_then(|read| read.value.parse::<CpuSet>().ok()) else { continue };
            let (counts, name) = row(&table, number).unwrap_or_default();
            found.push(Interrupt { path, number, name, allowed, counts });
        }
        found.sort_by_key(|interrupt| interrupt.number);
        found
    }

    fn receive(&mut self, net: &Path) -> Vec<Receive> {
        let mut found = Vec::new();
        for device in self.names(net) {
            let queues = net.join(&device).join("queues");
            for queue in self.names(&queues) {
                let path = queues.join(queue).join("rps_cpus");
                if let Some(cpus) = self.text(&path).and_then(as_mask) {
                    found.push(Receive { path, cpus: cpus.value });
                }
            }
        }
        found
    }

    /// The states of all CPUs, those with the same name and latency as one.
    fn idle_states(&mut self, sys: &Path, topology: &Topology) -> Vec<IdleState> {
        let mut found: Vec<IdleState> = Vec::new();
        for cpu in topology.cpus() {
            let directory = sys.join(format!("devices/system/cpu/cpu{}/cpuidle", cpu.id));
            for state in self.names(&directory) {
                let path = directory.join(state);
                let Some(name) = self.text(&path.join("name")).map(|read| read.value) else { continue };
                let Some(latency) = self.number(&path.join("latency")) else { continue };
                let exit_latency = Nanos::from_micros(u64::try_from(latency.value).unwrap_or(0));
                let enabled = self.number(&path.join("disable")).is_none_or(|disable| disable.value == 0);
                let known = found.iter().position(|s| s.name == name && s.exit_latency == exit_latency);
                let known = known.unwrap_or_else(|| {
                    found.push(IdleState { path, name, exit_latency, enabled_on: CpuSet::EMPTY });
                    found.len() - 1
                });
                if enabled {
                    found[known].enabled_on.insert(cpu.id);
                }
            }
        }
        found
    }

    fn turbo(&mut self, sys: &Path) -> Option<Turbo> {
        let base = sys.join("devices/system/cpu");
        // intel_pstate has the inverse flag; every other driver has cpufreq's (Documentation/admin-guide/pm).
        let files = [("intel_pstate/no_turbo", "0", "1"), ("cpufreq/boost", "1", "0")];
        files.iter().find_map(|&(name, on, off)| {
            let read = self.text(&base.join(name))?;
            Some(Turbo { path: read.path, enabled: read.value == on, text: read.value, off })
        })
    }

    /// The mounted hierarchies of version 1 with a controller that Quell needs.
    pub fn cgroup_v1(&mut self, mountinfo: &Path) -> Vec<CgroupV1> {
        let table = self.text(mountinfo).map(|read| read.value).unwrap_or_default();
        table
            .lines()
            .filter_map(|line| {
                let (mount, kind) = line.split_once(" - ")?;
                let mut kind = kind.split(' ');
                if kind.next()? != "cgroup" {
                    return None;
                }
                let options = kind.nth(1)?;
                let ours: Vec<&str> = options.split(',').filter(|name| ["cpu", "cpuset"].contains(name)).collect();
                let mount = PathBuf::from(mount.split(' ').nth(4)?);
                (!ours.is_empty()).then(|| CgroupV1 { mount, controllers: ours.join(",") })
            })
            .collect()
    }

    fn sched_ext(&mut self, path: &Path) -> Option<SchedExt> {
        self.text(&path.join("state"))?;
        let loaded = self.text(&path.join("root/ops")).map(|read| read.value);
        Some(SchedExt { path: path.to_owned(), loaded })
    }
}

/// An interrupt's counts by CPU and its name, from /proc/interrupts: `NUMBER: COUNT… CHIP PIN-TYPE NAME`.
fn row(table: &str, number: u32) -> Option<(Vec<u64>, String)> {
    let head = table.lines().next()?;
    let cpus: Vec<CpuId> =
        head.split_whitespace().filter_map(|name| name.strip_prefix("CPU")?.parse().ok().map(CpuId)).collect();
    let line = table.lines().skip(1).find_map(|line| line.trim_start().strip_prefix(&format!("{number}:")))?;
    let mut words = line.split_whitespace();
    let mut counts = vec![0; cpus.last()?.index() + 1];
    for cpu in &cpus {
        counts[cpu.index()] = words.next()?.parse().ok()?;
    }
    Some((counts, words.next_back().unwrap_or_default().to_owned()))
}

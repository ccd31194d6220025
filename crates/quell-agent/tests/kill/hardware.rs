//! A machine whose threads are real and whose control groups and frequencies are files: its knobs are turned at random.

use std::fs;
use std::path::{Path, PathBuf};

use quell_agent::config::Config;
use quell_agent::guardian::{Site, Worker};
use quell_linux::resctrl::GroupCalls;
use quell_linux::sched::{Kernel, ThreadCalls, ThreadClass};
use quell_linux::testkit::{FakeGroups, FakeResctrl, FakeTree};
use quell_linux::write::Journal;
use quell_linux::{HostOptions, LinuxError, LinuxHost, Roots};
use quell_model::{
    CpuId, CpuSet, Host, Knob, KnobSetting, Lease, LeaseLimits, LeaseRequest, Nanos, Plan, SignalSet, Target, ThreadId,
    Topology, View, Wake, WorkloadId,
};
use rand::Rng;

use super::threads::victims;

/// Names the directory of the files.
const TREE: &str = "QUELL_KILL_TREE";
/// How what is wrong with a paused process ends.
pub const PAUSED: &str = " is paused";
const HIGHEST: &str = "3000000";
const HIGHEST_OF_GPU: &str = "3000000000";
const HAS: FakeResctrl =
    FakeResctrl { ways: 11, least: 1, cdp: false, sparse: false, throttle: Some((10, 100, 10)), groups: 8, ids: &[0] };

/// The files.
pub struct Hardware(FakeTree);

impl Hardware {
    /// A cache of 11 ways with a memory throttle, and a frequency domain for each CPU.
    pub fn new(cpus: &CpuSet) -> Hardware {
        let count = cpus.iter().map(|cpu| cpu.0 + 1).max().unwrap_or(1);
        let tree = FakeTree::new(&Topology::synthetic(1, 1, count, 1));
        tree.resctrl(&HAS);
        (0..count).for_each(|cpu| tree.frequencies(cpu, &cpu.to_string()));
        tree.devfreq("57000000.gpu", "DRIVER=nvgpu", &[140, 500, 3000]);
        Hardware(tree)
    }

    /// What describes it to an agent.
    pub fn environment(&self) -> (&'static str, &Path) {
        (TREE, self.0.path())
    }

    /// Groups, lines, limits and pauses that are left.
    pub fn wrong(&self, token: &str) -> Vec<String> {
        let mut wrong: Vec<String> = self.0.control_groups().iter().map(|group| group.display().to_string()).collect();
        let lines = self.0.read("sys/fs/resctrl/schemata");
        if lines != self.0.read("sys/fs/resctrl/info/default") {
            wrong.push(format!("the root has {lines}"));
        }
        let sys = self.0.path().join("sys");
        let policies = fs::read_dir(sys.join("devices/system/cpu/cpufreq")).into_iter().flatten().flatten();
        let limits = policies.map(|policy| (policy.path().join("scaling_max_freq"), HIGHEST));
        for (limit, highest) in limits.chain([(sys.join("class/devfreq/57000000.gpu/max_freq"), HIGHEST_OF_GPU)]) {
            match fs::read_to_string(&limit).expect("it is there").trim() {
                now if now == highest => {}
                // A writer that is killed between two calls leaves a plain file empty, and no file of sysfs.
                "" => fs::write(&limit, format!("{highest}\n")).expect("write it"),
                now => wrong.push(format!("{} is {now}", limit.display())),
            }
        }
        for pid in victims(token) {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            if stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T')) {
                wrong.push(format!("{pid}{PAUSED}"));
            }
        }
        wrong
    }
}

/// The machine that this process was given; None: none.
pub fn site() -> Option<Site> {
    let tree = tree()?;
    let roots = Roots { sys: tree.join("sys"), ..Roots::default() };
    Some(Site { roots, calls })
}

fn tree() -> Option<PathBuf> {
    std::env::var_os(TREE).map(PathBuf::from)
}

fn calls() -> Result<Box<dyn ThreadCalls>, LinuxError> {
    let groups = FakeGroups::at(tree().unwrap_or_default().join("sys/fs/resctrl"));
    Ok(Box::new(Calls { kernel: Kernel::new()?, groups }))
}

/// The kernel's threads, and groups of files.
#[derive(Debug)]
struct Calls {
    kernel: Kernel,
    groups: FakeGroups,
}

impl ThreadCalls for Calls {
    fn groups(&self) -> Box<dyn GroupCalls> {
        Box::new(self.groups.clone())
    }

    fn exists(&mut self, thread: ThreadId) -> Result<bool, LinuxError> {
        self.kernel.exists(thread)
    }

    fn affinity(&self, tid: i32) -> std::io::Result<CpuSet> {
        self.kernel.affinity(tid)
    }

    fn set_affinity(&mut self, tid: i32, cpus: &CpuSet) -> std::io::Result<()> {
        self.kernel.set_affinity(tid, cpus)
    }

    fn class(&self, tid: i32) -> std::io::Result<ThreadClass> {
        self.kernel.class(tid)
    }

    fn set_class(&mut self, tid: i32, class: &ThreadClass) -> std::io::Result<()> {
        self.kernel.set_class(tid, class)
    }

    fn set_stopped(&mut self, pid: ThreadId, stopped: bool) -> std::io::Result<()> {
        self.kernel.set_stopped(pid, stopped)
    }
}

/// Turns the knobs of the configuration's workloads until it is asked to stop.
pub fn turn(worker: &Worker, journal: Box<dyn Journal>, config: &Config, site: &Site) -> u8 {
    let leases = LeaseLimits { duty_per_mille: 500, ..LeaseLimits::default() };
    let options = HostOptions { cache: true, gpu: true, leases, threads_only: true, ..HostOptions::default() };
    let calls = (site.calls)().expect("a kernel");
    let mut host = LinuxHost::with_calls(site.roots.clone(), options, calls).expect("a machine").with_journal(journal);
    let attach = |host: &mut LinuxHost, name: &str| -> WorkloadId {
        let member = config.workloads.iter().find(|member| member.workload.name == name).expect("it is configured");
        host.attach(member.workload.clone()).expect("there is always a victim")
    };
    let (front, back) = (attach(&mut host, "lc"), attach(&mut host, "be"));
    let (mut view, mut random, mut events) = (View::new(host.topology()), rand::rng(), Vec::new());
    let cpus = host.topology().all();
    while !worker.stop().load(std::sync::atomic::Ordering::Acquire) {
        worker.beat(Nanos::from_secs(1));
        host.observe(SignalSet::default(), &mut view, &mut events).expect("it can be read");
        let mut plan = Plan::default();
        let mut set = |target, knob| plan.knobs.push(KnobSetting { target, knob });
        let low = random.random_range(1..10);
        set(Target::Workload(front), Knob::CacheWays(0x7ff & !((1 << low) - 1)));
        set(Target::Workload(back), Knob::CacheWays((1 << low) - 1));
        set(Target::Workload(back), Knob::Throttle(10 * random.random_range(1..=10)));
        let cpu = CpuId(random.random_range(0..cpus.len() as u32));
        set(Target::Cpu(cpu), Knob::MaxFrequencyKhz(100_000 * random.random_range(8..30)));
        set(Target::Machine, Knob::GpuFrequencyKhz(100_000 * random.random_range(1..30)));
        set(Target::Workload(back), Knob::Pause(random.random_bool(0.5)));
        let lease = Lease::of(front, true, Nanos::from_millis(100));
        plan.leases.push(match random.random_range(0..10) {
            0..3 => LeaseRequest::Begin(lease),
            3..6 => LeaseRequest::Pass { from: front, to: back },
            6..8 => LeaseRequest::Pass { from: back, to: front },
            _ => LeaseRequest::End(if random.random_bool(0.5) { front } else { back }),
        });
        host.apply(&plan, &mut events).expect("it can be applied, or is refused");
        events.clear();
        host.wait(Wake::At(host.now() + Nanos::from_millis(5))).expect("it waits");
    }
    host.restore();
    0
}

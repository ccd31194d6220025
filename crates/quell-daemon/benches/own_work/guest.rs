//! The guest's side: workloads of this program's own processes, each a cgroup, and an agent that manages them.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use quell_agent::config;
use quell_agent::run::Extras;
use quell_daemon::{Asked, run_agent, settle};
use quell_guest::counts::Mark;
use quell_linux::sched::{Kernel, ThreadCalls};
use quell_linux::write::NoJournal;
use quell_model::{CpuId, CpuSet};

use crate::work::{Counted, Work};

/// Nothing else runs on it where it is counted.
pub const AGENTS_CPU: usize = 0;
/// Stands before the number of threads and the interval of their wake-ups in the arguments of a workload's process.
pub const PROCESS: &str = "--process";

const CGROUPS: &str = "/sys/fs/cgroup";
const CONFIGURATION: &str = "/tmp/own_work.toml";
const SCHEDULER: &str = "/sys/kernel/sched_ext/state";

/// Runs the agent and sets the marks; with `symbols`, writes the kernel's functions to the output.
pub fn run(work: &Work, symbols: bool) {
    for (path, value) in [("/proc/sys/kernel/kptr_restrict", "0"), ("/proc/sys/net/core/bpf_jit_kallsyms", "1")] {
        fs::write(path, value).expect(path);
    }
    let rest: CpuSet = (1..work.cpus).map(CpuId).collect();
    stay_on(&rest);
    let all: Vec<Child> = (0..work.critical + work.others).map(|at| process(work, at)).collect();
    fs::write(CONFIGURATION, configuration(work)).expect(CONFIGURATION);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            marks(work, symbols);
            stop.store(true, Ordering::Release);
        });
        if work.counted != Counted::AllCpus {
            stay_on(&CpuSet::one(CpuId(AGENTS_CPU as u32)));
        }
        let (read, problems) = config::read_all(Path::new(CONFIGURATION));
        assert!(!problems.are_fatal(), "{problems}");
        let (config, fell_back) = settle(read, Asked::Files);
        assert_eq!(fell_back, None);
        run_agent(config, Extras::default(), Box::new(NoJournal), None, &stop).expect("an agent");
    });
    for mut process in all {
        process.kill().and_then(|()| process.wait()).expect("it ends");
    }
}

/// Sets both marks, on a CPU that is not the agent's.
fn marks(work: &Work, symbols: bool) {
    match work.counted {
        Counted::AgentsCpu { after, ms } => {
            thread::sleep(Duration::from_millis(after));
            Mark::Begin.set();
            thread::sleep(Duration::from_millis(ms));
        }
        Counted::AllCpus => {
            Mark::Begin.set();
            while fs::read_to_string(SCHEDULER).expect("sched_ext").trim() != "enabled" {
                thread::sleep(Duration::from_millis(20));
            }
        }
    }
    Mark::End.set();
    if symbols {
        let text = fs::read_to_string("/proc/kallsyms").expect("the kernel's symbols");
        let is_code = |line: &&str| line.split(' ').nth(1).is_some_and(|kind| "tTwW".contains(kind));
        text.lines().filter(is_code).for_each(|line| println!("{line}"));
    }
}

/// A workload's process, in a cgroup of its own. Threads of latency-critical ones wake up ten times a second.
fn process(work: &Work, at: usize) -> Child {
    let group = format!("{CGROUPS}/w{at}");
    fs::create_dir(&group).expect("a cgroup");
    let own = std::env::current_exe().expect("this program");
    let wakes = if at < work.critical { "100" } else { "0" };
    let child = Command::new(own).args([PROCESS, &work.threads.to_string(), wakes]).spawn().expect("a process");
    fs::write(format!("{group}/cgroup.procs"), child.id().to_string()).expect("it joins");
    child
}

/// Has this many threads, each of which wakes up at this interval (ms); 0: never.
pub fn be_a_process(threads: &str, wakes: &str) -> ! {
    let [threads, wakes] = [threads, wakes].map(|number| number.parse::<u64>().expect("a number"));
    let pause = Duration::from_millis(if wakes == 0 { 1 << 40 } else { wakes });
    let rest = move || {
        loop {
            thread::sleep(pause);
        }
    };
    (1..threads).for_each(|_| _ = thread::spawn(rest));
    rest()
}

fn configuration(work: &Work) -> String {
    let mut text = format!("[[policy]]\nname = \"{}\"\n", work.policy);
    if work.counted != Counted::AllCpus {
        write!(text, "[machine]\nscheduler = \"kernel\"\ncpus = \"1-{}\"\n", work.cpus - 1).expect("text");
    }
    for at in 0..work.critical + work.others {
        let (class, cpus) = if at < work.critical { ("lc", "0.1") } else { ("be", "0") };
        write!(
            text,
            "[[workload]]\nname = \"w{at}\"\nclass = \"{class}\"\ncpus = {cpus}\nmatch = [{{ cgroup = \"w{at}\" }}]\n"
        )
        .expect("text");
    }
    text
}

fn stay_on(cpus: &CpuSet) {
    Kernel::new().expect("a kernel").set_affinity(0, cpus).expect("the CPUs are there");
}

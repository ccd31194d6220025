//! Threads of the victims: what they have, and what they should have.

use std::fmt;
use std::fs;

use quell_linux::sched::{Kernel, ThreadCalls, ThreadClass};
use quell_model::{CpuId, CpuSet, SchedClass};

/// The nice value of the thread that is nice.
pub const NICE: i8 = 5;

/// Binds the calling thread to one CPU.
pub fn pin_to(cpu: u32) {
    let set = CpuSet::one(CpuId(cpu));
    Kernel::new().expect("/proc is there").set_affinity(0, &set).expect("CPU 0 is there");
}

/// Makes the calling thread nice.
pub fn be_nice(nice: i8) {
    let class = ThreadClass { class: SchedClass::Fair { nice, slice: None }, reset_on_fork: false };
    Kernel::new().expect("/proc is there").set_class(0, &class).expect("everybody may be nicer");
}

/// A thread that has not what it should have.
#[derive(Debug, PartialEq)]
pub struct Wrong {
    pid: i32,
    tid: i32,
    name: String,
    cpus: CpuSet,
    class: SchedClass,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{} '{}': CPUs {}, {}", self.pid, self.tid, self.name, self.cpus, self.class)
    }
}

/// The processes whose command line has this token: victims, their children and their orphans.
pub fn victims(token: &str) -> Vec<i32> {
    let numbers = fs::read_dir("/proc")
        .expect("/proc is there")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    numbers
        .filter(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let mut words = line.split(|&byte| byte == 0);
            words.any(|word| word == b"victim") && words.any(|word| word == token.as_bytes())
        })
        .collect()
}

/// All threads of the victims that have not what they should have.
pub fn wrong(token: &str, all: &CpuSet) -> Vec<Wrong> {
    let kernel = Kernel::new().expect("/proc is there");
    let mut wrong = Vec::new();
    for pid in victims(token) {
        for tid in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten() {
            let Some(tid) = tid.ok().and_then(|entry| entry.file_name().to_str()?.parse::<i32>().ok()) else {
                continue;
            };
            let Ok(name) = fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm")) else { continue };
            let (Ok(cpus), Ok(class)) = (kernel.affinity(tid), kernel.class(tid)) else { continue };
            let name = name.trim().to_owned();
            let nice = if name == "nice" { NICE } else { 0 };
            let expected = if name == "pinned" { CpuSet::one(CpuId(0)) } else { *all };
            if cpus != expected || class.class != (SchedClass::Fair { nice, slice: None }) || class.reset_on_fork {
                wrong.push(Wrong { pid, tid, name, cpus, class: class.class });
            }
        }
    }
    wrong
}

/// Have the pinned and the nice thread of a victim become so?
pub fn is_settled(pid: i32) -> bool {
    let kernel = Kernel::new().expect("/proc is there");
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
    let tids = threads.filter_map(|tid| tid.ok()?.file_name().to_str()?.parse::<i32>().ok());
    let (mut pinned, mut nice) = (false, false);
    for tid in tids {
        pinned |= kernel.affinity(tid).is_ok_and(|cpus| cpus == CpuSet::one(CpuId(0)));
        nice |= kernel.class(tid).is_ok_and(|class| class.class == SchedClass::Fair { nice: NICE, slice: None });
    }
    pinned && nice
}

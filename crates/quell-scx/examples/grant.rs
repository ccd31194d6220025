//! Runs the scheduler over cgroups until it is killed.
//!
//! ```sh
//! cargo run -p quell-scx --example grant -- --lc server=1 --be antagonist --policy caladan
//! ```
//!
//! `--lc CGROUP=CPUS` is a latency-critical workload with this many guaranteed CPUs, `--be CGROUP` a best-effort one. Without
//! a policy the kernel's rules alone decide.

use std::error::Error;

use quell_linux::{HostOptions, LinuxHost, Roots};
use quell_model::{Class, CpuCount, Host, Plan, Policy, Rule, Selector, Stack, View, Workload, WorkloadId};
use quell_policy::AnyPolicy;
use quell_scx::{Scx, ScxOptions};

fn main() -> Result<(), Box<dyn Error>> {
    let mut policy = AnyPolicy::named("none").ok_or("there is no policy 'none'")?;
    let mut workloads = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(option) = arguments.next() {
        let value = arguments.next().ok_or(format!("{option} needs a value"))?;
        match option.as_str() {
            "--policy" => policy = AnyPolicy::named(&value).ok_or(format!("there is no policy '{value}'"))?,
            "--lc" => {
                let (name, cpus) = value.split_once('=').ok_or("--lc CGROUP=CPUS")?;
                workloads.push(workload(name, Class::LatencyCritical, cpus.parse()?));
            }
            "--be" => workloads.push(workload(&value, Class::BestEffort, CpuCount::ZERO)),
            other => return Err(format!("unknown option {other}").into()),
        }
    }
    let roots = Roots::default();
    let linux = LinuxHost::new(roots.clone(), HostOptions::default())?;
    let topology = linux.topology();
    let mut host = linux.with_scheduler(Scx::load(topology.clone(), roots, ScxOptions::default())?)?;
    for (rank, workload) in workloads.into_iter().enumerate() {
        let guaranteed = workload.guaranteed().ceil();
        let id = host.attach(workload)?;
        host.apply(&rights(id, guaranteed, rank as u32), &mut Vec::new())?;
    }
    println!("grant: {} runs", policy.describe().name);
    let mut stack = Stack::of_one(policy, View::new(topology));
    loop {
        if let AnyPolicy::None(_) = stack.first().policy {
            // It never wants to step: only the scheduler is looked at.
            host.scheduler::<Scx>().ok_or("the scheduler is another one")?.grant().check()?;
            std::thread::sleep(std::time::Duration::from_millis(20));
            continue;
        }
        let wake = stack.turn(&mut host)?;
        host.wait(wake)?;
    }
}

fn workload(name: &str, class: Class, cpus: CpuCount) -> Workload {
    let mut workload = Workload::new(name, class, cpus);
    workload.selectors = vec![Selector::Cgroup(name.into())];
    workload
}

/// A workload takes what it is guaranteed when it wakes up; a CPU that is yielded goes on in the order of the command line.
fn rights(workload: WorkloadId, guaranteed: u32, rank: u32) -> Plan {
    let mut plan = Plan::default();
    plan.rules.push(Rule::Guaranteed { workload, cpus: guaranteed });
    plan.rules.push(Rule::Rank { workload, rank });
    plan
}

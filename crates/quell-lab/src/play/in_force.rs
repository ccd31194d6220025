//! What a policy decided, as the kernel has it: a scene whose policy gave up shows nothing of the policy.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use quell_linux::sched::{Kernel, ThreadCalls};
use quell_model::{Class, SchedClass, Scheduler};

use super::around::has_sched_ext;
use super::groups;
use super::scenes::Treated;

const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until it is.
pub fn awaited(treated: &Treated) -> Result<()> {
    let begun = Instant::now();
    while let Err(error) = checked(treated) {
        if begun.elapsed() > PATIENCE {
            return Err(error);
        }
        sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// Refuses a treatment of which nothing is to be seen.
pub fn checked(treated: &Treated) -> Result<()> {
    let of_class = |class: Class| treated.scenario.workloads.iter().filter(move |spec| spec.class == class);
    let text = |spec, file: &str| {
        let path = Path::new(groups::ROOT).join(groups::name_of(spec)).join(file);
        fs::read_to_string(path).unwrap_or_default().trim().to_owned()
    };
    for policy in &treated.stack.policies {
        // The first server is the one that is compared; others may have lost what they had.
        let (mut server, mut others) = (of_class(Class::LatencyCritical).take(1), of_class(Class::BestEffort));
        let is = match policy.name.as_str() {
            "guard" => {
                server.all(|spec| text(spec, "cgroup.threads").lines().all(is_fifo))
                    && others.all(|spec| text(spec, "cpu.idle") == "1")
            }
            "rkube" => server.all(|spec| {
                let own = text(spec, "cpuset.cpus");
                let is_part = policy.parameters.contains_key("partition");
                !own.is_empty()
                    && others.all(|other| text(other, "cpuset.cpus.effective") != own)
                    && (!is_part || text(spec, "cpuset.cpus.partition") == "root")
            }),
            "caladan" | "shenango" => treated.scenario.machine.scheduler() == Scheduler::Kernel || has_sched_ext(),
            _ => true,
        };
        if !is {
            bail!("what {} decides is not in force", policy.name);
        }
    }
    Ok(())
}

fn is_fifo(tid: &str) -> bool {
    let class = || Kernel::new().ok()?.class(tid.parse().ok()?).ok();
    class().is_some_and(|class| matches!(class.class, SchedClass::Fifo { .. }))
}

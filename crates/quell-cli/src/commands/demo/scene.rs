//! The demo's scenes: files, treated in several ways each.

use std::path::Path;
use std::thread;

use anyhow::{Result, anyhow};
use quell_evidence::Treatment;

use crate::commands::play::scenes::{self, Treated};

/// A file of scenes/programs/demo.
pub struct Scene(pub &'static str);

pub const LATENCY: Scene = Scene(include_str!("../../../../../scenes/programs/demo/latency.toml"));
pub const RUNAWAY: Scene = Scene(include_str!("../../../../../scenes/programs/demo/runaway.toml"));
pub const SHARES: Scene = Scene(include_str!("../../../../../scenes/programs/demo/shares.toml"));

/// The reason for leaving a treatment out where a process may not have real-time threads.
pub const NO_REAL_TIME: &str = "it needs the right to real-time threads; run as root";

impl Scene {
    /// The scene on this many CPUs under each of its treatments, with so many threads and CPUs for each of its workloads.
    pub fn treated(&self, cpus: u32, sizes: &[(u32, u32)]) -> Result<Vec<Treated>> {
        let (treatments, scene) = Treatment::all(self.0).map_err(|error| anyhow!(error))?;
        let mut set = vec![format!("machine.cores={cpus}")];
        for (at, (threads, own)) in sizes.iter().enumerate() {
            set.extend([format!("workload.{at}.threads={threads}"), format!("workload.{at}.cpus={own}")]);
        }
        treatments.iter().map(|treatment| scenes::treated(Path::new("demo"), &scene, treatment, &set)).collect()
    }
}

/// May this process make threads real-time?
pub fn may_be_real_time() -> bool {
    thread::spawn(|| quell_agent::realtime::run_before_others(1)).join().is_ok_and(|allowed| allowed.unwrap_or(false))
}

/// Does it make threads real-time?
pub fn is_real_time(treated: &Treated) -> bool {
    treated.treatment.policy == "guard" || treated.scenario.workloads.iter().any(|spec| spec.scheduling.is_real_time())
}

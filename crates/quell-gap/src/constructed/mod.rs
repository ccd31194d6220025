//! The cases of rkube-socc21 Table 2 and Fig. 3, with real threads on this machine.
//!
//! A target with one thread and a request of 1 CPU runs beside a neighbour with one thread a CPU and a request of all
//! other CPUs. The neighbour's threads are on one CPU each; the target shares the first. All are processes of ours in
//! cgroups of ours, which end with the run. Both are in a cgroup of the highest weight, so that other programs disturb
//! the measurement as little as possible: for the seconds of a run they get little CPU time.

mod cgroup;
#[cfg(test)]
mod flood;
mod spinner;

use quell_model::{CpuCount, CpuId, CpuSet, Nanos, Selector};

use crate::GapError;
use crate::Report;
use crate::Request;
use crate::machine::Machine;
use crate::measure::{Method, Window, measure};
#[cfg(test)]
pub(crate) use cgroup::Group;
pub(crate) use cgroup::Hierarchy;
#[cfg(test)]
pub(crate) use flood::KernelFlood;
#[cfg(test)]
pub(crate) use spinner::MeasureFirst;
pub(crate) use spinner::Spinner;

/// One case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// CPUs that it is drawn on: 3 in the paper, 2 scaled.
    pub cpus: u32,
    /// Is the neighbour capped at its request?
    pub capped: bool,
    /// Does each thread stand on its CPU?
    pub pinned: bool,
}

/// The quota's period, and the accounting period of these cases. With each refill the neighbour begins anew, a slice of
/// about 3 ms ahead of its share: in Linux's usual period of 100 ms that is 3 % of a CPU, in this one less than 1 %,
/// and the rest is what rKube draws.
const PERIOD: Nanos = Nanos::from_millis(500);
/// Time that the threads run before they are measured.
const SETTLE: Nanos = Nanos::from_millis(500);

/// Outcome of a case.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The target's accounts are the first, the neighbour's the second.
    Measured(Box<Report>),
    /// It cannot be run here; the missing part.
    Impossible(String),
}

impl Case {
    /// Runs the case for `length`, both exactly and by samples if the kernel allows tracing, else by samples only.
    ///
    /// # Errors
    /// If a process or cgroup cannot be set up, or the measurement fails.
    pub fn run(
        &self,
        length: Nanos,
        machine: &Machine,
        progress: &mut dyn FnMut(Nanos) -> bool,
    ) -> Result<Outcome, GapError> {
        let cpus: Vec<CpuId> = machine.cpus.iter().take(self.cpus as usize).collect();
        if cpus.len() < self.cpus as usize {
            return Ok(Outcome::Impossible(format!("needs {} CPUs; this machine has {}", self.cpus, cpus.len())));
        }
        let Some(hierarchy) = Hierarchy::find() else {
            return Ok(Outcome::Impossible(
                "needs a cgroup hierarchy with the cpu controller in which we may make groups (root)".to_owned(),
            ));
        };
        // In this order, so that the processes end before their cgroups are removed.
        let around = hierarchy.around()?;
        let target_group = around.group("target", 1)?;
        let neighbour_group = around.group("neighbour", self.cpus - 1)?;
        if self.capped {
            neighbour_group.cap(self.cpus - 1, PERIOD)?;
        }
        let all: CpuSet = cpus.iter().copied().collect();
        let allowed = |cpu: CpuId| if self.pinned { CpuSet::one(cpu) } else { all };
        let target = Spinner::start(allowed(cpus[0]))?;
        target_group.admit(target.pid())?;
        let mut neighbours = Vec::new();
        for &cpu in &cpus {
            let neighbour = Spinner::start(allowed(cpu))?;
            neighbour_group.admit(neighbour.pid())?;
            neighbours.push(neighbour);
        }
        let _first = spinner::MeasureFirst::begin();
        std::thread::sleep(SETTLE.into());

        let request = |name: &str, cpus: u32, pids: &[i32]| Request {
            name: name.to_owned(),
            cpus: CpuCount::whole(cpus),
            selectors: pids.iter().map(|&pid| Selector::Pid(pid)).collect(),
        };
        let neighbour_pids: Vec<i32> = neighbours.iter().map(Spinner::pid).collect();
        let requests = [request("target", 1, &[target.pid()]), request("neighbour", self.cpus - 1, &neighbour_pids)];
        // Whole periods.
        let length = Nanos(length.0.next_multiple_of(PERIOD.0));
        let machine = Machine { cpus: all, ..machine.clone() };
        let mut window = Window { length, period: PERIOD, method: Method::Both, cost: false };
        let report = match measure(&requests, &window, &machine, progress) {
            Err(GapError::Trace(error)) => {
                window.method = Method::Estimate;
                let mut report = measure(&requests, &window, &machine, progress)?;
                report.inexact = Some(error.to_string());
                report
            }
            result => result?,
        };
        if report.interrupted {
            return Err(GapError::Interrupted);
        }
        Ok(Outcome::Measured(Box::new(report)))
    }
}

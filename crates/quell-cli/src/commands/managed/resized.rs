//! A host with one workload whose request changes while it is managed.

use std::sync::{Arc, Mutex, PoisonError};

use quell_agent::run::Answers;
use quell_linux::{LinuxError, LinuxHost};
use quell_model::{Capabilities, CpuCount, Event, Host, Plan, SignalSet, View, Wake, Workload, WorkloadId};

/// Another request, for the loop's next turn.
#[derive(Clone, Debug, Default)]
pub struct Wish(Arc<Mutex<Option<CpuCount>>>);

impl Wish {
    /// Asks for this number of CPUs from now on.
    pub fn make(&self, cpus: CpuCount) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(cpus);
    }

    fn take(&self) -> Option<CpuCount> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The host, and what it manages.
pub struct Resized {
    host: LinuxHost,
    wish: Wish,
    workload: Option<(WorkloadId, Workload)>,
    /// What answers requests of `quell status` and the like.
    pub answers: Option<Answers>,
}

impl Resized {
    /// Manages nothing yet.
    pub fn new(host: LinuxHost, wish: &Wish) -> Resized {
        Resized { host, wish: wish.clone(), workload: None, answers: None }
    }

    /// The host itself.
    pub fn inner(&mut self) -> &mut LinuxHost {
        &mut self.host
    }

    /// Begins to manage the workload.
    ///
    /// # Errors
    /// As [`LinuxHost::attach`].
    pub fn attach(&mut self, workload: Workload) -> Result<WorkloadId, LinuxError> {
        let id = self.host.attach(workload.clone())?;
        self.workload = Some((id, workload));
        Ok(id)
    }
}

impl Host for Resized {
    type Error = LinuxError;

    fn capabilities(&self) -> Capabilities {
        self.host.capabilities()
    }

    fn observe(&mut self, wanted: SignalSet, view: &mut View, events: &mut Vec<Event>) -> Result<(), LinuxError> {
        if let (Some(cpus), Some((id, workload))) = (self.wish.take(), &mut self.workload) {
            let next = Workload { cpus, ..workload.clone() };
            // A subject that has just ended is no failure of the loop's: its end is found by the one that waits for it.
            if self.host.update(*id, next.clone()).is_ok() {
                *workload = next;
            }
        }
        self.host.observe(wanted, view, events)
    }

    fn apply(&mut self, plan: &Plan, events: &mut Vec<Event>) -> Result<(), LinuxError> {
        self.host.apply(plan, events)
    }

    fn wait(&mut self, until: Wake) -> Result<(), LinuxError> {
        // The turn's plans are in force.
        if let Some(answers) = &mut self.answers {
            answers.answer(&mut self.host);
        }
        self.host.wait(until)
    }
}

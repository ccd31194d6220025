//! The CPUs of each workload: the actuator of grants and of rules, one a host.

pub mod affinity;
mod deadline;

pub use affinity::Affinity;

use std::any::Any;
use std::fmt::Debug;

use quell_model::{
    Capabilities, Event, Key, Knob, KnobSetting, Outcome, Part, Plan, Refusal, RuleKind, SignalSet, Support, ThreadId,
    Verdict, View, Wake, Workload, WorkloadId,
};

use self::deadline::Deadline;
pub use crate::sensors::{Activity, Working};
use crate::{LinuxError, Roots};

/// Hands CPUs out to workloads.
pub trait Scheduler: Any + Debug + Send {
    /// Reports the host's capabilities with it, given those with Linux's scheduler.
    fn report(&self, found: &mut Capabilities);

    /// Refuses a workload that it could not have.
    ///
    /// # Errors
    /// The reason.
    fn check(&self, _workload: &Workload) -> Result<(), LinuxError> {
        Ok(())
    }

    /// A workload is attached.
    ///
    /// # Errors
    /// If it cannot have it; then it does not.
    fn attach(&mut self, _id: WorkloadId, _workload: &Workload) -> Result<(), LinuxError> {
        Ok(())
    }

    /// A workload's description is another one.
    ///
    /// # Errors
    /// If it cannot have it like that.
    fn update(&mut self, _id: WorkloadId, _workload: &Workload) -> Result<(), LinuxError> {
        Ok(())
    }

    /// A workload is gone.
    ///
    /// # Errors
    /// If it cannot let go.
    fn detach(&mut self, _id: WorkloadId) -> Result<(), LinuxError> {
        Ok(())
    }

    /// The host is about to observe. Returns the signals that its sensors are to measure.
    ///
    /// # Errors
    /// If it does not work any more.
    fn prepare(&mut self, wanted: SignalSet) -> Result<SignalSet, LinuxError> {
        Ok(wanted)
    }

    /// What programs that cooperate say of their threads, ascending by thread, before each observation. `covered`: each
    /// latency-critical workload has one that does.
    fn take_exported(&mut self, _workers: &[Working], _covered: bool) {}

    /// Adds its own measurements to the view, and its events. `activities`, by slot, are those of the last observation
    /// that wanted queueing delays of the sensors.
    fn observe(&mut self, _wanted: SignalSet, _activities: &[Activity], _view: &mut View, _events: &mut Vec<Event>) {}

    /// Carries out a plan's rules and grants: one outcome each. Settings that it needs of the other actuators are added
    /// to `settings`; then [`Scheduler::settled`] follows.
    ///
    /// # Errors
    /// If it no longer works.
    fn carry_out(
        &mut self,
        plan: &Plan,
        settings: &mut Vec<KnobSetting>,
        events: &mut Vec<Event>,
    ) -> Result<(), LinuxError>;

    /// Does it keep this setting of a thread of this workload itself? Then [`Scheduler::set`] follows, in place of an actuator.
    fn keeps(&self, _knob: &Knob, _workload: WorkloadId) -> bool {
        false
    }

    /// Settings that it keeps.
    ///
    /// # Errors
    /// If it does not work any more.
    fn set(&mut self, _settings: &[KnobSetting]) -> Result<(), LinuxError> {
        Ok(())
    }

    /// Does it need to know the threads of workloads? Then it meets them when a plan was carried out, and after each look for
    /// new ones.
    fn wants_threads(&self) -> bool {
        false
    }

    /// Meets the threads of its workloads, which `threads_of` reports, the oldest first. What they are to have is added to
    /// `settings`; then [`Scheduler::settled`] follows. Returns those that are to have the class back that they had.
    fn meet(
        &mut self,
        _threads_of: &dyn Fn(WorkloadId) -> Vec<ThreadId>,
        _settings: &mut Vec<KnobSetting>,
    ) -> Vec<ThreadId> {
        Vec::new()
    }

    /// Reports whether the settings that it needed were made. If not, none of the plan's rules and grants is made.
    fn settled(&mut self, _done: bool) {}

    /// What does not work of it, now, one line each.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    /// Cgroups with the cpu controller for which it has no place: their limits and shares are those of the cgroups above.
    fn unplaced_cgroups(&self) -> u64 {
        0
    }

    /// Waits, or says until when the host is to wait.
    ///
    /// # Errors
    /// If it does not work any more.
    fn wait(&mut self, until: Wake) -> Result<Option<Wake>, LinuxError> {
        Ok(Some(until))
    }
}

/// Linux's scheduler: it takes classes and shares, but no grants. It keeps budgets of single threads.
#[derive(Debug)]
pub(crate) struct Stock(Deadline);

impl Stock {
    pub fn new(roots: &Roots) -> Stock {
        Stock(Deadline::new(roots))
    }
}

const NO_RULES: &str = "it has no rules in the kernel";
const OWN_SCHEDULER: &str = "use Quell's scheduler: machine.scheduler = \"quell\"";

/// What no Linux host can do by itself.
pub(crate) fn tell_stock(found: &mut Capabilities) {
    let no = |why: &str| Support::No { why: why.into(), fix: OWN_SCHEDULER.into() };
    found.grants = no("the kernel's own scheduler decides which thread runs where");
    let why = "the kernel's own scheduler preempts threads without a warning";
    found.keys.insert(Key::Grace, no(why));
    found.rules.insert(RuleKind::Server, no("CPUs are granted by affinity, which enforces no budgets"));
    found.rules.insert(RuleKind::Together, no("the kernel's own scheduler divides CPUs by cgroup and thread"));
}

impl Scheduler for Stock {
    fn report(&self, found: &mut Capabilities) {
        deadline::report(found);
    }

    fn detach(&mut self, id: WorkloadId) -> Result<(), LinuxError> {
        self.0.detach(id);
        Ok(())
    }

    fn wants_threads(&self) -> bool {
        self.0.wants_threads()
    }

    fn meet(
        &mut self,
        threads_of: &dyn Fn(WorkloadId) -> Vec<ThreadId>,
        settings: &mut Vec<KnobSetting>,
    ) -> Vec<ThreadId> {
        self.0.meet(threads_of, settings)
    }

    fn settled(&mut self, done: bool) {
        self.0.settled(done);
    }

    fn carry_out(&mut self, plan: &Plan, _: &mut Vec<KnobSetting>, events: &mut Vec<Event>) -> Result<(), LinuxError> {
        self.0.enact(plan, events);
        refuse(plan.grants.len(), Part::Grant, "it does not grant single CPUs", plan, events);
        Ok(())
    }
}

/// Linux's scheduler keeps no rules.
fn refuse_rules(plan: &Plan, events: &mut Vec<Event>) {
    refuse(plan.rules.len(), Part::Rule, NO_RULES, plan, events);
}

fn refuse(count: usize, part: fn(u32) -> Part, why: &str, plan: &Plan, events: &mut Vec<Event>) {
    events.extend(
        (0..count as u32)
            .map(|at| Event::Outcome(Outcome { plan: plan.number, part: part(at), verdict: refusal(why) })),
    );
}

fn refusal(why: &str) -> Verdict {
    Verdict::Refused(Refusal::Unsupported(format!("{why}; use the scx host or the simulator")))
}

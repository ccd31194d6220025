//! Treatments of a phase's workloads: real-time threads or a policy, or neither; everything is restored afterwards.

use std::time::Instant;

use anyhow::{Context, Result, bail};
use quell_agent::drive::while_driving;
use quell_agent::stack::{self, Layer, Witness};
use quell_linux::{HostOptions, LinuxHost, Roots};
use quell_model::{Event, Host, Knob, KnobSetting, Plan, SignalSet, Target, Verdict, View, Workload, WorkloadId};
use quell_policy::AnyPolicy;

use super::scene::Phase;

/// Quell's own loop runs above the real-time threads that it limits, and below the load generator.
const OWN_PRIORITY: u8 = 2;

/// A decision as text, with the seconds since the policy's first decisions were in force.
pub type Decision = (f64, String);

/// Does `work` while the workloads, attached in this order, are treated. Then `end` ends their processes, and the rest
/// of the treatment is restored: settings of ended processes need no restoring, which an ordinary user could not always
/// do.
pub fn under<T, U>(
    phase: &Phase,
    workloads: Vec<Workload>,
    work: impl FnOnce() -> Result<T>,
    end: impl FnOnce(T) -> Result<U>,
) -> Result<(U, Vec<Decision>)> {
    let mut host = LinuxHost::new(Roots::default(), HostOptions::default())?;
    for workload in workloads {
        host.attach(workload)?;
    }
    let result = match phase.policy {
        None => real_time(&mut host, phase).and_then(|()| work()).map(|result| (result, Vec::new())),
        Some(policy) => under_policy(policy, &mut host, work),
    };
    let result = match result {
        Ok((done, decisions)) => end(done).map(|ended| (ended, decisions)),
        Err(error) => {
            drop(end);
            Err(error)
        }
    };
    let report = host.restore();
    if let Some(left) = report.left.first() {
        bail!("not everything could be put back: {}", left.why);
    }
    result
}

/// Gives the workloads the real-time class that the scene has for them.
fn real_time(host: &mut LinuxHost, phase: &Phase) -> Result<()> {
    let mut view = View::new(host.topology());
    let mut events = Vec::new();
    host.observe(SignalSet::default(), &mut view, &mut events)?;
    events.clear();
    let mut plan = Plan::default();
    plan.begin(1);
    for (at, part) in phase.parts.iter().enumerate().filter(|(_, part)| part.scheduling.is_real_time()) {
        let target = Target::Workload(WorkloadId(at as u32));
        plan.knobs.push(KnobSetting { target, knob: Knob::Class(part.scheduling) });
    }
    host.apply(&plan, &mut events)?;
    for event in &events {
        if let Event::Outcome(outcome) = event
            && let Verdict::Refused(why) = &outcome.verdict
        {
            bail!("{why}");
        }
    }
    Ok(())
}

/// Runs `work` while the policy decides.
fn under_policy<T>(name: &str, host: &mut LinuxHost, work: impl FnOnce() -> Result<T>) -> Result<(T, Vec<Decision>)> {
    let policy = AnyPolicy::named(name).with_context(|| format!("there is no policy '{name}'"))?;
    let topology = host.topology();
    let pool = topology.all();
    let mut stack = stack::over(vec![Layer::new(policy, None)], View::new(topology), pool)?;
    let mut log = DecisionLog::default();
    let result = while_driving(&mut stack, host, &mut log, Some(OWN_PRIORITY), &|| {}, |_| work())??;
    Ok((result, log.lines))
}

/// Keeps the decisions for the report.
#[derive(Default)]
struct DecisionLog {
    begun: Option<Instant>,
    lines: Vec<Decision>,
}

impl Witness for DecisionLog {
    fn turned(&mut self, view: &View, layers: &[Layer]) {
        let at = self.begun.get_or_insert_with(Instant::now).elapsed().as_secs_f64();
        for layer in layers.iter().filter(|layer| layer.stepped()) {
            for note in &layer.plan.notes {
                let about = note.about.and_then(|id| view.workload(id)).map_or("", |workload| &workload.name);
                let separator = if about.is_empty() { "" } else { ": " };
                self.lines.push((at, format!("{about}{separator}{}", note.text)));
            }
        }
    }
}

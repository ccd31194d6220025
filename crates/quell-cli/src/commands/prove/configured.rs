//! With an agent that manages the target: the agent is switched off and on, or the workload's policy exchanged.

use std::cell::RefCell;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Result, bail};
use quell_agent::api::wire::{Choice, Prove, Status};
use quell_agent::api::{Client, Leased};
use quell_command::parameters;
use quell_linux::Roots;
use quell_linux::procfs::ProcFs;
use quell_linux::target::Processes;
use quell_model::{CpuCount, Nanos, Policy as _, Selector, Slo, Workload, foreign};
use quell_policy::AnyPolicy;

use super::course::{Course, Switched, Work};
use super::leased::{ENDED, NOTICED, cost};
use super::plan::Plan;
use super::{Arguments, BEFORE, output};
use crate::commands::gap::managed;
use crate::commands::protect::before;
use crate::commands::protect::target::Subject;

/// Runs it.
///
/// # Errors
/// If there is no such workload, or the agent refuses.
pub fn run(
    agent: &Client,
    arguments: &Arguments,
    name: &str,
    subject: Option<&Subject>,
    against: Option<&AnyPolicy>,
    stop: &Arc<AtomicBool>,
) -> Result<ExitCode> {
    let status: Status = agent.get("/v1/status")?;
    let Some(entry) = status.configured.iter().find(|entry| entry.name == *name) else {
        let names: Vec<_> = status.configured.iter().map(|entry| foreign::text(&entry.name)).collect();
        bail!("the agent has no workload '{name}'; there are: {}", names.join(", "))
    };
    let Some(managed) = status.workloads.iter().find(|workload| workload.name == *name) else {
        bail!("workload '{name}' is not managed now: see `quell why {name}`")
    };
    let mut found;
    let subject = match subject {
        Some(subject) => subject,
        None => {
            let selectors: Option<Vec<Selector>> = entry.selectors.iter().map(|text| selector(text)).collect();
            let Some(selectors) = selectors else {
                let targets = processes_of(arguments, name)?;
                bail!("workload '{name}' is found by its command line: run `quell prove {targets}`")
            };
            found = Subject::of_workload("prove", name, selectors);
            found.histogram = entry.latency.as_ref().and_then(|page| page.source(name, &found.selectors));
            &found
        }
    };
    let asked = match arguments.wanted.asked.policys_name() {
        Some(policy) => Some(arguments.wanted.asked.policy(policy)?),
        None => None,
    };
    let now = managed.policies.first().cloned().unwrap_or_else(|| "none".into());
    let on_name = asked.as_ref().map_or(now, |policy| policy.describe().name.to_owned());
    let Some(before) = before::measure(&arguments.wanted, BEFORE, subject, stop)? else {
        return Ok(before::interrupted(subject));
    };
    let Some(phase) = before.phase else { bail!("{name}: nothing can be measured here: give --url, or --histogram") };
    let slo = managed.slo.as_ref().map(|slo| Slo { quantile: slo.quantile, bound: Nanos(slo.bound_ns) });
    let built = AnyPolicy::named(&on_name);
    let policies: Vec<&AnyPolicy> = built.iter().chain(against).collect();
    let plan = Plan::of(arguments, name, &on_name, &phase, &policies, slo)?;
    let parameters = parameters::map(arguments.wanted.asked.parameters())?;
    let on = asked.as_ref().map(|policy| Choice { policy: policy.describe().name.to_owned(), parameters });
    let off =
        against.map(|policy| Choice { policy: policy.describe().name.to_owned(), parameters: serde_json::Map::new() });
    let is_exchanged = on.is_some() || off.is_some();
    let lease = agent.prove(Prove { workload: is_exchanged.then(|| name.to_owned()), on, off })?;
    plan.say(arguments);
    let others = status.configured.len() - 1;
    if against.is_none() && others > 0 && !arguments.wanted.asked.say().quiet {
        let are = if others == 1 { "workload is" } else { "workloads are" };
        eprintln!("The agent is switched off in turns: {others} other {are} then unprotected, too.");
    }
    let workload = Workload {
        selectors: subject.selectors.clone(),
        ..Workload::new(name.to_owned(), arguments.wanted.asked.class(), CpuCount::ZERO)
    };
    let course = Course::new(arguments, subject, workload, plan, Arc::clone(stop));
    let mut turns = Turns { agent, lease: RefCell::new(lease), lost: None };
    let outcome = course.run(&mut turns)?;
    agent.release(turns.lease.into_inner());
    let policy = asked.or(built).unwrap_or_else(|| AnyPolicy::named("none").expect("it is in the registry"));
    Ok(ExitCode::from(output::finish(&course, &outcome, &policy, "agent")?))
}

/// Its processes that are no others' children, as TARGET.
fn processes_of(arguments: &Arguments, name: &str) -> Result<String> {
    let all = Processes::read(&mut ProcFs::open(&Roots::default().proc)?)?;
    let pids = managed::processes(&arguments.agent, name, &all).unwrap_or_default();
    let is_root = |pid: &&i32| !all.ancestors(**pid).any(|above| pids.contains(&above.pid));
    let roots: Vec<String> = pids.iter().filter(is_root).map(ToString::to_string).collect();
    Ok(if roots.is_empty() { "TARGET".to_owned() } else { roots.join(" ") })
}

/// A selector as the agent writes it.
fn selector(text: &str) -> Option<Selector> {
    let (kind, what) = text.rsplit_once(' ')?;
    Some(match kind {
        "cgroup" => Selector::Cgroup(what.into()),
        "systemd unit" => Selector::Unit(what.to_owned()),
        "container" => Selector::Container(what.to_owned()),
        "label" => Selector::Label(what.to_owned()),
        "pod" => Selector::Pod(what.to_owned()),
        "process" => Selector::Pid(what.parse().ok()?),
        _ => return None,
    })
}

struct Turns<'a> {
    agent: &'a Client,
    lease: RefCell<Leased>,
    lost: Option<String>,
}

impl Switched for Turns<'_> {
    fn during(&mut self, on: bool, work: Work<'_>) -> Result<()> {
        let answer = self.agent.turn(on)?;
        answer.left.iter().for_each(|left| eprintln!("quell: {}", foreign::text(left)));
        let mut lost = None;
        let done = work(&mut || {
            if self.agent.is_over_within(&mut self.lease.borrow_mut(), NOTICED) {
                lost = Some(ENDED.to_owned());
            }
            lost.is_none()
        });
        self.lost = lost;
        done
    }

    fn lost(&self) -> Option<String> {
        self.lost.clone()
    }

    fn cost(&self) -> f64 {
        cost(self.agent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_is_read_as_it_is_written() {
        let all = [
            Selector::Cgroup("/system.slice/web.service".into()),
            Selector::Unit("web.service".into()),
            Selector::Container("3f2a".into()),
            Selector::Label("app=web".into()),
            Selector::Pod("9c1e-77".into()),
            Selector::Pid(4711),
        ];
        for selector in all {
            assert_eq!(super::selector(&selector.to_string()), Some(selector));
        }
        assert_eq!(selector("command contains memcached"), None);
    }
}

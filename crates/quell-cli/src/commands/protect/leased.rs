//! With an agent: it protects, for as long as this process is connected.

use std::cell::RefCell;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use quell_agent::AgentError;
use quell_agent::api::wire::{self, Match, Process, Protect, Status};
use quell_agent::api::{Client, Standing};
use quell_command::parameters;
use quell_model::{CpuCount, Selector, foreign};

use super::course::{Course, End};
use super::target::Subject;
use crate::commands::agent_socket::AgentSocket;
use crate::commands::managed::demand::{Follow, Meter};

/// Time between two looks at the demand.
const LOOK: Duration = Duration::from_secs(1);
/// Time within which the agent's end is noticed.
const NOTICED: Duration = Duration::from_millis(20);

/// The agent, if one runs that manages. One that only looks, and one that this user may not ask, count as none.
///
/// # Errors
/// If one answers oddly.
pub fn agent(socket: &AgentSocket) -> Result<Option<Client>> {
    let client = socket.client()?;
    match client.get::<Status>("/v1/status") {
        Ok(status) if status.agent.off.is_some() => {
            bail!("the agent is switched off: run `quell on`, or stop it")
        }
        Ok(status) if status.agent.mode == "run" && rustix::process::geteuid().is_root() => Ok(Some(client)),
        Ok(status) if status.agent.mode == "run" => {
            bail!("an agent runs, and only root may ask it: run this with sudo")
        }
        Ok(_) => Ok(None),
        Err(AgentError::NoAgent { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Refuses what the agent manages already.
///
/// # Errors
/// If it does.
pub fn refuse_managed(agent: &Client, subject: &Subject) -> Result<()> {
    for root in subject.roots() {
        let Ok(thread) = agent.get::<wire::Thread>(&format!("/v1/threads/{}", root.tid)) else { continue };
        if thread.start == root.start {
            let workload = foreign::text(&thread.workload);
            bail!("{} is managed already, as workload '{workload}': see `quell why {workload}`", subject.name);
        }
    }
    Ok(())
}

/// Protects until an end.
///
/// # Errors
/// If the agent refuses.
pub fn run(agent: &Client, course: &Course<'_>, set: &[String], follows: bool, stop: &AtomicBool) -> Result<ExitCode> {
    let handles = course.subject.handles()?;
    let leasing = RefCell::new(Some(agent.protect(wish(course, set)?)?));
    if let (Some(leasing), false) = (&*leasing.borrow(), course.arguments.asked.say().quiet) {
        leasing.answer.warnings.iter().for_each(|warning| eprintln!("quell: {}: {warning}", course.workload.name));
    }
    let mut following = if follows { Some(Following::of(course)?) } else { None };
    let mut refused = None;
    let mut goes_on = || {
        let mut leasing = leasing.borrow_mut();
        let Some(leasing) = leasing.as_mut() else { return false };
        match agent.watch(leasing, NOTICED) {
            Ok(Standing::Stands) => {}
            Ok(Standing::Lost) => {
                eprintln!("quell: {}: the agent's worker has ended; it is asked again", course.workload.name)
            }
            Ok(Standing::Again) => eprintln!("quell: {}: the agent protects it again", course.workload.name),
            Err(error) => refused = Some(error),
        }
        if let Some(cpus) = following.as_mut().and_then(Following::next)
            && let Err(error) = agent.resize(leasing, cpus.as_f64())
        {
            eprintln!("quell: {}: its request could not be changed: {error}", course.workload.name);
        }
        refused.is_none() && !stop.load(Ordering::Acquire)
    };
    let end = course.run(&handles, "agent", &mut goes_on);
    if let Some(leasing) = leasing.take() {
        agent.unprotect(leasing);
    }
    let end = end?;
    if let Some(error) = refused {
        return Err(error.into());
    }
    course.say_end(end);
    Ok(if end == End::Ended { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The request that follows the demand.
struct Following {
    meter: Meter,
    follow: Follow,
    looked: Instant,
}

impl Following {
    fn of(course: &Course<'_>) -> Result<Following> {
        let meter = Meter::of(course.workload.selectors.clone())?;
        Ok(Following { meter, follow: Follow::from(course.workload.cpus, course.cpus), looked: Instant::now() })
    }

    /// Another request, if it is time for one.
    fn next(&mut self) -> Option<CpuCount> {
        if self.looked.elapsed() < LOOK {
            return None;
        }
        self.looked = Instant::now();
        self.follow.next(self.meter.look().ok()??.all())
    }
}

fn wish(course: &Course<'_>, set: &[String]) -> Result<Protect> {
    let workload = course.workload;
    Ok(Protect {
        name: workload.name.clone(),
        class: if workload.is_lc() { wire::Class::Lc } else { wire::Class::Be },
        cpus: workload.cpus.as_f64(),
        limit: None,
        strict: course.arguments.asked.strict,
        selectors: workload.selectors.iter().filter_map(as_match).collect(),
        processes: course.subject.roots().map(|root| Process { pid: root.tid, start: root.start }).collect(),
        policy: course.policy.to_owned(),
        parameters: parameters::map(set)?,
    })
}

fn as_match(selector: &Selector) -> Option<Match> {
    Some(match selector {
        Selector::Unit(name) => Match::Unit(name.clone()),
        Selector::Cgroup(path) => Match::Cgroup(path.to_str()?.to_owned()),
        Selector::Container(id) => Match::Container(id.clone()),
        Selector::Pod(uid) => Match::Pod(uid.clone()),
        Selector::Pid(pid) => Match::Pid(*pid),
        Selector::Command(_) => return None,
    })
}

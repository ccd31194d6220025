//! With an agent: it protects, for as long as this process is connected.

use std::cell::RefCell;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use quell_agent::AgentError;
use quell_agent::api::wire::{self, Match, Process, Protect, Status};
use quell_agent::api::{Client, Standing};
use quell_agent::journal::Others;
use quell_command::parameters;
use quell_model::{CpuCount, Reservation, Selector, Workload, foreign};

use super::course::{Course, End};
use super::target::Subject;
use crate::commands::agent_socket::AgentSocket;
use crate::commands::managed::demand::{Follow, Meter, Steps};

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
    let status = client.get::<Status>("/v1/status");
    if let Ok(Status { agent: wire::Agent { off: Some(off), .. }, .. }) = &status
        && off.leased
    {
        let by = foreign::text(&off.by.join(" and ")).into_owned();
        bail!("the agent is switched off while {by} is connected: wait for its end, or stop it")
    }
    match status {
        Ok(status) if status.agent.off.is_some() => {
            bail!("the agent is switched off: run `quell on`, or stop it")
        }
        Ok(status) if status.agent.mode == "run" && rustix::process::geteuid().is_root() => Ok(Some(client)),
        Ok(status) if status.agent.mode == "run" => {
            bail!("an agent is running, and only root may use it: run this with sudo")
        }
        Ok(_) => Ok(None),
        Err(AgentError::NoAgent { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The workload of the agent's that the target is in already, if it is in one.
#[must_use]
pub fn managed_as(agent: &Client, subject: &Subject) -> Option<String> {
    subject.roots().find_map(|root| {
        let thread = agent.get::<wire::Thread>(&format!("/v1/threads/{}", root.tid)).ok()?;
        (thread.start == root.start).then_some(thread.workload)
    })
}

/// The target's own histogram, where an agent has it in its configuration: also one that only observes.
#[must_use]
pub fn histogram(socket: &AgentSocket, subject: &Subject) -> Option<quell_scrape::Source> {
    let agent = socket.client().ok()?;
    let workload = managed_as(&agent, subject)?;
    let status = agent.get::<Status>("/v1/status").ok()?;
    let configured = status.configured.iter().find(|configured| configured.name == workload)?;
    configured.latency.as_ref()?.source(&subject.name, &subject.selectors)
}

/// Refuses what the agent, or another Quell of this user, manages already.
///
/// # Errors
/// If one does.
pub fn refuse_managed(agent: Option<&Client>, subject: &Subject) -> Result<()> {
    if let Some(workload) = agent.and_then(|agent| managed_as(agent, subject)) {
        let workload = foreign::text(&workload);
        bail!("{} is already managed, as workload '{workload}': see `quell why {workload}`", subject.name);
    }
    // This process has no journal yet.
    let mut others = Others::beside(Path::new(""));
    let processes = subject.found.iter().flat_map(|found| found.processes.iter());
    let owner = others.as_mut().and_then(|others| processes.copied().find_map(|process| others.owner(process)));
    let Some(owner) = owner else { return Ok(()) };
    let client = owner.socket.as_ref().filter(|socket| socket.exists()).and_then(|socket| Client::new(socket).ok());
    let whose = client.and_then(|client| managed_as(&client, subject));
    let whose = whose.map_or_else(String::new, |workload| format!(", as workload '{}'", foreign::text(&workload)));
    bail!("{} is already managed{whose}: {}", subject.name, owner.by)
}

/// Protects until an end.
///
/// # Errors
/// If the agent refuses.
pub fn run(
    agent: &Client,
    course: &Course<'_>,
    set: &[String],
    follows: Option<Steps>,
    stop: &AtomicBool,
) -> Result<ExitCode> {
    let handles = course.subject.handles()?;
    let leasing = RefCell::new(Some(agent.protect(wish(
        course.subject,
        course.workload,
        course.policy,
        parameters::map(set)?,
    ))?));
    if let (Some(leasing), false) = (&*leasing.borrow(), course.arguments.wanted.asked.say().quiet) {
        leasing.answer.warnings.iter().for_each(|warning| eprintln!("quell: {}: {warning}", course.workload.name));
    }
    let (workload, cpus) = (course.workload, course.cpus);
    let following = |steps| Following::of(workload.selectors.clone(), workload.cpus, cpus, steps);
    let mut following = follows.map(following).transpose()?;
    let mut refused = None;
    let mut goes_on = || {
        let mut leasing = leasing.borrow_mut();
        let Some(leasing) = leasing.as_mut() else { return false };
        match agent.watch(leasing, NOTICED) {
            Ok(Standing::Stands) => {}
            Ok(Standing::Lost) => {
                eprintln!("quell: {}: the agent's worker has ended; sending the request again", course.workload.name)
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
    let end = course.run(handles, "agent", &mut goes_on);
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
pub struct Following {
    meter: Meter,
    follow: Follow,
    looked: Instant,
}

impl Following {
    /// The demand of what these select, from this request on, on a machine with this number of CPUs.
    ///
    /// # Errors
    /// If procfs cannot be read.
    pub fn of(selectors: Vec<Selector>, from: CpuCount, cpus: u32, steps: Steps) -> Result<Following> {
        let meter = Meter::of(selectors)?;
        Ok(Following { meter, follow: Follow::from(from, cpus, steps), looked: Instant::now() })
    }

    /// Another request, if it is time for one.
    pub fn next(&mut self) -> Option<CpuCount> {
        if self.looked.elapsed() < LOOK {
            return None;
        }
        self.looked = Instant::now();
        self.follow.next(self.meter.look().ok()??.all())
    }
}

/// What the agent is asked for.
#[must_use]
pub fn wish(
    subject: &Subject,
    workload: &Workload,
    policy: &str,
    parameters: serde_json::Map<String, serde_json::Value>,
) -> Protect {
    Protect {
        processes: subject.roots().map(|root| Process { pid: root.tid, start: root.start }).collect(),
        ..as_wished(workload, policy, parameters)
    }
}

/// The same for a workload whose processes are this process's own.
#[must_use]
pub fn as_wished(workload: &Workload, policy: &str, parameters: serde_json::Map<String, serde_json::Value>) -> Protect {
    Protect {
        name: workload.name.clone(),
        class: if workload.is_lc() { wire::Class::Lc } else { wire::Class::Be },
        cpus: workload.cpus.as_f64(),
        limit: None,
        strict: workload.reservation == Reservation::Strict,
        selectors: workload.selectors.iter().filter_map(as_match).collect(),
        processes: Vec::new(),
        policy: policy.to_owned(),
        parameters,
    }
}

fn as_match(selector: &Selector) -> Option<Match> {
    Some(match selector {
        Selector::Unit(name) => Match::Unit(name.clone()),
        Selector::Cgroup(path) => Match::Cgroup(path.to_str()?.to_owned()),
        Selector::Container(id) => Match::Container(id.clone()),
        Selector::Label(label) => Match::Label(label.clone()),
        Selector::Pod(uid) => Match::Pod(uid.clone()),
        Selector::Pid(pid) => Match::Pid(*pid),
        Selector::Command(_) => return None,
    })
}

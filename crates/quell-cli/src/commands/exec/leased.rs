//! With an agent: it manages the command, for as long as this process is connected.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use quell_agent::api::wire::{self, Match, Protect, Status};
use quell_agent::api::{Client, Leasing, Standing};
use quell_model::{Policy as _, Selector, foreign};

use super::command::{Started, children};
use crate::commands::managed::{Subject as _, Terms};
use crate::commands::protect::leased::{Following, as_wished};

/// Time within which the agent's end is noticed, beside the looks at the command.
const NOTICED: Duration = Duration::from_millis(5);
/// Time between two looks for processes whose parents ended.
const ADOPTED: Duration = Duration::from_secs(1);

/// Makes the command, or says by an exit status why there is none.
pub type Make<'a> = &'a dyn Fn(&Arc<AtomicBool>) -> Result<Result<Started, u8>>;

/// Manages the command until its end; returns its exit status.
///
/// # Errors
/// If the agent refuses: the command executes nothing then.
pub fn run(
    agent: &Client,
    terms: &Terms,
    set: serde_json::Map<String, serde_json::Value>,
    make: Make<'_>,
) -> Result<u8> {
    if let Some(limit) = terms.workload.limit {
        bail!(
            "--limit {limit} cannot be kept: the agent makes no cgroup for a command; leave --limit out, or give the command a unit, \
             as with `systemd-run --scope -p CPUQuota=50% COMMAND`"
        );
    }
    let stop = Arc::new(AtomicBool::new(false));
    let mut started = match make(&stop)? {
        Ok(started) => started,
        Err(status) => return Ok(status),
    };
    let pid = started.held().map_or(0, |held| held.as_raw_nonzero().get());
    let mut lease = match Lease::take(agent, terms, set, pid) {
        Ok(lease) => lease,
        Err(error) => {
            started.give_up();
            return Err(error);
        }
    };
    let say = |what: String| {
        if !terms.say.quiet {
            eprintln!("quell: {}: {what}", terms.workload.name);
        }
    };
    let status = started.attend(&stop, &say, &mut || lease.look());
    lease.end();
    status
}

/// A command's lease.
struct Lease<'a> {
    agent: &'a Client,
    terms: &'a Terms,
    wish: Protect,
    /// None: it has none now, and the command goes on unmanaged.
    leasing: Option<Leasing>,
    /// The agent is gone for good: it is not asked any more.
    is_over: bool,
    /// The agent refused the last request, and that was said.
    is_refused: bool,
    following: Option<Following>,
    looked: Instant,
}

impl<'a> Lease<'a> {
    /// For a command that executes its program when this returns.
    fn take(
        agent: &'a Client,
        terms: &'a Terms,
        set: serde_json::Map<String, serde_json::Value>,
        pid: i32,
    ) -> Result<Lease<'a>> {
        let policy = terms.policy.describe().name;
        let wish = Protect { selectors: vec![Match::Pid(pid)], ..as_wished(&terms.workload, policy, set) };
        let leasing = agent.protect(wish.clone())?;
        let following = match terms.follows {
            Some(steps) => {
                let cpus = agent.get::<Status>("/v1/status")?.cpus.len() as u32;
                let own = vec![Selector::Pid(std::process::id().cast_signed())];
                Some(Following::of(own, terms.workload.cpus, cpus, steps)?)
            }
            None => None,
        };
        if !terms.say.quiet {
            let (name, answer) = (&terms.workload.name, &leasing.answer);
            let set = if answer.set.is_empty() { "nothing set yet".to_owned() } else { answer.set.join(", ") };
            eprintln!("quell: {name}: {set} under {}, by the agent", answer.policies.join(" and "));
            answer.warnings.iter().for_each(|warning| eprintln!("quell: {name}: {warning}"));
        }
        let leasing = Some(leasing);
        Ok(Lease { agent, terms, wish, leasing, is_over: false, is_refused: false, following, looked: Instant::now() })
    }

    /// Looks after it: to be called many times a second.
    fn look(&mut self) {
        self.watch();
        if !self.is_over && self.looked.elapsed() >= ADOPTED {
            self.looked = Instant::now();
            self.look_for_adopted();
        }
    }

    fn watch(&mut self) {
        let name = &self.terms.workload.name;
        let Some(leasing) = self.leasing.as_mut() else { return };
        match self.agent.watch(leasing, NOTICED) {
            Ok(Standing::Stands) => {}
            Ok(Standing::Lost) => eprintln!("quell: {name}: the agent's worker has ended; sending the request again"),
            Ok(Standing::Again) => eprintln!("quell: {name}: the agent manages it again"),
            Err(error) => {
                let error = error.to_string();
                eprintln!("quell: {name}: {}; the command goes on unmanaged", foreign::text(&error));
                (self.leasing, self.is_over) = (None, true);
                return;
            }
        }
        if let Some(cpus) = self.following.as_mut().and_then(Following::next) {
            match self.agent.resize(leasing, cpus.as_f64()) {
                Ok(()) => self.wish.cpus = cpus.as_f64(),
                Err(error) => eprintln!("quell: {name}: its request could not be changed: {error}"),
            }
        }
    }

    /// A process whose parent ended before the agent saw it is a child of this process, and no descendant of the command any more.
    /// The agent is asked anew then, for all children. One of them may end meanwhile, so that it refuses: the next look asks for
    /// the others.
    fn look_for_adopted(&mut self) {
        let children = children();
        let selected = |pid: &i32| self.wish.selectors.contains(&Match::Pid(*pid));
        let is_managed = |pid: &i32| {
            let thread = self.agent.get::<wire::Thread>(&format!("/v1/threads/{pid}"));
            thread.is_ok_and(|thread| thread.workload == self.wish.name)
        };
        let stands = self.leasing.is_some() && children.iter().all(|pid| selected(pid) || is_managed(pid));
        if stands || children.is_empty() {
            return;
        }
        if let Some(leasing) = self.leasing.take() {
            self.agent.unprotect(leasing);
        }
        self.wish.selectors = children.into_iter().map(Match::Pid).collect();
        let name = &self.terms.workload.name;
        match self.agent.protect(self.wish.clone()) {
            Ok(leasing) => {
                self.leasing = Some(leasing);
                if std::mem::take(&mut self.is_refused) {
                    eprintln!("quell: {name}: the agent manages it again");
                }
            }
            Err(error) => {
                if !std::mem::replace(&mut self.is_refused, true) {
                    let error = error.to_string();
                    eprintln!("quell: {name}: {}; unmanaged for now, asking again each second", foreign::text(&error));
                }
            }
        }
    }

    fn end(&mut self) {
        if let Some(leasing) = self.leasing.take() {
            self.agent.unprotect(leasing);
        }
    }
}

//! With an agent that does not manage the target yet: it is leased in the blocks that are on.

use std::cell::RefCell;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use quell_agent::api::wire::{Protect, Prove, Status};
use quell_agent::api::{Client, Leased, Standing};
use quell_command::parameters;
use quell_model::{Policy as _, foreign};

use super::Policies;
use super::course::{Course, Switched, Work};
use super::output;
use crate::commands::protect::leased::wish;

/// Time within which the end of a lease is noticed.
pub const NOTICED: Duration = Duration::from_millis(10);
/// What ended the lease, in words.
pub const ENDED: &str = "the agent ended it: it was stopped, restarted, reloaded or switched off";

/// Runs it.
///
/// # Errors
/// If the agent refuses.
pub fn run(agent: &Client, course: Course<'_>, policies: &Policies) -> Result<ExitCode> {
    // One experiment at a time, and none while the configuration changes.
    let lease = agent.prove(Prove::default())?;
    let set = course.arguments.wanted.asked.parameters();
    let ask = |name: &str, set: &[String]| -> Result<Protect> {
        Ok(wish(course.subject, &course.workload, name, parameters::map(set)?))
    };
    let on = ask(policies.on.describe().name, set)?;
    let off = policies.off.as_ref().map(|policy| ask(policy.describe().name, &[])).transpose()?;
    let mut leasing = Leasing { agent, lease: RefCell::new(lease), on, off, lost: None };
    let outcome = course.run(&mut leasing)?;
    agent.release(leasing.lease.into_inner());
    Ok(ExitCode::from(output::finish(&course, &outcome, &policies.on, "agent")?))
}

struct Leasing<'a> {
    agent: &'a Client,
    lease: RefCell<Leased>,
    on: Protect,
    off: Option<Protect>,
    lost: Option<String>,
}

impl Switched for Leasing<'_> {
    fn during(&mut self, on: bool, work: Work<'_>) -> Result<()> {
        let wish = if on { Some(&self.on) } else { self.off.as_ref() };
        let mut leasing = wish.map(|wish| self.agent.protect(wish.clone())).transpose()?;
        let mut lost = None;
        let done = work(&mut || {
            if self.agent.is_over_within(&mut self.lease.borrow_mut(), NOTICED) {
                lost = Some(ENDED.to_owned());
            }
            if let Some(leasing) = &mut leasing {
                match self.agent.watch(leasing, NOTICED) {
                    Ok(Standing::Stands) => {}
                    Ok(_) => lost = Some(ENDED.to_owned()),
                    Err(error) => lost = Some(foreign::text(&error.to_string()).into_owned()),
                }
            }
            lost.is_none()
        });
        self.lost = lost;
        if let Some(leasing) = leasing {
            self.agent.unprotect(leasing);
        }
        done
    }

    fn lost(&self) -> Option<String> {
        self.lost.clone()
    }

    fn cost(&self) -> f64 {
        cost(self.agent)
    }
}

/// CPU seconds of the agent.
pub fn cost(agent: &Client) -> f64 {
    agent.get::<Status>("/v1/status").map_or(0.0, |status| status.agent.cpu_seconds)
}

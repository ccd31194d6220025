//! The policy and the request: what was asked for, or else what suits the machine and the target.

use anyhow::{Context as _, Result, bail};
use quell_linux::{HostOptions, LinuxHost, Roots};
use quell_model::{Capabilities, CpuCount, Host as _, Policy as _, Reservation, foreign};
use quell_policy::AnyPolicy;
use quell_policy::recommend::{Answer, Looks, MachineFacts, OwnScheduler, WorkloadFacts, recommend};

use super::Wanted;
use super::before::Before;
use super::target::Subject;
use crate::commands::managed::demand::{self, Steps};
use crate::commands::managed::steps_of;

/// This machine.
pub struct Here {
    /// CPUs that are online.
    pub cpus: u32,
    /// Is there no agent, with workloads beside the target's?
    alone: bool,
    facts: MachineFacts,
}

/// What it comes to.
pub struct Decided {
    /// The policy.
    pub policy: AnyPolicy,
    /// The request …
    pub cpus: CpuCount,
    /// Its kind.
    pub reservation: Reservation,
    /// The steps in which it follows the demand; None: it does not.
    pub follows: Option<Steps>,
}

impl Here {
    /// Looks at the machine. Where no agent runs (`alone`), this process has to have the rights that a policy takes.
    ///
    /// # Errors
    /// If it cannot be read, or rights are missing.
    pub fn look(alone: bool, asked: Option<&str>, subject: &Subject) -> Result<Here> {
        let host = LinuxHost::new(Roots::default(), HostOptions { dry_run: !alone, ..HostOptions::default() })?;
        let has = host.capabilities();
        let cpus = host.cpus().1.len() as u32;
        let of = |policy: &quell_model::Description| -> Capabilities {
            quell_daemon::capabilities(&has, policy.grants, None)
        };
        let never = OwnScheduler::No("quell protect does not load Quell's own scheduler; see quell run".into());
        let here = Here { cpus, alone, facts: MachineFacts::new(cpus, never, of) };
        let name = asked.unwrap_or("guard");
        if let Some(lack) = here.facts.cannot.get(name).filter(|_| alone && !rustix::process::geteuid().is_root()) {
            // Its fix is root's rights, too.
            let why = lack.split_once("; ").map_or(lack.as_str(), |(why, _)| why);
            bail!(
                "policy {name} cannot work without root, and no agent runs: {why}; run `sudo quell {} {}`",
                subject.verb,
                subject.words
            );
        }
        Ok(here)
    }

    /// Decides.
    ///
    /// # Errors
    /// If the target leaves no room for anything else, or no policy suits it.
    pub fn decide(&self, wanted: &Wanted, kept: bool, subject: &Subject, before: &Before) -> Result<Decided> {
        let (asked, looks) = (&wanted.asked, &before.looks);
        let (class, most, words) = (asked.class(), demand::most(self.cpus), &subject.words);
        let ran = looks.ran.0 as f64 / looks.watched.0.max(1) as f64;
        if wanted.cpus.is_none() && class.is_lc() && ran > most.as_f64() {
            bail!(
                "{} runs on {ran:.1} of {} CPUs by itself, and protecting that would take all of them: run `quell {} {words} \
                 --cpus {most}`, or --be on what disturbs it",
                subject.name,
                self.cpus,
                subject.verb
            );
        }
        let policy = self.policy(wanted, kept, subject, looks)?;
        let steps = steps_of(&policy);
        let usual = match class.is_lc() {
            true => demand::request(looks.asked, self.cpus, steps),
            false => CpuCount::ZERO,
        };
        let cpus = wanted.cpus.unwrap_or(usual);
        if cpus > most {
            bail!(
                "{} takes whole CPUs, and {cpus} would be all of this machine: run `quell {} {words} --policy guard`",
                policy.describe().name,
                subject.verb
            );
        }
        let follows = (wanted.cpus.is_none() && class.is_lc()).then_some(steps);
        Ok(Decided { reservation: asked.reservation(&policy, cpus), policy, cpus, follows })
    }

    /// The policy that was asked for, or else the one that `quell recommend` says for the same facts.
    fn policy(&self, wanted: &Wanted, kept: bool, subject: &Subject, looks: &Looks) -> Result<AnyPolicy> {
        let asked = &wanted.asked;
        let mut facts = WorkloadFacts::unknown(subject.words.clone(), String::new(), asked.class());
        facts.cpus = wanted.cpus;
        looks.write_into(&mut facts);
        let guard = asked.policys_name().is_none_or(|name| name == "guard").then(|| asked.policy("guard").ok());
        if let Some(AnyPolicy::Guard(guard)) = guard.flatten() {
            facts.run_budget = guard.run_budget();
        }
        if let Some(name) = asked.policys_name() {
            let long = facts.longest_run.filter(|run| *run >= facts.run_budget && asked.class().is_lc());
            if let Some(run) = long.filter(|_| name == "guard") {
                eprintln!(
                    "quell: {}: one of its threads ran for {run} without blocking, and guard demotes at {}: leave --policy out, \
                     or use --policy rkube",
                    subject.name, facts.run_budget
                );
            }
            return asked.policy(name);
        }
        let machine = MachineFacts { alone: self.alone && !kept, ..self.facts.clone() };
        let mut advice = recommend(&machine, Some(&facts));
        if advice.answer == Answer::Nothing {
            if !asked.say().quiet {
                eprintln!("quell: {}: it hardly waits for a CPU now; it is protected all the same", subject.name);
            }
            facts.disturbed = None;
            advice = recommend(&machine, Some(&facts));
        }
        let Answer::Policy(name) = advice.answer else {
            let paste = advice.paste.map_or_else(String::new, |paste| format!("; run `{paste}`"));
            bail!("{}: {}{}", foreign::text(&advice.headline), advice.why, paste);
        };
        if name != "guard" && !asked.say().quiet {
            eprintln!("quell: {}: policy {name}: {}", subject.name, advice.why);
        }
        asked.policy(name).with_context(|| {
            format!(
                "--set is for policy {name}, which is recommended here ({}); name the one that you mean with --policy",
                advice.why
            )
        })
    }
}

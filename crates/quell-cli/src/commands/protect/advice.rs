//! The policy and the request: what was asked for, or else what suits the machine and the target.

use anyhow::{Result, bail};
use quell_linux::{HostOptions, LinuxHost, Roots};
use quell_model::{Capabilities, CpuCount, Host as _, foreign};
use quell_policy::AnyPolicy;
use quell_policy::guard::GuardConfig;
use quell_policy::recommend::{Answer, MachineFacts, OwnScheduler, WorkloadFacts, recommend};

use super::Arguments;
use super::before::Before;
use super::target::Subject;
use crate::commands::managed::demand;

/// This machine.
pub struct Here {
    /// CPUs that are online.
    pub cpus: u32,
    facts: MachineFacts,
}

/// What it comes to.
pub struct Decided {
    /// The policy.
    pub policy: AnyPolicy,
    /// The request.
    pub cpus: CpuCount,
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
        let never = OwnScheduler::No("quell protect never loads Quell's own scheduler unasked; see quell run".into());
        let here = Here { cpus, facts: MachineFacts::new(cpus, never, of) };
        let wanted = asked.unwrap_or("guard");
        if let Some(lack) = here.facts.cannot.get(wanted).filter(|_| alone && !rustix::process::geteuid().is_root()) {
            bail!(
                "policy {wanted} cannot work without root, and no agent runs: {lack}; run `sudo quell protect {}`",
                subject.words
            );
        }
        Ok(here)
    }

    /// Decides.
    ///
    /// # Errors
    /// If the target leaves no room for anything else, or no policy suits it.
    pub fn decide(&self, arguments: &Arguments, subject: &Subject, before: &Before) -> Result<Decided> {
        let asked = &arguments.asked;
        let (class, most, words) = (asked.class(), demand::most(self.cpus), &subject.words);
        let ran = before.looks.ran.0 as f64 / before.looks.watched.0.max(1) as f64;
        if arguments.cpus.is_none() && class.is_lc() && ran > most.as_f64() {
            bail!(
                "{} runs on {ran:.1} of {} CPUs by itself, and protecting that would take all of them: run `quell protect {words} \
                 --cpus {most}`, or --be on what disturbs it",
                subject.name,
                self.cpus
            );
        }
        let usual = if class.is_lc() { demand::request(before.looks.asked, self.cpus) } else { CpuCount::ZERO };
        let cpus = arguments.cpus.unwrap_or(usual);
        let mut facts = WorkloadFacts::unknown(words.clone(), String::new(), class);
        facts.cpus = Some(cpus);
        before.looks.write_into(&mut facts);
        // That it is not disturbed now is said by what is measured.
        facts.disturbed = Some(true);
        // Looks are far apart beside a load that moves within milliseconds.
        facts.moves = None;
        let long = facts.longest_run.filter(|run| *run >= GuardConfig::default().run_budget && class.is_lc());
        if let Some(name) = asked.policys_name() {
            if let Some(run) = long.filter(|_| name == "guard") {
                eprintln!(
                    "quell: {}: a thread of it ran for {run} without a pause, and guard demotes at {}: leave --policy out, or take \
                     --policy rkube",
                    subject.name,
                    GuardConfig::default().run_budget
                );
            }
            return Ok(Decided { policy: asked.policy(name)?, cpus });
        }
        let advice = recommend(&self.facts, Some(&facts));
        let Answer::Policy(name) = advice.answer else {
            let paste = advice.paste.map_or_else(String::new, |paste| format!("; run `{paste}`"));
            bail!("{}: {}{}", foreign::text(&advice.headline), advice.why, paste);
        };
        if name != "guard" && !asked.say().quiet {
            eprintln!("quell: {}: policy {name}: {}", subject.name, advice.why);
        }
        // Whole CPUs.
        let cpus = if name == "rkube" { CpuCount::whole(cpus.ceil()) } else { cpus };
        Ok(Decided { policy: asked.policy(name)?, cpus })
    }
}

//! What makes no sense in a scenario, and the fix.

use std::collections::BTreeSet;

use quell_sim::contention::library;

use super::{HostSpec, Kind, Scenario};
use crate::ClusterError;

fn wrong<T>(what: impl Into<String>, why: impl Into<String>, fix: impl Into<String>) -> Result<T, ClusterError> {
    Err(ClusterError::Scenario { what: what.into(), why: why.into(), fix: fix.into() })
}

impl Scenario {
    /// # Errors
    /// The first fault.
    pub fn check(&self) -> Result<(), ClusterError> {
        let seconds = self.lasts.0 / 1_000_000_000;
        if !(60..=7 * 86_400).contains(&seconds) {
            return wrong("lasts", format!("{} is too short or too long", self.lasts), "give 1min to 168h");
        }
        for (name, part) in [("moves", self.fails.moves), ("hosts", self.fails.hosts), ("reports", self.fails.reports)]
        {
            if !(0.0..=1.0).contains(&part) {
                return wrong(format!("fails.{name}"), format!("{part} is not a share"), "give 0 to 1");
            }
        }
        if self.host.iter().map(|host| u64::from(host.count)).sum::<u64>() == 0 {
            return wrong("host", "there is no host", "add [[host]] with a count");
        }
        self.host.iter().try_for_each(HostSpec::check)?;
        let mut names = BTreeSet::new();
        for kind in &self.kind {
            if !names.insert(&kind.name) {
                return wrong(format!("kind '{}'", kind.name), "is there twice", "give each kind a name of its own");
            }
            kind.check()?;
            self.fits_somewhere(kind)?;
        }
        let hosts: u32 = self.host.iter().map(|host| host.count).sum();
        for group in &self.workloads {
            let what = format!("workloads of kind '{}'", group.kind);
            if !names.contains(&group.kind) {
                return wrong(what, "there is no such kind", "add a [[kind]] of that name");
            }
            if let Some(host) = group.hosts.iter().find(|host| **host >= hosts) {
                return wrong(what, format!("host {host} does not exist"), format!("give 0 to {}", hosts - 1));
            }
            if !group.hosts.is_empty() && group.hosts.len() != group.count as usize {
                let why = format!("{} hosts for {} workloads", group.hosts.len(), group.count);
                return wrong(what, why, "give each a host, or none");
            }
            if group.every.is_some_and(|every| every.0 == 0) || group.stays.is_some_and(|stays| stays.0 == 0) {
                return wrong(what, "a time of 0", "leave it out, or give a time");
            }
        }
        Ok(())
    }

    fn fits_somewhere(&self, kind: &Kind) -> Result<(), ClusterError> {
        let fits = |host: &HostSpec| {
            f64::from(kind.vcpus) <= f64::from(host.cores) * host.overcommit && kind.memory_gib <= host.memory_gib
        };
        if self.host.iter().any(fits) {
            return Ok(());
        }
        let why = format!("{} CPUs and {} GiB fit on no host", kind.vcpus, kind.memory_gib);
        wrong(format!("kind '{}'", kind.name), why, "make it smaller, or a host larger")
    }
}

impl HostSpec {
    fn check(&self) -> Result<(), ClusterError> {
        let what = format!("host with machine '{}'", self.machine);
        let Some(machine) = self.simulated() else {
            let known: Vec<&str> = quell_sim::machine::PRESETS.iter().map(|preset| preset.name).collect();
            return wrong(what, "there is no such machine", format!("give one of {}", known.join(", ")));
        };
        if let Err(why) = machine.contention.check() {
            return wrong(what, why, "give full-power, or leave it out");
        }
        if !(1..=1024).contains(&self.cores) {
            return wrong(what, format!("{} cores", self.cores), "give 1 to 1024");
        }
        if !(self.memory_gib > 0.0 && self.link_gbit > 0.0 && (1.0..=64.0).contains(&self.overcommit)) {
            return wrong(what, "no memory, no link, or an odd overcommit", "give both, and an overcommit of 1 to 64");
        }
        Ok(())
    }
}

impl Kind {
    fn check(&self) -> Result<(), ClusterError> {
        let what = format!("kind '{}'", self.name);
        if self.vcpus == 0 || self.memory_gib <= 0.0 || self.memory_gib.is_nan() || self.dirty_mib < 0.0 {
            return wrong(what, "no CPU or no memory", "give vcpus and memory-gib");
        }
        if self.phases.is_empty() {
            return wrong(what, "it does nothing", "give phases = [{ profile = \"sjeng\" }]");
        }
        for phase in &self.phases {
            if library::named(&phase.profile).is_none() {
                return wrong(what, format!("there is no profile '{}'", phase.profile), "see docs/lab/workloads.md");
            }
            if self.phases.len() > 1 && phase.lasts.0 < 1_000_000_000 {
                return wrong(what, "a phase shorter than 1 s among others", "give its length");
            }
        }
        if self.class.is_lc() != (self.rate > 0.0) {
            return wrong(
                what,
                "a service needs a rate of requests, and best-effort work has none",
                "give class and rate",
            );
        }
        let profile = &self.phases[0].profile;
        if self.rate > 0.0 && self.service.is_none() && library::service(profile).is_none() {
            return wrong(what, format!("the profile '{profile}' has no service time"), "give service = \"1ms\"");
        }
        if self.slo.is_some() && !self.class.is_lc() {
            return wrong(what, "best-effort work with an SLO", "take slo out");
        }
        Ok(())
    }
}

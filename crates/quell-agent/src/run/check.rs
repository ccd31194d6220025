//! All faults of a configuration on this machine.

use std::sync::Arc;

use quell_linux::{Contested, Matched, Roots, Survey, limit_obstacle, survey};
use quell_model::{Capabilities, Selector, Topology, Workload};

use super::agent::host_failed;
use super::extras::{Extras, host_options};
use super::warnings::unreadable;
use crate::AgentError;
use crate::config::allowed::{allowed, too_little};
use crate::config::{self, Config, Place, Problems};

/// All faults of a configuration on this machine, if its host has these capabilities; and the matches of its selectors.
/// `before` are the problems that were found in its files.
///
/// # Errors
/// If the machine's processes cannot be read.
pub fn check(
    config: &Config,
    before: Problems,
    topology: &Arc<Topology>,
    capabilities: &Capabilities,
) -> Result<(Problems, Survey), AgentError> {
    check_in(&Roots::default(), config, before, topology, capabilities)
}

/// As [`check`], on the machine of these pseudo-filesystems.
pub(super) fn check_in(
    roots: &Roots,
    config: &Config,
    before: Problems,
    topology: &Arc<Topology>,
    capabilities: &Capabilities,
) -> Result<(Problems, Survey), AgentError> {
    let workloads: Vec<_> = config.workloads.iter().map(|member| &member.workload).collect();
    let survey = survey(roots, &workloads).map_err(host_failed)?;
    let mut seen = Seen { workloads: &workloads, survey: &survey };
    let mut users_of = |selector: &Selector| {
        let matched = seen_of(&workloads, &survey, selector).and_then(|found| found.as_ref().ok());
        matched.map_or(Vec::new(), |found| found.users.iter().map(|&user| quell_linux::user_name(user)).collect())
    };
    let was_understood = !before.are_fatal();
    let mut problems = config::check_rest(config, before, topology, Some(capabilities), &mut seen);
    if let Some(line) = unreadable(survey.unreadable) {
        problems.warning(&Place::file(roots.cgroup.clone()), line);
    }
    if rustix::process::geteuid().is_root() {
        config::selector::forbid_disguises(config, &mut users_of, &mut problems);
    }
    let options = host_options(config, &Extras::default());
    let mut obstacle = |workload: &Workload| limit_obstacle(roots, &options, workload);
    if was_understood {
        config::unused::warn(config, Some(capabilities), &mut obstacle, &mut problems);
        for member in &config.workloads {
            let workload = &member.workload;
            let Some(allowance) = quell_linux::allowance(roots, &options, workload) else { continue };
            let line = too_little(workload, &allowance).unwrap_or_else(|| allowed(&allowance));
            problems.warning(&member.place, format!("workload '{}': {line}", workload.name));
        }
    }
    Ok((problems, survey))
}

/// What the survey found of a selector.
fn seen_of<'a>(
    workloads: &[&Workload],
    survey: &'a Survey,
    selector: &Selector,
) -> Option<&'a Result<Matched, String>> {
    let each = workloads.iter().zip(&survey.matched);
    let mut each = each.flat_map(|(workload, matched)| workload.selectors.iter().zip(matched));
    each.find(|(other, _)| *other == selector).map(|(_, matched)| matched)
}

struct Seen<'a> {
    workloads: &'a [&'a Workload],
    survey: &'a Survey,
}

impl config::Matches for Seen<'_> {
    fn find(&mut self, selector: &Selector) -> Result<(), String> {
        let found = seen_of(self.workloads, self.survey, selector);
        found.map_or(Ok(()), |matched| matched.as_ref().map(|_| ()).map_err(Clone::clone))
    }

    fn contested(&mut self) -> Vec<Contested> {
        self.survey.contested.clone()
    }
}

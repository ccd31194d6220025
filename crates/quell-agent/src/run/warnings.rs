//! Keys without effect and excessive requests of the configuration, as they change while the agent runs.

use quell_linux::{LimitState, LinuxHost};
use quell_model::{Capabilities, Nanos, Workload};

use super::membership::Membership;
use crate::config::Config;
use crate::config::allowed::too_little;
use crate::config::unused::{notices_in, unused_in};
use crate::config::whole::whole_machine;

/// Interval of checking limits that cannot be kept any more, or can again.
const EVERY: Nanos = Nanos::from_secs(5);

/// The last warnings.
#[derive(Debug, Default)]
pub struct Warnings {
    /// Asking for them again and again would hold the loop up.
    capabilities: Capabilities,
    lines: Vec<String>,
    notices: Vec<String>,
    unplaced: u64,
    next: Nanos,
}

impl Warnings {
    /// The warnings of `quell check`, from before anything is attached: known to the user who started the agent.
    pub fn begin(config: &Config, capabilities: &Capabilities, host: &mut LinuxHost) -> Warnings {
        let lines = lines(config, capabilities, &Membership::default(), host, Nanos::ZERO);
        let capabilities = capabilities.clone();
        Warnings { capabilities, lines, notices: notices(config), unplaced: 0, next: Nanos::ZERO }
    }

    /// One line each.
    pub fn lines(&self) -> &[String] {
        &self.lines
    }

    /// What needs no action, one line each.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// Cgroups without a place in the scheduler's table.
    pub fn unplaced(&self) -> u64 {
        self.unplaced
    }

    /// When due, or after a change: collects the warnings again, and logs the new ones. True if they differ from
    /// before.
    pub fn look(
        &mut self,
        changed: bool,
        config: &Config,
        membership: &Membership,
        host: &mut LinuxHost,
        now: Nanos,
    ) -> bool {
        if now < self.next && !changed {
            return false;
        }
        self.next = now + EVERY;
        let found = lines(config, &self.capabilities, membership, host, now);
        for line in found.iter().filter(|line| !self.lines.contains(line)) {
            tracing::warn!("{line}");
        }
        let noticed = std::mem::replace(&mut self.notices, notices(config)) != self.notices;
        let placed = std::mem::replace(&mut self.unplaced, host.unplaced_cgroups()) != self.unplaced;
        std::mem::replace(&mut self.lines, found) != self.lines || noticed || placed
    }
}

/// What is said of cgroups that cannot be looked into; None: there is none.
pub(super) fn unreadable(count: usize) -> Option<String> {
    let cgroups = match count {
        0 => return None,
        1 => "1 cgroup".to_owned(),
        count => format!("{count} cgroups"),
    };
    Some(format!("{cgroups} cannot be read and may hide what a selector names; root can read all"))
}

fn notices(config: &Config) -> Vec<String> {
    let of = |(at, line): (usize, String)| format!("workload '{}': {line}", config.workloads[at].workload.name);
    notices_in(config).into_iter().map(of).collect()
}

fn lines(
    config: &Config,
    capabilities: &Capabilities,
    membership: &Membership,
    host: &mut LinuxHost,
    now: Nanos,
) -> Vec<String> {
    let ids = membership.ids(config);
    let mut obstacle = |workload: &Workload| {
        let at = config.workloads.iter().position(|member| member.workload.name == workload.name);
        match at.and_then(|at| ids[at]) {
            None if membership.gives_way(&workload.name, now) => Some(
                "another process keeps changing what Quell sets there, so Quell backs off for a while; set \
                 CPUQuota= in its unit"
                    .to_owned(),
            ),
            None => host.limit_obstacle(workload),
            Some(id) => match host.limit_state(id)? {
                LimitState::Kept(_) => None,
                LimitState::NotKept(why) => Some(why.clone()),
            },
        }
    };
    let found = unused_in(config, Some(capabilities), &mut obstacle);
    let unused =
        found.into_iter().map(|(at, line)| format!("workload '{}': {line}", config.workloads[at].workload.name));
    let tight = config.workloads.iter().zip(&ids).filter_map(|(member, id)| {
        let line = too_little(&member.workload, &host.allowance((*id)?)?)?;
        Some(format!("workload '{}': {line}", member.workload.name))
    });
    let tight: Vec<String> = tight.collect();
    let whole = whole_machine(config, host.topology().all()).into_iter().map(|(_, line)| line);
    let scheduler = host.scheduler_warnings();
    unused.chain(tight).chain(whole).chain(unreadable(host.unreadable_cgroups())).chain(scheduler).collect()
}

//! Reads the configuration again while the agent runs.

use std::path::Path;

use quell_model::Host as _;
use quell_thread::clock::now;

use super::agent::Agent;
use super::check::check_in;
use crate::config::{self, Config, Place, Problems, Scheduler};
use crate::wire;

impl Agent {
    /// Reads the configuration again. Returns true if it needs a new beginning. One with errors changes nothing.
    pub(super) fn reload(&mut self) -> bool {
        let Some(path) = &self.config.main.clone() else { return false };
        let (config, all) = match read_again(path).and_then(|config| {
            // On Linux's scheduler like the running one, which could not have Quell's or lost it.
            let kernels = self.extras.stands_in()
                || self.config.machine.scheduler == Scheduler::Kernel && config.machine.scheduler != Scheduler::Quell;
            let config = if kernels { config.on_the_kernels_scheduler() } else { config };
            let topology = self.host.topology();
            // Pods are other people's: what they match is no fault of the files.
            let checked = self.leases.without_pods(&config).and_then(|own| {
                let checked =
                    check_in(self.host.roots(), &own, Problems::default(), &topology, &self.host.capabilities());
                let (problems, _) = checked.map_err(|error| error.to_string())?;
                Ok((problems, self.leases.over(&config)?))
            });
            let (problems, all) = checked.unwrap_or_else(|why| {
                let mut problems = Problems::default();
                problems.error(&Place::file(path), why);
                (problems, Config::default())
            });
            if problems.are_fatal() { Err(problems) } else { Ok((config, all)) }
        }) {
            Ok(read) => read,
            Err(problems) => {
                tracing::error!("the new configuration is refused, the old one remains in force:\n{problems}");
                let why = problems.of(config::Severity::Error).map(ToString::to_string).collect::<Vec<_>>().join("\n");
                self.not_reloaded = Some(wire::NotReloaded { since_ns: now().0, why });
                self.inform();
                return false;
            }
        };
        if self.extras.stands_in() {
            tracing::info!("Quell's scheduler is loaded again: the configuration was reloaded");
            return true;
        }
        if self.leases.base.needs_restart(&config) {
            let what = match !self.leases.base.asks_for_servers() && config.asks_for_servers() {
                true => "the new configuration has the first server: Quell's scheduler is loaded again",
                false => "the new configuration has other policies or settings: everything is put back and set again",
            };
            tracing::info!("{what}");
            return true;
        }
        tracing::info!("the configuration was reloaded");
        self.not_reloaded = None;
        self.leases.base = config;
        if let Err(wire::Problem { error, fix }) = self.adopt(all) {
            // Its layers are those of before.
            tracing::error!("{error}; {fix}");
        }
        false
    }
}

/// A pipe would keep the loop waiting, and its text has been read.
fn read_again(path: &Path) -> Result<Config, Problems> {
    if !config::is_pipe(path) {
        return config::read(path);
    }
    let mut problems = Problems::default();
    problems.error(&Place::file(path), "it is a pipe, which is read at the start alone; to reload, start with a file");
    Err(problems)
}

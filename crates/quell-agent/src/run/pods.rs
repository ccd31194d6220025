//! The node's pods in a running agent: workloads that come and go.

use quell_linux::LinuxHost;
use quell_linux::write::NoJournal;

use super::extras::Extras;
use crate::AgentError;
use crate::api::ShownPods;
use crate::config::{Config, PodWorkload};
use crate::pods::{Pods, Site};

/// The pods of the node, as the loop has them.
#[derive(Debug, Default)]
pub(super) struct Followed {
    source: Option<Pods>,
    there: Vec<PodWorkload>,
}

impl Followed {
    /// The part in Kubernetes that the configuration asks for, if it does. Without a journal nothing is written.
    ///
    /// # Errors
    /// If it cannot begin.
    pub fn start(
        config: &Config,
        extras: &Extras,
        host: &mut LinuxHost,
        shown: ShownPods,
    ) -> Result<Followed, AgentError> {
        let Some(settings) = config.kubernetes.as_ref().filter(|_| !extras.once) else {
            return Ok(Followed::default());
        };
        let journal = extras.pods.as_ref().filter(|_| !extras.dry_run && !extras.shadow);
        let site = Site {
            roots: host.roots().clone(),
            not_managed: host.cpus().0.union(&host.cpus().1).difference(&config.pool_to_come(host.cpus())),
            online: quell_linux::sysfs::online(&host.roots().sys)
                .map_err(|error| AgentError::Host(error.to_string()))?,
            topology: (*host.topology()).clone(),
            only_looks: journal.is_none(),
            journal: match journal {
                Some(journal) => Box::new(journal.begin()?),
                None => Box::new(NoJournal),
            },
        };
        Ok(Followed { source: Some(Pods::start(settings, site, shown)?), there: Vec::new() })
    }

    /// The pods.
    pub fn there(&self) -> &[PodWorkload] {
        &self.there
    }

    /// Puts everything in their cgroups back, and sets nothing; or sets it again.
    pub fn suspend(&self, is_suspended: bool) {
        self.source.iter().for_each(|source| source.suspend(is_suspended));
    }

    /// Have they changed since the last call?
    pub fn has_news(&mut self) -> bool {
        let fresh = self.source.as_ref().and_then(Pods::news);
        fresh.map(|fresh| self.there = fresh).is_some()
    }
}

//! CPUs that come and go.

use std::sync::Arc;
use std::time::{Duration, Instant};

use quell_model::{CpuId, CpuSet, Event};

use super::Members;
use super::scan::News;
use crate::{LinuxError, sysfs};

/// The kernel describes the caches of a CPU a moment after it is online: it joins then, or after this time without.
const LONGEST_WITHOUT_CACHES: Duration = Duration::from_secs(2);

impl Members {
    /// Takes up which CPUs are online.
    ///
    /// # Errors
    /// If they cannot be read.
    pub(super) fn scan_cpus(&mut self, news: &mut News) -> Result<(), LinuxError> {
        let mut online = sysfs::online(&self.roots.sys)?;
        if online == self.online {
            self.search.undescribed = None;
            return Ok(());
        }
        let fresh = online.difference(&self.topology.all());
        if self.waits_for_caches(&fresh) {
            online = online.difference(&fresh);
        } else if !fresh.is_empty() {
            self.topology = Arc::new(sysfs::grown(&self.roots.sys, &self.topology)?);
            self.search.finder.cpus = self.topology.cpus().len();
            self.controls_changed();
        }
        news.events.extend(self.online.difference(&online).iter().map(Event::Offline));
        news.events.extend(online.difference(&self.online).iter().map(Event::Online));
        self.online = online;
        Ok(())
    }

    /// Are the caches of these CPUs still to be described, as those of the others are?
    fn waits_for_caches(&mut self, fresh: &CpuSet) -> bool {
        let has_caches = |cpu: CpuId| sysfs::has_caches(&self.roots.sys, cpu);
        let is_due = !fresh.iter().all(has_caches) && self.online.iter().any(has_caches);
        if !is_due {
            self.search.undescribed = None;
            return false;
        }
        let waits = self.search.undescribed.get_or_insert_with(Instant::now).elapsed() < LONGEST_WITHOUT_CACHES;
        if !waits {
            self.search.undescribed = None;
        }
        waits
    }
}

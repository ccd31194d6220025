//! A workload's traffic between the last-level caches and memory, as resctrl counts it of Quell's own group.

use quell_model::{BytesPerSecond, Nanos, Sample, WorkloadId};

use crate::Roots;
use crate::resctrl::{Count, Resctrl, own_prefix};

const FEATURE: &str = "mbm_total_bytes";
/// Interval of looks for the group.
const LOOK: Nanos = Nanos::from_secs(1);

/// The counts of a workload's group, one a domain.
#[derive(Debug, Default)]
pub(super) struct OwnGroup {
    counts: Vec<Count>,
    looked: Option<Nanos>,
    before: Option<(Nanos, u64)>,
}

impl OwnGroup {
    /// Does resctrl count the traffic of groups here?
    pub fn is_there(roots: &Roots) -> bool {
        Resctrl::find(roots).is_some_and(|resctrl| resctrl.counts(FEATURE).unwrap_or(false))
    }

    /// The bandwidth since the last look; None: the workload has no group, or this is the first look at it.
    pub fn look(&mut self, roots: &Roots, id: WorkloadId, now: Nanos) -> Option<Sample<BytesPerSecond>> {
        if self.counts.is_empty() && self.looked.is_none_or(|at| now >= at + LOOK) {
            self.looked = Some(now);
            self.counts = find(roots, id);
        }
        if self.counts.is_empty() {
            return None;
        }
        let Some(read) = self.counts.iter_mut().map(Count::read).collect::<Option<Vec<Option<u64>>>>() else {
            // The group is gone.
            *self = OwnGroup::default();
            return None;
        };
        // "Unavailable" passes.
        let bytes = read.into_iter().sum::<Option<u64>>()?;
        let (before, had) = self.before.replace((now, bytes))?;
        (now > before && bytes >= had).then(|| {
            let window = now - before;
            Sample::over(BytesPerSecond((bytes - had) as f64 / window.as_secs_f64()), now, window)
        })
    }
}

fn find(roots: &Roots, id: WorkloadId) -> Vec<Count> {
    let Some(resctrl) = Resctrl::find(roots) else { return Vec::new() };
    let prefix = own_prefix(id);
    let is_own = |path: &std::path::PathBuf| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(&prefix))
    };
    let group = resctrl.groups().into_iter().skip(1).find(is_own);
    group.map(|group| Resctrl::counted(&group, FEATURE).into_iter().map(Count::at).collect()).unwrap_or_default()
}

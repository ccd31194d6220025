//! resctrl's counts of the traffic between the last-level caches and memory.

use quell_model::Nanos;

use super::Rate;
use crate::resctrl::{Count, Resctrl};
use crate::{LinuxError, Roots, clock};

/// The bytes that went to memory and came from there, of whomever they are.
const FEATURE: &str = "mbm_total_bytes";

/// Interval of scans for new groups.
const LOOK_FOR_GROUPS: Nanos = Nanos::from_secs(1);

/// A group's traffic in one domain.
#[derive(Debug)]
struct Traffic {
    count: Count,
    /// Time of the last reading, and the bytes since an arbitrary start.
    before: Option<(Nanos, u64)>,
}

/// All groups in all domains.
#[derive(Debug)]
pub(super) struct Monitored {
    resctrl: Resctrl,
    traffic: Vec<Traffic>,
    groups_at: Nanos,
}

impl Monitored {
    /// None: it is not mounted, or counts no traffic here.
    pub fn open(roots: &Roots) -> Result<Option<Monitored>, LinuxError> {
        let Some(resctrl) = Resctrl::find(roots) else { return Ok(None) };
        if !resctrl.counts(FEATURE)? {
            return Ok(None);
        }
        let mut found = Monitored { resctrl, traffic: Vec::new(), groups_at: Nanos::ZERO };
        found.look_for_groups();
        Ok(Some(found).filter(|found| !found.traffic.is_empty()))
    }

    /// The bytes that were moved since the last look.
    pub fn look(&mut self, now: Nanos) -> Rate {
        if now >= self.groups_at {
            self.look_for_groups();
            self.groups_at = now + LOOK_FOR_GROUPS;
        }
        let mut sum = Rate::default();
        let mut some_count = false;
        for traffic in &mut self.traffic {
            let read = traffic.count.read();
            sum.is_there |= read.is_some();
            let Some(Some(bytes)) = read else {
                traffic.before = traffic.before.filter(|_| read.is_some());
                sum.misses_some = true;
                continue;
            };
            let at = clock::now();
            match traffic.before.replace((at, bytes)) {
                // One that was made again under the same name begins at zero.
                Some((before, had)) if at > before && bytes >= had => {
                    some_count = true;
                    sum.bytes_per_second += (bytes - had) as f64 / (at - before).as_secs_f64();
                }
                _ => sum.misses_some = true,
            }
        }
        // Before the second look at any of them nothing is known.
        sum.is_early = !some_count;
        sum
    }

    fn look_for_groups(&mut self) {
        let mut before = std::mem::take(&mut self.traffic);
        for path in self.resctrl.groups().iter().flat_map(|group| Resctrl::counted(group, FEATURE)) {
            let known = before.iter().position(|traffic| traffic.count.path == path);
            self.traffic.push(match known {
                Some(at) => before.swap_remove(at),
                None => Traffic { count: Count::at(path), before: None },
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use quell_model::Topology;

    use super::*;
    use crate::testkit::FakeTree;

    const ROOT: &str = "sys/fs/resctrl";

    fn mounted() -> FakeTree {
        let tree = FakeTree::new(&Topology::synthetic(2, 1, 2, 1));
        tree.write(format!("{ROOT}/info/L3_MON/mon_features"), "llc_occupancy\nmbm_total_bytes\nmbm_local_bytes");
        moved(&tree, "", "00", "1000000");
        moved(&tree, "", "01", "2000000");
        tree
    }

    fn moved(tree: &FakeTree, group: &str, domain: &str, text: &str) {
        tree.write(Path::new(ROOT).join(group).join(format!("mon_data/mon_L3_{domain}/mbm_total_bytes")), text);
    }

    fn open(tree: &FakeTree) -> Monitored {
        Monitored::open(&tree.roots()).unwrap().unwrap()
    }

    /// Reads, and the rate of the bytes since the last reading in this time.
    fn look(resctrl: &mut Monitored, now: Nanos, bytes: f64) -> (Rate, f64) {
        let since = resctrl.traffic.iter().filter_map(|traffic| Some(traffic.before?.0)).min();
        std::thread::sleep(Duration::from_millis(2));
        let rate = resctrl.look(now);
        (rate, since.map_or(0.0, |since| bytes / (clock::now() - since).as_secs_f64()))
    }

    #[test]
    fn domains_and_control_groups_are_added_over_the_time_between_two_looks() {
        let tree = mounted();
        moved(&tree, "batch", "00", "5000");
        moved(&tree, "batch/mon_groups/part", "00", "4000");
        moved(&tree, "mon_groups/another", "00", "4000");
        let mut resctrl = open(&tree);
        assert_eq!(resctrl.traffic.len(), 3, "what monitoring groups count is in their control group's files");
        assert!(resctrl.look(Nanos(1)).is_early);
        moved(&tree, "", "00", "31000000");
        moved(&tree, "", "01", "22000000");
        moved(&tree, "batch", "00", "50005000");
        let (rate, least) = look(&mut resctrl, Nanos(2), 100e6);
        assert!((least..least * 100.0).contains(&rate.bytes_per_second), "{rate:?}, at least {least}");
        assert_eq!((rate.is_there, rate.is_early, rate.misses_some), (true, false, false));
        let (rate, _) = look(&mut resctrl, Nanos(3), 0.0);
        assert_eq!(rate.bytes_per_second, 0.0, "nothing was moved since");
    }

    #[test]
    fn what_cannot_be_counted_now_is_told() {
        let tree = mounted();
        let mut resctrl = open(&tree);
        resctrl.look(Nanos(1));
        moved(&tree, "", "00", "Unavailable");
        moved(&tree, "", "01", "3000000");
        let (rate, least) = look(&mut resctrl, Nanos(2), 1e6);
        assert!(rate.bytes_per_second >= least && rate.misses_some && !rate.is_early, "{rate:?}");
        moved(&tree, "", "01", "Error");
        assert_eq!(
            look(&mut resctrl, Nanos(3), 0.0).0,
            Rate { is_there: true, misses_some: true, is_early: true, ..Rate::default() }
        );
        // Traffic in between counts once the file has a number again.
        moved(&tree, "", "00", "9000000");
        let (rate, least) = look(&mut resctrl, Nanos(4), 8e6);
        assert!(rate.bytes_per_second >= least * 0.9, "{rate:?}, {least}");
    }

    #[test]
    fn groups_come_and_go() {
        let tree = mounted();
        let mut resctrl = open(&tree);
        resctrl.look(Nanos(1));
        moved(&tree, "batch", "00", "5000");
        resctrl.look(Nanos(2));
        assert_eq!(resctrl.traffic.len(), 2);
        resctrl.look(Nanos(1) + LOOK_FOR_GROUPS);
        assert_eq!(resctrl.traffic.len(), 3);
        tree.remove(ROOT);
        let gone = resctrl.look(Nanos(2) + LOOK_FOR_GROUPS + LOOK_FOR_GROUPS);
        assert!(!gone.is_there && resctrl.traffic.is_empty(), "{gone:?}");
    }

    #[test]
    fn without_the_feature_there_is_nothing_to_read() {
        let tree = FakeTree::new(&Topology::synthetic(1, 1, 2, 1));
        assert!(Monitored::open(&tree.roots()).unwrap().is_none());
        tree.write(format!("{ROOT}/info/L3_MON/mon_features"), "llc_occupancy");
        moved(&tree, "", "00", "1");
        assert!(Monitored::open(&tree.roots()).unwrap().is_none());
    }
}

//! The simulated cluster as a driver: it goes on by the clock on the wall, whether it is controlled or not.

mod journal;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use quell_model::cluster::{ClusterCapabilities, ClusterDomain, ClusterEvent, ClusterPlan, ClusterView};
use quell_model::{Host, Nanos, Wake, WorkloadId};

use quell_cluster::live::Driver;

use self::journal::{Beginning, Done, Journal};
use crate::ClusterError;
use crate::scenario::Scenario;
use crate::sim::Cluster;

/// It looks at least so often whether it is to stop.
const PATIENCE: Duration = Duration::from_millis(50);

/// A simulated cluster in real time. What was done to it is in a journal, so that it is the same for the next controller.
#[derive(Debug)]
pub struct Simulated {
    cluster: Cluster,
    beginning: Beginning,
    journal: Journal,
    stop: Arc<AtomicBool>,
}

impl Simulated {
    /// The cluster whose journal is at `path`, as it is by now; a new one if there is none, or if it is to be `fresh`. True: it
    /// was there. Its waits end when `stop` is set.
    ///
    /// # Errors
    /// If the journal cannot be had, or is that of another scenario, seed or speed.
    pub fn open(
        path: &Path,
        scenario: &Scenario,
        (seed, speed): (u64, f64),
        fresh: bool,
        stop: Arc<AtomicBool>,
    ) -> Result<(Simulated, bool), ClusterError> {
        let (journal, found) = if fresh { (Journal::take(path)?, None) } else { Journal::open(path)? };
        let own = Beginning { scenario: scenario.clone(), seed, speed, at: nanos_of_wall() };
        let is_new = found.is_none();
        let (beginning, done) = found.unwrap_or((own.clone(), Vec::new()));
        if beginning != (Beginning { at: beginning.at, ..own }) {
            let why = "there is a cluster of another scenario, seed or speed; name another folder with --dir, or begin anew \
                       with --fresh";
            return Err(ClusterError::Live { what: path.display().to_string(), why: why.to_owned() });
        }
        let cluster = Cluster::new(scenario, seed)?;
        let mut driver = Simulated { cluster, beginning, journal, stop };
        if is_new {
            driver.journal.begin(&driver.beginning)?;
        }
        driver.repeat(&done);
        let now = driver.on_the_wall();
        driver.let_pass(now);
        Ok((driver, !is_new))
    }

    /// Its time by the wall.
    fn on_the_wall(&self) -> Nanos {
        let passed = nanos_of_wall().saturating_sub(self.beginning.at);
        Nanos((passed as f64 * self.beginning.speed) as u64)
    }

    /// Does again what was done.
    fn repeat(&mut self, done: &[Done]) {
        let mut view = ClusterView::default();
        for done in done {
            let mut events = Vec::new();
            let Ok(()) = match done {
                Done::Observed(at) => {
                    self.let_pass(*at);
                    self.cluster.observe((), &mut view, &mut events)
                }
                Done::Applied(at, plan) => {
                    self.let_pass(*at);
                    self.cluster.apply(plan, &mut events)
                }
            };
        }
    }

    /// Time passes without a controller.
    fn let_pass(&mut self, until: Nanos) {
        while self.cluster.now() < until && !self.cluster.is_over() {
            let Ok(()) = self.cluster.wait(Wake::At(until));
            self.cluster.pass_over();
        }
    }
}

impl Host<ClusterDomain> for Simulated {
    type Error = ClusterError;

    fn capabilities(&self) -> ClusterCapabilities {
        self.cluster.capabilities()
    }

    fn observe(
        &mut self,
        scope: (),
        view: &mut ClusterView,
        events: &mut Vec<ClusterEvent>,
    ) -> Result<(), ClusterError> {
        self.journal.will(&Done::Observed(self.cluster.now()))?;
        let Ok(()) = self.cluster.observe(scope, view, events);
        Ok(())
    }

    fn apply(&mut self, plan: &ClusterPlan, events: &mut Vec<ClusterEvent>) -> Result<(), ClusterError> {
        self.journal.will(&Done::Applied(self.cluster.now(), plan.clone()))?;
        let Ok(()) = self.cluster.apply(plan, events);
        Ok(())
    }

    fn wait(&mut self, until: Wake) -> Result<(), ClusterError> {
        let until = match until {
            Wake::At(at) => at,
            Wake::OnEvent => Nanos::MAX,
        };
        loop {
            let to = self.on_the_wall().min(until);
            let Ok(()) = self.cluster.wait(Wake::At(to));
            let is_early = self.cluster.now() < to || self.cluster.tells_now();
            if is_early || to >= until || self.cluster.is_over() || self.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            let left = Duration::from_nanos(((until.0 - to.0) as f64 / self.beginning.speed).min(1e18) as u64);
            std::thread::sleep(left.min(PATIENCE));
        }
    }
}

impl Driver for Simulated {
    fn kind(&self, id: WorkloadId) -> &str {
        self.cluster.kind(id)
    }

    fn is_over(&self) -> bool {
        self.cluster.is_over()
    }
}

fn nanos_of_wall() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_cluster::live::control;
    use quell_cluster::policy::AnyClusterPolicy;

    /// Controls the cluster of this journal for this many turns, and then is dead.
    fn controlled(path: &Path, scenario: &Scenario, turns: u32) -> (Simulated, bool) {
        let stop = Arc::new(AtomicBool::new(false));
        let (mut driver, found) = Simulated::open(path, scenario, (1, 200.0), false, Arc::clone(&stop)).unwrap();
        let mut left = turns;
        let policy = AnyClusterPolicy::named("sdc-global", 1).unwrap();
        control(&mut driver, policy, &stop, |driver, _, _| {
            driver.cluster.check().unwrap();
            left = left.saturating_sub(1);
            stop.store(left == 0, Ordering::Relaxed);
        })
        .unwrap();
        (driver, found)
    }

    #[test]
    fn the_next_controller_finds_the_cluster_that_the_dead_one_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let scenario = Scenario::shipped("testbed").unwrap();
        let (first, found) = controlled(&path, &scenario, 6);
        assert!(!found);
        let second = Simulated::open(&path, &scenario, (1, 200.0), false, Arc::default()).unwrap_err().to_string();
        assert!(second.contains("another controller"), "{second}");
        let (was, before) = (first.cluster.now(), first.beginning.at);
        drop(first);
        // It died in the middle of a line.
        let mut text = std::fs::read_to_string(&path).unwrap();
        text.push_str("{\"Observed\":1");
        std::fs::write(&path, text).unwrap();
        let other = Simulated::open(&path, &scenario, (2, 200.0), false, Arc::default()).unwrap_err().to_string();
        assert!(other.contains("--fresh"), "{other}");
        let (next, found) = controlled(&path, &scenario, 3);
        assert!(found && next.beginning.at == before && next.cluster.now() > was, "it went on meanwhile");
        drop(next);
        let (anew, found) = Simulated::open(&path, &scenario, (2, 200.0), true, Arc::default()).unwrap();
        assert!(!found && anew.cluster.now() < was);
    }

    #[test]
    fn what_is_repeated_is_the_same_cluster() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let scenario = Scenario::shipped("testbed").unwrap();
        let (mut first, _) = controlled(&path, &scenario, 12);
        let (_, found) = Journal::open(&{
            let copy = folder.path().join("copy");
            std::fs::copy(&path, &copy).unwrap();
            copy
        })
        .unwrap();
        let now = first.cluster.now();
        let journal = Journal::take(&folder.path().join("other")).unwrap();
        let cluster = Cluster::new(&scenario, 1).unwrap();
        let mut again = Simulated { cluster, beginning: first.beginning.clone(), journal, stop: Arc::default() };
        again.repeat(&found.unwrap().1);
        again.let_pass(now);
        assert_eq!(format!("{:?}", again.cluster.count()), format!("{:?}", first.cluster.count()));
    }
}

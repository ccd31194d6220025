//! A workload's demand: the CPUs that its threads ran on and waited for.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use quell_linux::procfs::SchedStat;
use quell_linux::{Census, mounted_hierarchies};
use quell_model::{CpuCount, Nanos, Selector};
use quell_thread::clock;

/// A request is the demand and a quarter of it, for what the mean over a second does not show …
const HEADROOM: f64 = 1.25;
/// … in steps of a tenth of a CPU …
const STEP: u32 = 100;
/// … is half a CPU at least: guard lets a service get ahead of its request by a run budget of it, and a service that does little
/// still does some of it at once …
const LEAST: u32 = 500;
/// … and leaves at least half a CPU to the rest of the machine.
const LEFT: u32 = 500;
/// A lower demand counts when it has lasted for this many looks …
const LOOKS: usize = 10;
/// … each of this length.
const EVERY: Duration = Duration::from_secs(1);
/// A request is lowered only by a fifth and more: each change makes a policy plan anew.
const LOWERS: f64 = 0.8;

/// The most that a request may be on a machine with this number of CPUs.
#[must_use]
pub fn most(cpus: u32) -> CpuCount {
    CpuCount((cpus * 1000).saturating_sub(LEFT).max(LEAST))
}

/// The steps of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steps {
    /// Tenths of a CPU.
    Tenths,
    /// Whole CPUs, for a policy that reserves them; without headroom, as none of them is shared.
    WholeCpus,
}

/// The request for a demand, on a machine with this number of CPUs.
#[must_use]
pub fn request(demand: f64, cpus: u32, steps: Steps) -> CpuCount {
    if steps == Steps::WholeCpus {
        // What is less than a tenth is the time of looking.
        let tenths = (demand.max(0.0) * 10.0).min(f64::from(u32::MAX / 2)) as u32;
        return CpuCount::whole(tenths.div_ceil(10).min(most(cpus).floor()).max(1));
    }
    let wanted = (demand.max(0.0) * HEADROOM * 1000.0).min(f64::from(u32::MAX / 2)) as u32;
    CpuCount((wanted.div_ceil(STEP) * STEP).max(LEAST)).min(most(cpus))
}

/// A request that follows the demand: up at once, down when it has been lower for a while.
#[derive(Clone, Debug)]
pub struct Follow {
    stands: CpuCount,
    cpus: u32,
    steps: Steps,
    latest: VecDeque<f64>,
}

impl Follow {
    /// From this request on, on a machine with this number of CPUs.
    #[must_use]
    pub fn from(stands: CpuCount, cpus: u32, steps: Steps) -> Follow {
        Follow { stands, cpus, steps, latest: VecDeque::new() }
    }

    /// The next look at the demand; returns another request, if it has to be one.
    pub fn next(&mut self, demand: f64) -> Option<CpuCount> {
        if self.latest.len() == LOOKS {
            self.latest.pop_front();
        }
        self.latest.push_back(demand);
        let wanted = request(self.latest.iter().copied().fold(0.0, f64::max), self.cpus, self.steps);
        let is_lower = self.latest.len() == LOOKS && wanted.as_f64() <= self.stands.as_f64() * LOWERS;
        (wanted > self.stands || is_lower).then(|| {
            self.stands = wanted;
            wanted
        })
    }
}

/// CPU time that threads used, and time that they waited for it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Demand {
    /// CPUs that they ran on, in the mean.
    pub ran: f64,
    /// And those that they waited for.
    pub waited: f64,
}

impl Demand {
    /// Both.
    #[must_use]
    pub fn all(self) -> f64 {
        self.ran + self.waited
    }
}

/// Reads the demand of what selectors select.
#[derive(Debug)]
pub struct Meter {
    census: Census,
    known: BTreeMap<(i32, i32), SchedStat>,
    at: Option<Nanos>,
}

impl Meter {
    /// Of what these select, now and later.
    ///
    /// # Errors
    /// If procfs cannot be read.
    pub fn of(selectors: Vec<Selector>) -> Result<Meter> {
        let census = Census::open("/proc".as_ref(), mounted_hierarchies(), vec![selectors])?;
        Ok(Meter { census, known: BTreeMap::new(), at: None })
    }

    /// The demand since the last look; None at the first. A thread counts from its second look on.
    ///
    /// # Errors
    /// If procfs cannot be read.
    pub fn look(&mut self) -> Result<Option<Demand>> {
        let mut now_known = BTreeMap::new();
        let (mut ran, mut waited) = (0, 0);
        for thread in self.census.scan()? {
            let Some(stat) = self.census.proc().schedstat(thread.pid, thread.tid)? else { continue };
            let key = (thread.pid, thread.tid);
            if let Some(before) = self.known.get(&key) {
                ran += stat.run_time.0.saturating_sub(before.run_time.0);
                waited += stat.run_delay.0.saturating_sub(before.run_delay.0);
            }
            now_known.insert(key, stat);
        }
        self.known = now_known;
        let now = clock::now();
        let since = self.at.replace(now).map(|before| now - before).filter(|since| *since > Nanos::ZERO);
        let share = |time: u64, of: Nanos| time as f64 / of.0 as f64;
        Ok(since.map(|since| Demand { ran: share(ran, since), waited: share(waited, since) }))
    }
}

/// Looks every second, and makes each other request known, until it is over. What cannot be read for a moment is no demand.
pub fn follow(mut meter: Meter, mut follow: Follow, over: &AtomicBool, wish: &dyn Fn(CpuCount)) {
    let nap = EVERY / 20;
    while !over.load(Ordering::Acquire) {
        if let Ok(Some(demand)) = meter.look()
            && let Some(cpus) = follow.next(demand.all())
        {
            wish(cpus);
        }
        for _ in 0..20 {
            if over.load(Ordering::Acquire) {
                return;
            }
            thread::sleep(nap);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_headroom_and_never_takes_all_cpus() {
        for (demand, cpus, is) in [
            (0.0, 4, 500),
            (0.01, 4, 500),
            (0.5, 4, 700),
            (0.8, 4, 1000),
            (2.0, 4, 2500),
            (3.9, 4, 3500),
            (9.0, 1, 500),
        ] {
            assert_eq!(request(demand, cpus, Steps::Tenths), CpuCount(is), "{demand} of {cpus}");
        }
        assert_eq!(request(f64::INFINITY, 2, Steps::Tenths), most(2));
        assert_eq!(request(f64::NAN, 2, Steps::Tenths), CpuCount(LEAST));
    }

    #[test]
    fn a_request_for_whole_cpus_never_has_a_fraction_and_leaves_one() {
        for (demand, cpus, is) in
            [(0.0, 4, 1), (0.5, 4, 1), (1.04, 4, 1), (1.1, 4, 2), (2.3, 4, 3), (9.0, 4, 3), (2.0, 2, 1), (1.0, 1, 1)]
        {
            assert_eq!(request(demand, cpus, Steps::WholeCpus), CpuCount::whole(is), "{demand} of {cpus}");
        }
        let mut follow = Follow::from(CpuCount::whole(2), 8, Steps::WholeCpus);
        assert!((0..30).all(|at| follow.next(1.7 + f64::from(at % 3) / 10.0).is_none()), "2 CPUs are enough");
        assert_eq!(follow.next(2.4), Some(CpuCount::whole(3)));
        let lower: Vec<_> = (0..LOOKS).filter_map(|_| follow.next(0.7)).collect();
        assert_eq!(lower, [CpuCount::whole(1)]);
    }

    #[test]
    fn it_rises_at_once_and_falls_when_the_demand_has_been_lower_for_a_while() {
        let mut follow = Follow::from(CpuCount(500), 8, Steps::Tenths);
        assert_eq!(follow.next(0.4), None);
        assert_eq!(follow.next(2.0), Some(CpuCount(2500)));
        let later: Vec<_> = (0..12).map(|_| follow.next(0.4)).collect();
        let at = later.iter().position(Option::is_some);
        assert_eq!((at, later[at.unwrap()]), (Some(LOOKS - 1), Some(CpuCount(500))), "{later:?}");
        let mut steady = Follow::from(CpuCount(500), 8, Steps::Tenths);
        assert!((0..30).all(|_| steady.next(0.35).is_none()), "a fifth less is the same");
    }

    #[test]
    fn a_busy_process_asks_for_the_cpu_that_it_uses() {
        let mut child = std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let mut meter = Meter::of(vec![Selector::Pid(child.id().cast_signed())]).unwrap();
        assert_eq!(meter.look().unwrap(), None);
        let begun = std::time::Instant::now();
        let busy = loop {
            thread::sleep(Duration::from_millis(100));
            let demand = meter.look().unwrap().unwrap();
            if demand.all() > 0.5 || begun.elapsed() > Duration::from_secs(60) {
                break demand;
            }
        };
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(busy.all() > 0.5, "{busy:?}");
    }
}

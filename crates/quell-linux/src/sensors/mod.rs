//! The host's measurements, a file or folder each. To add one: a file with a [`Sensor`] and its line in [`Sensors`].

mod attributed;
pub(crate) mod bandwidth;
pub(crate) mod canary;
pub(crate) mod counted;
mod exported;
mod latency;
mod quiet;
mod threads;
mod traced;
mod usage;

pub use exported::{Exporting, Working};
pub use traced::Activity;

use std::fmt::Debug;

use quell_model::{Capabilities, Nanos, Refusal, SampleRequest, Signal, SignalSet, Support, Verdict, View, WorkloadId};

use self::attributed::Attributed;
use self::bandwidth::Bandwidth;
use self::canary::Canary;
use self::exported::Exported;
use self::latency::Latency;
use self::threads::Threads;
use self::traced::Traced;
use self::usage::Usage;
use crate::cgroup::Group;
use crate::members::Members;
use crate::{LinuxError, Roots};

/// A capability that the kernel requires for some signals (capabilities(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Privilege {
    /// CAP_BPF.
    Bpf,
    /// CAP_PERFMON.
    Perfmon,
}

/// Signals that need privileges.
const PRIVILEGES: [(&[Signal], &[Privilege]); 3] = [
    (&traced::TRACED, &[Privilege::Bpf, Privilege::Perfmon]),
    (&counted::COUNTED, &[Privilege::Bpf, Privilege::Perfmon]),
    (&bandwidth::COUNTED, &[Privilege::Perfmon]),
];

/// The privileges that measuring these signals takes, each at least once.
pub fn privileges(signals: SignalSet) -> impl Iterator<Item = Privilege> {
    let is_wanted = move |some: &[Signal]| some.iter().any(|&signal| signals.contains(signal));
    PRIVILEGES.into_iter().filter(move |(some, _)| is_wanted(some)).flat_map(|(_, takes)| takes).copied()
}

/// Measures some signals. It knows the members, but not the host.
pub(crate) trait Sensor: Debug {
    /// Reports the signals that it measures here, and how well.
    fn report(&self, members: &Members, found: &mut Capabilities);

    /// A workload with these cgroups attaches: its counts begin now.
    ///
    /// # Errors
    /// If they cannot be read.
    fn begin(&mut self, _id: WorkloadId, _groups: &[Group]) -> Result<(), LinuxError> {
        Ok(())
    }

    /// A workload has other cgroups now.
    fn groups_changed(&mut self, _id: WorkloadId) {}

    /// Fills the wanted signals of this sensor into the view; all wanted columns are absent everywhere so far.
    ///
    /// # Errors
    /// If the machine cannot be read.
    fn observe(&mut self, wanted: SignalSet, members: &mut Members, view: &mut View) -> Result<(), LinuxError>;

    /// A policy asks for samples; None if they are not this sensor's.
    fn ask(&mut self, _request: &SampleRequest) -> Option<Verdict> {
        None
    }

    /// Due time of requested samples.
    fn next_sample(&self) -> Nanos {
        Nanos::MAX
    }

    /// Takes the samples that were asked for, if it is time; true if they are there.
    fn take_samples(&mut self) -> bool {
        false
    }
}

/// All sensors of the stock host.
#[derive(Debug)]
pub(crate) struct Sensors {
    pub threads: Threads,
    pub usage: Usage,
    pub traced: Traced,
    pub bandwidth: Bandwidth,
    pub canary: Canary,
    pub latency: Latency,
    pub attributed: Attributed,
    /// It measures no signal of its own: it adds to what the others and the scheduler measured.
    pub exported: Exported,
}

impl Sensors {
    pub fn new(roots: &Roots, columns: usize) -> Sensors {
        Sensors {
            threads: Threads::default(),
            usage: Usage::default(),
            traced: Traced::default(),
            bandwidth: Bandwidth::new(roots, columns),
            canary: Canary::new(roots),
            latency: Latency::default(),
            attributed: Attributed::default(),
            exported: Exported::default(),
        }
    }

    /// In the order in which they observe: run times of cgroups after those of threads, which they replace, traced signals of
    /// threads after the threads, and estimates of full queues after memory's slowdown.
    fn all(&self) -> [&dyn Sensor; 7] {
        let Sensors { threads, usage, traced, bandwidth, canary, latency, attributed, .. } = self;
        [threads, usage, canary, traced, bandwidth, latency, attributed]
    }

    fn all_mut(&mut self) -> [&mut dyn Sensor; 7] {
        let Sensors { threads, usage, traced, bandwidth, canary, latency, attributed, .. } = self;
        [threads, usage, canary, traced, bandwidth, latency, attributed]
    }

    /// Reports the sensors' signals, and all other signals as unsupported.
    pub fn report(&self, members: &Members, found: &mut Capabilities) {
        self.all().into_iter().for_each(|sensor| sensor.report(members, found));
        for &signal in Signal::ALL {
            found.signals.entry(signal).or_insert_with(|| Support::No {
                why: "this host does not measure it".to_owned(),
                fix: "use the scx host or the simulator".into(),
            });
        }
    }

    pub fn begin(&mut self, id: WorkloadId, groups: &[Group]) -> Result<(), LinuxError> {
        self.exported.begin(id);
        self.all_mut().into_iter().try_for_each(|sensor| sensor.begin(id, groups))
    }

    pub fn groups_changed(&mut self, id: WorkloadId) {
        self.all_mut().into_iter().for_each(|sensor| sensor.groups_changed(id));
    }

    pub fn observe(&mut self, wanted: SignalSet, members: &mut Members, view: &mut View) -> Result<(), LinuxError> {
        self.all_mut().into_iter().try_for_each(|sensor| sensor.observe(wanted, members, view))
    }

    pub fn ask(&mut self, request: &SampleRequest) -> Verdict {
        self.all_mut().into_iter().find_map(|sensor| sensor.ask(request)).unwrap_or_else(|| {
            let what = "of all counters it samples LLC misses alone; use the simulator".to_owned();
            Verdict::Refused(Refusal::Unsupported(what))
        })
    }

    pub fn next_sample(&self) -> Nanos {
        self.all().into_iter().map(Sensor::next_sample).min().unwrap_or(Nanos::MAX)
    }

    pub fn take_samples(&mut self) -> bool {
        self.all_mut().into_iter().fold(false, |taken, sensor| taken | sensor.take_samples())
    }
}

/// The value of a slot, which may be new.
fn of_slot<T: Default>(all: &mut Vec<T>, id: WorkloadId) -> &mut T {
    if all.len() <= id.index() {
        all.resize_with(id.index() + 1, T::default);
    }
    &mut all[id.index()]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use quell_model::Topology;

    use super::*;
    use crate::HostOptions;
    use crate::testkit::FakeTree;

    #[test]
    fn each_signal_is_one_sensors_and_all_are_answered() {
        let tree = FakeTree::new(&Topology::synthetic(1, 1, 2, 1));
        let members = Members::new(tree.roots(), HostOptions::default()).unwrap();
        let sensors = Sensors::new(&members.roots, 2);
        let mut known = BTreeSet::new();
        for sensor in sensors.all() {
            let mut found = Capabilities::default();
            sensor.report(&members, &mut found);
            found.signals.into_keys().for_each(|signal| assert!(known.insert(signal), "{signal:?}: {sensor:?}"));
        }
        let mut found = Capabilities::default();
        sensors.report(&members, &mut found);
        assert!(Signal::ALL.iter().all(|signal| found.signals.contains_key(signal)), "{found:?}");
    }
}

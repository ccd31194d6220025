//! The memory bandwidth in use, and LLC misses by CPU, from the machine's counters.
//!
//! Sources of the bandwidth, best first: the memory controllers' own counters ([`controllers`]), resctrl's
//! ([`resctrl`]), and a cache line for each miss ([`misses`]). One is taken, when a policy first asks.

mod controllers;
mod misses;
#[cfg(test)]
mod policy_tests;
mod resctrl;
#[cfg(test)]
mod sample_tests;
mod source;
#[cfg(test)]
mod tests;

use std::io;

use quell_model::{
    BytesPerSecond, Capabilities, CpuSet, Nanos, Quality, Refusal, Sample, SampleRequest, Signal, SignalSet, Support,
    Verdict, View,
};

#[cfg(test)]
pub(crate) use self::misses::CACHE_MISSES;
use self::misses::Misses;
use self::source::{Source, counts_last_level, open_misses};
use super::Sensor;
use crate::clock::Look;
use crate::members::Members;
use crate::perf::{Counter, Counters, Event, Kernel, Lack};
use crate::{LinuxError, Roots, clock};

/// The signals that hardware counters give: opening one for a whole CPU takes CAP_PERFMON.
pub const COUNTED: [Signal; 2] = [Signal::MemoryBandwidth, Signal::LlcMisses];

/// Looking at the machine's bandwidth takes at most a twentieth of a CPU …
const LOOKING_SHARE: u64 = 20;
/// … and reading the counters of other CPUs, which interrupts each, a quarter while a policy asks for it.
const SAMPLING_SHARE: u64 = 4;

/// Traffic between memory and the rest of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Rate {
    bytes_per_second: f64,
    /// Does anything count?
    is_there: bool,
    /// Are some of the counters gone, or shared with others?
    misses_some: bool,
    /// Is there no rate yet?
    is_early: bool,
}

/// Both signals. Nothing is counted before a policy asks.
#[derive(Debug)]
pub(crate) struct Bandwidth {
    roots: Roots,
    counters: Box<dyn Counters>,
    /// One more than the highest CPU's number.
    columns: usize,
    /// The machine's CPUs as of the last look.
    cpus: Option<CpuSet>,
    source: Option<Result<Source, Lack>>,
    misses: Option<Result<Misses, Lack>>,
    used: Sample<BytesPerSecond>,
    looked: Look,
    sampled: Look,
    /// CPUs whose samples were asked for.
    asked: CpuSet,
}

impl Bandwidth {
    /// That of this machine, or of a machine of plain files, which has no counters.
    pub fn new(roots: &Roots, columns: usize) -> Bandwidth {
        let counters: Box<dyn Counters> = if roots.is_this_machine() { Box::new(Kernel) } else { Box::new(NoCounters) };
        Bandwidth::with_counters(roots, columns, counters)
    }

    pub(crate) fn with_counters(roots: &Roots, columns: usize, counters: Box<dyn Counters>) -> Bandwidth {
        Bandwidth {
            roots: roots.clone(),
            counters,
            columns,
            cpus: None,
            source: None,
            misses: None,
            used: Sample::default(),
            looked: Look::default(),
            sampled: Look::default(),
            asked: CpuSet::EMPTY,
        }
    }

    /// Reports the available sources. If no policy has asked yet, all are tried and closed again.
    fn report(&self, found: &mut Capabilities) {
        let tried;
        let source = match &self.source {
            Some(source) => source,
            None => {
                tried = Source::choose(&self.roots, self.columns, &*self.counters);
                &tried
            }
        };
        let bandwidth = match source {
            Ok(Source::Controllers(_)) => Support::Yes,
            Ok(Source::Resctrl(_)) => Support::Partly("by resctrl, each millisecond, without what devices move".into()),
            Ok(Source::Misses) => Support::Partly(
                "estimated as a cache line for each LLC miss, each millisecond: what is written back or prefetched, and \
                 what devices move, is not in it"
                    .into(),
            ),
            Err(lack) => lack.support(),
        };
        let lack = match &self.misses {
            Some(misses) => misses.as_ref().err().cloned(),
            None => open_misses(self.columns, &*self.counters).err(),
        };
        let misses = match (lack, counts_last_level(&self.roots)) {
            (Some(lack), _) => lack.support(),
            (None, true) => Support::Yes,
            (None, false) => Support::Partly(
                "as this CPU vendor counts cache misses: on AMD's those of the second level, on Arm's of the first"
                    .into(),
            ),
        };
        found.signals.extend([(Signal::MemoryBandwidth, bandwidth), (Signal::LlcMisses, misses)]);
    }

    /// Fills the view with the wanted signals.
    fn fill(&mut self, wanted: SignalSet, view: &mut View) {
        let cpus = view.topology.all();
        if self.cpus.replace(cpus).is_some_and(|before| before != cpus) {
            // CPUs came: they are counted from now on.
            (self.columns, self.misses) = (view.topology.columns(), None);
        }
        if wanted.contains(Signal::MemoryBandwidth) {
            view.machine.memory_bandwidth = self.used();
        }
        if wanted.contains(Signal::LlcMisses)
            && let Ok(misses) = self.misses()
        {
            view.cpus.llc_misses.clear();
            view.cpus.llc_misses.extend_from_slice(misses.samples());
        }
    }

    /// The machine's bandwidth in use, as of the last look; looked at again if it is time.
    fn used(&mut self) -> Sample<BytesPerSecond> {
        if self.source.is_none() {
            let source = Source::choose(&self.roots, self.columns, &*self.counters);
            if let Err(Lack { why, fix }) = &source {
                tracing::warn!(why, fix, "the memory bandwidth in use is not known");
            }
            self.source = Some(source);
        }
        if matches!(self.source, Some(Ok(Source::Misses))) && self.misses().is_err() {
            return Sample::default();
        }
        let Some(Ok(source)) = &mut self.source else { return Sample::default() };
        let now = clock::now();
        if self.looked.next(source.interval(), LOOKING_SHARE).is_some_and(|next| now < next) {
            return self.used;
        }
        let begun = clock::cpu_time();
        let rate = match (source, &mut self.misses) {
            (Source::Controllers(controllers), _) => controllers.look(now, &*self.counters),
            (Source::Resctrl(resctrl), _) => resctrl.look(now),
            (Source::Misses, Some(Ok(misses))) => misses.traffic(&*self.counters),
            (Source::Misses, _) => Rate::default(),
        };
        let window = self.looked.at.map_or(Nanos::ZERO, |before| now - before);
        self.looked = Look { at: Some(now), cost: clock::cpu_time() - begun };
        self.used =
            Sample { quality: rate.quality(), ..Sample::over(BytesPerSecond(rate.bytes_per_second), now, window) };
        self.used
    }

    fn misses(&mut self) -> Result<&mut Misses, &Lack> {
        let open = || open_misses(self.columns, &*self.counters);
        self.misses.get_or_insert_with(open).as_mut().map_err(|lack| &*lack)
    }
}

impl Sensor for Bandwidth {
    fn report(&self, _: &Members, found: &mut Capabilities) {
        self.report(found);
    }

    fn observe(&mut self, wanted: SignalSet, _: &mut Members, view: &mut View) -> Result<(), LinuxError> {
        self.fill(wanted, view);
        Ok(())
    }

    fn ask(&mut self, request: &SampleRequest) -> Option<Verdict> {
        if !request.signals.contains(Signal::LlcMisses) {
            return None;
        }
        if let Err(Lack { why, fix }) = self.misses() {
            let what = format!("LLC misses are not counted: {why}; {fix}");
            return Some(Verdict::Refused(Refusal::Unsupported(what)));
        }
        self.asked = self.asked.union(&request.cpus);
        Some(Verdict::Applied(clock::now()))
    }

    fn next_sample(&self) -> Nanos {
        match self.asked.is_empty() {
            true => Nanos::MAX,
            false => self.sampled.next(Nanos::ZERO, SAMPLING_SHARE).unwrap_or_default(),
        }
    }

    fn take_samples(&mut self) -> bool {
        let now = clock::now();
        if now < self.next_sample() {
            return false;
        }
        let asked = std::mem::take(&mut self.asked);
        let Some(Ok(misses)) = &mut self.misses else { return false };
        let begun = clock::cpu_time();
        misses.sample(&asked, &*self.counters);
        self.sampled = Look { at: Some(now), cost: clock::cpu_time() - begun };
        true
    }
}

impl Rate {
    fn quality(&self) -> Quality {
        match *self {
            Rate { is_there: false, .. } => Quality::Absent,
            Rate { is_early: true, .. } => Quality::Stale,
            Rate { misses_some: true, .. } => Quality::Estimated,
            _ => Quality::Exact,
        }
    }
}

/// A machine of plain files counts nothing.
#[derive(Debug)]
struct NoCounters;

impl Counters for NoCounters {
    fn open(&self, _: Event, _: quell_model::CpuId) -> io::Result<Box<dyn Counter>> {
        Err(io::Error::from_raw_os_error(libc::ENOENT))
    }
}

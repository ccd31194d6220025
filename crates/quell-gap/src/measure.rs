//! A measured run: watches workloads for a window and reports their accounts.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use quell_linux::{Census, Counted, mounted_hierarchies};
use quell_model::{CpuSet, Nanos, ThreadState};
use quell_trace::{Collector, Cost, Event, Losses, Member, Options};
use serde::{Deserialize, Serialize};

use crate::sample::{MachineTimes, Sample, ThreadTimes};
use crate::{Account, Accounting, Estimate, GapError, Request, estimate};

/// How often events are taken from the ring, and processes looked for again.
const DRAIN_EVERY: Nanos = Nanos::from_millis(20);
const SCAN_EVERY: Nanos = Nanos::from_secs(1);

/// What to do and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// How long to look.
    pub length: Nanos,
    /// The period that accounts are settled by.
    pub period: Nanos,
    /// By which means.
    pub method: Method,
    /// Have the kernel measure what the tracing costs.
    pub cost: bool,
}

/// By which means to measure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Exactly if the kernel allows it, else an estimate that says why.
    #[default]
    Auto,
    /// Exactly, or not at all.
    Exact,
    /// By samples of procfs.
    Estimate,
    /// Both at the same time, to compare them.
    Both,
}

/// Where the machine is looked at.
#[derive(Clone, Debug)]
pub struct Machine {
    /// procfs.
    pub proc: PathBuf,
    /// Cgroup hierarchies.
    pub hierarchies: Vec<PathBuf>,
    /// CPUs that are online.
    pub cpus: CpuSet,
}

impl Machine {
    /// This machine.
    ///
    /// # Errors
    /// If the list of CPUs cannot be read.
    pub fn here() -> Result<Machine, GapError> {
        let path = PathBuf::from("/sys/devices/system/cpu/online");
        let text = std::fs::read_to_string(&path).map_err(|source| GapError::Read { path: path.clone(), source })?;
        let cpus = text.parse().map_err(|_| GapError::Form { path, expected: "a list of CPUs" })?;
        Ok(Machine { proc: "/proc".into(), hierarchies: mounted_hierarchies(), cpus })
    }
}

/// What was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// How long it was looked, in nanoseconds.
    pub window: Nanos,
    /// The period that accounts were settled by, in nanoseconds.
    pub period: Nanos,
    /// CPUs of the machine.
    pub cpus: u32,
    /// By workload, in the order of the requests.
    pub workloads: Vec<WorkloadGap>,
    /// Why there are no exact accounts, if there are none.
    pub inexact: Option<String>,
    /// What tracing lost.
    pub losses: Losses,
    /// Events that were accounted for.
    pub events: u64,
    /// Events that came after a younger one, and were taken as if they were as young.
    pub late: u64,
    /// What the hypervisor took away, in nanoseconds of CPU time; accounts count it as run time.
    pub steal: Nanos,
    /// What tracing cost, where that was asked for.
    #[serde(skip)]
    pub cost: Option<Cost>,
}

/// One workload's accounts.
#[derive(Clone, Debug, Serialize)]
pub struct WorkloadGap {
    /// What was asked for.
    #[serde(flatten)]
    pub request: Request,
    /// Threads that the last look found.
    pub threads: usize,
    /// The exact account, in nanoseconds of CPU time.
    pub exact: Option<Account>,
    /// The estimate.
    pub estimate: Option<Estimate>,
    /// Times its threads lost the CPU while they could have gone on; with exact accounts only.
    pub preemptions: Option<u64>,
}

impl WorkloadGap {
    /// The account: exact if there is one.
    #[must_use]
    pub fn account(&self) -> Account {
        self.exact.or(self.estimate.map(|estimate| estimate.account)).unwrap_or_default()
    }
}

/// Now, on the monotonic clock, which is also the clock of BPF programs.
#[must_use]
pub fn now() -> Nanos {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Watches the workloads for the window. `progress` hears every 20 ms how much of it is over, and ends it with `false`.
///
/// # Errors
/// [`GapError::Interrupted`] if `progress` said so; if a workload has no threads, procfs cannot be read, or exact accounts are demanded and the kernel does not allow
/// tracing.
pub fn measure(
    requests: &[Request],
    window: &Window,
    machine: &Machine,
    progress: &mut dyn FnMut(Nanos) -> bool,
) -> Result<Report, GapError> {
    let selectors = requests.iter().map(|request| request.selectors.clone()).collect();
    let mut census = Census::open(&machine.proc, machine.hierarchies.clone(), selectors)?;
    let mut watched: BTreeMap<i32, (i32, u16)> = BTreeMap::new();
    let newcomers = find(&mut census, &mut watched)?;
    for (slot, request) in requests.iter().enumerate() {
        if !newcomers.iter().any(|member| usize::from(member.slot) == slot) {
            let selectors: Vec<String> = request.selectors.iter().map(ToString::to_string).collect();
            return Err(GapError::Nobody { workload: request.name.clone(), selectors: selectors.join(" or ") });
        }
    }
    let (mut tracer, inexact) = match window.method {
        Method::Estimate => (None, Some("an estimate was asked for".to_owned())),
        Method::Exact | Method::Both => (Some(Tracer::begin(window, &newcomers)?), None),
        Method::Auto => match Tracer::begin(window, &newcomers) {
            Ok(tracer) => (Some(tracer), None),
            Err(error) => (None, Some(error.to_string())),
        },
    };
    let sampled = tracer.is_none() || window.method == Method::Both;

    let begin = now();
    let end = begin + window.length;
    let cpus_requested: Vec<_> = requests.iter().map(|request| request.cpus).collect();
    let mut accounts = tracer.is_some().then(|| Accounting::new(&cpus_requested, machine.cpus, begin, window.period));
    let before = MachineTimes::read(&machine.proc, &machine.cpus)?;
    let mut samples = Vec::new();
    if sampled {
        samples.push(sample(&mut census, machine, &mut watched, true)?);
    }
    let (mut next_sample, mut next_scan) = (begin + window.period, begin + SCAN_EVERY);
    while now() < end {
        let wake = (now() + DRAIN_EVERY).min(end).min(next_sample);
        std::thread::sleep(Duration::from(wake.since(now())));
        if let (Some(tracer), Some(accounts)) = (&mut tracer, &mut accounts) {
            tracer.feed(accounts, end)?;
        }
        if now() >= next_sample {
            next_sample += window.period;
            if sampled && now() < end {
                samples.push(sample(&mut census, machine, &mut watched, false)?);
            }
        }
        if now() >= next_scan {
            next_scan += SCAN_EVERY;
            let newcomers = find(&mut census, &mut watched)?;
            if let (Some(tracer), false) = (&mut tracer, newcomers.is_empty()) {
                tracer.watch(&newcomers)?;
            }
        }
        if !progress(now().since(begin).min(window.length)) {
            return Err(GapError::Interrupted);
        }
    }
    if sampled {
        samples.push(sample(&mut census, machine, &mut watched, true)?);
    }
    let steal = MachineTimes::read(&machine.proc, &machine.cpus)?.steal - before.steal;
    let late = accounts.as_ref().map_or(0, Accounting::late);
    let exact = accounts.map(|accounts| accounts.close(end));
    let cpus = machine.cpus.len() as u32;
    let preemptions = |slot: usize| tracer.as_ref().map(|tracer| tracer.preemptions(slot as u16)).transpose();
    let preemptions: Vec<Option<u64>> = (0..requests.len()).map(preemptions).collect::<Result<_, _>>()?;
    let workload = |(slot, request): (usize, &Request)| WorkloadGap {
        request: request.clone(),
        threads: watched.values().filter(|(_, of)| usize::from(*of) == slot).count(),
        exact: exact.as_ref().map(|accounts| accounts[slot]),
        estimate: sampled.then(|| estimate(&samples, slot as u16, request.cpus, cpus)),
        preemptions: preemptions[slot],
    };
    Ok(Report {
        window: window.length,
        period: window.period,
        cpus,
        workloads: requests.iter().enumerate().map(workload).collect(),
        inexact,
        losses: tracer.as_ref().map_or(Losses::default(), |tracer| tracer.collector.losses()),
        events: tracer.as_ref().map_or(0, |tracer| tracer.events),
        late,
        steal,
        cost: tracer.as_ref().and_then(|tracer| tracer.collector.cost()),
    })
}

/// Looks for threads; yields those that are new.
fn find(census: &mut Census, watched: &mut BTreeMap<i32, (i32, u16)>) -> Result<Vec<Member>, GapError> {
    let mut newcomers = Vec::new();
    for Counted { tid, pid, slot } in census.scan()? {
        if watched.insert(tid, (pid, slot)).is_none() {
            newcomers.push(Member { tid, slot });
        }
    }
    Ok(newcomers)
}

/// Reads the times of the watched threads, and their states if wanted; those that ended are forgotten.
fn sample(
    census: &mut Census,
    machine: &Machine,
    watched: &mut BTreeMap<i32, (i32, u16)>,
    with_state: bool,
) -> Result<Sample, GapError> {
    let mut sample =
        Sample { at: now(), machine: MachineTimes::read(&machine.proc, &machine.cpus)?, threads: Vec::new() };
    // Threads that were born since the last scan in processes that are known.
    let processes: BTreeMap<i32, u16> = watched.values().copied().collect();
    let mut tids = Vec::new();
    for (&pid, &slot) in &processes {
        tids.clear();
        census.proc().threads(pid, &mut tids)?;
        for &tid in &tids {
            watched.entry(tid).or_insert((pid, slot));
        }
    }
    let mut ended = Vec::new();
    for (&tid, &(pid, slot)) in watched.iter() {
        match census.proc().schedstat(pid, tid)? {
            Some(times) => {
                let state = if with_state { census.proc().stat(pid, tid)? } else { None };
                let runnable = state.is_some_and(|stat| stat.state == ThreadState::Runnable);
                sample.threads.push(ThreadTimes { tid, slot, run: times.run_time, delay: times.run_delay, runnable });
            }
            None => ended.push(tid),
        }
    }
    for tid in ended {
        watched.remove(&tid);
    }
    Ok(sample)
}

/// The collector, and what it said before the window began.
struct Tracer {
    collector: Collector,
    buffer: Vec<Event>,
    events: u64,
}

impl Tracer {
    fn begin(window: &Window, members: &[Member]) -> Result<Tracer, GapError> {
        let options = Options { events: true, edges: false, cost: window.cost };
        let mut tracer = Tracer { collector: Collector::open(options)?, buffer: Vec::new(), events: 0 };
        tracer.watch(members)?;
        Ok(tracer)
    }

    fn watch(&mut self, members: &[Member]) -> Result<(), GapError> {
        for &member in members {
            self.collector.watch(member)?;
        }
        Ok(self.collector.look()?)
    }

    fn feed(&mut self, accounts: &mut Accounting, end: Nanos) -> Result<(), GapError> {
        self.buffer.clear();
        self.collector.drain(&mut self.buffer)?;
        for event in self.buffer.iter().filter(|event| event.at <= end) {
            accounts.apply(event);
            self.events += 1;
        }
        Ok(())
    }

    fn preemptions(&self, slot: u16) -> Result<u64, GapError> {
        let living = self.collector.threads()?;
        let living = living.iter().filter(|(member, _)| member.slot == slot).map(|(_, known)| known.totals.preemptions);
        Ok(living.sum::<u64>() + self.collector.ended(slot).preemptions)
    }
}

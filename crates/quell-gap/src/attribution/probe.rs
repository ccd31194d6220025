//! Bursts of tracing on this machine.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::time::Duration;

use quell_linux::procfs::ProcFs;
use quell_model::{CpuId, CpuSet, Nanos};
use quell_thread::clock::{cpu_time, now};
use quell_trace::{MAX_SLOTS, Member, Sampled, Sampler, Slot};

use super::burst::{Around, Burst, Interrupted};
use super::{Cause, Key, Limited, Shares};
use crate::report::{name_of, without_number};
use crate::sample::MachineTimes;
use crate::services::Holder;
use crate::services::limits::Limits;
use crate::{GapError, Machine};

/// Interval of reading what was found.
const TAKE_EVERY: Nanos = Nanos::from_millis(100);
/// The program's cost at an event, where the kernel does not measure it.
const COST_OF_EVENT: f64 = 150.0;
/// Events from which its measure is taken.
const MEASURED: u64 = 1_000;

/// The workloads and their threads, as of now.
#[derive(Clone, Debug, Default)]
pub struct Crew {
    /// Names, by slot; empty where there is no workload.
    pub names: Vec<String>,
    /// Threads: number, process, slot.
    pub threads: Vec<(i32, i32, u16)>,
}

/// What a burst found.
#[derive(Clone, Debug)]
pub struct Traced {
    /// By slot.
    pub shares: Vec<Shares>,
    /// CPU time that it took: its own, and the program's in the kernel.
    pub cost: Nanos,
    /// Of it, what is not the calling thread's.
    pub in_kernel: Nanos,
    /// Its length.
    pub length: Nanos,
    /// Scheduling events.
    pub events: u64,
    /// Events were lost: the shares say nothing.
    pub is_broken: bool,
    /// It was ended before its time, since it cost too much.
    pub is_cut: bool,
}

/// A session of the program.
struct Session {
    begin: Nanos,
    end: Nanos,
    is_cut: bool,
}

/// The tracing program, loaded, and attached only in a burst.
pub struct Probe {
    sampler: Sampler,
    machine: Machine,
    proc: ProcFs,
    limits: Limits,
    buffer: Vec<Sampled>,
    cost_of_event: f64,
}

impl Probe {
    /// Loads the program, which takes a moment.
    ///
    /// # Errors
    /// If the kernel does not allow tracing, or procfs cannot be read.
    pub fn open(machine: &Machine) -> Result<Probe, GapError> {
        Ok(Probe {
            sampler: Sampler::open()?,
            proc: ProcFs::open(&machine.proc)?,
            limits: Limits::of(&machine.proc),
            machine: machine.clone(),
            buffer: Vec::new(),
            cost_of_event: COST_OF_EVENT,
        })
    }

    /// Traces for this long. It ends early once it cost more than `most`, or `goes_on` says no.
    ///
    /// # Errors
    /// If the kernel refuses, or procfs cannot be read.
    pub fn burst(
        &mut self,
        crew: &Crew,
        length: Nanos,
        most: Nanos,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<Traced, GapError> {
        let own = cpu_time();
        let members: Vec<Member> = crew
            .threads
            .iter()
            .filter_map(|&(tid, _, slot)| (usize::from(slot) < MAX_SLOTS).then_some(Member { tid, slot }))
            .collect();
        let groups = self.groups(crew);
        let limits_before = counted(&self.limits, &groups);
        let times_before = self.times()?;
        let mut burst = Burst::new(crew.names.len().min(MAX_SLOTS), self.machine.cpus);
        let traced =
            self.trace(&mut burst, &members, length, |in_kernel| goes_on() && (cpu_time() - own) + in_kernel <= most);
        let Session { begin, end, is_cut } = traced?;
        let interrupted = interrupted(&times_before, &self.times()?);
        let limits_after = counted(&self.limits, &groups);
        let mut names = Names {
            crew,
            proc: &mut self.proc,
            root: &self.machine.proc,
            processes: burst.processes(),
            known: HashMap::new(),
        };
        let instants = self.sampler.instants();
        let around = Around {
            begin: (begin, instants.until(begin)),
            end: (end, instants.until(end)),
            interrupted: &|cpu| interrupted.get(&cpu).copied().unwrap_or_default(),
            limited: &|slot| limit(limits_before.get(&slot), limits_after.get(&slot), end - begin),
        };
        let shares = burst.close(&around, &mut |holder| names.of(holder));
        let (events, is_broken, in_kernel) = (self.sampler.calls(), self.sampler.has_lost(), self.in_kernel());
        let cost = (cpu_time() - own) + in_kernel;
        Ok(Traced { shares, cost, in_kernel, length: end - begin, events, is_broken, is_cut })
    }

    /// What the program cost in this session.
    fn in_kernel(&self) -> Nanos {
        Nanos((self.cost_of_event * self.sampler.calls() as f64) as u64)
    }

    fn trace(
        &mut self,
        burst: &mut Burst,
        members: &[Member],
        length: Nanos,
        goes_on: impl Fn(Nanos) -> bool,
    ) -> Result<Session, GapError> {
        self.sampler.begin(members)?;
        let begin = now();
        let (mut end, mut is_cut) = (begin + length, false);
        while now() < end {
            std::thread::sleep(Duration::from(TAKE_EVERY.min(end.since(now()))));
            self.sampler.take(&mut self.buffer)?;
            self.buffer.drain(..).for_each(|sampled| burst.add(sampled));
            // To measure costs as much again: the first part of each burst is enough, and all of them together are one measure.
            if let Some(measured) = self.sampler.cost() {
                if measured.runs >= MEASURED {
                    self.cost_of_event = measured.time.0 as f64 / measured.runs as f64;
                }
                self.sampler.measure_no_longer();
            }
            if now() < end && !goes_on(self.in_kernel()) {
                (end, is_cut) = (now(), true);
            }
        }
        self.sampler.end(self.sampler.instants().until(end), &mut self.buffer)?;
        self.buffer.drain(..).for_each(|sampled| burst.add(sampled));
        Ok(Session { begin, end, is_cut })
    }

    /// The cgroup of each workload's first process.
    fn groups(&self, crew: &Crew) -> BTreeMap<Slot, PathBuf> {
        let mut first: Vec<Option<i32>> = vec![None; crew.names.len()];
        for &(_, pid, slot) in &crew.threads {
            if let Some(first) = first.get_mut(usize::from(slot)) {
                first.get_or_insert(pid);
            }
        }
        let of_slot = (0..).zip(first).filter_map(|(slot, pid)| Some((slot, self.limits.group_of(pid?)?)));
        of_slot.collect()
    }

    fn times(&self) -> Result<BTreeMap<u32, MachineTimes>, GapError> {
        let one = |cpu: CpuId| Ok((cpu.0, MachineTimes::read(&self.machine.proc, &CpuSet::one(cpu))?));
        self.machine.cpus.iter().map(one).collect()
    }
}

type Counted = BTreeMap<Slot, Vec<Limited>>;

fn counted(limits: &Limits, groups: &BTreeMap<Slot, PathBuf>) -> Counted {
    let mut known: HashMap<PathBuf, Vec<Limited>> = HashMap::new();
    let mut of = |(slot, group): (&Slot, &PathBuf)| {
        (*slot, known.entry(group.clone()).or_insert_with(|| limits.counted(group)).clone())
    };
    groups.iter().map(&mut of).collect()
}

/// Of each limit alone, the largest.
fn limit(before: Option<&Vec<Limited>>, after: Option<&Vec<Limited>>, length: Nanos) -> Nanos {
    let (Some(before), Some(after)) = (before, after) else { return Nanos::ZERO };
    let pairs = before.iter().zip(after);
    pairs.map(|(before, after)| Limited::within(*before, *after, length)).max().unwrap_or_default()
}

fn interrupted(
    before: &BTreeMap<u32, MachineTimes>,
    after: &BTreeMap<u32, MachineTimes>,
) -> BTreeMap<u32, Interrupted> {
    let of = |(cpu, after): (&u32, &MachineTimes)| {
        let before = before.get(cpu)?;
        let busy = (after.busy - before.busy).0.max(1) as f64;
        let part = |after: Nanos, before: Nanos| (after - before).0 as f64 / busy;
        let interrupts = part(after.interrupts, before.interrupts);
        Some((*cpu, Interrupted { interrupts, steal: part(after.steal, before.steal) }))
    };
    after.iter().filter_map(of).collect()
}

/// The name of a thread's cgroup: that for CPU time, or systemd's; None: it is in the root.
fn group_in(text: &str) -> Option<&str> {
    let named = |kinds: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
        let (_, path) = lines.find(|(of, _)| of.split(',').any(|kind| kind == kinds))?;
        path.rsplit('/').next().filter(|name| !name.is_empty())
    };
    // Version 2 has no kind.
    named("cpu").or_else(|| named("")).or_else(|| named("name=systemd"))
}

/// What has a CPU, by name.
struct Names<'a> {
    crew: &'a Crew,
    proc: &'a mut ProcFs,
    root: &'a Path,
    /// The processes' names of threads that ran, of those that have ended by now.
    processes: HashMap<i32, String>,
    known: HashMap<i32, Key>,
}

impl Names<'_> {
    fn of(&mut self, holder: Holder) -> Key {
        match holder {
            Holder::Idle => Key::of(Cause::IdleCpu),
            Holder::Own => Key::of(Cause::OwnThreads),
            Holder::Service(slot) => self.workload(slot),
            Holder::Thread(tid) => match self.known.get(&tid) {
                Some(key) => key.clone(),
                None => {
                    let key = self.thread(tid);
                    self.known.insert(tid, key.clone());
                    key
                }
            },
        }
    }

    fn workload(&self, slot: u16) -> Key {
        match self.crew.names.get(usize::from(slot)) {
            Some(name) if !name.is_empty() => Key::by(Cause::Workload, name),
            _ => Key::of(Cause::Unknown),
        }
    }

    /// A thread of no workload that is watched.
    fn thread(&mut self, tid: i32) -> Key {
        let Ok(Some(stat)) = self.proc.stat(tid, tid) else {
            let name = self.processes.get(&tid);
            return name.map_or(Key::of(Cause::Unknown), |name| Key::by(Cause::Unmanaged, without_number(name)));
        };
        let name = name_of(self.root, tid).unwrap_or_default();
        let group = |text: String| group_in(&text).map(str::to_owned);
        match std::fs::read_to_string(self.root.join(tid.to_string()).join("cgroup")).ok().and_then(group) {
            _ if stat.is_kernels => Key::by(Cause::Kernel, without_number(&name)),
            Some(group) => Key::by(Cause::Unmanaged, &group),
            None if name.is_empty() => Key::of(Cause::Unknown),
            None => Key::by(Cause::Unmanaged, &name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cgroup_of_a_thread_is_named_by_any_version() {
        for (text, is) in [
            ("0::/system.slice/cron.service\n", Some("cron.service")),
            ("3:cpuset:/a\n2:cpu,cpuacct:/batch/of:it\n0::/x\n", Some("of:it")),
            ("2:cpu:/\n1:name=systemd:/user.slice\n0::/\n", Some("user.slice")),
            ("0::/\n", None),
            ("", None),
            ("nonsense", None),
        ] {
            assert_eq!(group_in(text), is, "{text}");
        }
    }
}

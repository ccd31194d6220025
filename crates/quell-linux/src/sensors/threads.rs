//! Threads in procfs: their states, their CPUs, their CPU time and their waiting time.

use std::collections::HashMap;

use quell_model::{
    Capabilities, Class, CpuId, Nanos, Quality, Sample, Signal, SignalSet, Support, ThreadId, ThreadState, View,
    WorkloadId,
};

use super::quiet::Quiet;
use super::{Sensor, of_slot};
use crate::LinuxError;
use crate::cgroup::{self, Group};
use crate::members::{Level, Member, Members, Thread};
use crate::procfs::{ProcFs, SchedStat, TimesFile, ticks};

/// Where no policy asks for the states of all threads, a thread's state, CPU and class are looked at so often.
const STATES_EVERY: Nanos = Nanos::from_secs(1);
/// This many threads that are gone may still be known …
const MOST_DEAD: usize = 64;
/// … and more for this long: looking for them costs a look-up of each known thread.
const DEAD_EVERY: Nanos = Nanos::from_secs(2);

/// The threads' summed times, and the threads seen running.
#[derive(Debug)]
pub(crate) struct Threads {
    /// By slot: CPU time and waiting of its threads since it attached.
    sums: Vec<(Nanos, Nanos)>,
    /// Runnable threads that ran since the last scan: CPU, run time, workload.
    on_cpu: Vec<(CpuId, Nanos, WorkloadId)>,
    /// By the thread's number.
    known: HashMap<i32, Known>,
    /// By slot: are its threads wanted one by one?
    one_by_one: Vec<bool>,
    /// Where those are in the list of all threads, which has changed so often.
    places: Vec<usize>,
    places_as_of: u64,
    /// Number of threads asked for at the last observation.
    read: usize,
    /// The last time that those that are gone were looked for.
    looked_for_dead: Nanos,
    /// Number of files that may stay open from one observation to the next.
    may_stay_open: usize,
    quiet: Quiet,
}

/// What is known of a thread from earlier observations.
#[derive(Debug)]
struct Known {
    id: ThreadId,
    /// None: there are too many, or the kernel does not count.
    times: Option<TimesFile>,
    /// The last time that its state was read.
    state_at: Nanos,
}

impl Default for Threads {
    fn default() -> Threads {
        Threads {
            sums: Vec::new(),
            on_cpu: Vec::new(),
            known: HashMap::new(),
            one_by_one: Vec::new(),
            places: Vec::new(),
            places_as_of: u64::MAX,
            read: 0,
            looked_for_dead: Nanos::ZERO,
            may_stay_open: cgroup::most_open_files() / 4,
            quiet: Quiet::default(),
        }
    }
}

impl Sensor for Threads {
    fn report(&self, members: &Members, found: &mut Capabilities) {
        let counted = members.roots.proc.join("self/schedstat").exists() || !members.roots.is_this_machine();
        let (run_time, run_delay) = match counted {
            true => (Support::Yes, Support::Yes),
            false => (
                Support::Partly("in whole ticks of 10 ms".into()),
                Support::No {
                    why: "the kernel does not count it".into(),
                    fix: "use a kernel with CONFIG_SCHED_INFO (every distribution's has it)".into(),
                },
            ),
        };
        found.signals.extend([
            (Signal::Threads, Support::Yes),
            (Signal::CriticalThreads, Support::Yes),
            (
                Signal::CriticalRunTime,
                Support::Partly("of cgroups, where no workload is selected by its processes".into()),
            ),
            (Signal::Holder, Support::Partly("sampled from runnable threads at each read".into())),
            (Signal::ThreadCount, Support::Yes),
            (Signal::RunTime, run_time),
            (Signal::RunDelay, run_delay),
        ]);
    }

    fn begin(&mut self, id: WorkloadId, _: &[Group]) -> Result<(), LinuxError> {
        *of_slot(&mut self.sums, id) = Default::default();
        self.quiet.forget(id);
        Ok(())
    }

    fn groups_changed(&mut self, id: WorkloadId) {
        self.quiet.forget(id);
    }

    fn observe(&mut self, wanted: SignalSet, members: &mut Members, view: &mut View) -> Result<(), LinuxError> {
        let holders = wanted.contains(Signal::Holder);
        let times =
            wanted.contains(Signal::RunDelay) || (wanted.contains(Signal::RunTime) && members.some_on_threads());
        self.on_cpu.clear();
        self.read(wanted, times || holders, members, view.now)?;
        view.cpus.holder.clear();
        if holders {
            self.fill_holders(members.topology.columns(), view);
        }
        if wanted.contains_threads_of(Class::LatencyCritical) {
            self.fill_threads(members, view);
        }
        self.fill_workloads(wanted, members, view);
        Ok(())
    }
}

impl Threads {
    /// Reads the times of all threads, or of those that are wanted with their states. A thread that is gone is found
    /// out by the scan.
    fn read(&mut self, wanted: SignalSet, times: bool, members: &mut Members, now: Nanos) -> Result<(), LinuxError> {
        let holders = wanted.contains(Signal::Holder);
        let all_states = wanted.contains(Signal::Threads);
        self.find(wanted, members);
        if !all_states || wanted.contains(Signal::CriticalRunTime) {
            self.quiet.look(members, |id| times || is_set(&self.one_by_one, id))?;
        }
        self.forget_dead(members, now);
        let Members { slots, threads, proc, .. } = members;
        self.read = if times { threads.len() } else { self.places.len() };
        for place in 0..self.read {
            let thread = &mut threads[if times { place } else { self.places[place] }];
            let states = is_set(&self.one_by_one, thread.workload);
            let known = self.known.get(&thread.id.tid).filter(|known| known.id == thread.id);
            let state_due = states && (all_states || known.is_none_or(|known| now >= known.state_at + STATES_EVERY));
            if known.is_some() && !all_states && !state_due && self.quiet.is_quiet(thread.workload) {
                continue;
            }
            let counted = self.times(thread, proc)?;
            let mut run = counted.unwrap_or(thread.run);
            let ran = run.run_time - thread.run.run_time;
            // A running thread has run since the last scan.
            let may_run = holders && ran > Nanos::ZERO;
            if state_due || may_run || counted.is_none() {
                let stat = proc.stat(thread.pid, thread.id.tid)?.filter(|stat| stat.start == thread.id.start);
                let Some(stat) = stat else {
                    thread.state = ThreadState::Dead;
                    continue;
                };
                (thread.state, thread.cpu, thread.class) = (stat.state, stat.cpu, stat.class);
                self.known.entry(thread.id.tid).and_modify(|known| known.state_at = now);
                if counted.is_none() {
                    run = SchedStat { run_time: ticks(stat.ticks), ..SchedStat::default() };
                }
            }
            thread.exact = counted.is_some();
            if may_run && thread.state == ThreadState::Runnable {
                self.on_cpu.push((thread.cpu, ran, thread.workload));
            }
            if slots.get(thread.workload.index()).is_some_and(Option::is_some) {
                let (run_time, run_delay) = of_slot(&mut self.sums, thread.workload);
                *run_time += run.run_time - thread.run.run_time;
                *run_delay += run.run_delay - thread.run.run_delay;
            }
            thread.run = run;
        }
        Ok(())
    }

    /// Finds the threads that are wanted one by one, if they are others now: most of ten thousand may be of workloads that are
    /// not asked for.
    fn find(&mut self, wanted: SignalSet, members: &Members) {
        let is_wanted = |member: &Member| wanted.contains_threads_of(member.spec.class);
        let slots = members.slots.iter().map(|slot| slot.as_ref().is_some_and(is_wanted));
        if self.places_as_of == members.threads_changed && self.one_by_one.iter().copied().eq(slots.clone()) {
            return;
        }
        self.one_by_one.clear();
        self.one_by_one.extend(slots);
        self.places.clear();
        let is_place = |(place, thread): (usize, &Thread)| is_set(&self.one_by_one, thread.workload).then_some(place);
        self.places.extend(members.threads.iter().enumerate().filter_map(is_place));
        self.places_as_of = members.threads_changed;
    }

    /// A thread's times as the kernel counts them; None if it vanished or the kernel does not count. Its file stays open if
    /// it may.
    fn times(&mut self, thread: &Thread, proc: &mut ProcFs) -> Result<Option<SchedStat>, LinuxError> {
        let (pid, tid) = (thread.pid, thread.id.tid);
        if let Some(known) = self.known.get(&tid).filter(|known| known.id == thread.id) {
            return match &known.times {
                Some(file) => proc.times(file, pid, tid),
                None => proc.schedstat(pid, tid),
            };
        }
        let file = if self.known.len() < self.may_stay_open { proc.times_file(pid, tid)? } else { None };
        let found = match &file {
            Some(file) => proc.times(file, pid, tid)?,
            None => proc.schedstat(pid, tid)?,
        };
        self.known.insert(tid, Known { id: thread.id, times: file, state_at: Nanos::ZERO });
        Ok(found)
    }

    /// Forgets threads that are gone once there are some.
    fn forget_dead(&mut self, members: &Members, now: Nanos) {
        if self.known.len() > self.read + MOST_DEAD && now >= self.looked_for_dead + DEAD_EVERY {
            self.looked_for_dead = now;
            self.known.retain(|tid, known| members.thread(*tid).is_some_and(|thread| thread.id == known.id));
        }
    }

    /// The workload on each CPU: that of a runnable thread that is on it; of several, the one that ran most.
    fn fill_holders(&mut self, columns: usize, view: &mut View) {
        let holder = &mut view.cpus.holder;
        holder.resize(columns, None);
        self.on_cpu.sort_unstable_by_key(|&(_, ran, _)| ran);
        for &(cpu, _, workload) in &self.on_cpu {
            if let Some(slot) = holder.get_mut(cpu.index()) {
                *slot = Some(workload);
            }
        }
    }

    fn fill_workloads(&self, wanted: SignalSet, members: &Members, view: &mut View) {
        let (now, columns) = (view.now, &mut view.workloads);
        let [run_time, run_delay, thread_count] =
            [Signal::RunTime, Signal::RunDelay, Signal::ThreadCount].map(|signal| wanted.contains(signal));
        let critical = wanted.contains(Signal::CriticalRunTime);
        for (slot, member) in members.slots.iter().enumerate() {
            let Some(member) = member else { continue };
            if let Some(used) = self.quiet.used(WorkloadId(slot as u32))
                && critical
                && member.spec.is_lc()
            {
                columns.critical_run_time[slot] = Sample::exact(used, now);
            }
            let (ran, waited) = self.sums.get(slot).copied().unwrap_or_default();
            if run_time && member.level == Level::Threads {
                columns.run_time[slot] = Sample::exact(ran, now);
            }
            if run_delay {
                columns.run_delay[slot] = Sample::exact(waited, now);
            }
            if thread_count {
                let at = members.full_look.at.unwrap_or(now);
                columns.thread_count[slot] = Sample::exact(member.threads, at);
            }
        }
        if run_time || run_delay {
            mark_estimates(members, view);
        }
    }

    fn fill_threads(&self, members: &Members, view: &mut View) {
        let columns = &mut view.threads;
        columns.at = view.now;
        for thread in self.places.iter().map(|&place| &members.threads[place]) {
            if thread.is_dead() {
                continue;
            }
            columns.id.push(thread.id);
            columns.workload.push(thread.workload);
            columns.state.push(thread.state);
            columns.cpu.push(thread.cpu);
            columns.run_time.push(thread.run.run_time);
            columns.run_delay.push(thread.run.run_delay);
            columns.class.push(thread.class);
        }
    }
}

fn is_set(by_slot: &[bool], id: WorkloadId) -> bool {
    by_slot.get(id.index()).copied().unwrap_or(false)
}

/// Without the kernel's accounting run times are whole ticks and run delays are unknown.
fn mark_estimates(members: &Members, view: &mut View) {
    for thread in members.threads.iter().filter(|thread| !thread.exact) {
        let slot = thread.workload.index();
        let sample = view.workloads.run_time.get_mut(slot);
        if let Some(sample) = sample.filter(|sample| sample.quality > Quality::Absent) {
            sample.quality = Quality::Estimated;
        }
        if let Some(sample) = view.workloads.run_delay.get_mut(slot) {
            sample.quality = Quality::Absent;
        }
    }
}

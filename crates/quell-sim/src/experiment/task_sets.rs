//! Random task sets, and the schedules that SimSo (the Python package `simso`) works out for them.
//!
//! `scripts/simso-schedules` wrote the file. Equal periods, and equal deadlines, go by activation on both sides: SimSo
//! takes the first of its list of ready jobs, the kernel queues a thread behind those of its priority or deadline.

use quell_model::{Class, Nanos, SchedClass, Topology};

use crate::workload::{PeriodicSpec, Service};
use crate::{KernelConfig, RealTimeLimit, Sim, SimError, WorkloadSpec};

const SIMSO: &str = include_str!("simso-schedules.txt");

/// How the threads of a task set are scheduled, on one CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduling {
    /// SCHED_FIFO with rate-monotonic priorities: the shorter the period, the higher; equal ones are equal.
    RateMonotonic,
    /// SCHED_DEADLINE, each thread with its work and its period.
    EarliestDeadline,
}

/// A periodic task. Times are microseconds; the deadline is the period's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// First release.
    pub offset: u64,
    /// CPU time of a job.
    pub work: u64,
    /// Distance of the releases.
    pub period: u64,
}

/// A stretch of a schedule: which task (by its place in the set), None for idle, and for how many microseconds.
pub type Stretch = (Option<usize>, u64);

/// A task set with SimSo's schedules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskSet {
    /// The tasks.
    pub tasks: Vec<Task>,
    /// Length of the schedules, microseconds: the last first release and a hyperperiod.
    pub window: u64,
    rate_monotonic: Vec<Stretch>,
    earliest_deadline: Vec<Stretch>,
}

impl TaskSet {
    /// The random sets.
    #[must_use]
    pub fn all() -> Vec<TaskSet> {
        let mut sets = TaskSet::read();
        sets.pop();
        sets
    }

    /// The file's last set, where a job is late and SimSo goes on with another task of the same period than Linux.
    ///
    /// # Panics
    /// If the file is empty.
    #[must_use]
    pub fn late() -> TaskSet {
        TaskSet::read().pop().expect("the file has sets")
    }

    fn read() -> Vec<TaskSet> {
        let mut sets: Vec<TaskSet> = Vec::new();
        for line in SIMSO.lines() {
            let (kind, rest) = line.split_once(' ').expect("a line has a kind");
            if kind == "set" {
                let (_, window) = rest.split_once(' ').expect("a set has a number and a window");
                sets.push(TaskSet {
                    tasks: Vec::new(),
                    window: number(window),
                    rate_monotonic: Vec::new(),
                    earliest_deadline: Vec::new(),
                });
                continue;
            }
            let set = sets.last_mut().expect("the first line begins a set");
            match kind {
                "task" => {
                    let numbers: Vec<u64> = rest.split(' ').map(number).collect();
                    let [offset, work, period] = numbers[..] else { panic!("a task has three numbers: {rest}") };
                    set.tasks.push(Task { offset, work, period });
                }
                "rm" => set.rate_monotonic = rest.split(' ').map(stretch).collect(),
                "edf" => set.earliest_deadline = rest.split(' ').map(stretch).collect(),
                _ => panic!("unknown kind '{kind}'"),
            }
        }
        sets
    }

    /// SimSo's schedule.
    #[must_use]
    pub fn simso(&self, scheduling: Scheduling) -> &[Stretch] {
        match scheduling {
            Scheduling::RateMonotonic => &self.rate_monotonic,
            Scheduling::EarliestDeadline => &self.earliest_deadline,
        }
    }

    /// The set on a simulated CPU where nothing costs anything.
    ///
    /// # Errors
    /// [`SimError::Scenario`] if the set makes no sense.
    pub fn sim(&self, scheduling: Scheduling) -> Result<Sim, SimError> {
        // SimSo knows priorities and deadlines, and no ticks and no balancing.
        let config = KernelConfig { real_time_limit: RealTimeLimit::None, ..KernelConfig::plain() };
        let specs: Vec<WorkloadSpec> =
            self.tasks.iter().enumerate().map(|(at, task)| self.thread(at, task, scheduling)).collect();
        let mut sim = Sim::new(Topology::synthetic(1, 1, 1, 1), config, &specs, 0)?;
        sim.begin_trace();
        sim.begin();
        Ok(sim)
    }

    fn thread(&self, at: usize, task: &Task, scheduling: Scheduling) -> WorkloadSpec {
        let micros = |time: u64| Nanos::from_micros(time);
        let longer = self.tasks.iter().filter(|other| other.period > task.period).count();
        WorkloadSpec {
            scheduling: match scheduling {
                Scheduling::RateMonotonic => SchedClass::Fifo { priority: 1 + longer as u8 },
                Scheduling::EarliestDeadline => SchedClass::Deadline {
                    runtime: micros(task.work),
                    deadline: micros(task.period),
                    period: micros(task.period),
                },
            },
            periodic: Some(PeriodicSpec {
                period: micros(task.period),
                work: Service::Constant(micros(task.work)),
                offset: micros(task.offset),
                stagger: Nanos::ZERO,
                later: None,
                deadline: None,
            }),
            ..WorkloadSpec::new(format!("task{at}"), Class::LatencyCritical)
        }
    }

    /// The simulated kernel's schedule over the window, and how many jobs missed their deadline.
    ///
    /// # Errors
    /// [`SimError::Scenario`] if the set makes no sense.
    pub fn simulate(&self, scheduling: Scheduling) -> Result<(Vec<Stretch>, u64), SimError> {
        let mut sim = self.sim(scheduling)?;
        sim.run_until(Nanos::from_micros(self.window));
        let mut stretches = Vec::new();
        let mut now = 0;
        for seen in sim.take_trace() {
            let (from, to) = (seen.from.0 / 1_000, seen.to.0 / 1_000);
            if from > now {
                stretches.push((None, from - now));
            }
            stretches.push((Some(seen.task.0 as usize), to - from));
            now = to;
        }
        if now < self.window {
            stretches.push((None, self.window - now));
        }
        Ok((stretches, sim.stats().iter().map(|stats| stats.missed).sum()))
    }
}

fn number(text: &str) -> u64 {
    text.parse().expect("times are whole microseconds")
}

fn stretch(text: &str) -> Stretch {
    let (who, length) = text.split_once(':').expect("a stretch is TASK:LENGTH");
    let task = (who != "-").then(|| number(who) as usize);
    (task, number(length))
}

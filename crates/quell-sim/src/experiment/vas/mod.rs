//! VAS's experiments (vas-rtns21 §6): a time-sensitive VM with one VCPU on a whole CPU, or on a part of one beside a
//! general-purpose VM that takes what it can get. Two levels, on the paper's machine, with the usual costs.
//!
//! What a part is comes from outside: a budget every period. A *whole CPU* is the same server with a budget of its period and
//! without the other VM (§6.1, "we did not run the GP VM").

mod random;

use quell_model::demand::Task;
use quell_model::{Class, CpuId, CpuSet, Nanos, SchedClass};

use crate::experiment::usual::usual_kernel;
use crate::kernel::{KernelConfig, RealTimeLimit, TaskId};
use crate::machine::Preset;
use crate::vm::Deferrable;
use crate::workload::graph::GraphSpec;
use crate::workload::{BatchSpec, CpuList, Done, JobSource, JobsSpec, Order, Service};
use crate::{Population, Sim, SimError, VmSpec, WorkloadSpec};

pub use random::{UTILISATIONS, random_tasks};

const fn task(offset: u64, work: u64, period: u64) -> Task {
    Task { offset: Nanos::from_millis(offset), work: Nanos::from_millis(work), period: Nanos::from_millis(period) }
}

/// Γ1 (§4.2).
pub const GAMMA1: [Task; 4] = [task(150, 40, 250), task(100, 200, 500), task(50, 100, 1000), task(0, 200, 2000)];
/// Γ2 (§6.1, "Non-Harmonic Periodic Tasks").
pub const GAMMA2: [Task; 4] = [task(15, 4, 20), task(10, 6, 30), task(5, 10, 50), task(0, 7, 70)];

/// Redis's six clients, each with a query of 0.12 ms every millisecond (§6.2). Their offsets are not reported: they are spread
/// evenly.
#[must_use]
pub fn redis() -> Vec<Task> {
    let client = |at: u64| Task {
        offset: Nanos::from_micros(at * 1000 / 6),
        work: Nanos::from_micros(120),
        period: Nanos::from_millis(1),
    };
    (0..6).map(client).collect()
}

/// A batch of Spark's every 5 s; its elapsed time was 3522 ms at the most (§6.3).
pub const SPARK: Task = task(0, 3522, 5000);

/// Jobs, and how they are served.
#[derive(Clone, Debug, PartialEq)]
pub struct Scene {
    /// The tasks of each time-sensitive VCPU, which has a CPU of its own.
    pub vcpus: Vec<Vec<JobSource>>,
    /// Which job is next.
    pub order: Order,
    /// Budget and period of each VCPU.
    pub interface: (Nanos, Nanos),
    /// VCPU-bound threads of the other VM on each of these CPUs.
    pub neighbours: u32,
    /// The tasks begin so much after the server's first period.
    pub phase: Nanos,
    /// How long to look.
    pub span: Nanos,
    /// For whatever is random.
    pub seed: u64,
}

/// What came out.
#[derive(Clone, Debug)]
pub struct Seen {
    /// By VCPU: the jobs that were done, in the order in which they were. Releases count from the tasks' beginning.
    pub jobs: Vec<Vec<Done>>,
    /// When the first VCPU was on its CPU, from the tasks' beginning.
    pub active: Vec<(Nanos, Nanos)>,
    /// The part of these CPUs that the other VM had, 0–1.
    pub neighbour: f64,
    /// Periods in which a budget was used up while there was work.
    pub exhausted: u64,
}

/// These tasks' jobs take all of their work, or this part of it.
#[must_use]
pub fn periodic(tasks: &[Task], part: f64) -> Vec<JobSource> {
    tasks.iter().map(|task| source(task, Service::Constant(task.work.scaled(part)), None)).collect()
}

/// The same with arrivals a period to two periods apart, all equally likely (§6.1, "Sporadic Tasks").
#[must_use]
pub fn sporadic(tasks: &[Task]) -> Vec<JobSource> {
    let later = |task: &Task| Service::Uniform { from: Nanos::ZERO, to: task.period };
    tasks.iter().map(|task| source(task, Service::Constant(task.work), Some(later(task)))).collect()
}

/// A source with work of its own.
#[must_use]
pub fn source(task: &Task, work: Service, later: Option<Service>) -> JobSource {
    JobSource { offset: task.offset, work, period: task.period, later }
}

impl Scene {
    /// The same on whole CPUs.
    #[must_use]
    pub fn whole(&self) -> Scene {
        let (_, period) = self.interface;
        Scene { interface: (period, period), neighbours: 0, ..self.clone() }
    }

    /// Runs it.
    ///
    /// # Errors
    /// [`SimError::Scenario`] if it makes no sense.
    pub fn run(&self) -> Result<Seen, SimError> {
        let machine = Preset::named("vas").expect("the machine of this paper").machine();
        let kernel = KernelConfig { real_time_limit: RealTimeLimit::None, ..usual_kernel() };
        let count = self.vcpus.len() as u32;
        let affinity: Vec<CpuList> = (1..=count).map(|cpu| CpuList(CpuSet::one(CpuId(cpu)))).collect();
        let (budget, period) = self.interface;
        let vm = |name: &str, class, deferrable| VmSpec {
            class,
            deferrable,
            affinity: affinity.clone(),
            kernel: kernel.clone(),
            ..VmSpec::new(name, count)
        };
        let server = Deferrable { budget, period, priority: 1 };
        let mut vms = vec![vm("time-sensitive", Class::LatencyCritical, Some(server))];
        let mut workloads: Vec<WorkloadSpec> =
            self.vcpus.iter().zip(0..).map(|(tasks, at)| self.server(tasks, at)).collect();
        if self.neighbours > 0 {
            vms.push(vm("general-purpose", Class::BestEffort, None));
            workloads.extend((0..count).map(|at| WorkloadSpec {
                vm: Some("general-purpose".into()),
                affinity: vec![CpuList(CpuSet::one(CpuId(at)))],
                threads: self.neighbours,
                batch: Some(BatchSpec::default()),
                ..WorkloadSpec::new(format!("cpu-bound-{at}"), Class::BestEffort)
            }));
        }
        let population = Population { workloads: &workloads, vms: &vms, requests: &GraphSpec::NONE };
        let mut sim = Sim::new(machine, kernel.clone(), population, self.seed)?;
        sim.begin_log();
        sim.begin_trace();
        sim.begin();
        sim.run_until(self.phase + self.span);
        let shifted =
            |done: &Done| Done { released: done.released - self.phase, done: done.done - self.phase, ..*done };
        let on_first = sim.take_trace().into_iter().filter(|stretch| stretch.cpu == CpuId(1));
        // The VCPUs of the first VM are the host's first threads.
        let own = on_first.filter(|stretch| stretch.task == TaskId(0) && stretch.to > self.phase);
        Ok(Seen {
            jobs: (0..self.vcpus.len()).map(|at| sim.log(at).iter().map(shifted).collect()).collect(),
            active: own.map(|stretch| (stretch.from - self.phase, stretch.to - self.phase)).collect(),
            neighbour: sim.vm_stats().get(1).map_or(0.0, |stats| stats.run_time as f64)
                / (f64::from(count) * (self.phase + self.span).0 as f64),
            exhausted: sim.kernel().exhausted_budgets(),
        })
    }

    fn server(&self, tasks: &[JobSource], at: u32) -> WorkloadSpec {
        let later = |source: &JobSource| JobSource { offset: source.offset + self.phase, ..source.clone() };
        WorkloadSpec {
            vm: Some("time-sensitive".into()),
            affinity: vec![CpuList(CpuSet::one(CpuId(at)))],
            scheduling: SchedClass::NORMAL,
            jobs: Some(JobsSpec { order: self.order, source: tasks.iter().map(later).collect() }),
            ..WorkloadSpec::new(format!("server-{at}"), Class::LatencyCritical)
        }
    }
}

impl Seen {
    /// Response times of all VCPUs' jobs, ns.
    #[must_use]
    pub fn latencies(&self) -> Vec<u64> {
        self.jobs.iter().flatten().map(|job| (job.done - job.released).0).collect()
    }

    /// Response times of one task of the first VCPU, ns.
    #[must_use]
    pub fn latencies_of(&self, source: u32) -> Vec<u64> {
        self.jobs[0].iter().filter(|job| job.source == source).map(|job| (job.done - job.released).0).collect()
    }

    /// By release: the time until the last VCPU's job of that release was done, ns.
    #[must_use]
    pub fn elapsed(&self) -> Vec<u64> {
        let mut last = std::collections::BTreeMap::new();
        for job in self.jobs.iter().flatten() {
            let (count, done) = last.entry(job.released).or_insert((0, job.done));
            *count += 1;
            *done = job.done.max(*done);
        }
        let complete = last.into_iter().filter(|(_, (count, _))| *count == self.jobs.len());
        complete.map(|(released, (_, done))| (done - released).0).collect()
    }
}

/// The part of a span of time in which one of two was active and the other was not.
#[must_use]
pub fn difference(one: &[(Nanos, Nanos)], other: &[(Nanos, Nanos)], span: Nanos) -> f64 {
    let cut = |all: &[(Nanos, Nanos)]| -> Vec<(u64, i64)> {
        let edges = all.iter().flat_map(|(from, to)| [(from.0.min(span.0), 1), (to.0.min(span.0), -1)]);
        edges.collect()
    };
    let mut edges: Vec<(u64, i64, i64)> = cut(one).into_iter().map(|(at, step)| (at, step, 0)).collect();
    edges.extend(cut(other).into_iter().map(|(at, step)| (at, 0, step)));
    edges.sort_unstable();
    let (mut ours, mut theirs, mut from, mut apart) = (0, 0, 0, 0);
    for (at, step, their_step) in edges {
        if (ours > 0) != (theirs > 0) {
            apart += at - from;
        }
        (ours, theirs, from) = (ours + step, theirs + their_step, at);
    }
    apart as f64 / span.0.max(1) as f64
}

/// The stretches of a window, from its beginning.
#[must_use]
pub fn window(all: &[(Nanos, Nanos)], from: Nanos, length: Nanos) -> Vec<(Nanos, Nanos)> {
    let inside = all.iter().filter(|(begin, end)| *end > from && *begin < from + length);
    inside.map(|(begin, end)| (*begin - from, (*end - from).min(length))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scene() -> Scene {
        Scene {
            vcpus: vec![periodic(&GAMMA1, 1.0)],
            order: Order::Rm,
            interface: (Nanos::from_millis(1620), Nanos::from_millis(2000)),
            neighbours: 1,
            phase: Nanos::from_millis(300),
            span: Nanos::from_secs(10),
            seed: 1,
        }
    }

    #[test]
    fn with_the_margin_no_budget_is_used_up_and_latencies_are_those_of_a_whole_cpu() {
        let (part, whole) = (scene().run().unwrap(), scene().whole().run().unwrap());
        assert_eq!((part.exhausted, part.jobs[0].len()), (0, whole.jobs[0].len()));
        let furthest =
            part.jobs[0].iter().zip(&whole.jobs[0]).map(|(one, other)| one.done.0.abs_diff(other.done.0)).max();
        assert!(furthest.unwrap() < 1_000_000, "{furthest:?}");
        assert!(part.neighbour > 0.2 && part.neighbour < 0.3, "{}", part.neighbour);
        assert!(difference(&part.active, &whole.active, Nanos::from_secs(10)) < 0.01);
    }

    #[test]
    fn with_less_than_the_utilisation_jobs_fall_behind() {
        let less = Scene { interface: (Nanos::from_millis(1420), Nanos::from_millis(2000)), ..scene() };
        let (part, whole) = (less.run().unwrap(), less.whole().run().unwrap());
        let longest = |seen: &Seen| seen.latencies().into_iter().max().unwrap();
        assert!(part.exhausted >= 4 && longest(&part) > longest(&whole), "{} {}", longest(&part), longest(&whole));
    }

    #[test]
    fn differences_and_windows_of_activity() {
        let at = |from: u64, to: u64| (Nanos(from), Nanos(to));
        assert_eq!(difference(&[at(0, 10)], &[at(5, 15)], Nanos(20)), 0.5);
        assert_eq!(difference(&[at(0, 10)], &[at(0, 4), at(4, 10)], Nanos(20)), 0.0);
        assert_eq!(window(&[at(0, 10), at(12, 14)], Nanos(8), Nanos(5)), [at(0, 2), at(4, 5)]);
    }

    /// One job server, two jobs: whichever order it has decides.
    #[test]
    fn jobs_are_done_in_their_order() {
        let tasks = [task(0, 6, 40), task(1, 2, 20), task(2, 1, 10)];
        let order = |order| {
            let span = Nanos::from_millis(10);
            let scene = Scene { vcpus: vec![periodic(&tasks, 1.0)], order, span, ..scene().whole() };
            scene.run().unwrap().jobs[0].iter().map(|job| job.source).collect::<Vec<_>>()
        };
        assert_eq!(order(Order::Fifo), [0, 1, 2]);
        assert_eq!(order(Order::Rm), [2, 1, 0]);
        assert_eq!(order(Order::Edf), [2, 1, 0]);
    }
}

//! Requests under way: what is ready for a thread of which pool. Who sleeps and who is woken is `line`'s.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use quell_model::Nanos;
use quell_sim::workload::Draws;
use quell_sim::workload::graph::{Clients, RequestSpec};

use super::plan::{Act, Flags, Plan};
use crate::course::Course;

/// A kind of request, and when the next ones come.
#[derive(Clone, Debug)]
struct Kind {
    plan: Plan,
    draws: Draws,
    clients: Option<Clients>,
    /// When, and which client; of an open loop the next one alone.
    due: BinaryHeap<Reverse<(Nanos, u32)>>,
    at_most: u32,
    under_way: u32,
}

/// One request under way.
#[derive(Clone, Debug, Default)]
struct Job {
    kind: usize,
    client: u32,
    arrived: Nanos,
    raised: Flags,
    stages_left: usize,
    /// By piece of work: CPU time.
    works: Vec<Nanos>,
    /// By barrier: how many have come.
    came: Vec<u32>,
}

/// A stage that a thread does: the request's place and the stage's.
pub type Task = (usize, usize);

/// All requests of a workload.
#[derive(Clone, Debug)]
pub struct State {
    kinds: Vec<Kind>,
    /// By pool: what is ready.
    ready: Vec<VecDeque<Task>>,
    jobs: Vec<Job>,
    free: Vec<usize>,
    course: Course,
    /// Requests that arrived and count.
    pub arrived: u64,
}

impl State {
    /// Requests with their plans and random numbers.
    pub fn new(requests: Vec<(&RequestSpec, Plan, Draws)>, pools: usize, course: Course) -> State {
        let kinds = requests.into_iter().map(|(request, plan, mut draws)| {
            let mut due = BinaryHeap::new();
            match &request.clients {
                Some(clients) => due.extend(
                    (0..clients.number)
                        .map(|client| Reverse((course.begin + draws.later(Some(&clients.think)), client))),
                ),
                None => due.extend(draws.arrival().map(|at| Reverse((course.begin + at, 0)))),
            }
            let at_most = request.at_most.unwrap_or(u32::MAX);
            Kind { plan, draws, clients: request.clients.clone(), due, at_most, under_way: 0 }
        });
        State {
            kinds: kinds.collect(),
            ready: vec![VecDeque::new(); pools],
            jobs: Vec::new(),
            free: Vec::new(),
            course,
            arrived: 0,
        }
    }

    /// Requests of this pool that are due begin.
    pub fn admit(&mut self, pool: usize, now: Nanos) {
        for kind in 0..self.kinds.len() {
            while self.begins_in(kind, pool) && self.next_of(kind).is_some_and(|at| at <= now) {
                self.begin(kind);
            }
        }
    }

    /// When the next request comes that begins in this pool; None: not before another one ends.
    pub fn next_due(&self, pool: usize) -> Option<Nanos> {
        (0..self.kinds.len()).filter(|&kind| self.begins_in(kind, pool)).filter_map(|kind| self.next_of(kind)).min()
    }

    fn begins_in(&self, kind: usize, pool: usize) -> bool {
        let plan = &self.kinds[kind].plan;
        plan.stages[plan.first].pool == pool
    }

    fn next_of(&self, kind: usize) -> Option<Nanos> {
        let kind = &self.kinds[kind];
        let next = kind.due.peek().map(|Reverse((at, _))| *at);
        next.filter(|at| kind.under_way < kind.at_most && *at < self.course.end)
    }

    fn begin(&mut self, number: usize) {
        let kind = &mut self.kinds[number];
        let Some(Reverse((arrived, client))) = kind.due.pop() else { return };
        if kind.clients.is_none() {
            kind.due.extend(kind.draws.arrival().map(|at| Reverse((self.course.begin + at, 0))));
        }
        kind.under_way += 1;
        self.arrived += u64::from(self.course.counts(arrived));
        let at = self.free.pop().unwrap_or(self.jobs.len());
        if at == self.jobs.len() {
            self.jobs.push(Job::default());
        }
        let (job, plan) = (&mut self.jobs[at], &kind.plan);
        (job.kind, job.client, job.arrived) = (number, client, arrived);
        (job.raised, job.stages_left) = (0, plan.stages.len());
        job.works.clear();
        job.works.extend(plan.works.iter().map(|work| kind.draws.work(work)));
        job.came.clear();
        job.came.resize(plan.barriers.len(), 0);
        self.ready[plan.stages[plan.first].pool].push_back((at, plan.first));
    }

    /// What a thread of this pool does next.
    pub fn take(&mut self, pool: usize) -> Option<Task> {
        self.ready[pool].pop_front()
    }

    /// Stages that no thread of this pool does yet.
    pub fn waiting(&self, pool: usize) -> usize {
        self.ready[pool].len()
    }

    /// A stage's step, and the CPU time of a piece of work.
    pub fn act(&self, (job, stage): Task, step: usize) -> Option<(Act, Nanos)> {
        let job = &self.jobs[job];
        let act = *self.kinds[job.kind].plan.stages[stage].steps.get(step)?;
        let time = match act {
            Act::Work(piece) | Act::Locked(piece, _) => job.works[piece],
            _ => Nanos::ZERO,
        };
        Some((act, time))
    }

    /// A stage has ended or a signal was given: what waits for that is ready.
    pub fn raise(&mut self, at: usize, flags: Flags) {
        let job = &mut self.jobs[at];
        let before = job.raised;
        job.raised |= flags;
        let raised = job.raised;
        for (number, stage) in self.kinds[job.kind].plan.stages.iter().enumerate() {
            if stage.after & !raised == 0 && stage.after & !before != 0 {
                self.ready[stage.pool].push_back((at, number));
            }
        }
    }

    /// Was all of this raised?
    pub fn is_raised(&self, job: usize, flags: Flags) -> bool {
        flags & !self.jobs[job].raised == 0
    }

    /// One more has come to a barrier; is it open?
    pub fn comes(&mut self, job: usize, barrier: usize) -> bool {
        self.jobs[job].came[barrier] += 1;
        self.is_open(job, barrier)
    }

    /// Have all come?
    pub fn is_open(&self, job: usize, barrier: usize) -> bool {
        let job = &self.jobs[job];
        job.came[barrier] == self.kinds[job.kind].plan.barriers[barrier]
    }

    /// A thread is through with a stage. When the request arrived, if that was its last one.
    pub fn end_stage(&mut self, (at, stage): Task, now: Nanos) -> Option<Nanos> {
        self.raise(at, 1 << stage);
        let job = &mut self.jobs[at];
        job.stages_left -= 1;
        if job.stages_left > 0 {
            return None;
        }
        let kind = &mut self.kinds[job.kind];
        kind.under_way -= 1;
        if let Some(clients) = &kind.clients {
            kind.due.push(Reverse((now + kind.draws.later(Some(&clients.think)), job.client)));
        }
        self.free.push(at);
        Some(job.arrived)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use quell_model::Class;
    use quell_sim::WorkloadSpec;

    use super::super::plan::pools;
    use super::*;

    const COURSE: Course = Course { begin: Nanos(1000), from: Nanos(1000), end: Nanos(9000) };

    /// One request after the other: taken in by the main thread, done in two pieces that meet, answered.
    fn state(more: &str) -> State {
        let text = format!(
            r#"{more}
            name = "query"
            [[stage]]
            name = "take"
            on = "shop.main"
            steps = [{{ work = {{ constant = "10ns" }} }}, {{ signal = "half" }}]
            [[stage]]
            name = "first"
            on = "shop.worker"
            after = ["half"]
            steps = [{{ barrier = "meet" }}, {{ work = {{ constant = "20ns" }}, lock = "table" }}]
            [[stage]]
            name = "second"
            on = "shop.worker"
            after = ["take"]
            steps = [{{ barrier = "meet" }}, {{ wait = ["take"] }}]
            [[stage]]
            name = "answer"
            on = "shop.main"
            after = ["first", "second"]
            steps = [{{ work = {{ constant = "1ns" }} }}]"#
        );
        let request: RequestSpec = toml::from_str(&text).unwrap();
        let pool = BTreeMap::from([("main".to_owned(), 1), ("worker".to_owned(), 2)]);
        let shop = WorkloadSpec { threads: 3, pool: Some(pool), ..WorkloadSpec::new("shop", Class::LatencyCritical) };
        let plan = Plan::new(&request, &pools(&shop), &["other", "table"]);
        let draws = Draws::of_request(&request, 0, 1);
        State::new(vec![(&request, plan, draws)], 2, COURSE)
    }

    #[test]
    fn a_request_goes_through_its_stages_and_its_client_asks_again() {
        let mut state = state("clients = { number = 1, think = { constant = \"100ns\" } }");
        assert_eq!((state.next_due(0), state.next_due(1)), (Some(Nanos(1100)), None));
        state.admit(1, Nanos(1100));
        assert_eq!(state.take(0), None, "the workers take nothing in");
        state.admit(0, Nanos(1100));
        let take = state.take(0).unwrap();
        assert_eq!((state.arrived, state.act(take, 0)), (1, Some((Act::Work(0), Nanos(10)))));
        let Some((Act::Signal(half), _)) = state.act(take, 1) else { panic!("a signal") };
        state.raise(take.0, half);
        let first = state.take(1).unwrap();
        assert_eq!((state.waiting(1), state.act(first, 0)), (0, Some((Act::Meet(0), Nanos::ZERO))));
        assert!(!state.comes(first.0, 0) && !state.is_open(first.0, 0), "two have to come");
        assert_eq!(state.act(first, 1), Some((Act::Locked(1, 1), Nanos(20))));
        assert_eq!(state.end_stage(take, Nanos(1200)), None);
        let second = state.take(1).unwrap();
        assert!(state.comes(second.0, 0));
        let Some((Act::Wait(flags), _)) = state.act(second, 1) else { panic!("a wait") };
        assert!(state.is_raised(second.0, flags));
        assert_eq!([first, second].map(|task| state.end_stage(task, Nanos(1300))), [None, None]);
        let answer = state.take(0).unwrap();
        assert_eq!(state.end_stage(answer, Nanos(1400)), Some(Nanos(1100)));
        assert_eq!((state.next_due(0), state.jobs.len()), (Some(Nanos(1500)), 1));
    }

    #[test]
    fn at_most_so_many_are_under_way() {
        let mut state = state("at_most = 1\narrivals = { poisson = 1e8 }");
        state.admit(0, Nanos(8000));
        assert_eq!((state.waiting(0), state.next_due(0)), (1, None));
    }
}

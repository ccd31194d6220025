//! Requests that pass through several threads of one workload; see `quell_sim::workload::graph`.
//!
//! `plan` is what a scene says, with numbers for names, `state` has the requests under way, `line` lets threads sleep and wakes
//! them. An idle thread that may take a request in sleeps until the next one comes; another one is woken by who has something
//! for it. So a wake-up runs from thread to thread, as in the simulator.

mod line;
mod plan;
mod state;

use quell_sim::WorkloadSpec;
use quell_sim::workload::Draws;
use quell_sim::workload::graph::{GraphSpec, LockOrder, RequestSpec, Step};

pub use line::Line;
pub use plan::Act;

use crate::course::Course;
use plan::{Plan, pools};
use state::State;

/// What of these requests no real thread can do for this workload.
pub fn in_the_way(spec: &WorkloadSpec, graph: &GraphSpec) -> Option<&'static str> {
    let own: Vec<String> = pools(spec).into_iter().map(|(name, _)| name).collect();
    let is_own = |request: &RequestSpec| request.stages.iter().any(|stage| own.contains(&stage.on));
    let steps = |request: &RequestSpec| request.stages.clone().into_iter().flat_map(|stage| stage.steps);
    let uses = |request: &RequestSpec, lock: &str| {
        steps(request).any(|step| matches!(step, Step::Locked(_, name) if name == lock))
    };
    let (ours, others): (Vec<_>, Vec<_>) = graph.requests.iter().partition(|request| is_own(request));
    let passes = |request: &&RequestSpec| request.stages.iter().any(|stage| !own.contains(&stage.on));
    if ours.iter().any(passes) {
        return Some("requests that pass through several workloads");
    }
    if ours.iter().any(|request| steps(request).any(|step| matches!(step, Step::Gpu(..)))) {
        return Some("a GPU");
    }
    if ours.iter().any(|request| request.stages.iter().any(|stage| stage.profile.is_some())) {
        return Some("a profile of caches and memory");
    }
    let mut locks = graph.locks.iter().filter(|lock| ours.iter().any(|request| uses(request, &lock.name)));
    locks.find_map(|lock| {
        if others.iter().any(|request| uses(request, &lock.name)) {
            return Some("a lock that several workloads share");
        }
        (lock.order == LockOrder::HandOff).then_some("a lock that is handed over")
    })
}

/// A workload's requests and its threads.
#[derive(Debug)]
pub struct Requests {
    /// By thread: its pool.
    pools: Vec<usize>,
    line: Line,
}

impl Requests {
    /// Those of this workload among a scene's; None if its threads serve none.
    pub fn of(spec: &WorkloadSpec, graph: &GraphSpec, seed: u64, course: Course) -> Option<Requests> {
        spec.pool.as_ref()?;
        let pools = pools(spec);
        let locks: Vec<&str> = graph.locks.iter().map(|lock| lock.name.as_str()).collect();
        let is_own =
            |request: &&RequestSpec| request.stages.iter().all(|stage| pools.iter().any(|pool| pool.0 == stage.on));
        let own = graph.requests.iter().enumerate().filter(|(_, request)| is_own(request));
        let kinds = own.map(|(place, request)| {
            (request, Plan::new(request, &pools, &locks), Draws::of_request(request, place, seed))
        });
        let state = State::new(kinds.collect(), pools.len(), course);
        let of_threads = pools.iter().enumerate().flat_map(|(at, (_, threads))| vec![at; *threads as usize]);
        Some(Requests { pools: of_threads.collect(), line: Line::new(state, pools.len(), locks.len()) })
    }

    /// The pool of a thread.
    pub fn pool(&self, thread: u32) -> usize {
        self.pools[thread as usize]
    }

    /// Where its threads wait.
    pub fn line(&self) -> &Line {
        &self.line
    }
}

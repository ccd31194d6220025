//! One workload of a scene, played by the threads of this process.

use std::sync::{self, Arc, Mutex};
use std::thread;

use quell_model::Nanos;
use quell_report::stats::Histogram;
use quell_sim::WorkloadSpec;
use quell_sim::workload::Draws;
use quell_sim::workload::graph::GraphSpec;
use serde::{Deserialize, Serialize};

use crate::body::{Barrier, Body, Shared};
use crate::counted::{Counted, counted, counted_of_this};
use crate::course::Course;
use crate::ended::Ended;
use crate::error::{Error, Result};
use crate::pace::Pace;
use crate::requests::Requests;
use crate::threads::{Had, become_thread, had, sleep_until};

/// This long before the measured part threads' counts are read.
const READ_AHEAD: Nanos = Nanos::from_millis(20);

/// One workload of a scene.
#[derive(Clone, Debug)]
pub struct Part {
    /// The workload.
    pub spec: WorkloadSpec,
    /// The scene's requests and locks.
    pub graph: GraphSpec,
    /// Its place among the scene's.
    pub place: usize,
    /// The seed of the scene's random numbers.
    pub seed: u64,
}

/// What became of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Played {
    /// Its name.
    pub name: String,
    /// Requests or jobs that arrived in the measured part and were done before its end; blocks of an antagonist.
    pub done: u64,
    /// Those that were not.
    pub left: u64,
    /// Latencies from arrival to end: value, ns, and how many.
    pub latencies: Vec<(u64, u64)>,
    /// Length of the measured part, as it was read.
    pub measured: Nanos,
    /// CPU time in it, all threads together.
    pub ran: Nanos,
    /// Time in runqueues in it, all threads together.
    pub waited: Nanos,
    /// How often its threads were switched and moved, and in how much time; None: this kernel does not say.
    #[serde(default)]
    pub counted: Option<Counted>,
    /// 99th percentile of the lateness of a load generator that sent the requests.
    #[serde(default)]
    pub late: Option<Nanos>,
    /// The longest time that a program was kept from running: of work without end between two blocks of a thread, from its
    /// start to its end; of a server a request's latency.
    #[serde(default)]
    pub pause: Option<Nanos>,
}

impl Played {
    /// Its latencies.
    #[must_use]
    pub fn histogram(&self) -> Histogram {
        let mut histogram = Histogram::default();
        self.latencies.iter().for_each(|&(value, count)| histogram.record_many(value, count));
        histogram
    }
}

/// Plays a workload: returns at the course's end.
///
/// # Errors
/// [`Error::Unplayable`], or [`Error::System`] where a thread is refused its class or its CPUs.
pub fn play(part: &Part, course: Course, pace: Pace) -> Result<Played> {
    crate::check(&part.spec, &part.graph)?;
    let draws = Draws::new(&part.spec, part.place, part.seed);
    let shared = Arc::new(Mutex::new(Shared::new(draws, &part.spec, course.begin)));
    let barrier = Arc::new(Barrier::new(course.begin));
    let requests = Arc::new(Requests::of(&part.spec, &part.graph, part.seed, course));
    let ended = Arc::new(Ended::default());
    let mut threads = Vec::new();
    let (ready, is_ready) = std::sync::mpsc::channel();
    // What threads had is read while they are there.
    let is_read = Arc::new(sync::Barrier::new(part.spec.threads as usize + 1));
    for number in 0..part.spec.threads {
        let (spec, ready) = (part.spec.clone(), ready.clone());
        let (shared, barrier, is_read) = (Arc::clone(&shared), Arc::clone(&barrier), Arc::clone(&is_read));
        let (requests, ended) = (Arc::clone(&requests), Arc::clone(&ended));
        threads.push(thread::spawn(move || {
            let set = become_thread(&spec, number);
            let may = set.is_ok();
            let _ = ready.send(set);
            may.then(|| {
                sleep_until(course.begin);
                let requests = requests.as_ref().as_ref();
                let (shared, barrier, ended) = (&shared, &barrier, &ended);
                let body = Body { spec: &spec, thread: number, shared, barrier, requests, ended, course, pace };
                let latencies = body.run();
                let counted = counted_of_this();
                is_read.wait();
                (latencies, counted)
            })
        }));
    }
    is_ready.iter().take(threads.len()).collect::<Result<Vec<()>>>()?;
    let pid = std::process::id().cast_signed();
    let forks = part.spec.forks.is_some();
    let read = || {
        let had =
            had(pid).map_err(|why| Error::System { workload: part.spec.name.clone(), what: "read schedstat", why });
        had.map(|had| if forks { ended.with(had) } else { had })
    };
    let switches = |counted: Option<Counted>| counted.map(|seen| if forks { ended.counted_with(seen) } else { seen });
    // Reading takes time: it is done while nothing counts.
    sleep_until(Nanos(course.from.0.saturating_sub(READ_AHEAD.0)));
    let counted_before = switches(counted(pid));
    sleep_until(course.from);
    let before: Had = read()?;
    sleep_until(course.end);
    let after = read()?;
    is_read.wait();
    let mut all = Histogram::default();
    let mut counted_after = Some(Counted { at: course.end, ..Counted::default() });
    for (own, counted) in threads.into_iter().filter_map(|thread| thread.join().ok().flatten()) {
        all.merge(&own);
        counted_after = counted_after.zip(counted).map(|(sum, own)| sum.and(own));
    }
    let counted_after = switches(counted_after);
    let done = all.count();
    let of_requests = requests.as_ref().as_ref().map(|requests| requests.line().arrived());
    let arrived = of_requests.unwrap_or_else(|| shared.lock().map_or(done, |shared| shared.arrived));
    Ok(Played {
        name: part.spec.name.clone(),
        done,
        left: arrived.saturating_sub(done),
        latencies: all.cells().collect(),
        measured: after.at - before.at,
        ran: after.ran - before.ran,
        waited: after.waited - before.waited,
        counted: counted_after.zip(counted_before).map(|(after, before)| after.since(before)),
        late: None,
        pause: None,
    })
}

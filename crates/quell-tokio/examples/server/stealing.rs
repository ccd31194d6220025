//! A work-stealing runtime that cooperates: a worker a CPU, each with a first-come-first-served queue and an epoll of its own. A
//! worker looks at its own queue, its own I/O, and then at its siblings' queues and I/O, the nearest first; of a queue it takes half,
//! the oldest. When nothing is left it parks. When Quell asks it to leave, its I/O becomes the first worker's until it may come back.

use std::cell::RefCell;
use std::future::Future;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, OnceLock};
use std::thread;

use async_task::{Runnable, Task};
use crossbeam_deque::{Injector, Steal, Stealer, Worker as Deque};

use super::io::Poller;

/// A parked worker is woken for a task that has waited this long, not at its arrival: each time that takes a CPU from others.
const AGE: u64 = 10_000;
/// Tasks from elsewhere and I/O are looked at after this many tasks at the latest.
const TURNS: u32 = 32;
/// Times of queued tasks that are kept: of longer queues a younger one counts.
const TIMES: usize = 1024;
/// A worker that left looks so often whether it may come back.
const AWAY_MS: i32 = 10;

/// A worker as the others see it.
struct Place {
    stealer: Stealer<Runnable>,
    poller: Poller,
    times: Times,
    /// It sleeps, and an event of its poller or a wake-up ends that.
    is_parked: AtomicBool,
    has_left: AtomicBool,
    /// Where it exports; None before it runs.
    line: OnceLock<Option<quell::Worker>>,
}

/// When each task in a queue was put there: what was first put is first taken.
struct Times {
    at: Box<[AtomicU64]>,
    put: AtomicUsize,
    taken: AtomicUsize,
}

impl Times {
    fn put(&self, at: u64) {
        self.at[self.put.load(Relaxed) % TIMES].store(at, Relaxed);
        self.put.fetch_add(1, Release);
    }

    /// This many were taken: returns since when the oldest one waits that is left; 0: none does.
    fn taken(&self, count: usize) -> u64 {
        let taken = self.taken.fetch_add(count, AcqRel) + count;
        if taken < self.put.load(Acquire) { self.at[taken % TIMES].load(Relaxed) } else { 0 }
    }
}

struct Shared {
    places: Box<[Place]>,
    injected: Injector<Runnable>,
    ends: AtomicBool,
}

struct Own {
    shared: Arc<Shared>,
    at: usize,
    queue: Deque<Runnable>,
    random: u64,
}

thread_local! {
    static OWN: RefCell<Option<Own>> = const { RefCell::new(None) };
}

/// The runtime; its workers end with this value.
pub struct Runtime {
    shared: Arc<Shared>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Runtime {
    /// With this many workers.
    pub fn new(workers: usize) -> std::io::Result<Runtime> {
        let queues: Vec<Deque<Runnable>> = (0..workers.max(1)).map(|_| Deque::new_fifo()).collect();
        let place = |queue: &Deque<Runnable>| {
            let times = Times {
                at: (0..TIMES).map(|_| AtomicU64::new(0)).collect(),
                put: AtomicUsize::new(0),
                taken: AtomicUsize::new(0),
            };
            let (is_parked, has_left) = (AtomicBool::new(false), AtomicBool::new(false));
            let (stealer, poller) = (queue.stealer(), Poller::new()?);
            Ok(Place { stealer, poller, times, is_parked, has_left, line: OnceLock::new() })
        };
        let places = queues.iter().map(place).collect::<std::io::Result<_>>()?;
        let shared = Arc::new(Shared { places, injected: Injector::new(), ends: AtomicBool::new(false) });
        let start = |(at, queue)| {
            let own = Own { shared: Arc::clone(&shared), at, queue, random: at as u64 + 1 };
            thread::Builder::new().name(format!("stealing-{at}")).spawn(move || work(own))
        };
        let threads = queues.into_iter().enumerate().map(start).collect::<std::io::Result<_>>()?;
        Ok(Runtime { shared, threads })
    }

    /// Runs a future as a task.
    pub fn spawn<F: Future<Output: Send + 'static> + Send + 'static>(&self, future: F) -> Task<F::Output> {
        spawn_on(&self.shared, future)
    }

    /// Workers, for connections that are divided among them.
    pub fn workers(&self) -> usize {
        self.shared.places.len()
    }

    /// The poller of this worker.
    pub fn poller(&self, at: usize) -> &Poller {
        &self.shared.places[at % self.shared.places.len()].poller
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.shared.ends.store(true, Release);
        self.shared.places.iter().for_each(|place| place.poller.wake());
        self.threads.drain(..).for_each(|thread| _ = thread.join());
    }
}

/// Runs a future as a task of the runtime of this thread, which is a worker.
#[allow(dead_code, reason = "the server's tasks start none; the bench's do")]
pub fn spawn<F: Future<Output: Send + 'static> + Send + 'static>(future: F) -> Task<F::Output> {
    let shared = OWN.with_borrow(|own| own.as_ref().map(|own| Arc::clone(&own.shared)));
    spawn_on(&shared.expect("the thread is a worker"), future)
}

fn spawn_on<F: Future<Output: Send + 'static> + Send + 'static>(shared: &Arc<Shared>, future: F) -> Task<F::Output> {
    let to = Arc::downgrade(shared);
    let schedule = move |runnable| {
        if let Some(shared) = to.upgrade() {
            shared.schedule(runnable);
        }
    };
    let (runnable, task) = async_task::spawn(future, schedule);
    runnable.schedule();
    task
}

impl Shared {
    /// Into the queue of the worker that calls, or from outside to any.
    fn schedule(&self, runnable: Runnable) {
        let outside = OWN.with_borrow(|own| match own {
            Some(own) if std::ptr::eq(&*own.shared, self) => {
                let place = &self.places[own.at];
                place.times.put(place.line.get().copied().flatten().map_or(1, quell::Worker::queued));
                own.queue.push(runnable);
                None
            }
            _ => Some(runnable),
        });
        if let Some(runnable) = outside {
            self.injected.push(runnable);
            self.wake_one();
        }
    }

    /// Wakes a parked worker that may run.
    fn wake_one(&self) {
        let may = |place: &&Place| !place.has_left.load(Acquire) && place.is_parked.swap(false, AcqRel);
        if let Some(place) = self.places.iter().find(may) {
            place.poller.wake();
        }
    }

    /// This many tasks were taken out of this worker's queue; returns since when the next one waits.
    fn taken(&self, at: usize, count: usize) -> u64 {
        let place = &self.places[at];
        let oldest = place.times.taken(count);
        if let Some(line) = place.line.get().copied().flatten() {
            (0..count).for_each(|_| line.dequeued(oldest));
        }
        oldest
    }
}

fn work(own: Own) {
    let (shared, at) = (Arc::clone(&own.shared), own.at);
    let place = &shared.places[at];
    let line = *place.line.get_or_init(quell::Worker::here);
    OWN.set(Some(own));
    let mut turns = 0;
    while !shared.ends.load(Acquire) {
        turns += 1;
        let found = (turns % TURNS != 0).then(own_task).flatten().or_else(|| look(&shared, at));
        match found {
            Some(task) => run(task, line),
            None => park(&shared, at),
        }
        if at > 0 && line.is_some_and(quell::Worker::should_leave) {
            leave(&shared, at, line);
        }
    }
    // What tasks hold may be dropped with the queue, and come back here.
    drop(OWN.take());
}

fn run(task: Runnable, line: Option<quell::Worker>) {
    let _request = line.map(quell::Worker::request);
    task.run();
}

/// The next one of its own; wakes another worker where that has waited for long.
fn own_task() -> Option<Runnable> {
    let (task, oldest, shared) = OWN.with_borrow(|own| {
        let own = own.as_ref()?;
        let task = own.queue.pop()?;
        Some((task, own.shared.taken(own.at, 1), Arc::clone(&own.shared)))
    })?;
    if oldest > 1 && shared.places.len() > 1 && super::now().saturating_sub(oldest) > AGE {
        shared.wake_one();
    }
    Some(task)
}

/// Own I/O, what came from outside, the own queue, then siblings.
fn look(shared: &Shared, at: usize) -> Option<Runnable> {
    let place = &shared.places[at];
    place.poller.poll(0, place.line.get().copied().flatten());
    let from_outside = || loop {
        match shared.injected.steal() {
            Steal::Success(task) => return Some(task),
            Steal::Empty => return None,
            Steal::Retry => {}
        }
    };
    from_outside().or_else(own_task).or_else(|| {
        let count = shared.places.len();
        // The next number is the nearest: its cache is shared, where any is. Then from a random one on.
        let from = OWN.with_borrow_mut(|own| own.as_mut().map_or(0, Own::random)) as usize;
        let others = std::iter::once(at ^ 1).chain((0..count).map(|step| (from + step) % count));
        others.filter(|other| *other != at && *other < count).find_map(|other| steal(shared, other))
    })
}

impl Own {
    /// Xorshift.
    fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}

/// Takes the older half of a sibling's tasks, or what its I/O has.
fn steal(shared: &Shared, from: usize) -> Option<Runnable> {
    let victim = &shared.places[from];
    let (task, more) = OWN
        .with_borrow(|own| {
            let own = own.as_ref()?;
            let before = own.queue.len();
            let task = loop {
                match victim.stealer.steal_batch_and_pop(&own.queue) {
                    Steal::Success(task) => break task,
                    Steal::Empty => return None,
                    Steal::Retry => {}
                }
            };
            Some((task, own.queue.len().saturating_sub(before)))
        })
        .or_else(|| {
            // A sibling that works sees its I/O later.
            victim.poller.poll(0, None);
            own_task().map(|task| (task, usize::MAX))
        })?;
    if more != usize::MAX {
        let oldest = shared.taken(from, more + 1);
        OWN.with_borrow(|own| {
            let place = &shared.places[own.as_ref().map_or(0, |own| own.at)];
            let line = place.line.get().copied().flatten();
            // They waited there, too: the time of the next one that is left there is no younger than theirs.
            (0..more).for_each(|_| place.times.put(line.map_or(1, |line| line.queued().min(oldest.max(1)))));
        });
    }
    Some(task)
}

/// Sleeps until there is something for it.
fn park(shared: &Shared, at: usize) {
    let place = &shared.places[at];
    place.is_parked.store(true, Release);
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
    // What came before it was seen to be parked woke none.
    let is_idle = shared.injected.is_empty() && !shared.ends.load(Acquire);
    place.poller.poll(if is_idle { -1 } else { 0 }, place.line.get().copied().flatten());
    place.is_parked.store(false, Release);
    if at == 0 {
        // An agent that came, or came back, is asked for pages.
        let _ = quell::cpus();
    }
}

/// Its CPU is another's now: the first worker has its I/O, and any may take its tasks.
fn leave(shared: &Shared, at: usize, line: Option<quell::Worker>) {
    let (place, first) = (&shared.places[at], &shared.places[0].poller);
    place.has_left.store(true, Release);
    if first.watch(&place.poller).is_err() {
        return place.has_left.store(false, Release);
    }
    first.wake();
    while !shared.ends.load(Acquire) && line.is_some_and(quell::Worker::should_leave) {
        place.poller.sleep(AWAY_MS);
    }
    first.watch_no_more(&place.poller);
    place.has_left.store(false, Release);
}

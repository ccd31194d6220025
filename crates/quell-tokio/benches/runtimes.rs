//! What a scheduler of tasks costs: the example's work-stealing runtime with and without exporting, tokio, and kernel threads; one
//! round of each in turn, so that what else the machine does falls on all. Medians, in nanoseconds, and what exporting adds.

#[path = "../examples/server/io.rs"]
#[allow(dead_code, reason = "the server uses the rest")]
mod io;
#[path = "../examples/server/stealing.rs"]
#[allow(dead_code, reason = "the server uses the rest")]
mod stealing;

use std::future::Future;
use std::hint::black_box;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use tokio::sync::Notify;

const ROUNDS: usize = 21;
const WORKERS: usize = 2;
const MANY: u64 = 2_000;
/// Longer than a worker looks about before it parks.
const IDLE: Duration = Duration::from_millis(1);
/// A request's work, for what exporting adds to it.
const WORK: u64 = 10_000;

/// CLOCK_MONOTONIC, in nanoseconds.
fn now() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A scheduler of tasks.
#[derive(Clone, Copy)]
enum Tasks<'a> {
    Stealing(&'a stealing::Runtime),
    Tokio(&'a tokio::runtime::Runtime),
}

impl Tasks<'_> {
    /// Runs it as a task, and waits for its result.
    fn run<T: Send + 'static>(self, future: impl Future<Output = T> + Send + 'static) -> T {
        let (done, result) = mpsc::channel();
        let task = async move { _ = done.send(future.await) };
        match self {
            Tasks::Stealing(runtime) => runtime.spawn(task).detach(),
            Tasks::Tokio(runtime) => drop(runtime.spawn(task)),
        }
        result.recv().unwrap()
    }

    fn spawner(self) -> fn(Boxed<()>) -> Boxed<()> {
        match self {
            Tasks::Stealing(_) => |future| Box::pin(stealing::spawn(future)),
            Tasks::Tokio(_) => |future| {
                let handle = tokio::spawn(future);
                Box::pin(async { handle.await.unwrap() })
            },
        }
    }
}

/// Gives way once.
struct Yield(bool);

impl Future for Yield {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

fn each(begin: u64) -> f64 {
    (now() - begin) as f64 / MANY as f64
}

/// Nanoseconds of each measure, in the order of `MEASURES`.
fn of_tasks(tasks: Tasks<'_>) -> [f64; 6] {
    let spawn = tasks.spawner();
    let spawn_join = tasks.run(async move {
        let begin = now();
        for _ in 0..MANY {
            spawn(Box::pin(async {})).await;
        }
        each(begin)
    });
    let yielding = tasks.run(async {
        let begin = now();
        for _ in 0..MANY {
            Yield(false).await;
        }
        each(begin)
    });
    let mutex = tasks.run(async {
        let mutex = tokio::sync::Mutex::new(0_u64);
        let begin = now();
        for _ in 0..MANY {
            *black_box(&mutex).lock().await += 1;
        }
        each(begin)
    });
    let ping_pong = tasks.run(async move {
        let both = Arc::new([Notify::new(), Notify::new()]);
        let other = Arc::clone(&both);
        let begin = now();
        let pong = spawn(Box::pin(async move {
            for _ in 0..MANY {
                other[0].notified().await;
                other[1].notify_one();
            }
        }));
        for _ in 0..MANY {
            both[0].notify_one();
            both[1].notified().await;
        }
        pong.await;
        each(begin)
    });
    let (ran, woken) = mpsc::channel();
    let bell = Arc::new(Notify::new());
    let waits = Arc::clone(&bell);
    let wait = async move {
        for _ in 0..20 {
            waits.notified().await;
            ran.send(now()).unwrap();
        }
    };
    match tasks {
        Tasks::Stealing(runtime) => runtime.spawn(wait).detach(),
        Tasks::Tokio(runtime) => drop(runtime.spawn(wait)),
    }
    let park_run = wake_up(|| bell.notify_one(), &woken);
    let requests = tasks.run(async move {
        let begin = now();
        for _ in 0..MANY / 10 {
            spawn(Box::pin(async { work() })).await;
        }
        each(begin) * 10.0
    });
    [spawn_join, yielding, mutex, ping_pong, park_run, requests]
}

fn work() {
    let begin = now();
    while now() - begin < WORK {
        std::hint::spin_loop();
    }
}

/// The median time from a wake-up to the moment that it reports, of one that sleeps.
fn wake_up(wake: impl Fn(), woken: &mpsc::Receiver<u64>) -> f64 {
    median((0..20).map(|_| {
        thread::sleep(IDLE);
        let begin = now();
        wake();
        (woken.recv().unwrap() - begin) as f64
    }))
}

fn of_threads() -> [f64; 6] {
    let few = MANY / 10;
    let begin = now();
    (0..few).for_each(|_| thread::spawn(|| ()).join().unwrap());
    let spawn_join = each(begin) * 10.0;
    let begin = now();
    (0..MANY).for_each(|_| thread::yield_now());
    let yielding = each(begin);
    let mutex = Mutex::new(0_u64);
    let begin = now();
    (0..MANY).for_each(|_| *black_box(&mutex).lock().unwrap() += 1);
    let locking = each(begin);
    let shared = (Mutex::new(0_u64), Condvar::new());
    let turn = |parity| {
        for _ in 0..MANY {
            let guard = shared.0.lock().unwrap();
            let mut guard = shared.1.wait_while(guard, |count| *count % 2 != parity).unwrap();
            *guard += 1;
            shared.1.notify_one();
        }
    };
    let begin = now();
    thread::scope(|scope| {
        scope.spawn(|| turn(1));
        turn(0);
    });
    let ping_pong = each(begin);
    let (ran, woken) = mpsc::channel();
    let sleeper = thread::spawn(move || {
        for _ in 0..20 {
            thread::park();
            ran.send(now()).unwrap();
        }
    });
    let park_run = wake_up(|| sleeper.thread().unpark(), &woken);
    sleeper.join().unwrap();
    let begin = now();
    (0..few).for_each(|_| thread::spawn(work).join().unwrap());
    [spawn_join, yielding, locking, ping_pong, park_run, each(begin) * 10.0]
}

const MEASURES: [&str; 6] =
    ["spawn and join", "yield", "uncontended mutex", "ping-pong", "parked to running", "a request of 10 µs"];

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    // Its workers began before there was a page, and export nothing.
    let plain = stealing::Runtime::new(WORKERS).unwrap();
    Tasks::Stealing(&plain).run(async {});
    thread::sleep(IDLE * 20);
    let _ = quell::attach();
    let exporting = stealing::Runtime::new(WORKERS).unwrap();
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(WORKERS).build().unwrap();
    let rounds: Vec<[[f64; 6]; 4]> = (0..ROUNDS)
        .map(|_| {
            [
                of_tasks(Tasks::Stealing(&plain)),
                of_tasks(Tasks::Stealing(&exporting)),
                of_tasks(Tasks::Tokio(&tokio)),
                of_threads(),
            ]
        })
        .collect();
    println!("medians of {ROUNDS} interleaved rounds, ns; in brackets: of the threads'");
    println!("{:20} {:>18} {:>18} {:>18} {:>10}  exporting adds", "", "stealing", "exporting", "tokio", "threads");
    for (at, measure) in MEASURES.iter().enumerate() {
        let of = |system: usize| median(rounds.iter().map(|round| round[system][at]));
        let threads = of(3);
        let cell = |system| format!("{:.0} ({:.3})", of(system), of(system) / threads);
        let adds = median(rounds.iter().map(|round| round[1][at] - round[0][at]));
        println!(
            "{measure:20} {:>18} {:>18} {:>18} {threads:>10.0}  {adds:+.1} ns, {:+.2} %",
            cell(0),
            cell(1),
            cell(2),
            100.0 * adds / of(0)
        );
    }
}

//! Tasks that were woken and not polled yet, in a queue for each thread that woke them: as tokio's own queues are.

use std::cell::OnceCell;
use std::collections::VecDeque;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

use quell::Worker;

/// A task.
#[derive(Debug, Default)]
pub struct Task {
    /// When it was woken; 0: it does not wait.
    woken: AtomicU64,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// The runtime's.
    waker: Option<Waker>,
    /// The queue that it waits in.
    queue: Option<Arc<Queue>>,
}

/// The tasks that a thread woke, oldest first, each with the time. One that was polled meanwhile, or woken again, has another.
#[derive(Debug)]
struct Queue {
    worker: Worker,
    tasks: Mutex<VecDeque<(Arc<Task>, u64)>>,
}

thread_local! {
    /// None: there is no line for this thread.
    static OWN: OnceCell<Option<Arc<Queue>>> = const { OnceCell::new() };
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Queue {
    /// The calling thread's.
    fn own() -> Option<Arc<Queue>> {
        let fresh = || Worker::here().map(|worker| Arc::new(Queue { worker, tasks: Mutex::default() }));
        OWN.try_with(|own| own.get_or_init(fresh).clone()).ok().flatten()
    }

    fn push(&self, task: &Arc<Task>) {
        let mut tasks = locked(&self.tasks);
        let at = self.worker.queued();
        task.woken.store(at, Release);
        tasks.push_back((Arc::clone(task), at));
    }

    /// A task of it does not wait any more.
    fn look(&self) {
        let mut tasks = locked(&self.tasks);
        let past = tasks.iter().take_while(|(task, at)| task.woken.load(Acquire) != *at).count();
        // What they hold may be dropped with them, and come here.
        let past: Vec<_> = tasks.drain(..past).collect();
        self.worker.dequeued(tasks.front().map_or(0, |(_, at)| *at));
        drop(tasks);
        drop(past);
    }
}

impl Task {
    /// A poll begins; returns the waker for it.
    pub fn polled(self: &Arc<Task>, runtimes: &Waker) -> Waker {
        self.waits_no_more();
        let mut inner = locked(&self.inner);
        if !inner.waker.as_ref().is_some_and(|known| known.will_wake(runtimes)) {
            inner.waker = Some(runtimes.clone());
        }
        Waker::from(Arc::clone(self))
    }

    pub fn waits_no_more(&self) {
        let queue = locked(&self.inner).queue.take();
        if self.woken.swap(0, AcqRel) != 0
            && let Some(queue) = queue
        {
            queue.look();
        }
    }
}

impl Wake for Task {
    fn wake(self: Arc<Task>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Task>) {
        let waker = {
            let mut inner = locked(&self.inner);
            if self.woken.load(Acquire) == 0
                && let Some(queue) = Queue::own()
            {
                queue.push(self);
                inner.queue = Some(queue);
            }
            inner.waker.clone()
        };
        waker.into_iter().for_each(Waker::wake);
    }
}

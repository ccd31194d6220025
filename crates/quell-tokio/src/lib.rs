//! For programs on tokio that cooperate with Quell.
//!
//! [`install`] gives a runtime as many workers as the program has CPUs; [`instrument`] exports how long a task waits between its
//! wake-up and its poll. Both are cheap without an agent.

mod waiting;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use quell::Worker;
use tokio::runtime::Builder;

use self::waiting::Task;

/// Attaches to the agent, for at most 250 ms, and gives the runtime as many workers as the program can have CPUs. At each
/// park of a worker it is looked, at most once a second, whether another agent has come.
pub fn install(builder: &mut Builder) -> &mut Builder {
    // Without an agent the program runs on, with the CPUs that it may run on.
    let _ = quell::attach();
    builder.worker_threads(quell::cpus_most() as usize).on_thread_park(|| _ = quell::cpus())
}

/// Exports of a whole task, as it is given to `spawn`, how long it waits when it was woken, and when each of its polls began.
pub fn instrument<F: Future>(future: F) -> Instrumented<F> {
    Instrumented { task: Arc::default(), future: Box::pin(future) }
}

/// A future that [`instrument`] returned.
#[derive(Debug)]
pub struct Instrumented<F> {
    task: Arc<Task>,
    future: Pin<Box<F>>,
}

impl<F: Future> Future for Instrumented<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let waker = self.task.polled(context.waker());
        let _request = Worker::here().map(Worker::request);
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }
}

impl<F> Drop for Instrumented<F> {
    fn drop(&mut self) {
        self.task.waits_no_more();
    }
}

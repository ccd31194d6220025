//! Tasks on a runtime with one worker: what waits is exported, and no more once it has run.

use std::time::{Duration, Instant};

use quell_tokio::{install, instrument};
use tokio::runtime::Builder;
use tokio::sync::Notify;

/// The pages are this process's own: there is no agent here.
fn without_an_agent() {
    // SAFETY: no other thread of this program runs yet.
    unsafe { std::env::set_var("QUELL_RUNTIME", "/nonexistent/quell.sock") };
}

#[test]
fn a_woken_task_waits_until_it_is_polled() {
    without_an_agent();
    let runtime = install(&mut Builder::new_multi_thread()).worker_threads(1).build().unwrap();
    let waiting = || quell::waiting().iter().filter(|worker| worker.queued > 0).count();
    runtime.block_on(async {
        let notify = std::sync::Arc::new(Notify::new());
        let notified = std::sync::Arc::clone(&notify);
        let task = tokio::spawn(instrument(async move { notified.notified().await }));
        let hog = tokio::spawn(instrument(async move {
            tokio::task::yield_now().await;
            notify.notify_one();
            // It is woken now, and the only worker is here.
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_millis(5) {}
            let waits = quell::waiting();
            let oldest = waits.iter().map(|worker| worker.waited).max().unwrap();
            assert!(oldest >= Duration::from_millis(5), "{waits:?}");
        }));
        hog.await.unwrap();
        task.await.unwrap();
    });
    assert_eq!(waiting(), 0);
    drop(runtime);
}

//! A load generator, in this process or in one of its own.

use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use anyhow::Result;
use quell_agent::api::Client;
use quell_bench::load::{self, Live, LoadReport, LoadSpec, Monitor};
use serde::{Deserialize, Serialize};

use super::post::Poster;
use crate::request::Request;
use crate::signals;

/// Load on a server.
#[derive(Serialize, Deserialize)]
pub struct Load {
    /// What is sent.
    pub spec: LoadSpec,
    /// Whose latency is posted to which agent: workload and socket.
    pub post: Option<(String, PathBuf)>,
}

impl Request for Load {
    const NAME: &'static str = "load";
    type Answer = LoadReport;

    fn answer(self) -> Result<LoadReport> {
        self.watched(|_, _| ())
    }
}

impl Load {
    /// Loads the server, while `watch` runs beside the load until what it is given says that the load has ended.
    ///
    /// # Errors
    /// Those of [`load::run_watched`]; that no agent takes what is posted.
    pub fn watched(self, watch: impl FnOnce(&Monitor, &dyn Fn() -> bool)) -> Result<LoadReport> {
        let post = self.post.map(|(workload, socket)| Poster::new(Client::new(&socket)?, &workload));
        let poster = post.transpose()?;
        let monitor = monitor(poster.is_some())?;
        load::greet(&self.spec)?;
        let (report, posted) = run(&self.spec, &monitor, poster, |has_ended| watch(&monitor, has_ended))?;
        if let Some(line) = posted {
            let _ = writeln!(std::io::stderr(), "{line}");
        }
        Ok(report)
    }
}

/// A monitor that Ctrl-C stops. `posts`: latencies are kept for a poster.
///
/// # Errors
/// If signals cannot be caught.
pub fn monitor(posts: bool) -> Result<Monitor> {
    let monitor = Monitor { live: posts.then(Live::default), ..Monitor::default() };
    signals::set_on_interrupt(&monitor.stop)?;
    Ok(monitor)
}

/// Loads the server, posts its latency meanwhile, and lets `watch` show progress until what it is given says that the load
/// has ended. Returns the report, and what came of posting.
///
/// # Errors
/// Those of [`load::run_watched`].
pub fn run(
    spec: &LoadSpec,
    monitor: &Monitor,
    poster: Option<Poster>,
    watch: impl FnOnce(&dyn Fn() -> bool),
) -> Result<(LoadReport, Option<String>)> {
    let ended = AtomicBool::new(false);
    let (report, posted) = thread::scope(|scope| {
        let load = scope.spawn(|| load::run_watched(spec, monitor));
        let poster = poster.zip(monitor.live.as_ref());
        let ended = &ended;
        let poster = poster.map(|(poster, live)| scope.spawn(move || poster.post_until(live, ended)));
        watch(&|| load.is_finished());
        let report = load.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        ended.store(true, Relaxed);
        (report, poster.and_then(|poster| poster.join().ok()))
    });
    Ok((report?, posted))
}

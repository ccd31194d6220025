//! The API of a command that manages one workload by itself, without an agent (`quell exec`): the same answers, and nothing to
//! control.

use std::path::Path;

use quell_linux::LinuxHost;
use quell_model::{Host, Nanos, Sample, View, Workload, WorkloadId};

use super::control::verified;
use crate::AgentError;
use crate::api::control::{Call, Calls};
use crate::api::state::limits;
use crate::api::{About, ApiConfig, Feed, News};
use crate::observers::{ObserverConfig, Observers};
use crate::stack::{Layer, Stack, Witness};
use crate::watch::{Entry, Standing};
use crate::wire::Problem;

/// What watches the loop; the API ends with it, and its socket goes.
pub struct Alone(Observers);

/// What answers requests on the loop's thread.
pub struct Answers {
    calls: Option<Calls>,
    feed: Option<Feed>,
    workload: (WorkloadId, String),
}

impl Alone {
    /// Answers at this socket from now on, for a loop that has not turned yet.
    ///
    /// # Errors
    /// If it cannot listen there.
    pub fn start(
        socket: &Path,
        mode: &str,
        host: &LinuxHost,
        stack: &mut Stack,
        (id, workload): (WorkloadId, &Workload),
        now: Nanos,
    ) -> Result<(Alone, Answers), AgentError> {
        let capabilities = host.capabilities();
        let limits = limits(&capabilities, stack.layers());
        let about =
            About { mode: mode.to_owned(), host: capabilities.host, limits, news: News::default(), ..About::default() };
        let api = Some(ApiConfig { socket: socket.to_owned(), ..ApiConfig::default() });
        let config = ObserverConfig { api, ..ObserverConfig::default() };
        let (mut observers, feed) = Observers::start(&config, about, stack)?;
        observers.publish(vec![Entry {
            workload: workload.clone(),
            standing: Standing::Attached,
            since: now,
            leased_by: None,
            latency: None,
            why: None,
            left: Vec::new(),
            overridden: None,
            remarks: Vec::new(),
        }]);
        let calls = observers.take_calls();
        Ok((Alone(observers), Answers { calls, feed, workload: (id, workload.name.clone()) }))
    }
}

impl Witness for Alone {
    fn turned(&mut self, view: &View, layers: &[Layer]) {
        self.0.turned(view, layers);
    }
}

impl Answers {
    /// Answers what was asked since the last turn, and hands on the latencies that were posted. To be called once a turn.
    pub fn answer(&mut self, host: &mut LinuxHost) {
        for posted in self.feed.iter().flat_map(Feed::drain) {
            let (at, window) = (posted.sample.at, posted.sample.window);
            // One that has ended takes none.
            let _ = host.feed_rate(posted.workload, Sample::over(posted.rate, at, window));
            let _ = host.feed_latency(posted.workload, posted.sample);
        }
        for call in self.calls.iter().flat_map(Calls::drain) {
            // The caller may have gone.
            match call {
                Call::Verify(answer) => _ = answer.send(verified(host, std::slice::from_ref(&self.workload))),
                Call::Switch { answer, .. } | Call::Prove { answer, .. } | Call::Turn(_, _, answer) => {
                    _ = answer.send(Err(no_agent()));
                }
                Call::Lease { answer, .. } | Call::Resize(_, answer) => _ = answer.send(Err(no_agent())),
                Call::LeaseEnded(_) => {}
            }
        }
    }
}

fn no_agent() -> Problem {
    let error = "this command manages one workload and is not an agent".to_owned();
    Problem { error, fix: "end the command (Ctrl-C) to have everything put back".to_owned() }
}

//! An API that answers before there is an agent, and from one agent to the next of the same worker.

use std::sync::{Arc, Mutex};

use quell_model::{Nanos, Topology, View};

use super::state::{About, Starting, State};
use super::{Api, ApiConfig, router};
use crate::AgentError;
use crate::watch::{Entry, Standing, watch};

/// The API; it ends with the last of its copies.
#[derive(Clone)]
pub struct Front {
    state: router::SharedState,
    _api: Arc<Api>,
}

impl Front {
    /// Listens, and answers that the agent is starting.
    ///
    /// # Errors
    /// As those of [`Api::start`].
    pub fn start(
        config: &ApiConfig,
        topology: Arc<Topology>,
        workloads: impl IntoIterator<Item = quell_model::Workload>,
        now: Nanos,
    ) -> Result<Front, AgentError> {
        let why = Some("the agent is starting".to_owned());
        let entry = |workload| {
            let (standing, why, leased_by) = (Standing::Waiting, why.clone(), None);
            let (latency, left, overridden, remarks) = (None, Vec::new(), None, Vec::new());
            Entry { workload, standing, since: now, leased_by, latency, why, left, overridden, remarks }
        };
        let (mut watch, watched) = watch(&View { now, ..View::new(topology) }, &[]);
        watch.publish(workloads.into_iter().map(entry).collect());
        let starting = Some(Starting { what: "starting".to_owned(), since: now });
        let about = About { mode: "run".to_owned(), host: "linux".to_owned(), starting, ..About::default() };
        let state = Arc::new(Mutex::new(super::state(about, watched).0));
        let api = Api::of(config, Arc::clone(&state))?;
        Ok(Front { state, _api: Arc::new(api) })
    }

    /// Says what the agent does before it is at work; the time is counted from `since`.
    pub fn say(&self, what: &str, since: Nanos) {
        router::locked(&self.state, |state| state.start(Starting { what: what.to_owned(), since }));
    }

    /// From now on it answers with this state, an agent's.
    pub(crate) fn show(&self, state: State) {
        router::locked(&self.state, |shown| *shown = state);
    }
}

impl std::fmt::Debug for Front {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Front").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use quell_model::{Class, CpuCount};

    use super::*;
    use crate::api::{Client, wire};

    #[test]
    fn an_agent_that_starts_answers_and_says_what_it_does() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("api.sock");
        let config = ApiConfig { socket: socket.clone(), ..ApiConfig::default() };
        let topology = Arc::new(Topology::synthetic(1, 1, 2, 1));
        let db = quell_model::Workload::new("db", Class::BestEffort, CpuCount::whole(1));
        let now = quell_thread::clock::now();
        let front = Front::start(&config, Arc::clone(&topology), [db], now).unwrap();
        let status = || Client::new(&socket).unwrap().get::<wire::Status>("/v1/status").unwrap();
        let first = status();
        assert!(first.agent.starting.unwrap().starts_with("starting, "));
        assert_eq!((first.configured[0].name.as_str(), first.configured[0].state), ("db", wire::State::Waiting));
        front.say("loading Quell's scheduler", now - Nanos::from_secs(12));
        let starting = status().agent.starting.unwrap();
        assert!(starting.starts_with("loading Quell's scheduler, 1") && starting.ends_with(" s so far"), "{starting}");
        let (_watch, watched) = watch(&View::new(topology), &[]);
        front.show(super::super::state(About { mode: "run".into(), ..About::default() }, watched).0);
        assert_eq!(status().agent.starting, None, "an agent is at work");
        drop(front);
        assert!(!socket.exists());
    }
}

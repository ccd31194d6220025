//! Everything that watches the loop of a running agent, started at once.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};

use quell_linux::LinuxHost;
use quell_model::View;

use crate::AgentError;
use crate::api::control::{Call, Calls, calls};
use crate::api::{self, About, Api, ApiConfig, Feed, Front, News, ShownPods};
use crate::attribution::{Attribution, Shown};
use crate::cooperate::Cooperation;
use crate::record::Recorder;
use crate::stack::{Layer, Stack, Witness};
use crate::watch::{Roster, SIGNALS, Watch, watch};

const OTHER_LAYERS: &str = "a leased workload added or removed a policy of its own";

/// The observers to start.
#[derive(Clone, Debug, Default)]
pub struct ObserverConfig {
    /// Address of the API; None: no API.
    pub api: Option<ApiConfig>,
    /// An API that answers already, in place of a new one.
    pub front: Option<Front>,
    /// The part of one CPU that finding out what workloads wait for may cost; None, or no API: that is not measured.
    pub attribution: Option<f64>,
    /// What is shown of the node's pods.
    pub pods: ShownPods,
    /// The file to record every turn in; None: no record.
    pub record: Option<PathBuf>,
}

/// The witnesses of a running agent. They end when this is dropped: the socket goes, the record is complete.
#[derive(Default)]
pub struct Observers {
    watch: Option<Watch>,
    news: Option<Sender<News>>,
    calls: Option<Calls>,
    recorder: Option<Recorder>,
    attribution: Option<Attribution>,
    cooperation: Option<Cooperation>,
    _api: Option<Api>,
}

impl Observers {
    /// Starts the configured observers; must be called before the loop's first turn. From now on the stack also
    /// measures the signals for people. The feed has the latencies that clients post: pass each to the host before it
    /// observes.
    ///
    /// # Errors
    /// If the API cannot listen or the record cannot be written, with the fix.
    pub fn start(
        config: &ObserverConfig,
        about: About,
        stack: &mut Stack,
    ) -> Result<(Observers, Option<Feed>), AgentError> {
        let mut observers = Observers::default();
        let mut feed = None;
        if config.api.is_some() {
            stack.also_measure(SIGNALS, quell_linux::cpu_time);
        }
        if let Some(file) = &config.record {
            observers.recorder = Some(Recorder::start(file, stack.view(), stack.layers())?);
        }
        let (front, attribution, pods) = (config.front.as_ref(), config.attribution, config.pods.clone());
        if let Some(config) = &config.api {
            let (watch, watched) = watch(stack.view(), stack.layers());
            let (mut state, posts) = api::state(about, watched);
            if let Some(recorder) = &observers.recorder {
                state.tell_recording(recorder.progress());
            }
            if let Some(cost) = attribution {
                let shown = Shown::default();
                state.show_waited(shown.clone());
                observers.attribution = Some(Attribution::start(cost, shown)?);
            }
            state.show_pods(pods);
            let (news, followed) = channel();
            state.follow(followed);
            observers.news = Some(news);
            let (caller, calls) = calls();
            state.obey(caller);
            observers.calls = Some(calls);
            match front {
                Some(front) => front.show(state),
                None => observers._api = Some(Api::start(config, state)?),
            }
            observers.watch = Some(watch);
            feed = Some(posts);
        }
        Ok((observers, feed))
    }

    /// After a turn: what workloads wait for is found out from what it read, and becomes two of the host's signals.
    pub fn attribute(&mut self, view: &View, host: &mut LinuxHost) {
        if let Some(attribution) = &mut self.attribution {
            attribution.turned(view, host);
        }
    }

    /// Programs that cooperate get their pages from now on. If that fails, they go on without.
    pub fn cooperate(&mut self, directory: &Path, host: &LinuxHost) {
        match Cooperation::start(directory, host.roots()) {
            Ok(started) => self.cooperation = Some(started),
            Err(error) => tracing::warn!("programs that cooperate get no pages: {error}"),
        }
    }

    /// After a turn: their questions are answered.
    pub fn answer_programs(&mut self, host: &mut LinuxHost) {
        if let Some(cooperation) = &mut self.cooperation {
            cooperation.turned(host);
        }
    }

    /// Sets the facts about the agent.
    pub fn inform(&self, news: &News) {
        if let Some(sender) = &self.news {
            // The send fails once the API has ended.
            let _ = sender.send(news.clone());
        }
    }

    /// The requests to the loop since the last call.
    pub fn calls(&self) -> Vec<Call> {
        self.calls.iter().flat_map(Calls::drain).collect()
    }

    /// The requests to the loop go there, and are answered there.
    pub fn take_calls(&mut self) -> Option<Calls> {
        self.calls.take()
    }

    /// Ends the record, for this reason: there is one stack in it.
    pub fn end_record(&mut self, why: &str) {
        if self.recorder.take().is_some() {
            tracing::warn!("the record ends here: {why}");
        }
    }

    /// The stack got another layer, its last.
    pub fn layer_came(&mut self) {
        self.end_record(OTHER_LAYERS);
        self.watch.iter_mut().for_each(Watch::layer_came);
    }

    /// This layer was taken out of the stack.
    pub fn layer_went(&mut self, at: usize) {
        self.end_record(OTHER_LAYERS);
        self.watch.iter_mut().for_each(|watch| watch.layer_went(at));
    }
}

impl Observers {
    /// Only this one.
    #[cfg(test)]
    pub(crate) fn of(watch: Watch) -> Observers {
        Observers { watch: Some(watch), ..Observers::default() }
    }

    /// Sends the facts about the agent there.
    #[cfg(test)]
    pub(crate) fn tell_news(&mut self, news: Sender<News>) {
        self.news = Some(news);
    }

    /// Hands over where the workloads of the configuration stand.
    pub fn publish(&mut self, roster: Roster) {
        if let Some(watch) = &mut self.watch {
            watch.publish(roster);
        }
    }
}

impl Witness for Observers {
    fn turned(&mut self, view: &View, layers: &[Layer]) {
        if let Some(watch) = &mut self.watch {
            watch.turned(view, layers);
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.turned(view, layers);
        }
    }
}

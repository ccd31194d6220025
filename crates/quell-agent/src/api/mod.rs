//! The agent's API: HTTP and JSON on a Unix socket, on a thread of its own.
//!
//! The loop never waits for a reader: it publishes snapshots and decisions ([`crate::watch`]), and this thread, of
//! ordinary priority, takes them. A client that is slow or hostile can at worst use up the seats of clients like it.
//! The socket file's owner and group decide which users may connect; SO_PEERCRED decides which may write.

pub mod client;
pub mod control;
mod front;
mod held;
pub mod latency;
pub mod router;
pub mod socket;
pub mod state;

mod lasting;
mod pods;
mod reading;
mod seats;
mod serve;
mod standing;
pub mod token;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use quell_scrape::{Scraper, Source};
use quell_thread::clock;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use self::token::Token;
use crate::AgentError;
use crate::watch::Watched;

pub use crate::wire;
pub use client::Client;
pub use front::Front;
pub use held::{Leased, Leasing, Standing};
pub use latency::{Feed, Posted};
pub use pods::ShownPods;
pub use reading::Metrics;
pub use state::{About, News, Starting, State};

/// Default path of the agent's socket.
pub const SOCKET: &str = "/run/quell/api.sock";
/// Interval at which this thread takes the loop's snapshots and decisions.
const REFRESH: Duration = Duration::from_millis(100);

/// Address of the API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ApiConfig {
    /// The socket file.
    pub socket: PathBuf,
    /// The group that may read; None: only root and the agent's own user.
    pub group: Option<String>,
    /// An address for Prometheus, of the loopback interface unless there is a token; None: no metrics.
    pub metrics: Option<SocketAddr>,
    /// The file of the token that is to be shown there; None: nothing is.
    pub metrics_token: Option<PathBuf>,
    /// A socket for Prometheus, for the same users as the API's; None: none.
    pub metrics_socket: Option<PathBuf>,
    /// Services whose latency is read, as if they posted it.
    #[serde(skip)]
    pub sources: Vec<Source>,
}

impl Default for ApiConfig {
    fn default() -> ApiConfig {
        ApiConfig {
            socket: SOCKET.into(),
            group: None,
            metrics: None,
            metrics_token: None,
            metrics_socket: None,
            sources: Vec::new(),
        }
    }
}

/// The API's thread; ends when this is dropped, and the socket file goes.
pub struct Api {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// The state behind the API, and the loop's end of the posted histograms. Nothing answers control calls, see [`State::obey`].
#[must_use]
pub fn state(about: About, watched: Watched) -> (State, Feed) {
    let (inbox, feed) = latency::inbox();
    (State::new(about, watched, inbox), feed)
}

impl Api {
    /// Listens and answers from now on.
    ///
    /// # Errors
    /// If it cannot listen there, with the fix.
    pub fn start(config: &ApiConfig, state: State) -> Result<Api, AgentError> {
        Api::of(config, Arc::new(Mutex::new(state)))
    }

    fn of(config: &ApiConfig, state: router::SharedState) -> Result<Api, AgentError> {
        let socket = socket::Socket::bind(&config.socket, config.group.as_deref())?;
        let token = config.metrics_token.as_deref().map(Token::read).transpose()?;
        let metrics = config.metrics.map(|address| serve::bind_metrics(address, token.is_some())).transpose()?;
        let own = |path: &PathBuf| socket::Socket::bind(path, config.group.as_deref());
        let metrics_socket = config.metrics_socket.as_ref().map(own).transpose()?;
        let sources = config.sources.clone();
        Api::on_a_thread(async move {
            let listener = socket.listener.try_clone().and_then(tokio::net::UnixListener::from_std);
            match listener {
                Ok(listener) => drop(tokio::spawn(serve::serve(listener, router::router(Arc::clone(&state))))),
                Err(error) => {
                    tracing::error!("the API cannot listen: {error}");
                    return (socket, metrics_socket);
                }
            }
            if let Some(socket) = &metrics_socket
                && let Ok(listener) = socket.listener.try_clone().and_then(tokio::net::UnixListener::from_std)
            {
                tokio::spawn(serve::serve_metrics_socket(listener, router::metrics_router(Arc::clone(&state))));
            }
            if let Some(Ok(listener)) = metrics.map(tokio::net::TcpListener::from_std) {
                let router = router::metrics_router(Arc::clone(&state));
                tokio::spawn(serve::serve_metrics(listener, router::with_token(router, token)));
            }
            for source in sources {
                tokio::spawn(read_latency(source, Arc::clone(&state)));
            }
            tokio::spawn(async move {
                let mut every = tokio::time::interval(REFRESH);
                every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
                loop {
                    every.tick().await;
                    router::locked(&state, |_| ());
                }
            });
            (socket, metrics_socket)
        })
    }

    /// Runs the work that begins so on a thread of its own until the value is dropped; what it returns goes then.
    fn on_a_thread<T: Send + 'static>(begin: impl Future<Output = T> + Send + 'static) -> Result<Api, AgentError> {
        let fail = |operation| move |source| AgentError::System { operation, source };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(fail("start the API's event queue"))?;
        let (stop, stopped) = oneshot::channel();
        let work = async move {
            let kept = begin.await;
            let _ = stopped.await;
            drop(kept);
        };
        let thread = std::thread::Builder::new()
            .name("quell-api".into())
            .spawn(move || {
                runtime.block_on(work);
                runtime.shutdown_background();
            })
            .map_err(fail("start the API's thread"))?;
        Ok(Api { stop: Some(stop), thread: Some(thread) })
    }
}

/// Reads a service's latency once a second, for ever.
async fn read_latency(source: Source, state: Arc<Mutex<State>>) {
    let mut scraper = Scraper::new(source);
    let mut every = tokio::time::interval(quell_scrape::EVERY);
    every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        every.tick().await;
        if let Some(reading) = scraper.read(clock::now).await {
            // A workload that is not attached needs none.
            let _ = router::locked(&state, |state| state.take_reading(&reading));
        }
    }
}

impl Drop for Api {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

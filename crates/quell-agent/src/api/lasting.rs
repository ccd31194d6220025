//! Requests that the loop answers, and a lease, which lasts as long as its connection.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, State as Shared};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use hyper::body::Frame;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use tokio::time::Interval;

use super::control::{Call, Caller, Lease, Switched};
use super::router::{Peer, SharedState, json, locked, refuse, wrong_method};
use super::state::State;
use crate::wire::{CONTROL_VERSION, Command, Control, Problem, Verified};

/// Length of a control call's body at most.
const MAX_BODY: usize = 64 * 1024;
/// The loop answers within this time: it may put thousands of values back, or begin its first turn.
const PATIENCE: Duration = Duration::from_secs(60);
/// Interval of looking whether the loop that gave a lease is there …
const LOOK: Duration = Duration::from_millis(250);
/// … and looks for each line that shows that the lease lasts.
const LOOKS: u32 = 20;

/// Is a connection one that may last? Set by its request.
#[derive(Clone, Debug, Default)]
pub(super) struct Lasting(pub(super) Arc<AtomicBool>);

impl Lasting {
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    fn set(&self) {
        self.0.store(true, Ordering::Release);
    }
}

/// The requests that the loop answers.
pub(super) fn router() -> Router<SharedState> {
    Router::new()
        .route("/v1/control", post(control))
        .route("/v1/verify", get(verify))
        .method_not_allowed_fallback(wrong_method)
        .layer(DefaultBodyLimit::max(MAX_BODY))
}

/// What a request of any version has.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

async fn control(
    Shared(state): Shared<SharedState>,
    Extension(peer): Extension<Peer>,
    lasting: Option<Extension<Lasting>>,
    body: Bytes,
) -> Response {
    if !peer.may_write {
        return not_allowed();
    }
    let bad = |error: &str, fix: &str| refuse(StatusCode::BAD_REQUEST, error, fix);
    match serde_json::from_slice(&body) {
        Ok(Versioned { version }) if version > CONTROL_VERSION => {
            let error = format!("version {version} of control calls is not supported");
            return bad(&error, "use the `quell` of the agent's version, or restart the agent");
        }
        _ => {}
    }
    let request: Control = match serde_json::from_slice(&body) {
        Ok(request) => request,
        Err(error) => return bad(&error.to_string(), "see the type Control in GET /v1/schema"),
    };
    if let Some(Extension(lasting)) = lasting {
        lasting.set();
    }
    let Some((caller, number)) = locked(&state, State::caller) else { return nothing_obeys() };
    // From before the request on: a caller that goes meanwhile leaves no lease behind.
    let lease = request.command.is_lease().then(|| Lease { caller: caller.clone(), number, ended: Arc::default() });
    let by = by(peer);
    let switched = match request.command {
        Command::Off => Switched::Off,
        Command::On => Switched::On,
        Command::OffWhileConnected => Switched::OffWhileConnected,
        Command::ProtectWhileConnected(protect) => {
            let protect = Box::new(protect);
            return answered(&caller, lease, |answer| Call::Lease { protect, by, lease: number, answer }).await;
        }
        Command::ProveWhileConnected(prove) => {
            let (prove, ended) =
                (Box::new(prove), lease.as_ref().map(|lease| Arc::clone(&lease.ended)).unwrap_or_default());
            return answered(&caller, lease, |answer| Call::Prove { prove, by, lease: number, ended, answer }).await;
        }
        Command::Turn(turn) => return answered(&caller, None, |answer| Call::Turn(turn, by, answer)).await,
        Command::Resize(resize) => return answered(&caller, None, |answer| Call::Resize(resize, answer)).await,
    };
    answered(&caller, lease, |answer| Call::Switch { switched, by, lease: number, answer }).await
}

/// Asks the loop; the answer to a lease goes on for as long as it lasts.
async fn answered<T: Serialize>(
    caller: &Caller,
    lease: Option<Lease>,
    asked: impl FnOnce(oneshot::Sender<Result<T, Problem>>) -> Call,
) -> Response {
    let (answer, answered) = oneshot::channel();
    if !caller.ask(asked(answer)) {
        return busy();
    }
    match (wait(answered).await, lease) {
        (Err(refused), _) => refused,
        (Ok(Err(Problem { error, fix })), _) => refuse(StatusCode::CONFLICT, &error, &fix),
        (Ok(Ok(answer)), None) => json(&answer),
        (Ok(Ok(answer)), Some(lease)) => Held::response(&answer, lease),
    }
}

async fn verify(Shared(state): Shared<SharedState>, Extension(peer): Extension<Peer>) -> Response {
    if !peer.may_write {
        return not_allowed();
    }
    let Some((caller, _)) = locked(&state, State::caller) else { return nothing_obeys() };
    let (answer, answered) = oneshot::channel();
    if !caller.ask(Call::Verify(answer)) {
        return busy();
    }
    match wait(answered).await {
        Err(refused) => refused,
        Ok(mut verified) => {
            verified.differences.extend(locked(&state, |state| state.refused()));
            json::<Verified>(&verified)
        }
    }
}

async fn wait<T>(answered: oneshot::Receiver<T>) -> Result<T, Response> {
    match tokio::time::timeout(PATIENCE, answered).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(_)) => Err(nothing_obeys()),
        Err(_) => {
            let fix = "its loop is busy, possibly loading the scheduler: see its log, and try again";
            Err(refuse(StatusCode::SERVICE_UNAVAILABLE, "the agent does not answer in time", fix))
        }
    }
}

/// The caller in words.
fn by(peer: Peer) -> String {
    match peer.is {
        Some((user, process)) => format!("{} (process {process})", quell_linux::user_name(user)),
        None => "an unknown caller".to_owned(),
    }
}

fn not_allowed() -> Response {
    refuse(StatusCode::FORBIDDEN, "only root and the agent's own user may do that", "ask as root")
}

fn nothing_obeys() -> Response {
    refuse(StatusCode::SERVICE_UNAVAILABLE, "the agent is ending", "try again after its restart")
}

fn busy() -> Response {
    refuse(StatusCode::SERVICE_UNAVAILABLE, "requests come faster than the agent handles them", "ask less often")
}

/// The body of a lease's answer: the answer, and then an empty line at times. Dropped when its connection ends.
struct Held {
    first: Option<Bytes>,
    beat: Interval,
    looks: u32,
    lease: Lease,
}

impl Held {
    fn response(answer: &impl Serialize, lease: Lease) -> Response {
        let mut line = serde_json::to_vec(answer).unwrap_or_default();
        line.push(b'\n');
        let beat = tokio::time::interval_at(tokio::time::Instant::now() + LOOK, LOOK);
        let body = Body::new(Held { first: Some(line.into()), beat, looks: 0, lease });
        ([("content-type", "application/json")], body).into_response()
    }
}

impl hyper::body::Body for Held {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        loop {
            ready!(self.beat.poll_tick(cx));
            if self.lease.is_over() {
                return Poll::Ready(None);
            }
            self.looks += 1;
            if self.looks.is_multiple_of(LOOKS) {
                return Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"\n")))));
            }
        }
    }
}

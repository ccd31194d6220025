//! Requests that the loop answers, and a lease, which lasts as long as its connection.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, State as Shared};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use hyper::body::Frame;
use tokio::sync::oneshot;
use tokio::time::Interval;

use super::control::{Call, Lease};
use super::router::{Peer, SharedState, json, locked, refuse, wrong_method};
use super::state::State;
use crate::wire::{CONTROL_VERSION, Command, Control, Controlled, Verified};

/// Length of a control call's body at most.
const MAX_BODY: usize = 4096;
/// The loop answers within this time: it may put thousands of values back, or begin its first turn.
const PATIENCE: Duration = Duration::from_secs(60);
/// Interval of the lines that show that a lease lasts.
const BEAT: Duration = Duration::from_secs(5);

/// Is a connection one that may last? Set by its request.
#[derive(Clone, Debug, Default)]
pub(super) struct Lasting(Arc<AtomicBool>);

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

async fn control(
    Shared(state): Shared<SharedState>,
    Extension(peer): Extension<Peer>,
    lasting: Option<Extension<Lasting>>,
    body: Bytes,
) -> Response {
    if !peer.may_write {
        return not_allowed();
    }
    let request: Control = match serde_json::from_slice(&body) {
        Ok(request) => request,
        Err(error) => {
            return refuse(StatusCode::BAD_REQUEST, &error.to_string(), "see the type Control in GET /v1/schema");
        }
    };
    if request.version > CONTROL_VERSION {
        let error = format!("version {} of control calls is not known here", request.version);
        return refuse(StatusCode::BAD_REQUEST, &error, "use the `quell` of the agent's version");
    }
    if let Some(Extension(lasting)) = lasting {
        lasting.set();
    }
    let Some((caller, number)) = locked(&state, State::caller) else { return nothing_obeys() };
    let leases = request.command == Command::OffWhileConnected;
    // From before the request on: a caller that goes meanwhile leaves no lease behind.
    let lease = leases.then(|| Lease { caller: caller.clone(), number });
    let (answer, answered) = oneshot::channel();
    if !caller.ask(Call::Control { command: request.command, by: by(peer), lease: number, answer }) {
        return busy();
    }
    match (wait(answered).await, lease) {
        (Err(refused), _) => refused,
        (Ok(answer), None) => json(&answer),
        (Ok(answer), Some(lease)) => Held::response(&answer, lease),
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
            let fix = "its loop is busy, as while its scheduler is loaded: see its log, and try again";
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
    refuse(StatusCode::FORBIDDEN, "only root and the agent's own user may ask for that", "ask as root")
}

fn nothing_obeys() -> Response {
    refuse(StatusCode::SERVICE_UNAVAILABLE, "the agent is ending", "try again when it has started anew")
}

fn busy() -> Response {
    refuse(StatusCode::SERVICE_UNAVAILABLE, "requests come faster than the agent turns", "ask less often")
}

/// The body of a lease's answer: the answer, and then an empty line at times. Dropped when its connection ends.
struct Held {
    first: Option<Bytes>,
    beat: Interval,
    lease: Lease,
}

impl Held {
    fn response(answer: &Controlled, lease: Lease) -> Response {
        let mut line = serde_json::to_vec(answer).unwrap_or_default();
        line.push(b'\n');
        let beat = tokio::time::interval_at(tokio::time::Instant::now() + BEAT, BEAT);
        let body = Body::new(Held { first: Some(line.into()), beat, lease });
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
        let is_over = self.lease.caller.is_over();
        self.beat.poll_tick(cx).map(|_| (!is_over).then(|| Ok(Frame::data(Bytes::from_static(b"\n")))))
    }
}

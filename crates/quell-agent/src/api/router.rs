//! The requests and their answers; no socket here, so that tests and fuzzers call it directly.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path, Request, State as Shared};
use axum::http::header::ACCEPT;
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use quell_thread::clock;
use serde::Serialize;

use super::lasting;
use super::latency::{MAX_BUCKETS, Rejected};
use super::state::State;
use super::token::Token;
use crate::metrics;
use crate::wire::{self, Histogram, Problem};

/// A request's body is this long at most.
pub const MAX_BODY: usize = 256 * 1024;
/// What asks for the metrics' token.
pub const TOKEN_OF: &str = "Bearer realm=\"quell_metrics\"";
/// Time-out of a request, the arrival of its body included.
const PATIENCE: Duration = Duration::from_secs(5);

/// The client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// May it change anything?
    pub may_write: bool,
    /// Its user and process; None: not known.
    pub is: Option<(u32, i32)>,
}

/// The state, shared by the requests of one thread; the loop's thread never takes this lock.
pub type SharedState = Arc<Mutex<State>>;

/// Everything that the socket answers. Each request needs an [`Extension`] of [`Peer`].
pub fn router(state: SharedState) -> Router {
    Router::new()
        .route("/v1/status", get(status))
        .route("/v1/workloads", get(workloads))
        .route("/v1/why/{workload}", get(why))
        .route("/v1/threads/{tid}", get(thread))
        .route("/v1/policies", get(policies))
        .route("/v1/histogram", post(histogram))
        .route("/v1/schema", get(schema))
        .fallback(unknown)
        .method_not_allowed_fallback(wrong_method)
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(middleware::from_fn(patience))
        .merge(lasting::router())
        .with_state(state)
}

/// Requests that a Prometheus server may make.
pub fn metrics_router(state: SharedState) -> Router {
    let text = |Shared(state): Shared<SharedState>, headers: HeaderMap| async move {
        let text = metrics::text(&locked(&state, State::status));
        let mut accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        if accepted.any(|accepted| accepted.contains("application/openmetrics-text")) {
            ([("content-type", metrics::CONTENT_TYPE)], text)
        } else {
            ([("content-type", metrics::PLAIN)], metrics::plain(&text))
        }
    };
    Router::new().route("/metrics", get(text)).layer(middleware::from_fn(patience)).with_state(state)
}

/// Answers nothing, and says no path, to those that do not show the token.
pub(super) fn with_token(router: Router, token: Option<Token>) -> Router {
    let Some(token) = token else { return router };
    let check = move |request: Request, next: Next| {
        let is_shown = token.is_in(request.headers());
        async move {
            if is_shown {
                return next.run(request).await;
            }
            let fix = "send the header `authorization: Bearer TOKEN` (Prometheus: credentials_file)";
            let refused = refuse(StatusCode::UNAUTHORIZED, "the metrics' token is missing or another one", fix);
            ([("www-authenticate", TOKEN_OF)], refused).into_response()
        }
    };
    router.fallback(unknown).layer(middleware::from_fn(check))
}

/// Runs on the state as of now.
pub(super) fn locked<T>(state: &SharedState, run: impl FnOnce(&mut State) -> T) -> T {
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
    state.refresh();
    run(&mut state)
}

async fn patience(request: Request, next: Next) -> Response {
    match tokio::time::timeout(PATIENCE, next.run(request)).await {
        Ok(response) => response,
        Err(_) => refuse(StatusCode::REQUEST_TIMEOUT, "the request did not arrive in time", "send it at once"),
    }
}

pub(super) fn json<T: Serialize>(value: &T) -> Response {
    match serde_json::to_vec(value) {
        Ok(text) => ([("content-type", "application/json")], Bytes::from(text)).into_response(),
        Err(error) => {
            refuse(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string(), "report this to Quell's maintainers")
        }
    }
}

pub(super) fn refuse(status: StatusCode, error: &str, fix: &str) -> Response {
    (status, Json(Problem { error: error.to_owned(), fix: fix.to_owned() })).into_response()
}

async fn status(Shared(state): Shared<SharedState>) -> Response {
    json(&locked(&state, State::status))
}

async fn workloads(Shared(state): Shared<SharedState>) -> Response {
    json(&locked(&state, State::status).workloads)
}

async fn why(Shared(state): Shared<SharedState>, Path(workload): Path<String>) -> Response {
    match locked(&state, |state| state.why(&workload)) {
        Some(why) => json(&why),
        None => no_workload(&workload, &locked(&state, names)),
    }
}

async fn thread(Shared(state): Shared<SharedState>, Path(asked): Path<String>) -> Response {
    let found = asked.parse().ok().and_then(|tid| locked(&state, |state| state.thread(tid)));
    match found {
        Some(thread) => json(&thread),
        None => {
            let shown: String = asked.chars().take(100).collect();
            let error = format!("no workload has a thread '{shown}'");
            refuse(StatusCode::NOT_FOUND, &error, "ask by a thread's number; see GET /v1/status for the workloads")
        }
    }
}

/// The known workloads: those of the configuration first.
fn names(state: &mut State) -> Vec<String> {
    let status = state.status();
    let mut names: Vec<String> = status.configured.into_iter().map(|workload| workload.name).collect();
    let others = status.workloads.into_iter().map(|workload| workload.name);
    names.extend(others.filter(|name| !names.contains(name)).collect::<Vec<_>>());
    names
}

fn no_workload(asked: &str, names: &[String]) -> Response {
    let shown: String = asked.chars().take(100).collect();
    let fix = match names {
        [] => "the agent's configuration has none; add one".to_owned(),
        names => format!("there are: {}", names[..names.len().min(20)].join(", ")),
    };
    refuse(StatusCode::NOT_FOUND, &format!("there is no workload '{shown}'"), &fix)
}

async fn policies(Shared(state): Shared<SharedState>) -> Response {
    json(&locked(&state, State::policies))
}

async fn histogram(
    Shared(state): Shared<SharedState>,
    Extension(peer): Extension<Peer>,
    body: Result<Bytes, axum::extract::rejection::BytesRejection>,
) -> Response {
    if !peer.may_write {
        return refuse(StatusCode::FORBIDDEN, "only root and the agent's own user may write", "post it as root");
    }
    let bad = |error: &str| {
        let fix = "see the type Histogram in GET /v1/schema";
        refuse(StatusCode::BAD_REQUEST, error, fix)
    };
    let body = match body {
        Ok(body) => body,
        Err(rejection) if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE => {
            let fix = format!("merge buckets: {MAX_BUCKETS} in {MAX_BODY} bytes at most");
            return refuse(StatusCode::PAYLOAD_TOO_LARGE, "the histogram is too large", &fix);
        }
        Err(rejection) => return bad(&rejection.to_string()),
    };
    let histogram: Histogram = match serde_json::from_slice(&body) {
        Ok(histogram) => histogram,
        Err(error) => return bad(&error.to_string()),
    };
    match locked(&state, |state| state.post(clock::now(), &histogram)) {
        Ok(accepted) => json(&accepted),
        Err(Rejected::Unknown) => match locked(&state, |state| state.absent(&histogram.workload)) {
            Some(absent) => {
                let error = format!("workload '{}' is not attached", absent.name);
                let fix = absent.why.unwrap_or_else(|| "post when it is; see GET /v1/why/WORKLOAD".to_owned());
                refuse(StatusCode::CONFLICT, &error, &fix)
            }
            None => no_workload(&histogram.workload, &locked(&state, names)),
        },
        Err(Rejected::Senseless(why)) => bad(&why),
        Err(Rejected::Busy) => {
            refuse(StatusCode::SERVICE_UNAVAILABLE, "histograms come faster than the agent decides", "post less often")
        }
    }
}

async fn schema() -> Response {
    json(&schemas())
}

/// The JSON schema of every answer and request, by path.
#[must_use]
pub fn schemas() -> serde_json::Value {
    serde_json::json!({
        "version": 1,
        "GET /v1/status": schemars::schema_for!(wire::Status),
        "GET /v1/workloads": schemars::schema_for!(Vec<wire::Workload>),
        "GET /v1/why/{workload}": schemars::schema_for!(wire::Why),
        "GET /v1/threads/{tid}": schemars::schema_for!(wire::Thread),
        "GET /v1/policies": schemars::schema_for!(Vec<wire::Policy>),
        "POST /v1/histogram": {
            "request": schemars::schema_for!(Histogram),
            "answer": schemars::schema_for!(wire::Accepted),
        },
        "POST /v1/control": {
            "request": schemars::schema_for!(wire::Control),
            "answer": schemars::schema_for!(wire::Controlled),
            "answer to protect-while-connected and resize": schemars::schema_for!(wire::Protected),
        },
        "GET /v1/verify": schemars::schema_for!(wire::Verified),
        "errors": schemars::schema_for!(Problem),
    })
}

async fn unknown(request: Request) -> Response {
    let path: String = request.uri().path().chars().take(100).collect();
    refuse(StatusCode::NOT_FOUND, &format!("there is no '{path}'"), "see GET /v1/schema for all paths")
}

pub(super) async fn wrong_method() -> Response {
    refuse(StatusCode::METHOD_NOT_ALLOWED, "this path does not accept this method", "see GET /v1/schema")
}

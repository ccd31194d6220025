//! Any request at the API's router, in process: always an answer, never a panic, memory within bounds.
#![no_main]

use std::sync::{Arc, LazyLock, Mutex};

use axum::body::Body;
use axum::http::{Method, Request};
use axum::{Extension, Router};
use http_body_util::BodyExt;
use libfuzzer_sys::fuzz_target;
use quell_agent::api::router::{Peer, router};
use quell_agent::api::{About, Feed, state};
use quell_agent::watch::{Watch, watch};
use quell_agent::stack::Witness;
use quell_model::{Class, CpuCount, Slo, Topology, View, Workload};
use tower::ServiceExt;

struct Bench {
    router: Router,
    feed: Mutex<Feed>,
    _watch: Mutex<Watch>,
    runtime: tokio::runtime::Runtime,
}

static BENCH: LazyLock<Bench> = LazyLock::new(|| {
    let mut view = View::new(Topology::synthetic(1, 1, 2, 1).into());
    let mut db = Workload::new("db", Class::LatencyCritical, CpuCount::whole(1));
    db.slo = Some(Slo { quantile: 0.99, bound: quell_model::Nanos(1) });
    view.workloads.spec = vec![Some(db.into()), None];
    let (mut watch, watched) = watch(&view, &[]);
    watch.turned(&view, &[]);
    let (state, feed) = state(About::default(), watched);
    let router = router(Arc::new(Mutex::new(state)));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    Bench { router, feed: Mutex::new(feed), _watch: Mutex::new(watch), runtime }
});

// First byte: method and peer; then the path up to a line's end; then the body.
fuzz_target!(|bytes: &[u8]| {
    let Some((first, rest)) = bytes.split_first() else { return };
    let cut = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
    let (path, body) = rest.split_at(cut);
    let Ok(path) = std::str::from_utf8(path) else { return };
    let method = [Method::GET, Method::POST, Method::PUT, Method::DELETE][usize::from(first & 3)].clone();
    let known = ["/v1/status", "/v1/workloads", "/v1/why/", "/v1/policies", "/v1/histogram", "/v1/schema", "", ""];
    let path = format!("{}{path}", known[usize::from(first >> 2 & 7)]);
    let body = Body::from(body.get(1..).unwrap_or_default().to_vec());
    let Ok(request) = Request::builder().method(method).uri(path).body(body) else { return };
    let router = BENCH.router.clone().layer(Extension(Peer { may_write: first & 64 == 0 }));
    BENCH.runtime.block_on(async {
        let response = router.oneshot(request).await.unwrap();
        assert!(!response.status().is_server_error() || response.status() == 503, "{}", response.status());
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert!(body.len() < 1 << 20);
    });
    BENCH.feed.lock().unwrap().drain().for_each(drop);
});

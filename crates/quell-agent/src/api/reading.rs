//! The socket of another program of Quell's that has something to read and takes nothing: the same file, bounds and form of
//! answers as the agent's.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use serde_json::Value;

use super::token::Token;
use super::{Api, router, serve, socket};
use crate::AgentError;
use crate::wire::Problem;

/// Where Prometheus reads.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// An address, of the loopback interface unless there is a token.
    pub listen: SocketAddr,
    /// The file of the token that is to be shown there.
    pub token: Option<PathBuf>,
}

/// Metrics with their text.
type Text<'a> = (&'a Metrics, Box<dyn Fn() -> String + Send + Sync>);

impl Api {
    /// Answers requests to read a path such as `/v1/status` from now on: with what `answer` gives, or that there is no such
    /// thing; `/metrics` at the metrics' address with their text. Both are called on the API's own thread.
    ///
    /// # Errors
    /// If it cannot listen there, with the fix.
    pub fn reading(
        path: &Path,
        metrics: Option<Text<'_>>,
        answer: impl Fn(&str) -> Option<Value> + Send + Sync + 'static,
    ) -> Result<Api, AgentError> {
        let socket = socket::Socket::bind(path, None)?;
        let answer = Arc::new(answer);
        let read = move |method: Method, uri: Uri| {
            let answer = Arc::clone(&answer);
            async move { answered(&method, &uri, &*answer) }
        };
        let scraped = match metrics {
            None => None,
            Some((metrics, text)) => {
                let token = metrics.token.as_deref().map(Token::read).transpose()?;
                let listener = serve::bind_metrics(metrics.listen, token.is_some())?;
                let text: Arc<dyn Fn() -> String + Send + Sync> = text.into();
                let routes = Router::new().route("/metrics", axum::routing::get(move || async move { text() }));
                Some((listener, router::with_token(routes, token)))
            }
        };
        Api::on_a_thread(async move {
            if let Some((listener, routes)) = scraped
                && let Ok(listener) = tokio::net::TcpListener::from_std(listener)
            {
                tokio::spawn(serve::serve_metrics(listener, routes));
            }
            match socket.listener.try_clone().and_then(tokio::net::UnixListener::from_std) {
                Ok(listener) => drop(tokio::spawn(serve::serve(listener, Router::new().fallback(read)))),
                Err(error) => tracing::error!("the API cannot listen: {error}"),
            }
            socket
        })
    }
}

fn answered(method: &Method, uri: &Uri, answer: &dyn Fn(&str) -> Option<Value>) -> Response {
    let refused = |status: StatusCode, error: String, fix: &str| {
        (status, axum::Json(Problem { error, fix: fix.to_owned() })).into_response()
    };
    if method != Method::GET {
        return refused(StatusCode::METHOD_NOT_ALLOWED, format!("{method} is not a read"), "use GET");
    }
    match answer(uri.path()) {
        Some(value) => axum::Json(value).into_response(),
        None => refused(StatusCode::NOT_FOUND, format!("there is no {}", uri.path()), "read /v1/status first"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Client;
    use super::*;

    #[test]
    fn what_is_there_is_read_and_the_file_goes_at_the_end() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("api.sock");
        let api = Api::reading(&path, None, |path| (path == "/v1/status").then(|| 7.into())).unwrap();
        let client = Client::new(&path).unwrap();
        assert_eq!(client.get::<u32>("/v1/status").unwrap(), 7);
        let none = client.get::<u32>("/v1/other").unwrap_err().to_string();
        assert!(none.contains("there is no /v1/other"), "{none}");
        let change = client.post::<_, u32>("/v1/status", &1).unwrap_err().to_string();
        assert!(change.contains("use GET"), "{change}");
        drop(api);
        assert!(!path.exists());
    }
}

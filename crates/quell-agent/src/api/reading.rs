//! The socket of another program of Quell's that has something to read and takes nothing: the same file, bounds and form of
//! answers as the agent's.

use std::path::Path;
use std::sync::Arc;

use axum::Router;
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use serde_json::Value;

use super::{Api, serve, socket};
use crate::AgentError;
use crate::wire::Problem;

impl Api {
    /// Answers requests to read a path such as `/v1/status` from now on: with what `answer` gives, or that there is no such
    /// thing. It is called on the API's own thread.
    ///
    /// # Errors
    /// If it cannot listen there, with the fix.
    pub fn reading(
        path: &Path,
        answer: impl Fn(&str) -> Option<Value> + Send + Sync + 'static,
    ) -> Result<Api, AgentError> {
        let socket = socket::Socket::bind(path, None)?;
        let answer = Arc::new(answer);
        let read = move |method: Method, uri: Uri| {
            let answer = Arc::clone(&answer);
            async move { answered(&method, &uri, &*answer) }
        };
        Api::on_a_thread(async move {
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
        let api = Api::reading(&path, |path| (path == "/v1/status").then(|| 7.into())).unwrap();
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

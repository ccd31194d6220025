//! Asking a running agent.

use std::path::Path;
use std::time::Duration;

use axum::body::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;

use crate::AgentError;
use crate::lock;
use crate::wire::{Command, Control, Controlled, Problem, Verified};

/// An answer is this long at most.
pub(super) const LONGEST_ANSWER: usize = 64 * 1024 * 1024;
/// An agent that lives answers within this time.
const PATIENCE: Duration = Duration::from_secs(10);

/// An agent that puts everything back, or reads it, answers within this time.
pub(super) const LONG_PATIENCE: Duration = Duration::from_secs(90);

/// A running agent's socket.
pub struct Client {
    socket: std::path::PathBuf,
    runtime: tokio::runtime::Runtime,
}

pub(super) type Driver = tokio::task::JoinHandle<Result<(), hyper::Error>>;
pub(super) type Answer = hyper::Response<hyper::body::Incoming>;

impl Client {
    /// For the agent behind this socket; connects only when asked.
    ///
    /// # Errors
    /// If the system gives no event queue.
    pub fn new(socket: &Path) -> Result<Client, AgentError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|source| AgentError::System { operation: "start the client", source })?;
        Ok(Client { socket: socket.to_owned(), runtime })
    }

    /// Gets a path such as `/v1/status`.
    ///
    /// # Errors
    /// If no agent answers, or it refuses; the text has the fix.
    pub fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, AgentError> {
        self.ask(Method::GET, path, Bytes::new())
    }

    /// Posts to a path such as `/v1/histogram`.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn post<B: Serialize, T: DeserializeOwned>(&self, path: &str, body: &B) -> Result<T, AgentError> {
        let body = serde_json::to_vec(body).map_err(|error| self.odd(error.to_string()))?;
        self.ask(Method::POST, path, body.into())
    }

    /// Makes a control call.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn control(&self, command: Command) -> Result<Controlled, AgentError> {
        let body = serde_json::to_vec(&Control::new(command)).map_err(|error| self.odd(error.to_string()))?;
        self.ask_for(LONG_PATIENCE, Method::POST, "/v1/control", body.into())
    }

    /// Asks whether all settings stand.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn verify(&self) -> Result<Verified, AgentError> {
        self.ask_for(LONG_PATIENCE, Method::GET, "/v1/verify", Bytes::new())
    }

    fn ask<T: DeserializeOwned>(&self, method: Method, path: &str, body: Bytes) -> Result<T, AgentError> {
        self.ask_for(PATIENCE, method, path, body)
    }

    pub(super) fn ask_for<T: DeserializeOwned>(
        &self,
        patience: Duration,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<T, AgentError> {
        let answer = async { tokio::time::timeout(patience, self.exchange(method, path, body)).await };
        let (status, body) = self.runtime.block_on(answer).unwrap_or_else(|_| Err(self.late(patience)))?;
        self.understand(status, &body)
    }

    /// Runs this to its end.
    pub(super) fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    pub(super) fn understand<T: DeserializeOwned>(&self, status: StatusCode, body: &[u8]) -> Result<T, AgentError> {
        if status == StatusCode::OK {
            return serde_json::from_slice(body).map_err(|error| self.odd(error.to_string()));
        }
        match serde_json::from_slice(body) {
            Ok(Problem { error, fix }) => {
                Err(AgentError::Refused { error, fix, for_now: status == StatusCode::SERVICE_UNAVAILABLE })
            }
            Err(_) => Err(self.odd(format!("status {status}"))),
        }
    }

    async fn exchange(&self, method: Method, path: &str, body: Bytes) -> Result<(StatusCode, Bytes), AgentError> {
        let (driver, response) = self.request(method, path, body).await?;
        let status = response.status();
        let body = Limited::new(response.into_body(), LONGEST_ANSWER).collect().await;
        let body = body.map_err(|error| self.cut_short(error.as_ref()))?.to_bytes();
        driver.abort();
        Ok((status, body))
    }

    pub(super) async fn request(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<(Driver, Answer), AgentError> {
        let stream = UnixStream::connect(&self.socket).await.map_err(|cause| AgentError::NoAgent {
            fix: match cause.kind() {
                std::io::ErrorKind::PermissionDenied => "run this as root, or join the socket's group",
                _ if self.agent_lives() => {
                    "an agent runs: it begins anew, is stopped, or its socket was removed; if this lasts, restart it"
                }
                _ => "start one with `quell run --config FILE`, protect one service without by `quell protect NAME`, or name its socket with --socket",
            },
            socket: self.socket.clone(),
            cause,
        })?;
        let broken = |error: hyper::Error| self.broken(&error);
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
        let driver = tokio::spawn(connection);
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "quell")
            .header("content-type", "application/json")
            .body(Full::new(body))
            .map_err(|error| self.odd(error.to_string()))?;
        let response = sender.send_request(request).await.map_err(broken)?;
        Ok((driver, response))
    }

    /// The connection ended: in time, or with something that is no HTTP.
    pub(super) fn broken(&self, error: &hyper::Error) -> AgentError {
        match error.is_parse() {
            true => self.odd(error.to_string()),
            false => self.no_answer("closed the connection without an answer: it ends, or begins anew".into()),
        }
    }

    /// An answer that did not come whole, or is too long.
    fn cut_short(&self, error: &(dyn std::error::Error + 'static)) -> AgentError {
        error.downcast_ref().map_or_else(|| self.odd(error.to_string()), |error| self.broken(error))
    }

    /// Is there a living agent with this run directory?
    fn agent_lives(&self) -> bool {
        let is_usual = self.socket.file_name().is_some_and(|name| name == "api.sock");
        is_usual && lock::is_watched(&self.socket.with_file_name("agent.lock"), Path::new("/proc"))
    }

    pub(super) fn late(&self, patience: Duration) -> AgentError {
        self.no_answer(format!("gave no answer within {} s: it is stopped, or hangs", patience.as_secs()))
    }

    fn no_answer(&self, what: String) -> AgentError {
        AgentError::NoAnswer { socket: self.socket.clone(), what }
    }

    pub(super) fn odd(&self, answer: String) -> AgentError {
        AgentError::OddAnswer { socket: self.socket.clone(), answer }
    }
}

/// A name as part of a path: everything but plain letters, digits and `-_.~` is percent-encoded (RFC 3986 §2.3).
#[must_use]
pub fn path_segment(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    name.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

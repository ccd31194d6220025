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
use crate::wire::{Command, Control, Controlled, Problem, Verified};

/// An answer is this long at most.
const LONGEST_ANSWER: usize = 64 * 1024 * 1024;
/// An agent that lives answers within this time.
const PATIENCE: Duration = Duration::from_secs(10);

/// An agent that puts everything back, or reads it, answers within this time.
const LONG_PATIENCE: Duration = Duration::from_secs(90);

/// A running agent's socket.
pub struct Client {
    socket: std::path::PathBuf,
    runtime: tokio::runtime::Runtime,
}

type Driver = tokio::task::JoinHandle<Result<(), hyper::Error>>;
type Answer = hyper::Response<hyper::body::Incoming>;

/// A lease on the agent; it ends by [`Client::release`], and with this process.
#[derive(Debug)]
pub struct Leased {
    /// The agent's answer.
    pub answer: Controlled,
    body: hyper::body::Incoming,
    driver: Driver,
}

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

    fn ask_for<T: DeserializeOwned>(
        &self,
        patience: Duration,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<T, AgentError> {
        let answer = async { tokio::time::timeout(patience, self.exchange(method, path, body)).await };
        let (status, body) = self
            .runtime
            .block_on(answer)
            .unwrap_or_else(|_| Err(self.odd(format!("no answer within {} s", patience.as_secs()))))?;
        self.understand(status, &body)
    }

    /// Switches the agent off for as long as the returned value lives; the lease ends with this process, too, however that
    /// ends.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn lease(&self) -> Result<Leased, AgentError> {
        let body = serde_json::to_vec(&Control::new(Command::OffWhileConnected));
        let body = body.map_err(|error| self.odd(error.to_string()))?;
        let begin = async {
            let (driver, response) = self.request(Method::POST, "/v1/control", body.into()).await?;
            let (status, mut body) = (response.status(), response.into_body());
            let mut text = Vec::new();
            while !text.ends_with(b"\n") && text.len() < LONGEST_ANSWER {
                let Some(frame) = body.frame().await else { break };
                text.extend(frame.map_err(|error| self.odd(error.to_string()))?.into_data().unwrap_or_default());
            }
            Ok((driver, status, body, text))
        };
        let begun = self.runtime.block_on(async { tokio::time::timeout(LONG_PATIENCE, begin).await });
        let late = || Err(self.odd(format!("no answer within {} s", LONG_PATIENCE.as_secs())));
        let (driver, status, body, text) = begun.unwrap_or_else(|_| late())?;
        let answer = self.understand(status, &text)?;
        Ok(Leased { answer, body, driver })
    }

    /// Waits for at most this time; has the agent ended the lease by then? It does so only at its own end.
    pub fn is_over_within(&self, leased: &mut Leased, time: Duration) -> bool {
        let over = async { while let Some(Ok(_)) = leased.body.frame().await {} };
        self.runtime.block_on(async { tokio::time::timeout(time, over).await }).is_ok()
    }

    /// Ends a lease.
    pub fn release(&self, leased: Leased) {
        let Leased { driver, body, .. } = leased;
        drop(body);
        driver.abort();
        // Its connection is dropped as this runs.
        let _ = self.runtime.block_on(driver);
    }

    fn understand<T: DeserializeOwned>(&self, status: StatusCode, body: &[u8]) -> Result<T, AgentError> {
        if status == StatusCode::OK {
            return serde_json::from_slice(body).map_err(|error| self.odd(error.to_string()));
        }
        match serde_json::from_slice(body) {
            Ok(Problem { error, fix }) => Err(AgentError::Refused { error, fix }),
            Err(_) => Err(self.odd(format!("status {status}"))),
        }
    }

    async fn exchange(&self, method: Method, path: &str, body: Bytes) -> Result<(StatusCode, Bytes), AgentError> {
        let (driver, response) = self.request(method, path, body).await?;
        let status = response.status();
        let body = Limited::new(response.into_body(), LONGEST_ANSWER).collect().await;
        let body = body.map_err(|error| self.odd(error.to_string()))?.to_bytes();
        driver.abort();
        Ok((status, body))
    }

    async fn request(&self, method: Method, path: &str, body: Bytes) -> Result<(Driver, Answer), AgentError> {
        let stream = UnixStream::connect(&self.socket).await.map_err(|cause| AgentError::NoAgent {
            fix: match cause.kind() {
                std::io::ErrorKind::PermissionDenied => "run this as root, or join the socket's group",
                _ => "start one with `quell run --config FILE`, or name its socket with --socket",
            },
            socket: self.socket.clone(),
            cause,
        })?;
        let broken = |error: hyper::Error| self.odd(error.to_string());
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

    fn odd(&self, answer: String) -> AgentError {
        AgentError::OddAnswer { socket: self.socket.clone(), answer }
    }
}

/// A name as part of a path: everything but plain letters, digits and `-_.~` is percent-encoded (RFC 3986 §2.3).
#[must_use]
pub fn path_segment(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    name.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

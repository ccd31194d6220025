//! The folder of a cluster under control: the socket at which its controller answers, and what it needs on disk.

use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use quell_agent::AgentError;
use quell_agent::api::{Api, Client, Metrics};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::ClusterError;
use crate::live::{Board, Status};
use crate::report::WorkloadReport;

/// The folder.
#[derive(Clone, Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// This one, or `quell-cluster` in `$XDG_RUNTIME_DIR`, else in `/run`.
    #[must_use]
    pub fn new(asked: Option<&Path>) -> Folder {
        let default = || {
            let runtime = std::env::var_os("XDG_RUNTIME_DIR").map_or_else(|| PathBuf::from("/run"), PathBuf::from);
            runtime.join("quell-cluster")
        };
        Folder(asked.map_or_else(default, Path::to_owned))
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Makes it, for its owner alone.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn make(&self) -> Result<(), ClusterError> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.0).map_err(|error| ClusterError::Live {
            what: self.0.display().to_string(),
            why: format!("cannot make it: {error}; name another folder with --dir"),
        })
    }

    fn socket(&self) -> PathBuf {
        self.0.join("api.sock")
    }

    /// Answers there what stands on the board, until the value is dropped.
    ///
    /// # Errors
    /// If the socket cannot be had.
    pub fn serve(&self, board: Board) -> Result<Api, AgentError> {
        Api::reading(&self.socket(), None, answers(board))
    }

    /// The same, and metrics for Prometheus there.
    ///
    /// # Errors
    /// If the socket or the address cannot be had.
    pub fn serve_with_metrics(&self, board: Board, metrics: &Metrics) -> Result<Api, AgentError> {
        let text = board.clone();
        let metrics = (metrics, Box::new(move || text.status().metrics()) as Box<dyn Fn() -> String + Send + Sync>);
        Api::reading(&self.socket(), Some(metrics), answers(board))
    }

    /// The controller's status.
    ///
    /// # Errors
    /// If no controller answers.
    pub fn status(&self) -> Result<Status, ClusterError> {
        self.get("/v1/status")
    }

    /// What the controller knows of a workload, by its number or its `NAMESPACE/NAME`.
    ///
    /// # Errors
    /// If no controller answers, or there is no such workload.
    pub fn workload(&self, name: &str) -> Result<WorkloadReport, ClusterError> {
        self.get(&format!("/v1/workloads/{name}"))
    }

    fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClusterError> {
        let socket = self.socket();
        let answer = Client::new(&socket).and_then(|client| client.get(path));
        answer.map_err(|error| match error {
            AgentError::NoAgent { cause, .. } => ClusterError::Live {
                what: format!("no cluster answers at {}", socket.display()),
                why: format!(
                    "{cause}; start one with `quell-lab cluster live SCENARIO` or `quell-cluster run`, or name its folder with --dir"
                ),
            },
            other => ClusterError::Live { what: socket.display().to_string(), why: other.to_string() },
        })
    }
}

fn answers(board: Board) -> impl Fn(&str) -> Option<Value> + Send + Sync + 'static {
    move |path: &str| match path.strip_prefix("/v1/")? {
        "status" => serde_json::to_value(board.status()).ok(),
        path => {
            let id = board.named(path.strip_prefix("workloads/")?)?;
            serde_json::to_value(board.workload(id)?).ok()
        }
    }
}

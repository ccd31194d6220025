//! Leases of a client: they end with it, and a leased workload is asked for again when the agent's worker has ended.

use std::time::{Duration, Instant};

use axum::body::Bytes;
use http_body_util::BodyExt as _;
use hyper::{Method, StatusCode};
use serde::de::DeserializeOwned;

use super::client::{Client, Driver, LONG_PATIENCE, LONGEST_ANSWER};
use crate::AgentError;
use crate::wire::{Command, Control, Controlled, Protect, Protected, Prove, Resize, Turn};

/// A workload is asked for again for this long: a worker that died is started again within some seconds.
const ASKED_AGAIN: Duration = Duration::from_secs(60);
/// Interval of asking.
const EVERY: Duration = Duration::from_millis(250);

/// A lease on the agent; it ends by [`Client::release`], and with this process.
#[derive(Debug)]
pub struct Leased {
    /// The agent's answer.
    pub answer: Controlled,
    held: Held,
}

/// A workload that the agent manages for this process; it ends by [`Client::unprotect`], and with this process.
#[derive(Debug)]
pub struct Leasing {
    /// The agent's latest answer.
    pub answer: Protected,
    asked: Protect,
    held: Option<Held>,
    /// When the agent was found to have ended it.
    lost: Option<Instant>,
}

/// What became of a leased workload since the last look at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Nothing: it is managed, or is still being asked for.
    Stands,
    /// The agent's worker has ended, and everything was put back; it is asked for again from now on.
    Lost,
    /// The agent manages it again.
    Again,
}

/// A connection that lasts.
#[derive(Debug)]
struct Held {
    body: hyper::body::Incoming,
    driver: Driver,
}

impl Client {
    /// Switches the agent off for as long as the returned value lives; the lease ends with this process, too, however that
    /// ends.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn lease(&self) -> Result<Leased, AgentError> {
        let (answer, held) = self.hold(Command::OffWhileConnected)?;
        Ok(Leased { answer, held })
    }

    /// Begins an experiment, which lasts as a lease does.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn prove(&self, prove: Prove) -> Result<Leased, AgentError> {
        let (answer, held) = self.hold(Command::ProveWhileConnected(prove))?;
        Ok(Leased { answer, held })
    }

    /// The next turn of this process's experiment; returns when it is in force.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn turn(&self, on: bool) -> Result<Controlled, AgentError> {
        self.control(Command::Turn(Turn { on }))
    }

    /// Waits for at most this time; has the agent ended the lease by then? It does so only at its own end.
    pub fn is_over_within(&self, leased: &mut Leased, time: Duration) -> bool {
        self.ends_within(&mut leased.held, time)
    }

    /// Ends a lease.
    pub fn release(&self, leased: Leased) {
        self.end(leased.held);
    }

    /// Has the agent manage a workload for as long as the returned value lives; it ends with this process, too, however that
    /// ends. Returns when its first settings are in force.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn protect(&self, protect: Protect) -> Result<Leasing, AgentError> {
        let (answer, held) = self.hold(Command::ProtectWhileConnected(protect.clone()))?;
        Ok(Leasing { answer, asked: protect, held: Some(held), lost: None })
    }

    /// Waits for at most this time, or until something has changed. An agent that has ended is asked again, at each call.
    ///
    /// # Errors
    /// If it refuses then, or no agent has answered for a minute.
    pub fn watch(&self, leasing: &mut Leasing, time: Duration) -> Result<Standing, AgentError> {
        if let Some(held) = &mut leasing.held {
            if !self.ends_within(held, time) {
                return Ok(Standing::Stands);
            }
            (leasing.held, leasing.lost) = (None, Some(Instant::now()));
            return Ok(Standing::Lost);
        }
        std::thread::sleep(time.min(EVERY));
        match self.hold(Command::ProtectWhileConnected(leasing.asked.clone())) {
            Ok((answer, held)) => {
                (leasing.answer, leasing.held, leasing.lost) = (answer, Some(held), None);
                Ok(Standing::Again)
            }
            Err(error) if error.is_no_answer() && leasing.lost.is_none_or(|lost| lost.elapsed() < ASKED_AGAIN) => {
                Ok(Standing::Stands)
            }
            Err(error) => Err(error),
        }
    }

    /// Gives a leased workload another number of CPUs.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn resize(&self, leasing: &mut Leasing, cpus: f64) -> Result<(), AgentError> {
        let resize = Resize { workload: leasing.asked.name.clone(), cpus };
        let body = serde_json::to_vec(&Control::new(Command::Resize(resize)));
        let body = body.map_err(|error| self.odd(error.to_string()))?;
        leasing.answer = self.ask_for(LONG_PATIENCE, Method::POST, "/v1/control", body.into())?;
        leasing.asked.cpus = cpus;
        Ok(())
    }

    /// Ends the lease of a workload: everything of it is put back.
    pub fn unprotect(&self, leasing: Leasing) {
        leasing.held.into_iter().for_each(|held| self.end(held));
    }

    fn hold<T: DeserializeOwned>(&self, command: Command) -> Result<(T, Held), AgentError> {
        let body = serde_json::to_vec(&Control::new(command)).map_err(|error| self.odd(error.to_string()))?;
        let begin = async {
            let (driver, response) = self.request(Method::POST, "/v1/control", Bytes::from(body)).await?;
            let (status, mut body) = (response.status(), response.into_body());
            let mut text = Vec::new();
            while !text.ends_with(b"\n") && text.len() < LONGEST_ANSWER {
                let Some(frame) = body.frame().await else { break };
                text.extend(frame.map_err(|error| self.broken(&error))?.into_data().unwrap_or_default());
            }
            Ok((driver, status, body, text))
        };
        let begun = self.block_on(async { tokio::time::timeout(LONG_PATIENCE, begin).await });
        let late = || Err(self.late(LONG_PATIENCE));
        let (driver, status, body, text): (Driver, StatusCode, _, Vec<u8>) = begun.unwrap_or_else(|_| late())?;
        Ok((self.understand(status, &text)?, Held { body, driver }))
    }

    fn ends_within(&self, held: &mut Held, time: Duration) -> bool {
        let over = async { while let Some(Ok(_)) = held.body.frame().await {} };
        self.block_on(async { tokio::time::timeout(time, over).await }).is_ok()
    }

    fn end(&self, held: Held) {
        let Held { driver, body } = held;
        drop(body);
        driver.abort();
        // Its connection is dropped as this runs.
        let _ = self.block_on(driver);
    }
}

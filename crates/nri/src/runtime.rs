//! Calls to the runtime that do not answer one of its requests.

use std::sync::Arc;
use std::time::Duration;

use rustix::net::sockopt::socket_peercred;

use crate::error::Error;
use crate::link::Link;
use crate::message::ContainerUpdate;
use crate::message::service::{UpdateContainers, UpdatedContainers};

/// The runtime at the other end of a connection. Clones are cheap, and may be used from any thread but the one that handles requests.
#[derive(Clone, Debug)]
pub struct Runtime(Arc<Link>);

impl Runtime {
    pub(crate) fn new(link: Arc<Link>) -> Runtime {
        Runtime(link)
    }

    /// Updates containers now. Answers with those that the runtime failed to update; fails when there is no answer within `limit`.
    ///
    /// A runtime with NRI older than 0.12.1 can deadlock when this meets a request: there return updates with answers only.
    pub fn update_containers(
        &self,
        update: Vec<ContainerUpdate>,
        limit: Duration,
    ) -> Result<Vec<ContainerUpdate>, Error> {
        let updated: UpdatedContainers = self.0.call("UpdateContainers", &UpdateContainers { update }, limit)?;
        Ok(updated.failed)
    }

    /// Closes the connection: [`Stub::run`](crate::Stub::run) returns, calls that wait fail.
    pub fn close(&self) {
        self.0.close();
    }

    /// The process that listens on the socket, by the kernel's word; `None` if it cannot be asked.
    pub fn peer(&self) -> Option<Peer> {
        let peer = socket_peercred(self.0.socket()).ok()?;
        Some(Peer { pid: peer.pid.as_raw_nonzero().get(), uid: peer.uid.as_raw() })
    }
}

/// A process at the other end of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its number when it began to listen.
    pub pid: i32,
    /// Its user.
    pub uid: u32,
}

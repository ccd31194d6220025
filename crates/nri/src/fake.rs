//! A runtime for tests of plug-ins: it listens, and calls what connects.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use prost::Message;

use crate::message::service::{
    About, Created, Empty, RegisterPlugin, Request, Response, Synchronize, UpdateContainer, Updated,
};
use crate::message::{Configuration, Container, ContainerUpdate, LinuxResources, PodSandbox};
use crate::plugin::Creation;
use crate::wire::frame::{PLUGIN, REQUEST, RESPONSE, RUNTIME};
use crate::wire::{Decoder, Frame};

/// Longest wait for a plug-in.
const LIMIT: Duration = Duration::from_secs(60);

/// A runtime that listens for plug-ins.
#[derive(Debug)]
pub struct FakeRuntime(UnixListener);

/// A plug-in that has registered.
#[derive(Debug)]
pub struct FakeConnection {
    socket: UnixStream,
    decoder: Decoder,
    arrived: VecDeque<Frame>,
    stream: u32,
    /// Name and index of the plug-in.
    pub plugin: (String, String),
}

impl FakeRuntime {
    /// Listens there.
    pub fn listen(path: impl AsRef<Path>) -> io::Result<FakeRuntime> {
        UnixListener::bind(path).map(FakeRuntime)
    }

    /// The next plug-in, registered, configured and with all that there is.
    pub fn accept(&self, pods: &[PodSandbox], containers: &[Container]) -> io::Result<FakeConnection> {
        let (socket, _) = self.0.accept()?;
        socket.set_read_timeout(Some(LIMIT))?;
        let mut connection = FakeConnection {
            socket,
            decoder: Decoder::default(),
            arrived: VecDeque::new(),
            stream: 1,
            plugin: Default::default(),
        };
        let call = connection.next()?;
        let request = Request::decode(&*call.body).map_err(io::Error::other)?;
        let register = RegisterPlugin::decode(&*request.payload).map_err(io::Error::other)?;
        connection.plugin = (register.name, register.index);
        let response = Response { status: None, payload: Empty {}.encode_to_vec() };
        connection.send(RUNTIME, call.stream, RESPONSE, response.encode_to_vec())?;
        let configuration = Configuration {
            runtime_name: "fake".into(),
            runtime_version: "v1".into(),
            nri_version: crate::NRI_VERSION.into(),
            ..Configuration::default()
        };
        let failed = |why: String| io::Error::other(why);
        connection.call("Configure", &configuration).map_err(failed)?;
        let all = Synchronize { pods: pods.to_vec(), containers: containers.to_vec(), more: false };
        connection.call("Synchronize", &all).map_err(failed)?;
        Ok(connection)
    }
}

impl FakeConnection {
    /// An event that has no answer of its own, by NRI's name: `RunPodSandbox`, `StartContainer`, `RemoveContainer` …
    pub fn event(&mut self, name: &str, pod: &PodSandbox, container: Option<&Container>) -> Result<(), String> {
        self.call(name, &About { pod: Some(pod.clone()), container: container.cloned() }).map(|_| ())
    }

    /// A container is being created: what the plug-in makes of it, or its refusal.
    pub fn create(&mut self, pod: &PodSandbox, container: &Container) -> Result<Creation, String> {
        let about = About { pod: Some(pod.clone()), container: Some(container.clone()) };
        let payload = self.call("CreateContainer", &about)?;
        let Created { adjust, update } = Created::decode(&*payload).map_err(|error| error.to_string())?;
        Ok(Creation { adjust: adjust.unwrap_or_default(), update })
    }

    /// A container is being updated to these resources: updates, or the plug-in's refusal.
    pub fn update(
        &mut self,
        pod: &PodSandbox,
        container: &Container,
        resources: LinuxResources,
    ) -> Result<Vec<ContainerUpdate>, String> {
        let (pod, container) = (Some(pod.clone()), Some(container.clone()));
        let payload = self.call("UpdateContainer", &UpdateContainer { pod, container, resources: Some(resources) })?;
        Updated::decode(&*payload).map(|updated| updated.update).map_err(|error| error.to_string())
    }

    fn call(&mut self, method: &str, message: &impl Message) -> Result<Vec<u8>, String> {
        self.stream += 2;
        let request = Request {
            service: "nri.pkg.api.v1alpha1.Plugin".into(),
            method: method.into(),
            payload: message.encode_to_vec(),
            timeout_nano: 2_000_000_000,
        };
        let (stream, failed) = (self.stream, |error: io::Error| error.to_string());
        self.send(PLUGIN, stream, REQUEST, request.encode_to_vec()).map_err(failed)?;
        let answer = self.next().map_err(failed)?;
        let response = Response::decode(&*answer.body).map_err(|error| error.to_string())?;
        match response.status.filter(|status| status.code != 0) {
            Some(status) => Err(status.message),
            None => Ok(response.payload),
        }
    }

    fn next(&mut self) -> io::Result<Frame> {
        let mut buffer = [0; 4096];
        loop {
            if let Some(frame) = self.arrived.pop_front() {
                return Ok(frame);
            }
            let length = self.socket.read(&mut buffer)?;
            if length == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let mut bytes = &buffer[..length];
            while let Some(frame) = self.decoder.next(&mut bytes).map_err(io::Error::other)? {
                self.arrived.push_back(frame);
            }
        }
    }

    fn send(&mut self, connection: u32, stream: u32, kind: u8, body: Vec<u8>) -> io::Result<()> {
        let frame = Frame { connection, stream, kind, flags: 0, body };
        self.socket.write_all(&frame.encode().map_err(io::Error::other)?)
    }
}

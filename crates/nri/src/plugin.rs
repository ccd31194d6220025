//! What a plug-in does.

use std::fmt;
use std::time::Duration;

use crate::events::Events;
use crate::message::{
    Configuration, Container, ContainerAdjustment, ContainerUpdate, LinuxResources, PodSandbox, Validation,
};

/// A plug-in. Each call is one request of the runtime, which waits for the answer (2 s unless configured otherwise) and shows a refusal
/// to its own caller: the kubelet makes it an event of the pod. Only subscribed events are sent.
///
/// A call that takes longer than the runtime waits is reported by [`late`](Plugin::late).
pub trait Plugin {
    /// First call after registration: says which events the plug-in is notified of. At least one: NRI reads none as all.
    fn configure(&mut self, runtime: Configuration) -> Answer<Events>;

    /// All pods and containers of the runtime, and updates to these. Called once a connection, before any event.
    fn synchronize(&mut self, pods: Vec<PodSandbox>, containers: Vec<Container>) -> Answer<Vec<ContainerUpdate>> {
        let _ = (pods, containers);
        Ok(Vec::new())
    }

    /// A pod's sandbox is being started.
    fn run_pod_sandbox(&mut self, pod: PodSandbox) -> Answer<()> {
        let _ = pod;
        Ok(())
    }

    /// A pod's resources are being changed: to this overhead, and to these resources of all its containers.
    fn update_pod_sandbox(&mut self, pod: PodSandbox, overhead: LinuxResources, sum: LinuxResources) -> Answer<()> {
        let _ = (pod, overhead, sum);
        Ok(())
    }

    /// A pod's resources were changed.
    fn post_update_pod_sandbox(&mut self, pod: PodSandbox) -> Answer<()> {
        let _ = pod;
        Ok(())
    }

    /// A pod's sandbox is being stopped.
    fn stop_pod_sandbox(&mut self, pod: PodSandbox) -> Answer<()> {
        let _ = pod;
        Ok(())
    }

    /// A pod's sandbox is being removed.
    fn remove_pod_sandbox(&mut self, pod: PodSandbox) -> Answer<()> {
        let _ = pod;
        Ok(())
    }

    /// A container is being created: its adjustment, and updates to others.
    fn create_container(&mut self, pod: PodSandbox, container: Container) -> Answer<Creation> {
        let _ = (pod, container);
        Ok(Creation::default())
    }

    /// A container was created.
    fn post_create_container(&mut self, pod: PodSandbox, container: Container) -> Answer<()> {
        let _ = (pod, container);
        Ok(())
    }

    /// A container is being started.
    fn start_container(&mut self, pod: PodSandbox, container: Container) -> Answer<()> {
        let _ = (pod, container);
        Ok(())
    }

    /// A container was started.
    fn post_start_container(&mut self, pod: PodSandbox, container: Container) -> Answer<()> {
        let _ = (pod, container);
        Ok(())
    }

    /// A container is being updated to these resources, as by a resize in place. Updates may name this container too.
    fn update_container(
        &mut self,
        pod: PodSandbox,
        container: Container,
        resources: LinuxResources,
    ) -> Answer<Vec<ContainerUpdate>> {
        let _ = (pod, container, resources);
        Ok(Vec::new())
    }

    /// A container was updated.
    fn post_update_container(&mut self, pod: PodSandbox, container: Container) -> Answer<()> {
        let _ = (pod, container);
        Ok(())
    }

    /// A container was stopped: updates to others, which may have its CPUs.
    fn stop_container(&mut self, pod: PodSandbox, container: Container) -> Answer<Vec<ContainerUpdate>> {
        let _ = (pod, container);
        Ok(Vec::new())
    }

    /// A container is being removed.
    fn remove_container(&mut self, pod: PodSandbox, container: Container) -> Answer<()> {
        let _ = (pod, container);
        Ok(())
    }

    /// Accepts or refuses what all plug-ins together make of a container that is being created.
    fn validate_container_adjustment(&mut self, validation: Validation) -> Answer<()> {
        let _ = validation;
        Ok(())
    }

    /// An event that this crate does not know, by NRI's number. (Older runtimes send known ones this way too: they become the calls above.)
    fn state_change(&mut self, event: i32, pod: Option<PodSandbox>, container: Option<Container>) -> Answer<()> {
        let _ = (event, pod, container);
        Ok(())
    }

    /// The runtime has stopped waiting for a request. What it did then is in its [`FailurePolicy`](crate::FailurePolicy): the container
    /// may run without the plug-in's adjustment, or not exist.
    fn late(&mut self, late: Late) {
        let _ = late;
    }

    /// The runtime ends.
    fn shutdown(&mut self) {}
}

/// What a plug-in answers.
pub type Answer<T> = Result<T, Refusal>;

/// A request is refused: the runtime fails it with these words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(String);

impl Refusal {
    /// With these words. They end up in the pod's events: say what is wrong, and the fix.
    pub fn new(words: impl Into<String>) -> Refusal {
        Refusal(words.into())
    }
}

impl<T: Into<String>> From<T> for Refusal {
    fn from(words: T) -> Refusal {
        Refusal(words.into())
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, to: &mut fmt::Formatter) -> fmt::Result {
        to.write_str(&self.0)
    }
}

/// The answer for a container that is being created.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Creation {
    /// Its adjustment.
    pub adjust: ContainerAdjustment,
    /// Updates to other containers.
    pub update: Vec<ContainerUpdate>,
}

impl Creation {
    /// The container runs on these CPUs, as in `0-3,8`.
    pub fn on_cpus(cpus: impl Into<String>) -> Creation {
        let adjust = ContainerAdjustment::of_resources(LinuxResources::on_cpus(cpus));
        Creation { adjust, update: Vec::new() }
    }
}

/// A request that took longer than the runtime waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Late {
    /// The request, by NRI's name.
    pub request: String,
    /// Id of the pod's sandbox; empty if the request is about none.
    pub pod: String,
    /// Id of the container; empty if the request is about none.
    pub container: String,
    /// Time from arrival until now.
    pub took: Duration,
    /// Time that the runtime waits.
    pub allowed: Duration,
    /// Whether the plug-in was called. A request that waited for too long, and whose answer would change something, is dropped; one that
    /// reports an event is handled all the same.
    pub handled: bool,
}

//! A request's bytes to a plug-in's call, and its answer to bytes. No I/O.

use std::time::Duration;

use prost::Message;

use crate::events::Event;
use crate::message::service::{
    About, Configured, Created, Empty, Request, StateChange, Status, Synchronize, Synchronized, UpdateContainer,
    UpdatePod, Updated, Validated,
};
use crate::message::{Container, FailurePolicy, PodSandbox, Validation};
use crate::plugin::{Answer, Late, Plugin, Refusal};
use crate::wire::bound;

/// The plug-in's service.
const SERVICE: &str = "nri.pkg.api.v1alpha1.Plugin";
/// Most memory that a message may take when decoded, in bytes.
const MOST_DECODED: usize = 64 << 20;
/// Most memory that all parts of a split Synchronize may take together, in bytes.
const MOST_SYNCHRONIZED: usize = 256 << 20;

/// A code of gRPC: the plug-in refuses.
const UNKNOWN: i32 = 2;
/// A code of gRPC: the message makes no sense.
pub const INVALID: i32 = 3;
const DEADLINE_EXCEEDED: i32 = 4;
/// A code of gRPC: a message is too long.
pub const RESOURCE_EXHAUSTED: i32 = 8;
const UNIMPLEMENTED: i32 = 12;

/// Time since a request's arrival and the time that the runtime waits for its answer; None: it waits for ever.
#[derive(Clone, Copy, Debug)]
pub struct Waited {
    pub since: Duration,
    pub allowed: Option<Duration>,
}

impl Waited {
    pub fn is_late(self) -> bool {
        self.allowed.is_some_and(|allowed| self.since > allowed)
    }
}

/// Calls a plug-in. One a connection: a Synchronize may come in parts.
pub struct Dispatch {
    policy: FailurePolicy,
    parts: Synchronize,
    /// Bound on the memory of the parts.
    size: usize,
}

type Bytes = Result<Vec<u8>, Status>;

impl Dispatch {
    /// For a plug-in with this policy.
    pub fn new(policy: FailurePolicy) -> Dispatch {
        Dispatch { policy, parts: Synchronize::default(), size: 0 }
    }

    /// The answer's payload, or why there is none. A request whose answer nothing waits for is not handled, unless it reports an event.
    pub fn answer<P: Plugin + ?Sized>(&mut self, plugin: &mut P, request: &Request, waited: Waited) -> Bytes {
        if request.service != SERVICE {
            return Err(status(UNIMPLEMENTED, format!("no service {:?}, only {SERVICE}", request.service)));
        }
        if waited.is_late() && is_void_when_late(&request.method) {
            return Err(status(DEADLINE_EXCEEDED, "it waited longer than the runtime did"));
        }
        let payload = &*request.payload;
        let size = bound::decoded(payload).ok_or_else(|| status(INVALID, "the request is no message"))?;
        if size > MOST_DECODED {
            return Err(status(RESOURCE_EXHAUSTED, format!("{size} bytes when decoded, {MOST_DECODED} are allowed")));
        }
        match request.method.as_str() {
            "Configure" => self.configure(plugin, payload),
            "Synchronize" => self.synchronize(plugin, payload, size),
            "Shutdown" => {
                plugin.shutdown();
                Ok(Empty {}.encode_to_vec())
            }
            "RunPodSandbox" => pod_event(payload, |pod| plugin.run_pod_sandbox(pod)),
            "UpdatePodSandbox" => {
                let UpdatePod { pod, overhead, resources } = read(payload)?;
                let (overhead, sum) = (overhead.unwrap_or_default(), resources.unwrap_or_default());
                empty(plugin.update_pod_sandbox(present(pod, "pod")?, overhead, sum))
            }
            "PostUpdatePodSandbox" => pod_event(payload, |pod| plugin.post_update_pod_sandbox(pod)),
            "StopPodSandbox" => pod_event(payload, |pod| plugin.stop_pod_sandbox(pod)),
            "RemovePodSandbox" => pod_event(payload, |pod| plugin.remove_pod_sandbox(pod)),
            "CreateContainer" => {
                let (pod, container) = about(payload)?;
                let created = plugin.create_container(pod, container).map_err(refused)?;
                Ok(Created { adjust: Some(created.adjust), update: created.update }.encode_to_vec())
            }
            "PostCreateContainer" => event(payload, |pod, it| plugin.post_create_container(pod, it)),
            "StartContainer" => event(payload, |pod, it| plugin.start_container(pod, it)),
            "PostStartContainer" => event(payload, |pod, it| plugin.post_start_container(pod, it)),
            "UpdateContainer" => {
                let UpdateContainer { pod, container, resources } = read(payload)?;
                let (pod, container) = (present(pod, "pod")?, present(container, "container")?);
                let update = plugin.update_container(pod, container, resources.unwrap_or_default()).map_err(refused)?;
                Ok(Updated { update }.encode_to_vec())
            }
            "PostUpdateContainer" => event(payload, |pod, it| plugin.post_update_container(pod, it)),
            "StopContainer" => {
                let (pod, container) = about(payload)?;
                let update = plugin.stop_container(pod, container).map_err(refused)?;
                Ok(Updated { update }.encode_to_vec())
            }
            "RemoveContainer" => event(payload, |pod, it| plugin.remove_container(pod, it)),
            "ValidateContainerAdjustment" => validate(plugin, payload),
            "StateChange" => state_change(plugin, payload),
            other => Err(status(UNIMPLEMENTED, format!("no method {other:?}"))),
        }
    }

    fn configure<P: Plugin + ?Sized>(&self, plugin: &mut P, payload: &[u8]) -> Bytes {
        let events = plugin.configure(read(payload)?).map_err(refused)?;
        if events.is_empty() {
            return Err(status(
                INVALID,
                "the plug-in subscribes to no event, which NRI reads as all of them: name some",
            ));
        }
        Ok(Configured { events: events.bits(), failure_policy: Some(self.policy) }.encode_to_vec())
    }

    fn synchronize<P: Plugin + ?Sized>(&mut self, plugin: &mut P, payload: &[u8], size: usize) -> Bytes {
        self.size += size;
        if self.size > MOST_SYNCHRONIZED {
            let words = format!("{} bytes of containers when decoded, {MOST_SYNCHRONIZED} are allowed", self.size);
            return Err(status(RESOURCE_EXHAUSTED, words));
        }
        let part: Synchronize = read(payload)?;
        self.parts.pods.extend(part.pods);
        self.parts.containers.extend(part.containers);
        if part.more {
            return Ok(Synchronized { update: Vec::new(), more: true }.encode_to_vec());
        }
        self.size = 0;
        let Synchronize { pods, containers, .. } = std::mem::take(&mut self.parts);
        let update = plugin.synchronize(pods, containers).map_err(refused)?;
        Ok(Synchronized { update, more: false }.encode_to_vec())
    }
}

/// The report on a late request.
pub fn late(request: &Request, waited: Waited, handled: bool) -> Option<Late> {
    let allowed = waited.allowed.filter(|_| waited.is_late())?;
    // Of the pod and the container the ids are enough; all else is skipped. Synchronize and Configure are about none.
    let ids = match request.method.as_str() {
        "Synchronize" | "Configure" | "Shutdown" => Ids::default(),
        "StateChange" => {
            let StateChangeIds { pod, container } = StateChangeIds::decode(&*request.payload).unwrap_or_default();
            Ids { pod, container }
        }
        _ => Ids::decode(&*request.payload).unwrap_or_default(),
    };
    let id = |id: Option<Id>| id.unwrap_or_default().id;
    let (pod, container) = (id(ids.pod), id(ids.container));
    Some(Late { request: request.method.clone(), pod, container, took: waited.since, allowed, handled })
}

#[derive(Clone, PartialEq, Message)]
struct Id {
    #[prost(string, tag = "1")]
    id: String,
}

#[derive(Clone, PartialEq, Message)]
struct Ids {
    #[prost(message, optional, tag = "1")]
    pod: Option<Id>,
    #[prost(message, optional, tag = "2")]
    container: Option<Id>,
}

#[derive(Clone, PartialEq, Message)]
struct StateChangeIds {
    #[prost(message, optional, tag = "2")]
    pod: Option<Id>,
    #[prost(message, optional, tag = "3")]
    container: Option<Id>,
}

/// Would the answer change something, so that without one the call means nothing?
pub fn is_void_when_late(method: &str) -> bool {
    const VOID: [&str; 5] =
        ["Configure", "Synchronize", "CreateContainer", "UpdateContainer", "ValidateContainerAdjustment"];
    VOID.contains(&method)
}

fn validate<P: Plugin + ?Sized>(plugin: &mut P, payload: &[u8]) -> Bytes {
    let validation: Validation = read(payload)?;
    let refusal = plugin.validate_container_adjustment(validation).err();
    let reason = refusal.as_ref().map(Refusal::to_string).unwrap_or_default();
    Ok(Validated { reject: refusal.is_some(), reason }.encode_to_vec())
}

fn state_change<P: Plugin + ?Sized>(plugin: &mut P, payload: &[u8]) -> Bytes {
    let StateChange { event, pod, container } = read(payload)?;
    let known = Event::try_from(event).ok();
    let is_answered = [Event::CreateContainer, Event::UpdateContainer, Event::StopContainer, Event::UpdatePodSandbox];
    let Some(known) = known.filter(|it| !is_answered.contains(it) && *it != Event::ValidateContainerAdjustment) else {
        return empty(plugin.state_change(event, pod, container));
    };
    let pod = present(pod, "pod")?;
    let of_pod = |plugin: &mut P, pod| match known {
        Event::RunPodSandbox => Some(plugin.run_pod_sandbox(pod)),
        Event::PostUpdatePodSandbox => Some(plugin.post_update_pod_sandbox(pod)),
        Event::StopPodSandbox => Some(plugin.stop_pod_sandbox(pod)),
        Event::RemovePodSandbox => Some(plugin.remove_pod_sandbox(pod)),
        _ => None,
    };
    if container.is_none() {
        return of_pod(plugin, pod).map_or_else(|| Err(status(INVALID, "the request names no container")), empty);
    }
    let container = present(container, "container")?;
    empty(match known {
        Event::PostCreateContainer => plugin.post_create_container(pod, container),
        Event::StartContainer => plugin.start_container(pod, container),
        Event::PostStartContainer => plugin.post_start_container(pod, container),
        Event::PostUpdateContainer => plugin.post_update_container(pod, container),
        Event::RemoveContainer => plugin.remove_container(pod, container),
        _ => return of_pod(plugin, pod).map_or_else(|| Ok(Vec::new()), empty),
    })
}

fn pod_event(payload: &[u8], call: impl FnOnce(PodSandbox) -> Answer<()>) -> Bytes {
    let About { pod, .. } = read(payload)?;
    empty(call(present(pod, "pod")?))
}

fn event(payload: &[u8], call: impl FnOnce(PodSandbox, Container) -> Answer<()>) -> Bytes {
    let (pod, container) = about(payload)?;
    empty(call(pod, container))
}

fn about(payload: &[u8]) -> Result<(PodSandbox, Container), Status> {
    let About { pod, container } = read(payload)?;
    Ok((present(pod, "pod")?, present(container, "container")?))
}

fn read<M: Message + Default>(payload: &[u8]) -> Result<M, Status> {
    M::decode(payload).map_err(|error| status(INVALID, error.to_string()))
}

fn present<T>(value: Option<T>, name: &str) -> Result<T, Status> {
    value.ok_or_else(|| status(INVALID, format!("the request names no {name}")))
}

fn empty(answer: Answer<()>) -> Bytes {
    answer.map(|()| Vec::new()).map_err(refused)
}

fn refused(refusal: Refusal) -> Status {
    status(UNKNOWN, refusal.to_string())
}

/// A status of these words.
pub fn status(code: i32, message: impl Into<String>) -> Status {
    Status { code, message: message.into() }
}

#[cfg(test)]
#[path = "dispatch_tests.rs"]
mod tests;

//! Requests and answers of the two services.

use std::collections::BTreeMap;

use prost::Message;

use super::adjustment::{ContainerAdjustment, ContainerUpdate};
use super::container::Container;
use super::pod::PodSandbox;
use super::resources::LinuxResources;

/// A call by ttRPC.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Request {
    #[prost(string, tag = "1")]
    pub service: String,
    #[prost(string, tag = "2")]
    pub method: String,
    #[prost(bytes = "vec", tag = "3")]
    pub payload: Vec<u8>,
    /// Time until the caller gives up, in nanoseconds; 0: it waits.
    #[prost(int64, tag = "4")]
    pub timeout_nano: i64,
}

/// The answer to a call by ttRPC.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Response {
    #[prost(message, optional, tag = "1")]
    pub status: Option<Status>,
    #[prost(bytes = "vec", tag = "2")]
    pub payload: Vec<u8>,
}

/// Why a call failed.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Status {
    #[prost(int32, tag = "1")]
    pub code: i32,
    #[prost(string, tag = "2")]
    pub message: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Empty {}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RegisterPlugin {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub index: String,
    #[prost(string, tag = "3")]
    pub nri_version: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct UpdateContainers {
    #[prost(message, repeated, tag = "1")]
    pub update: Vec<ContainerUpdate>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct UpdatedContainers {
    #[prost(message, repeated, tag = "1")]
    pub failed: Vec<ContainerUpdate>,
}

/// The runtime, and the plug-in's configuration there.
#[derive(Clone, PartialEq, Message)]
pub struct Configuration {
    /// Content of the plug-in's file in NRI's configuration folder; empty for a plug-in that the runtime did not start.
    #[prost(string, tag = "1")]
    pub config: String,
    /// The runtime's name, as in `containerd`.
    #[prost(string, tag = "2")]
    pub runtime_name: String,
    /// The runtime's version.
    #[prost(string, tag = "3")]
    pub runtime_version: String,
    /// Time allowed for registration, in milliseconds; 0 where the runtime does not say it.
    #[prost(int64, tag = "4")]
    pub registration_timeout: i64,
    /// Time allowed for a request, in milliseconds; 0 where the runtime does not say it.
    #[prost(int64, tag = "5")]
    pub request_timeout: i64,
    /// Version of NRI in the runtime; empty before NRI 0.10.
    #[prost(string, tag = "6")]
    pub nri_version: String,
}

/// What the runtime does when the plug-in does not answer in time (NRI 0.12.5; older runtimes ignore it: they disconnect the plug-in,
/// and the request goes on without it). A refusal is an answer: it always fails the request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Message)]
pub struct FailurePolicy {
    /// Whether the request fails.
    #[prost(bool, tag = "1")]
    pub fail_request: bool,
    /// Whether the plug-in is kept connected after a time-out.
    #[prost(bool, tag = "2")]
    pub keep_connected: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Configured {
    #[prost(int32, tag = "2")]
    pub events: i32,
    #[prost(message, optional, tag = "3")]
    pub failure_policy: Option<FailurePolicy>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Synchronize {
    #[prost(message, repeated, tag = "1")]
    pub pods: Vec<PodSandbox>,
    #[prost(message, repeated, tag = "2")]
    pub containers: Vec<Container>,
    #[prost(bool, tag = "3")]
    pub more: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Synchronized {
    #[prost(message, repeated, tag = "1")]
    pub update: Vec<ContainerUpdate>,
    #[prost(bool, tag = "2")]
    pub more: bool,
}

/// Any request about a pod, or a container of one: they differ in name only.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct About {
    #[prost(message, optional, tag = "1")]
    pub pod: Option<PodSandbox>,
    #[prost(message, optional, tag = "2")]
    pub container: Option<Container>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct UpdatePod {
    #[prost(message, optional, tag = "1")]
    pub pod: Option<PodSandbox>,
    #[prost(message, optional, tag = "2")]
    pub overhead: Option<LinuxResources>,
    #[prost(message, optional, tag = "3")]
    pub resources: Option<LinuxResources>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct UpdateContainer {
    #[prost(message, optional, tag = "1")]
    pub pod: Option<PodSandbox>,
    #[prost(message, optional, tag = "2")]
    pub container: Option<Container>,
    #[prost(message, optional, tag = "3")]
    pub resources: Option<LinuxResources>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Created {
    #[prost(message, optional, tag = "1")]
    pub adjust: Option<ContainerAdjustment>,
    #[prost(message, repeated, tag = "2")]
    pub update: Vec<ContainerUpdate>,
}

/// The answer to UpdateContainer and StopContainer.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Updated {
    #[prost(message, repeated, tag = "1")]
    pub update: Vec<ContainerUpdate>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct StateChange {
    #[prost(int32, tag = "1")]
    pub event: i32,
    #[prost(message, optional, tag = "2")]
    pub pod: Option<PodSandbox>,
    #[prost(message, optional, tag = "3")]
    pub container: Option<Container>,
}

/// What all plug-ins together make of a container that is being created, to be accepted or refused.
#[derive(Clone, PartialEq, Message)]
pub struct Validation {
    /// The container's pod.
    #[prost(message, optional, tag = "1")]
    pub pod: Option<PodSandbox>,
    /// The container before any plug-in changed it.
    #[prost(message, optional, tag = "2")]
    pub container: Option<Container>,
    /// The changes.
    #[prost(message, optional, tag = "3")]
    pub adjust: Option<ContainerAdjustment>,
    /// Changes to other containers.
    #[prost(message, repeated, tag = "4")]
    pub update: Vec<ContainerUpdate>,
    /// The plug-ins that made them.
    #[prost(message, optional, tag = "5")]
    pub owners: Option<OwningPlugins>,
    /// The plug-ins that were asked.
    #[prost(message, repeated, tag = "6")]
    pub plugins: Vec<PluginInstance>,
}

/// Name and index of a plug-in.
#[derive(Clone, PartialEq, Message)]
pub struct PluginInstance {
    /// Name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Index.
    #[prost(string, tag = "2")]
    pub index: String,
}

/// The plug-ins that changed fields, by container.
#[derive(Clone, PartialEq, Message)]
pub struct OwningPlugins {
    /// By container's id.
    #[prost(btree_map = "string, message", tag = "1")]
    pub owners: BTreeMap<String, FieldOwners>,
}

/// The plug-ins that changed fields of one container. Keys are numbers of NRI's `Field`.
#[derive(Clone, PartialEq, Message)]
pub struct FieldOwners {
    /// Plug-ins of simple fields.
    #[prost(btree_map = "int32, string", tag = "1")]
    pub simple: BTreeMap<i32, String>,
    /// Plug-ins of lists and maps.
    #[prost(btree_map = "int32, message", tag = "2")]
    pub compound: BTreeMap<i32, FieldOwnersOfCompound>,
}

/// The plug-ins that changed entries of one list or map.
#[derive(Clone, PartialEq, Message)]
pub struct FieldOwnersOfCompound {
    /// By key of the entry.
    #[prost(btree_map = "string, string", tag = "1")]
    pub owners: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Validated {
    #[prost(bool, tag = "1")]
    pub reject: bool,
    #[prost(string, tag = "2")]
    pub reason: String,
}

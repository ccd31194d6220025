//! What is asked of the API server, a call each. A call that does not answer in time has failed.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Node, ObjectReference, Pod, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, Time};
use kube::api::{DeleteParams, EvictParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client, Config};
use quell_model::cluster::Contended;
use serde_json::json;
use tokio::runtime::{Handle, Runtime};

use super::cooling::Cooling;
use super::seen::{Owner, PodSeen};
use super::{COOL_DOWN, LABEL, LEASE, TAINT, lease};
use crate::ClusterError;
use crate::contention::ANNOTATION;

/// A call takes at most this time.
const PATIENCE: Duration = Duration::from_secs(10);
/// Times that a change of a node is tried where another one came between.
const TRIES: u32 = 3;

/// The end of an eviction's request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evicted {
    /// The pod is on its way out, or moves.
    Begun,
    /// Not now: a disruption budget forbids it, or it is under way already.
    Later(String),
    /// The pod is gone, or another one has its name.
    Gone,
}

/// The API server, with a thread for what is under way.
#[derive(Clone)]
pub struct Calls {
    client: Client,
    handle: Handle,
}

impl Calls {
    /// As the environment says: in a cluster its service account, else the user's kubeconfig. The runtime runs on a thread of its own
    /// until the program ends.
    ///
    /// # Errors
    /// If there is neither, or no thread.
    pub fn connect() -> Result<Calls, ClusterError> {
        let system = |error: std::io::Error| failed("start a thread", "the client", error);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(system)?;
        let unknown = |error: String| failed("find the API server", "by KUBECONFIG or the service account", error);
        let client = runtime.block_on(async {
            let mut config = Config::infer().await.map_err(|error| unknown(error.to_string()))?;
            // The client would repeat what a disruption budget refused, at once and while its caller waits.
            config.default_retry = false;
            Client::try_from(config).map_err(|error| unknown(error.to_string()))
        })?;
        let handle = runtime.handle().clone();
        let forever = move |runtime: Runtime| runtime.block_on(std::future::pending::<()>());
        std::thread::Builder::new().name("kubernetes".into()).spawn(move || forever(runtime)).map_err(system)?;
        Ok(Calls { client, handle })
    }

    /// The client.
    #[must_use]
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Runs this beside the caller.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) -> tokio::task::JoinHandle<()> {
        self.handle.spawn(work)
    }

    /// Waits for what another thread would do.
    pub fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.handle.block_on(work)
    }

    /// Waits for an answer.
    pub(super) fn wait<T>(
        &self,
        what: &str,
        object: &str,
        call: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, ClusterError> {
        let answer = self.handle.block_on(async { tokio::time::timeout(PATIENCE, call).await });
        match answer {
            Ok(answer) => answer.map_err(|error| failed(what, object, reason(&error))),
            Err(_) => Err(failed(what, object, format!("no answer in {} s", PATIENCE.as_secs()))),
        }
    }

    /// Gives the lease back, if it is this controller's.
    ///
    /// # Errors
    /// The server's.
    pub fn release(&self, namespace: &str, identity: &str) -> Result<(), ClusterError> {
        self.wait("release", &format!("lease {namespace}/{LEASE}"), lease::release(self.client(), namespace, identity))
    }

    /// Evicts this very pod.
    ///
    /// # Errors
    /// The server's, with what is missing.
    pub fn evict(&self, pod: &PodSeen, uid: &str) -> Result<Evicted, ClusterError> {
        let pods: Api<Pod> = Api::namespaced(self.client(), &pod.namespace);
        let preconditions = Preconditions { uid: Some(uid.to_owned()), ..Preconditions::default() };
        let delete = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        let parameters = EvictParams { delete_options: Some(delete), ..EvictParams::default() };
        let call = async {
            match pods.evict(&pod.name, &parameters).await {
                Ok(_) => Ok(Evicted::Begun),
                Err(kube::Error::Api(status)) if status.code == 429 => Ok(Evicted::Later(status.message)),
                Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => Ok(Evicted::Gone),
                Err(error) => Err(error),
            }
        };
        self.wait("evict", &format!("pod {}", pod.path()), call)
    }

    /// The pause of an owner, and its resource version; None: there is no such owner.
    ///
    /// # Errors
    /// The server's, or an annotation that cannot be read.
    pub fn cooling(&self, namespace: &str, owner: &Owner) -> Result<Option<(Cooling, String)>, ClusterError> {
        let (api, object) = self.owner(namespace, owner)?;
        let Some(found) = self.wait("read", &object, api.get_metadata_opt(&owner.name))? else { return Ok(None) };
        let version = found.metadata.resource_version.unwrap_or_default();
        let text = found.metadata.annotations.and_then(|mut annotations| annotations.remove(COOL_DOWN));
        let Some(text) = text else { return Ok(Some((Cooling::default(), version))) };
        match Cooling::parse(&text) {
            Some(cooling) => Ok(Some((cooling, version))),
            None => Err(failed("read", &object, format!("its annotation {COOL_DOWN} is '{text}'; remove it"))),
        }
    }

    /// Writes the pause of an owner, if it has this version still; returns the new version.
    ///
    /// # Errors
    /// The server's.
    pub fn cool(
        &self,
        namespace: &str,
        owner: &Owner,
        cooling: Cooling,
        version: &str,
    ) -> Result<String, ClusterError> {
        let (api, object) = self.owner(namespace, owner)?;
        let patch = json!({"metadata": {"resourceVersion": version, "annotations": {COOL_DOWN: cooling.text()}}});
        let call = async { api.patch_metadata(&owner.name, &PatchParams::default(), &Patch::Merge(patch)).await };
        Ok(self.wait("annotate", &object, call)?.metadata.resource_version.unwrap_or_default())
    }

    fn owner(&self, namespace: &str, owner: &Owner) -> Result<(Api<DynamicObject>, String), ClusterError> {
        let object = format!("{} {namespace}/{}", owner.kind, owner.name);
        let Some(plural) = owner.plural() else {
            return Err(failed("annotate", &object, "its pods are not moved: this kind makes none elsewhere"));
        };
        let (group, version) = owner.api_version.split_once('/').unwrap_or(("", &owner.api_version));
        let resource = ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version: owner.api_version.clone(),
            kind: owner.kind.clone(),
            plural: plural.to_owned(),
        };
        Ok((Api::namespaced_with(self.client(), namespace, &resource), object))
    }

    /// Marks a node: the taint, and the label.
    ///
    /// # Errors
    /// The server's.
    pub fn mark(&self, node: &str, class: Contended) -> Result<(), ClusterError> {
        self.change_node(node, "mark", |node| {
            let label = match class {
                Contended::Quiet => None,
                Contended::Busy => Some("busy"),
                Contended::Contended => Some("contended"),
            };
            let taints = taints(node, class == Contended::Contended);
            json!({"metadata": {"labels": {LABEL: label}}, "spec": {"taints": taints}})
        })
    }

    /// Takes everything of Quell's off a node; with `report` its report, too.
    ///
    /// # Errors
    /// The server's.
    pub fn clean(&self, node: &str, report: bool) -> Result<(), ClusterError> {
        self.change_node(node, "clean", |node| {
            let mut metadata = json!({"labels": {LABEL: null}});
            if report {
                metadata["annotations"] = json!({ANNOTATION: null});
            }
            json!({"metadata": metadata, "spec": {"taints": taints(node, false)}})
        })
    }

    /// Changes a node as it is: `spec.taints` is one list, so that another's taint must not get lost.
    fn change_node(
        &self,
        name: &str,
        what: &str,
        change: impl Fn(&Node) -> serde_json::Value,
    ) -> Result<(), ClusterError> {
        let nodes: Api<Node> = Api::all(self.client());
        let call = async {
            for left in (0..TRIES).rev() {
                let node = nodes.get(name).await?;
                let mut patch = change(&node);
                patch["metadata"]["resourceVersion"] = json!(node.metadata.resource_version);
                match nodes.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await {
                    Err(kube::Error::Api(status)) if status.code == 409 && left > 0 => {}
                    other => return other.map(|_| ()),
                }
            }
            Ok(())
        };
        self.wait(what, &format!("node {name}"), call)
    }

    /// Writes a node's report.
    ///
    /// # Errors
    /// The server's.
    pub fn report(&self, node: &str, text: Option<&str>) -> Result<(), ClusterError> {
        let nodes: Api<Node> = Api::all(self.client());
        let patch = json!({"metadata": {"annotations": {ANNOTATION: text}}});
        let call = async { nodes.patch_metadata(node, &PatchParams::default(), &Patch::Merge(patch)).await };
        self.wait("annotate", &format!("node {node}"), call).map(|_| ())
    }

    /// An event on a pod.
    ///
    /// # Errors
    /// The server's.
    pub fn event(&self, pod: &PodSeen, uid: &str, reason: &str, text: &str) -> Result<(), ClusterError> {
        let now = Timestamp::now();
        let reference = ObjectReference {
            api_version: Some("v1".into()),
            kind: Some("Pod".into()),
            name: Some(pod.name.clone()),
            namespace: Some(pod.namespace.clone()),
            uid: Some(uid.to_owned()),
            ..ObjectReference::default()
        };
        let event = Event {
            metadata: ObjectMeta { generate_name: Some(format!("{}.", pod.name)), ..ObjectMeta::default() },
            involved_object: reference,
            action: Some("Evict".into()),
            reason: Some(reason.to_owned()),
            message: Some(text.chars().take(1000).collect()),
            type_: Some("Normal".into()),
            reporting_component: Some("quell.dev/quell-cluster".into()),
            reporting_instance: Some("quell-cluster".into()),
            event_time: Some(MicroTime(now)),
            first_timestamp: Some(Time(now)),
            last_timestamp: Some(Time(now)),
            count: Some(1),
            ..Event::default()
        };
        let events: Api<Event> = Api::namespaced(self.client(), &pod.namespace);
        let parameters = PostParams::default();
        let object = format!("an event of pod {}", pod.path());
        self.wait("write", &object, events.create(&parameters, &event)).map(|_| ())
    }
}

/// A node's taints with or without Quell's, and all others as they are.
fn taints(node: &Node, with: bool) -> Vec<Taint> {
    let all = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    let own = all.iter().find(|taint| taint.key == TAINT).cloned();
    let mut taints: Vec<Taint> = all.into_iter().filter(|taint| taint.key != TAINT).collect();
    if with {
        let new = || Taint {
            key: TAINT.to_owned(),
            effect: "PreferNoSchedule".to_owned(),
            time_added: Some(Time(Timestamp::now())),
            ..Taint::default()
        };
        taints.push(own.unwrap_or_else(new));
    }
    taints
}

/// A fault of a call.
pub(super) fn failed(what: &str, object: &str, why: impl ToString) -> ClusterError {
    ClusterError::Kubernetes { what: what.to_owned(), object: object.to_owned(), why: why.to_string() }
}

/// The server's words, and the fix where a right is missing.
fn reason(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if status.code == 403 => {
            format!("{}; install the chart's roles with --set cluster.enabled=true", status.message)
        }
        kube::Error::Api(status) => format!("{} ({})", status.message, status.code),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_taints_are_kept_and_ours_is_there_once() {
        let node: Node = serde_json::from_value(json!({"spec": {"taints": [
            {"key": "gpu", "effect": "NoSchedule"}, {"key": TAINT, "effect": "PreferNoSchedule"},
        ]}}))
        .unwrap();
        let keys = |with| taints(&node, with).into_iter().map(|taint| taint.key).collect::<Vec<_>>();
        assert_eq!(keys(true), ["gpu", TAINT]);
        assert_eq!(keys(false), ["gpu"]);
        assert_eq!(taints(&Node::default(), true).len(), 1);
    }
}

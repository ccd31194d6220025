//! The nodes and sets of replicas in the API server, some calls at a time.

use anyhow::{Context, Result};
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, PropagationPolicy};
use quell_cluster::contention::ANNOTATION;
use quell_cluster::kubernetes::Calls;
use quell_cluster_sim::fake::Wanted;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The label of all that is made here.
const LABEL: &str = "quell.dev/fake";
/// Calls under way.
const AT_ONCE: usize = 16;

/// The API server.
pub struct Objects {
    calls: Calls,
    namespace: String,
}

fn object<T: DeserializeOwned>(value: Value) -> Result<T> {
    serde_json::from_value(value).context("an object of the API server")
}

/// Whether it is there already, or there no more, makes no difference.
fn done<T>(answer: Result<T, kube::Error>) -> Result<(), kube::Error> {
    match answer {
        Err(kube::Error::Api(status)) if status.code == 409 || status.code == 404 => Ok(()),
        other => other.map(|_| ()),
    }
}

impl Objects {
    /// In this namespace.
    pub fn new(calls: &Calls, namespace: &str) -> Objects {
        Objects { calls: calls.clone(), namespace: namespace.to_owned() }
    }

    fn nodes_api(&self) -> Api<Node> {
        Api::all(self.calls.client())
    }

    fn sets(&self) -> Api<ReplicaSet> {
        Api::namespaced(self.calls.client(), &self.namespace)
    }

    /// All of it, some at a time.
    fn each<F: Future<Output = Result<(), kube::Error>>>(
        &self,
        what: &str,
        calls: impl Iterator<Item = F>,
    ) -> Result<()> {
        let all = futures::stream::iter(calls).buffer_unordered(AT_ONCE).try_collect::<Vec<()>>();
        self.calls.block_on(all).map(|_| ()).with_context(|| what.to_owned())
    }

    /// Makes nodes of kwok's with these thousandths of CPUs and bytes.
    pub fn nodes(&self, nodes: &[(String, u32, u64)]) -> Result<()> {
        let space: Namespace = object(json!({"metadata": {"name": self.namespace}}))?;
        let spaces: Api<Namespace> = Api::all(self.calls.client());
        let made = async { done(spaces.create(&PostParams::default(), &space).await) };
        self.calls.block_on(made).with_context(|| format!("making the namespace {}", self.namespace))?;
        let api = self.nodes_api();
        let make = |(name, cpus, memory): &(String, u32, u64)| {
            let size = json!({"cpu": format!("{cpus}m"), "memory": memory.to_string(), "pods": "250"});
            let (api, name) = (api.clone(), name.clone());
            async move {
                let node = json!({
                    "metadata": {"name": name, "labels": {LABEL: "true"}, "annotations": {"kwok.x-k8s.io/node": "fake"}},
                    "status": {"capacity": size, "allocatable": size},
                });
                let node: Node = serde_json::from_value(node).map_err(kube::Error::SerdeError)?;
                done(api.create(&PostParams::default(), &node).await)?;
                // What the API server adds to a new node, and a node's controller takes away where there is one.
                let patch = Patch::Merge(json!({"spec": {"taints": null}}));
                done(api.patch(&name, &PatchParams::default(), &patch).await)
            }
        };
        self.each("making nodes", nodes.iter().map(make))
    }

    /// Makes a set of one replica for each.
    pub fn make<'a>(&self, wanted: impl Iterator<Item = &'a Wanted>) -> Result<()> {
        let sets = self.sets();
        let make = |wanted: &Wanted| {
            let set = set_of(wanted);
            let sets = sets.clone();
            async move {
                let set: ReplicaSet = serde_json::from_value(set).map_err(kube::Error::SerdeError)?;
                done(sets.create(&PostParams::default(), &set).await)
            }
        };
        self.each("making sets of replicas", wanted.map(make))
    }

    /// Removes sets and their pods.
    pub fn remove<'a>(&self, names: impl Iterator<Item = &'a str>) -> Result<()> {
        let sets = self.sets();
        let parameters =
            DeleteParams { propagation_policy: Some(PropagationPolicy::Background), ..DeleteParams::default() };
        let remove = |name: &str| {
            let (sets, name, parameters) = (sets.clone(), name.to_owned(), parameters.clone());
            async move { done(sets.delete(&name, &parameters).await) }
        };
        self.each("removing sets of replicas", names.map(remove))
    }

    /// Writes reports.
    pub fn report(&self, reports: Vec<(String, String)>) -> Result<()> {
        let api = self.nodes_api();
        let write = |(node, text): (String, String)| {
            let api = api.clone();
            async move {
                let patch = Patch::Merge(json!({"metadata": {"annotations": {ANNOTATION: text}}}));
                done(api.patch_metadata(&node, &PatchParams::default(), &patch).await)
            }
        };
        self.each("writing reports", reports.into_iter().map(write))
    }

    /// Takes away all that was made here.
    pub fn clean(&self) -> Result<()> {
        let all = ListParams::default().labels(LABEL);
        let sets = self.calls.block_on(self.sets().list_metadata(&all)).context("listing sets of replicas")?;
        let names: Vec<String> = sets.items.into_iter().filter_map(|it| it.metadata.name).collect();
        self.remove(names.iter().map(String::as_str))?;
        let api = self.nodes_api();
        let nodes = self.calls.block_on(api.list_metadata(&all)).context("listing nodes")?;
        let remove = |name: String| {
            let api = api.clone();
            async move { done(api.delete(&name, &DeleteParams::default()).await) }
        };
        self.each("removing nodes", nodes.items.into_iter().filter_map(|it| it.metadata.name).map(remove))
    }
}

fn set_of(wanted: &Wanted) -> Value {
    let Wanted { name, critical, movable, cpus, memory } = wanted;
    let labels = json!({
        LABEL: "true", "quell.dev/fake-workload": name, "quell.dev/class": if *critical { "lc" } else { "be" },
        "quell.dev/move": if *movable { "evict" } else { "never" },
    });
    let requests = json!({"requests": {"cpu": cpus.to_string(), "memory": memory.to_string()}});
    let spec = json!({
        "nodeSelector": {LABEL: "true"}, "containers": [{"name": "main", "image": "none", "resources": requests}],
    });
    json!({
        "metadata": {"name": name, "labels": {LABEL: "true"}},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": {"quell.dev/fake-workload": name}},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    })
}

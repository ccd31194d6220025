//! A cluster of a test: what kubelets and owners would write, and the program.

use std::fs::File;
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::process::{Command, Stdio};

use quell_control_plane::{Part, Plane, Running, now_ms, output};
use serde_json::{Value, json};

/// Its namespaces are `quell` and `shop`.
pub struct Shop(Plane);

impl Deref for Shop {
    type Target = Plane;

    fn deref(&self) -> &Plane {
        &self.0
    }
}

impl DerefMut for Shop {
    fn deref_mut(&mut self) -> &mut Plane {
        &mut self.0
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("what the controllers said:\n{}", self.said());
        }
    }
}

impl Shop {
    /// None where a program is missing.
    pub fn start(parts: &[Part]) -> Option<Shop> {
        let plane = Plane::start(parts)?;
        plane.namespaces(&["quell", "shop"]);
        Some(Shop(plane))
    }

    /// Installs the chart with its controller in this mode. False: helm is not there.
    pub fn install(&self, mode: &str) -> bool {
        let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/chart/quell");
        let values = format!("cluster.enabled=true,cluster.mode={mode}");
        match self.helm(&["install", "quell", chart.to_str().unwrap(), "--set", &values]) {
            Some(installed) => installed.map(|_| true).unwrap(),
            None => false,
        }
    }

    /// A node of eight CPUs that is ready.
    pub fn node(&self, name: &str) {
        self.post("/api/v1/nodes", &json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}));
        // What the API server adds to a new node, and the node's controller would take away.
        self.patch(&format!("/api/v1/nodes/{name}"), &json!({"spec": {"taints": null}}));
        let size = json!({"cpu": "8", "memory": "16Gi", "pods": "110"});
        let status = json!({"status": {
            "capacity": size, "allocatable": size, "conditions": [{"type": "Ready", "status": "True"}],
        }});
        self.patch(&format!("/api/v1/nodes/{name}/status"), &status);
    }

    /// A node of kwok's, of this many CPUs.
    pub fn fake_node(&self, name: &str, cpus: u32) {
        let size = json!({"cpu": cpus.to_string(), "memory": "64Gi", "pods": "110"});
        let metadata = json!({"name": name, "annotations": {"kwok.x-k8s.io/node": "fake"}});
        let status = json!({"capacity": size, "allocatable": size});
        self.post(
            "/api/v1/nodes",
            &json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}),
        );
        self.patch(&format!("/api/v1/nodes/{name}"), &json!({"spec": {"taints": null}}));
    }

    /// A report, as it stands.
    pub fn report(&self, node: &str, text: &str) {
        self.patch(
            &format!("/api/v1/nodes/{node}"),
            &json!({"metadata": {"annotations": {"quell.dev/contention": text}}}),
        );
    }

    /// A good one, of the forced sharing.
    pub fn sharing(&self, node: &str, value: f64, heavy: &Value, services: &Value) {
        let report = json!({
            "v": 1, "node": node, "at": now_ms(), "window": 10_000, "by": {"sharing": [value, true]},
            "heavy": heavy, "lc": services,
        });
        self.report(node, &report.to_string());
    }

    /// Nothing is contended there.
    pub fn quiet(&self, node: &str) {
        self.sharing(node, 0.02, &json!([]), &json!([]));
    }

    /// A set of replicas of a class; with `selector` they go to the nodes with this label. Returns its uid.
    pub fn replicas(&self, name: &str, class: &str, number: u32, more: &Value) -> String {
        let mut labels = json!({"app": name, "quell.dev/class": class});
        if let Some(word) = more["move"].as_str() {
            labels["quell.dev/move"] = json!(word);
        }
        let requests = json!({"requests": {"cpu": "500m", "memory": "64Mi"}});
        let mut spec = json!({"containers": [{"name": "main", "image": "none", "resources": requests}]});
        if let Some(node) = more["node"].as_str() {
            spec["nodeName"] = json!(node);
        }
        if more["fake"] == true {
            spec["tolerations"] = json!([{"key": "kwok.x-k8s.io/node", "operator": "Exists"}]);
        }
        let template = json!({"metadata": {"labels": labels}, "spec": spec});
        let selector = json!({"matchLabels": {"app": name}});
        let set = self.post(
            "/apis/apps/v1/namespaces/shop/replicasets",
            &json!({
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name},
                "spec": {"replicas": number, "selector": selector, "template": template},
            }),
        );
        set["metadata"]["uid"].as_str().unwrap().to_owned()
    }

    /// A set of replicas whose pods the test makes; its uid.
    pub fn owner(&self, name: &str) -> String {
        self.replicas(name, "be", 1, &json!({}))
    }

    /// A pod of it on a node, ready.
    pub fn pod(&self, name: &str, owner: Option<(&str, &str)>, class: &str, node: &str) {
        let mut meta = json!({"name": name, "labels": {"app": owner.map_or("", |it| it.0), "quell.dev/class": class}});
        if let Some((owner, uid)) = owner {
            meta["ownerReferences"] = json!([{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": uid, "controller": true,
            }]);
        }
        self.pod_of(&meta, &json!({"nodeName": node}));
        let status = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
        self.patch(&format!("/api/v1/namespaces/shop/pods/{name}/status"), &json!({"status": status}));
    }

    /// A pod with these metadata, and these parts of its spec.
    pub fn pod_of(&self, meta: &Value, more: &Value) {
        let requests = json!({"requests": {"cpu": "500m", "memory": "64Mi"}});
        let mut spec = json!({"containers": [{"name": "main", "image": "none", "resources": requests}]});
        more.as_object().unwrap().iter().for_each(|(key, value)| spec[key] = value.clone());
        let pods = "/api/v1/namespaces/shop/pods";
        self.post(pods, &json!({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}));
    }

    /// All pods of shop that are not on their way out.
    pub fn pods(&self) -> Vec<Value> {
        let list = self.get("/api/v1/namespaces/shop/pods");
        let all = list["items"].as_array().cloned().unwrap_or_default();
        all.into_iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null()).collect()
    }

    /// Is the pod there, and not on its way out?
    pub fn runs(&self, pod: &str) -> bool {
        let pod = self.get(&format!("/api/v1/namespaces/shop/pods/{pod}"));
        pod["kind"] == "Pod" && pod["metadata"]["deletionTimestamp"].is_null()
    }

    /// As a kubelet that has ended it.
    pub fn gone(&self, pod: &str) {
        self.delete(&format!("/api/v1/namespaces/shop/pods/{pod}"));
    }

    pub fn is_tainted(&self, node: &str) -> bool {
        is_tainted(&self.get(&format!("/api/v1/nodes/{node}")))
    }

    /// The program, as this user, beside a folder of its own.
    pub fn quell_cluster(&self, user: &str, arguments: &[&str]) -> Running {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quell-cluster"));
        command.env("KUBECONFIG", self.at(user)).args(arguments);
        let log = File::options().create(true).append(true).open(self.at("quell.log")).unwrap();
        Running(command.stdout(Stdio::null()).stderr(log).spawn().unwrap())
    }

    /// A controller with rounds of two seconds, and these arguments more.
    pub fn controller_with(&self, user: &str, name: &str, mode: &str, more: &[&str]) -> Running {
        let folder = self.at(name);
        let folder = folder.to_str().unwrap();
        let arguments =
            ["run", "--driver", "kubernetes", "--interval", "2", "--mode", mode, "--identity", name, "--dir", folder];
        self.quell_cluster(user, &[&arguments[..], more].concat())
    }

    /// The same without more.
    pub fn controller(&self, user: &str, name: &str, mode: &str) -> Running {
        self.controller_with(user, name, mode, &[])
    }

    /// What a controller says of itself.
    pub fn status(&self, name: &str) -> String {
        self.asked(name, &["status", "--json"])
    }

    /// What a controller answers to this command.
    pub fn asked(&self, name: &str, arguments: &[&str]) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quell-cluster"));
        command.args(arguments).arg("--dir").arg(self.at(name));
        String::from_utf8(output(&mut command).stdout).unwrap()
    }

    /// What the controllers said.
    pub fn said(&self) -> String {
        std::fs::read_to_string(self.at("quell.log")).unwrap_or_default()
    }

    /// Who leads.
    pub fn leader(&self) -> String {
        let lease = self.get("/apis/coordination.k8s.io/v1/namespaces/quell/leases/quell-cluster");
        lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned()
    }
}

pub fn is_tainted(node: &Value) -> bool {
    node["spec"]["taints"].as_array().is_some_and(|all| all.iter().any(|it| it["key"] == "quell.dev/contended"))
}

//! etcd and an API server on free ports of the loopback, and what a kubelet and a controller would write.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

const ADMIN: &str = "a-token-of-this-test";
const CONTROLLER: &str = "a-token-of-the-controller";

/// Ended with this.
pub struct Plane {
    pub folder: tempfile::TempDir,
    server: String,
    programs: Vec<Child>,
}

/// A process of this test's, ended with this.
pub struct Running(pub Child);

impl Running {
    /// As a crash.
    pub fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Drop for Plane {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("what the controllers said:\n{}", self.log());
        }
        for program in self.programs.iter_mut().rev() {
            let _ = program.kill();
            let _ = program.wait();
        }
    }
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn output(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// The program of `scripts/kubernetes`. None, after saying so, where it was not compiled yet.
pub fn compiled(program: &str) -> Option<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/kubernetes");
    let found = Command::new(script).args([program, "--if-there"]).stderr(Stdio::inherit()).output().unwrap();
    if !found.status.success() {
        println!("skipped: no {program}: scripts/kubernetes {program} compiles it");
        return None;
    }
    Some(Path::new(String::from_utf8(found.stdout).unwrap().trim_end()).join(program))
}

/// Milliseconds since 1970.
pub fn now_ms() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

/// Waits until this holds; `why` says what did not come.
pub fn until(seconds: u64, why: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(seconds), "not in {seconds} s: {why}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

impl Plane {
    /// None where a program is missing.
    pub fn start() -> Option<Plane> {
        let (etcd, server) = (compiled("etcd")?, compiled("kube-apiserver")?);
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let made = output(Command::new("openssl").args(["genrsa", "-out"]).arg(at("key")).arg("2048"));
        assert!(made.status.success(), "{made:?}");
        let account = "system:serviceaccount:quell:quell-cluster";
        let tokens = format!(
            "{ADMIN},admin,1,\"system:masters\"\n{CONTROLLER},{account},2,\"system:serviceaccounts,system:serviceaccounts:quell\"\n"
        );
        std::fs::write(at("tokens"), tokens).unwrap();
        let [client, peer, port] = [free_port(), free_port(), free_port()];
        let (client, peer) = (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
        let mut programs = Vec::new();
        let mut start = |command: &mut Command, name: &str| {
            let command = command.stdin(Stdio::null()).stdout(Stdio::null());
            programs.push(command.stderr(File::create(folder.path().join(name)).unwrap()).spawn().unwrap());
        };
        let mut command = Command::new(etcd);
        command.arg("--data-dir").arg(at("data")).args(["--unsafe-no-fsync", "--log-level=warn", "--name=one"]);
        command.args([format!("--listen-client-urls={client}"), format!("--advertise-client-urls={client}")]);
        command.args([format!("--listen-peer-urls={peer}"), format!("--initial-advertise-peer-urls={peer}")]);
        start(command.arg(format!("--initial-cluster=one={peer}")), "etcd.log");
        let mut command = Command::new(server);
        command.arg(format!("--etcd-servers={client}")).arg(format!("--secure-port={port}"));
        command.args(["--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none"]);
        command.args(["--service-cluster-ip-range=10.0.0.0/24", "--authorization-mode=RBAC", "--allow-privileged"]);
        command.args(["--disable-admission-plugins=ServiceAccount", "--service-account-issuer=https://localhost"]);
        for (option, file) in [
            ("cert-dir", "certificates"),
            ("token-auth-file", "tokens"),
            ("service-account-key-file", "key"),
            ("service-account-signing-key-file", "key"),
        ] {
            command.arg(format!("--{option}={}", at(file).display()));
        }
        start(&mut command, "server.log");
        let plane = Plane { server: format!("https://127.0.0.1:{port}"), programs, folder };
        for (name, token) in [("admin", ADMIN), ("controller", CONTROLLER)] {
            let configuration = json!({
                "apiVersion": "v1", "kind": "Config", "current-context": "it",
                "clusters": [{"name": "it", "cluster": {"server": plane.server, "insecure-skip-tls-verify": true}}],
                "users": [{"name": "it", "user": {"token": token}}],
                "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
            });
            std::fs::write(plane.folder.path().join(name), configuration.to_string()).unwrap();
        }
        until(300, "an API server", || plane.ask("GET", "/readyz", &[], None) == "ok");
        until(60, "the namespace default", || plane.get("/api/v1/namespaces/default")["kind"] == "Namespace");
        for name in ["quell", "shop"] {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            plane.post("/api/v1/namespaces", &namespace);
        }
        Some(plane)
    }

    /// Its answer to a request of curl's.
    pub fn ask(&self, method: &str, path: &str, headers: &[&str], body: Option<&Value>) -> String {
        let mut command = Command::new("curl");
        command.args(["-sk", "-X", method, "-H", &format!("Authorization: Bearer {ADMIN}")]);
        let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        command.args(["-H", &format!("Content-Type: {kind}")]);
        headers.iter().for_each(|header| _ = command.args(["-H", header]));
        if let Some(body) = body {
            command.args(["-d", &body.to_string()]);
        }
        String::from_utf8(output(command.arg(format!("{}{path}", self.server))).stdout).unwrap()
    }

    fn json(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        serde_json::from_str(&self.ask(method, path, &[], body)).unwrap_or_default()
    }

    pub fn get(&self, path: &str) -> Value {
        self.json("GET", path, None)
    }

    pub fn post(&self, path: &str, object: &Value) -> Value {
        let answer = self.json("POST", path, Some(object));
        assert_ne!(answer["kind"], "Status", "{object}: {answer}");
        answer
    }

    pub fn patch(&self, path: &str, patch: &Value) -> Value {
        let answer = self.json("PATCH", path, Some(patch));
        assert_ne!(answer["kind"], "Status", "{patch}: {answer}");
        answer
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

    /// A set of replicas of nothing; its uid.
    pub fn owner(&self, name: &str) -> String {
        let labels = json!({"app": name});
        let set = self.post(
            "/apis/apps/v1/namespaces/shop/replicasets",
            &json!({
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name},
                "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": {
                    "metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "none"}]},
                }},
            }),
        );
        set["metadata"]["uid"].as_str().unwrap().to_owned()
    }

    /// A pod of it on a node, ready.
    pub fn pod(&self, name: &str, owner: Option<(&str, &str)>, class: &str, node: &str) {
        let mut meta = json!({"name": name, "labels": {"app": owner.map_or("", |it| it.0), "quell.dev/class": class}});
        if let Some((owner, uid)) = owner {
            meta["ownerReferences"] = json!([{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": uid, "controller": true,
            }]);
        }
        let pods = "/api/v1/namespaces/shop/pods";
        let requests = json!({"requests": {"cpu": "500m", "memory": "64Mi"}});
        let spec = json!({"nodeName": node, "containers": [{"name": "main", "image": "none", "resources": requests}]});
        self.post(pods, &json!({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}));
        let status = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
        self.patch(&format!("{pods}/{name}/status"), &json!({"status": status}));
    }

    /// Is the pod there, and not on its way out?
    pub fn runs(&self, pod: &str) -> bool {
        let pod = self.get(&format!("/api/v1/namespaces/shop/pods/{pod}"));
        pod["kind"] == "Pod" && pod["metadata"]["deletionTimestamp"].is_null()
    }

    /// As a kubelet that has ended it.
    pub fn gone(&self, pod: &str) {
        let at_once = json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0});
        self.json("DELETE", &format!("/api/v1/namespaces/shop/pods/{pod}"), Some(&at_once));
    }

    pub fn is_tainted(&self, node: &str) -> bool {
        let node = self.get(&format!("/api/v1/nodes/{node}"));
        node["spec"]["taints"].as_array().is_some_and(|all| all.iter().any(|it| it["key"] == "quell.dev/contended"))
    }

    /// The program, as this user, beside a folder of its own.
    pub fn quell_cluster(&self, user: &str, arguments: &[&str]) -> Running {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quell-cluster"));
        command.env("KUBECONFIG", self.folder.path().join(user)).args(arguments);
        let log = File::options().create(true).append(true).open(self.folder.path().join("quell.log")).unwrap();
        Running(command.stdout(Stdio::null()).stderr(log).spawn().unwrap())
    }

    /// A controller with rounds of two seconds.
    pub fn controller(&self, user: &str, name: &str, mode: &str) -> Running {
        let folder = self.folder.path().join(name);
        let folder = folder.to_str().unwrap();
        let arguments =
            ["run", "--driver", "kubernetes", "--interval", "2", "--mode", mode, "--identity", name, "--dir", folder];
        self.quell_cluster(user, &arguments)
    }

    /// What a controller says of itself.
    pub fn status(&self, name: &str) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quell-cluster"));
        command.args(["status", "--json", "--dir"]).arg(self.folder.path().join(name));
        String::from_utf8(output(&mut command).stdout).unwrap()
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("quell.log")).unwrap_or_default()
    }
}

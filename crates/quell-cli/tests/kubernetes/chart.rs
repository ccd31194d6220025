//! The chart, by helm, in a real API server on this machine: what it installs, refuses, changes, and leaves. No scheduler and no kubelet:
//! what the agent leaves on a node is the other tests'.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::node;

const TOKEN: &str = "a-token-of-this-test";

/// etcd and an API server on free ports of the loopback, ended with this.
struct ControlPlane {
    folder: tempfile::TempDir,
    helm: PathBuf,
    server: String,
    programs: Vec<Child>,
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
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

impl ControlPlane {
    /// None, after saying so, where one of the programs was not compiled yet.
    fn start() -> Option<ControlPlane> {
        let [etcd, server, helm] =
            ["etcd", "kube-apiserver", "helm"].map(|name| Some(node::compiled(name)?.join(name)));
        let (etcd, server, helm) = (etcd?, server?, helm?);
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let key = at("key");
        let made = output(Command::new("openssl").args(["genrsa", "-out"]).arg(&key).arg("2048"));
        assert!(made.status.success(), "{made:?}");
        std::fs::write(at("tokens"), format!("{TOKEN},admin,1,\"system:masters\"\n")).unwrap();
        let [client, peer, port] = [free_port(), free_port(), free_port()];
        let (client, peer) = (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
        let log = |name: &str| std::fs::File::create(at(name)).unwrap();
        let mut programs = Vec::new();
        let mut start = |command: &mut Command, name: &str| {
            let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log(name));
            programs.push(command.spawn().unwrap());
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
        // No controllers run: there are no service accounts.
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
        let server = format!("https://127.0.0.1:{port}");
        let configuration = serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "it",
            "clusters": [{"name": "it", "cluster": {"server": server, "insecure-skip-tls-verify": true}}],
            "users": [{"name": "it", "user": {"token": TOKEN}}],
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        });
        std::fs::write(at("kubeconfig"), configuration.to_string()).unwrap();
        let plane = ControlPlane { folder, helm, server, programs };
        plane.await_readiness();
        Some(plane)
    }

    fn await_readiness(&self) {
        let start = Instant::now();
        while self.ask(&["/readyz"]) != "ok" {
            let log = |name: &str| std::fs::read_to_string(self.folder.path().join(name)).unwrap();
            let is_late = start.elapsed() > Duration::from_secs(300);
            assert!(!is_late, "no API server:\n{}\n{}", log("etcd.log"), log("server.log"));
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Its answer to a request of curl's.
    fn ask(&self, arguments: &[&str]) -> String {
        let (path, more) = arguments.split_first().unwrap();
        let header = format!("Authorization: Bearer {TOKEN}");
        let mut command = Command::new("curl");
        command.args(["-sk", "-H", &header, "-H", "Content-Type: application/json"]).args(more);
        String::from_utf8(output(command.arg(format!("{}{path}", self.server))).stdout).unwrap()
    }

    fn get(&self, path: &str) -> Value {
        serde_json::from_str(&self.ask(&[path])).unwrap()
    }

    fn create(&self, path: &str, object: &Value) -> Value {
        let answer: Value = serde_json::from_str(&self.ask(&[path, "-d", &object.to_string()])).unwrap();
        assert_ne!(answer["kind"], "Status", "{answer}");
        answer
    }

    fn helm(&self, arguments: &[&str]) -> Result<String, String> {
        let mut command = Command::new(&self.helm);
        command.env("HOME", self.folder.path()).env("KUBECONFIG", self.folder.path().join("kubeconfig"));
        let output = output(command.args(["--namespace", "quell"]).args(arguments));
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
    }

    /// The same, once it makes no more of its own.
    fn settled(&self) -> Vec<String> {
        let mut last = self.objects();
        for _ in 0..60 {
            std::thread::sleep(Duration::from_secs(1));
            let now = self.objects();
            if now == last {
                return now;
            }
            last = now;
        }
        panic!("the API server still makes objects: {last:?}");
    }

    /// All objects of all kinds but events, as `KIND/NAME`.
    fn objects(&self) -> Vec<String> {
        let mut bases = vec!["/api/v1".to_owned()];
        for group in self.get("/apis")["groups"].as_array().unwrap() {
            bases.push(format!("/apis/{}", group["preferredVersion"]["groupVersion"].as_str().unwrap()));
        }
        let mut objects = Vec::new();
        for base in bases {
            for resource in self.get(&base)["resources"].as_array().unwrap() {
                let name = resource["name"].as_str().unwrap();
                let is_listed = resource["verbs"].as_array().unwrap().iter().any(|verb| verb == "list");
                if !is_listed || ["events", "leases", "componentstatuses"].contains(&name) {
                    continue;
                }
                let list = self.get(&format!("{base}/{name}"));
                let names =
                    list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap());
                objects.extend(names.map(|its| format!("{name}/{its}")));
            }
        }
        objects.sort();
        objects
    }
}

const DAEMON_SET: &str = "/apis/apps/v1/namespaces/quell/daemonsets/quell";

#[test]
#[ignore = "etcd, an API server and helm, which compile for half an hour: make test-kubernetes"]
fn the_chart_is_installed_changed_and_uninstalled_and_leaves_nothing() {
    let Some(plane) = ControlPlane::start() else { return };
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/chart/quell");
    let chart = chart.to_str().unwrap();
    // What it refuses, before the cluster is asked.
    for (value, named) in [
        ("kubernetes.mod=enforce", "mod"),
        ("kubernetes.mode=act", "mode"),
        ("attribution.cost=7", "cost"),
        ("priorityClassLabels.enabled=true", "priorityClassLabels.classes"),
    ] {
        let refused = plane.helm(&["template", "quell", chart, "--set", value]).unwrap_err();
        assert!(refused.contains(named), "{value}: {refused}");
    }
    let before = plane.settled();
    plane.helm(&["install", "quell", chart, "--create-namespace"]).unwrap();
    let installed = plane.objects();
    let fresh: Vec<&String> = installed.iter().filter(|object| !before.contains(object)).collect();
    let expected = [
        "configmaps/quell",
        "daemonsets/quell",
        "namespaces/quell",
        "secrets/sh.helm.release.v1.quell.v1",
        "serviceaccounts/quell",
    ];
    assert_eq!(fresh, expected);
    let set = plane.get(DAEMON_SET);
    let container = &set["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["securityContext"]["privileged"], false);
    let configuration =
        || plane.get("/api/v1/namespaces/quell/configmaps/quell")["data"]["quell.toml"].as_str().unwrap().to_owned();
    assert!(configuration().contains("mode = \"observe\""), "{}", configuration());

    // What the page says.
    let upgrade = |value: &str| plane.helm(&["upgrade", "quell", chart, "--reuse-values", "--set", value]).unwrap();
    upgrade("kubernetes.mode=enforce");
    assert!(configuration().contains("mode = \"enforce\""), "{}", configuration());
    let sum = |set: &Value| set["spec"]["template"]["metadata"]["annotations"]["quell.dev/configuration"].clone();
    assert_ne!(sum(&plane.get(DAEMON_SET)), sum(&set), "the DaemonSet's pods are not made again");

    // A PriorityClass becomes the label.
    let class = serde_json::json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "web"}, "value": 1000,
    });
    plane.create("/apis/scheduling.k8s.io/v1/priorityclasses", &class);
    upgrade("priorityClassLabels.enabled=true,priorityClassLabels.classes.web=lc");
    let pod = |name: &str, class: Option<&str>| {
        serde_json::json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"priorityClassName": class, "containers": [{"name": "main", "image": "none"}]},
        })
    };
    let namespace = serde_json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    plane.create("/api/v1/namespaces", &namespace);
    let (start, mut number) = (Instant::now(), 0);
    loop {
        // The server takes a policy up a moment after it was made.
        number += 1;
        let made = plane.create("/api/v1/namespaces/shop/pods", &pod(&format!("web-{number}"), Some("web")));
        if made["metadata"]["labels"]["quell.dev/class"] == "lc" {
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "{made}");
        std::thread::sleep(Duration::from_millis(200));
    }
    let plain = plane.create("/api/v1/namespaces/shop/pods", &pod("plain", None));
    assert!(plain["metadata"]["labels"].is_null(), "{plain}");

    plane.helm(&["uninstall", "quell"]).unwrap();
    let own = ["namespaces/quell", "namespaces/shop", "priorityclasses/web"];
    let left = plane.objects().into_iter().filter(|object| !before.contains(object));
    let left: Vec<String> =
        left.filter(|object| !object.starts_with("pods/") && !own.contains(&object.as_str())).collect();
    assert!(left.is_empty(), "left: {left:?}");
}

//! A control plane of Kubernetes on free ports of the loopback, for tests: etcd and an API server, and with [`Part`]s a scheduler,
//! the controllers of replica sets and disruption budgets, and kwok, which plays the kubelets. All of it ends with the value.

mod ask;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::json;
use tempfile::TempDir;

/// The token of a user who may do everything.
const ADMIN: &str = "a-token-of-this-test";
/// Beside it one of the chart's controller.
const CONTROLLER: &str = "a-token-of-the-controller";
const ACCOUNT: &str = "system:serviceaccount:quell:quell-cluster";

/// What runs beside etcd and the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// kube-scheduler, as it is by default.
    Scheduler,
    /// Of kube-controller-manager: replica sets, deployments, disruption budgets, the garbage of what was deleted.
    Controllers,
    /// kwok: nodes with the annotation `kwok.x-k8s.io/node` are ready, and so are their pods.
    Kwok,
}

impl Part {
    fn program(self) -> &'static str {
        match self {
            Part::Scheduler => "kube-scheduler",
            Part::Controllers => "kube-controller-manager",
            Part::Kwok => "kwok",
        }
    }
}

/// The control plane.
pub struct Plane {
    /// Its files: a kubeconfig each for `admin` and `controller`, logs.
    pub folder: TempDir,
    server: String,
    programs: Vec<Program>,
}

struct Program {
    name: &'static str,
    command: Command,
    running: Running,
}

/// A process that is killed when the value is dropped.
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
        if std::env::var_os("QUELL_KEEP_LOGS").is_some() {
            for program in &self.programs {
                println!("{}:\n{}", program.name, self.log(program.name));
            }
        }
        // What needs the others first.
        while self.programs.pop().is_some() {}
    }
}

/// A port of the loopback that was free.
#[must_use]
pub fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).map_or(0, |address| address.port())
}

/// Runs it to its end, without an input.
pub fn output(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// The program of `scripts/kubernetes`. None, after saying so, where it was not compiled yet.
#[must_use]
pub fn compiled(program: &str) -> Option<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/kubernetes");
    let found = output(Command::new(script).args([program, "--if-there"]).stderr(Stdio::inherit()));
    if !found.status.success() {
        println!("skipped: no {program}: scripts/kubernetes {program} compiles it");
        return None;
    }
    Some(Path::new(String::from_utf8_lossy(&found.stdout).trim_end()).join(program))
}

/// Milliseconds since 1970.
#[must_use]
pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
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
    #[must_use]
    pub fn start(parts: &[Part]) -> Option<Plane> {
        let (etcd, server) = (compiled("etcd")?, compiled("kube-apiserver")?);
        let more: Option<Vec<PathBuf>> = parts.iter().map(|part| compiled(part.program())).collect();
        let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("a folder: {error}"));
        let [client, peer, port] = [free_port(), free_port(), free_port()];
        let mut plane = Plane { server: format!("https://127.0.0.1:{port}"), programs: Vec::new(), folder };
        plane.users();
        let (client, peer) = (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
        plane.etcd(&etcd, &client, &peer);
        plane.server(&server, &client, port);
        plane.await_readiness();
        for (part, program) in parts.iter().zip(more?) {
            plane.part(*part, &program);
        }
        Some(plane)
    }

    /// A file of its folder.
    #[must_use]
    pub fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn users(&self) {
        let write = |name: &str, text: String| {
            std::fs::write(self.at(name), text).unwrap_or_else(|error| panic!("{name}: {error}"));
        };
        let made = output(Command::new("openssl").args(["genrsa", "-out"]).arg(self.at("key")).arg("2048"));
        assert!(made.status.success(), "{made:?}");
        let groups = "system:serviceaccounts,system:serviceaccounts:quell";
        write("tokens", format!("{ADMIN},admin,1,\"system:masters\"\n{CONTROLLER},{ACCOUNT},2,\"{groups}\"\n"));
        for (name, token) in [("admin", ADMIN), ("controller", CONTROLLER)] {
            write(name, self.kubeconfig(token));
        }
    }

    /// A kubeconfig with this token.
    #[must_use]
    pub fn kubeconfig(&self, token: &str) -> String {
        let cluster = json!({"server": self.server, "insecure-skip-tls-verify": true});
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "it",
            "clusters": [{"name": "it", "cluster": cluster}], "users": [{"name": "it", "user": {"token": token}}],
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        })
        .to_string()
    }

    /// Starts a program whose errors go to a log of its name.
    fn run(&mut self, name: &'static str, mut command: Command) {
        let log = File::options().create(true).append(true).open(self.at(&format!("{name}.log")));
        let log = log.unwrap_or_else(|error| panic!("the log of {name}: {error}"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let running = Running(command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}")));
        self.programs.push(Program { name, command, running });
    }

    fn etcd(&mut self, program: &Path, client: &str, peer: &str) {
        let mut command = Command::new(program);
        command.arg("--data-dir").arg(self.at("data")).args(["--unsafe-no-fsync", "--log-level=warn", "--name=one"]);
        command.args([format!("--listen-client-urls={client}"), format!("--advertise-client-urls={client}")]);
        command.args([format!("--listen-peer-urls={peer}"), format!("--initial-advertise-peer-urls={peer}")]);
        command.arg(format!("--initial-cluster=one={peer}"));
        self.run("etcd", command);
    }

    fn server(&mut self, program: &Path, client: &str, port: u16) {
        let mut command = Command::new(program);
        command.arg(format!("--etcd-servers={client}")).arg(format!("--secure-port={port}"));
        command.args(["--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none"]);
        command.args(["--service-cluster-ip-range=10.0.0.0/24", "--authorization-mode=RBAC", "--allow-privileged"]);
        // No controller of service accounts runs: namespaces have none of their own.
        command.args(["--disable-admission-plugins=ServiceAccount", "--service-account-issuer=https://localhost"]);
        // The tests' own load is no one's to bound.
        command.args(["--max-requests-inflight=2000", "--max-mutating-requests-inflight=1000"]);
        for (option, file) in [
            ("cert-dir", "certificates"),
            ("token-auth-file", "tokens"),
            ("service-account-key-file", "key"),
            ("service-account-signing-key-file", "key"),
        ] {
            command.arg(format!("--{option}={}", self.at(file).display()));
        }
        self.run("server", command);
    }

    fn part(&mut self, part: Part, program: &Path) {
        let mut command = Command::new(program);
        command.arg(format!("--kubeconfig={}", self.at("admin").display()));
        match part {
            Part::Scheduler => {
                command.args([
                    "--leader-elect=false",
                    "--secure-port=0",
                    "--kube-api-qps=500",
                    "--kube-api-burst=1000",
                ]);
            }
            Part::Controllers => {
                let own = ["deployment", "replicaset", "disruption", "garbage-collector"];
                command.arg(format!("--controllers={}", own.map(|name| format!("{name}-controller")).join(",")));
                command.args([
                    "--leader-elect=false",
                    "--secure-port=0",
                    "--kube-api-qps=500",
                    "--kube-api-burst=1000",
                ]);
            }
            Part::Kwok => {
                command
                    .args(["--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake", "--node-ip=127.0.0.1"]);
                command.arg(format!("--server-address=127.0.0.1:{}", free_port()));
                let stages = self.at("stages.yaml");
                std::fs::write(&stages, include_str!("stages.yaml")).unwrap_or_else(|error| panic!("stages: {error}"));
                command.arg(format!("--config={}", stages.display()));
            }
        }
        self.run(part.program(), command);
    }

    fn await_readiness(&mut self) {
        until(300, "an API server", || self.ask("GET", "/readyz", &[], None) == "ok");
        until(60, "the namespace default", || self.get("/api/v1/namespaces/default")["kind"] == "Namespace");
    }

    /// The API server crashes, and is gone for this time.
    pub fn restart_server(&mut self, gone: Duration) {
        for program in self.programs.iter_mut().filter(|program| program.name == "server") {
            program.running.kill();
            std::thread::sleep(gone);
            program.running = Running(program.command.spawn().unwrap_or_else(|error| panic!("the server: {error}")));
        }
        self.await_readiness();
    }

    /// The end of a program's log.
    #[must_use]
    pub fn log(&self, name: &str) -> String {
        let text = std::fs::read_to_string(self.at(&format!("{name}.log"))).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }
}

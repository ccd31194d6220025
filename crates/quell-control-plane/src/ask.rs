//! What a test asks the API server, by curl.

use std::process::Command;

use serde_json::{Value, json};

use crate::{ADMIN, Plane, compiled, output};

impl Plane {
    /// The answer to a request of an administrator's.
    #[must_use]
    pub fn ask(&self, method: &str, path: &str, headers: &[&str], body: Option<&Value>) -> String {
        self.ask_as(ADMIN, method, path, headers, body)
    }

    /// The same with this token.
    #[must_use]
    pub fn ask_as(&self, token: &str, method: &str, path: &str, headers: &[&str], body: Option<&Value>) -> String {
        let mut command = Command::new("curl");
        command.args(["-sk", "--max-time", "60", "-X", method, "-H", &format!("Authorization: Bearer {token}")]);
        let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        command.args(["-H", &format!("Content-Type: {kind}")]);
        headers.iter().for_each(|header| _ = command.args(["-H", header]));
        if let Some(body) = body {
            command.args(["-d", &body.to_string()]);
        }
        let answer = output(command.arg(format!("{}{path}", self.server))).stdout;
        String::from_utf8(answer).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    fn json(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        serde_json::from_str(&self.ask(method, path, &[], body)).unwrap_or_default()
    }

    /// An object or a list.
    #[must_use]
    pub fn get(&self, path: &str) -> Value {
        self.json("GET", path, None)
    }

    /// Makes an object.
    pub fn post(&self, path: &str, object: &Value) -> Value {
        let answer = self.json("POST", path, Some(object));
        assert_ne!(answer["kind"], "Status", "{object}: {answer}");
        answer
    }

    /// Changes one.
    pub fn patch(&self, path: &str, patch: &Value) -> Value {
        let answer = self.json("PATCH", path, Some(patch));
        assert_ne!(answer["kind"], "Status", "{patch}: {answer}");
        answer
    }

    /// Deletes one at once.
    pub fn delete(&self, path: &str) {
        let at_once = json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0});
        self.json("DELETE", path, Some(&at_once));
    }

    /// Makes namespaces.
    pub fn namespaces(&self, names: &[&str]) {
        for name in names {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            self.post("/api/v1/namespaces", &namespace);
        }
    }

    /// Runs helm in the namespace quell; Err: what it said. None, after saying so, where it was not compiled yet.
    #[must_use]
    pub fn helm(&self, arguments: &[&str]) -> Option<Result<String, String>> {
        let mut command = Command::new(compiled("helm")?);
        command.env("HOME", self.folder.path()).env("KUBECONFIG", self.at("admin"));
        let output = output(command.args(["--namespace", "quell"]).args(arguments));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Some(if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) })
    }

    /// A token of a service account of the namespace quell, of a pod on this node where one is named.
    #[must_use]
    pub fn token(&self, account: &str, node: Option<&str>) -> String {
        let mut spec = json!({"expirationSeconds": 3600});
        if let Some(node) = node {
            let uid = self.get(&format!("/api/v1/nodes/{node}"))["metadata"]["uid"].clone();
            spec["boundObjectRef"] = json!({"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid});
        }
        let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec});
        let made = self.post(&format!("/api/v1/namespaces/quell/serviceaccounts/{account}/token"), &request);
        made["status"]["token"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned()
    }
}

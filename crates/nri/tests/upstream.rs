//! Against the runtime's side of upstream, `github.com/containerd/nri/pkg/adaptation`. Skipped, with words, where Go is not installed.

#[path = "upstream_side/mod.rs"]
mod side;

#[path = "upstream_side/pinner.rs"]
mod pinner;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use base64::prelude::{BASE64_STANDARD, Engine};
use nri::{
    Answer, ContainerUpdate, Ended, Error, Event, Events, FailurePolicy, LinuxResources, Plugin, Registration, Runtime,
    Stub,
};
use pinner::{CPUS, Pinner};
use prost::Message;
use serde_json::{Value, json};
use side::Upstream;
use tempfile::TempDir;

const LIMIT: Duration = Duration::from_secs(60);
const POLICY: FailurePolicy = FailurePolicy { fail_request: true, keep_connected: true };

/// A runtime with the plug-in connected.
struct Node {
    upstream: Upstream,
    folder: TempDir,
    runtime: Runtime,
    calls: Receiver<String>,
    plugin: JoinHandle<Result<Ended, Error>>,
}

impl Node {
    /// None where Go is not installed.
    fn new(populated: &Value, limit: Duration) -> Option<Node> {
        let program = side::program()?;
        let folder = tempfile::tempdir().unwrap();
        let mut upstream = Upstream::new(program, &socket(&folder), folder.path(), limit);
        upstream.ask("Populate", populated).unwrap();
        upstream.ask("Start", &json!({})).unwrap();
        // The plug-ins that it starts itself: none.
        upstream.synchronized();
        let (runtime, calls, plugin) = connect(&folder);
        let mut node = Node { upstream, folder, runtime, calls, plugin };
        let synchronized = node.upstream.synchronized();
        println!("synchronised: {synchronized}");
        node.ready();
        assert!(synchronized["failed"].is_null(), "{synchronized}");
        Some(node)
    }

    /// Upstream hands events to a plug-in shortly after it has synchronised it: waits for the first one.
    fn ready(&mut self) {
        let has_come = |calls: &Receiver<String>| calls.try_iter().any(|call| call == "run ready");
        let first: Vec<String> = self.calls.iter().take(2).collect();
        println!("{first:?}");
        assert!(first[0].starts_with("configure upstream v1.2.3 v0.12.5 "), "{first:?}");
        assert!(first[1].starts_with("synchronize "), "{first:?}");
        let pod = json!({"pod": {"id": "ready", "name": "ready"}});
        for _ in 0..1000 {
            self.upstream.ask("RunPodSandbox", &pod).unwrap();
            if has_come(&self.calls) {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("no event comes");
    }

    fn create(&mut self, id: &str, annotations: Value) -> Result<Value, String> {
        self.upstream.ask("CreateContainer", &of(id, annotations))
    }

    fn resize(&mut self, id: &str, cpus: usize) -> Result<Value, String> {
        let mut request = of(id, json!({}));
        request["linuxResources"] = json!({"cpu": {"shares": {"value": (1024 * cpus).to_string()}}});
        self.upstream.ask("UpdateContainer", &request)
    }

    fn cpus(&mut self, id: &str) -> String {
        self.upstream.cpus(id).unwrap()
    }
}

fn socket(folder: &TempDir) -> PathBuf {
    folder.path().join("nri.sock")
}

fn connect(folder: &TempDir) -> (Runtime, Receiver<String>, JoinHandle<Result<Ended, Error>>) {
    let registration = Registration::new("pinner", "10").unwrap().failure_policy(POLICY);
    let stub = Stub::connect(socket(folder), registration).unwrap();
    let (runtime, (to_calls, calls)) = (stub.runtime(), channel());
    (runtime, calls, thread::spawn(move || stub.run(&mut Pinner::new(to_calls))))
}

/// A request about a container in a pod of its own.
fn of(id: &str, annotations: Value) -> Value {
    let pod = json!({"id": format!("pod-{id}"), "name": id, "namespace": "default", "annotations": annotations});
    json!({"pod": pod, "container": {"id": id, "podSandboxId": format!("pod-{id}"), "name": "main"}})
}

/// This many pods of a container with 60 long variables each.
fn populated(containers: usize) -> Value {
    let env: Vec<String> = (0..60).map(|at| format!("A_RATHER_LONG_VARIABLE_{at}={at:0128}")).collect();
    let container = |at| json!({"id": format!("other{at}"), "podSandboxId": format!("pod{at}"), "env": env});
    let pods: Vec<Value> = (0..containers).map(|at| json!({"id": format!("pod{at}"), "name": "other"})).collect();
    json!({"pods": pods, "containers": (0..containers).map(container).collect::<Vec<_>>()})
}

#[test]
#[ignore = "builds a Go program, for minutes where nothing is cached: make soak"]
fn a_node_is_synchronised_in_one_message_or_in_parts() {
    // 250 containers are 2.4 MB. 1000 are 9.6: more than a message may have.
    for containers in [0, 250, 1000] {
        let Some(mut node) = Node::new(&populated(containers), LIMIT) else { return };
        if containers > 0 {
            assert_eq!(node.cpus("other0"), node.cpus(&format!("other{}", containers - 1)));
            assert_eq!(node.cpus("other0").split(',').count(), CPUS);
        }
        assert_eq!(node.runtime.peer().unwrap().pid, node.upstream.pid());
    }
}

#[test]
#[ignore = "builds a Go program, for minutes where nothing is cached: make soak"]
fn a_container_starts_on_its_cpus_others_leave_them_and_a_refusal_is_shown() {
    let Some(mut node) = Node::new(&populated(3), LIMIT) else { return };
    let answer = node.create("a", json!({"cpus": "2"})).unwrap();
    let cpu = &answer["adjust"]["linux"]["resources"]["cpu"];
    assert_eq!(cpu["cpus"], "1,2");
    assert_eq!((&cpu["shares"]["value"], &cpu["quota"]["value"]), (&json!("2048"), &json!("-1")));
    assert_eq!(answer["adjust"]["env"][0], json!({"key": "PINNED", "value": "yes"}));
    assert_eq!(node.cpus("a"), "1,2");
    assert!(node.cpus("other2").starts_with("0,3,4,"));
    let refusal = node.create("b", json!({"cpus": "two"})).unwrap_err();
    assert!(refusal.ends_with("cpus: \"two\" is no number: name one, as in 2"), "{refusal}");
    let refusal = node.create("b", json!({"cpus": "20"})).unwrap_err();
    assert!(refusal.contains("20 CPUs asked, 13 are left"), "{refusal}");
    assert!(node.create("b", json!({})).unwrap()["adjust"]["linux"]["resources"]["cpu"]["cpus"].is_string());
}

#[test]
#[ignore = "builds a Go program, for minutes where nothing is cached: make soak"]
fn answers_of_any_length_pass_upstreams_reader() {
    let Some(mut node) = Node::new(&populated(0), LIMIT) else { return };
    // Its buffer has 4096 bytes, and a frame that finds no room there fails the connection.
    for long in (3000..4300).step_by(13).chain([8_000, 8_192, 12_288, 100_000, 4_000_000]) {
        let answer = node.create("a", json!({"cpus": "1", "long": long.to_string()})).unwrap();
        let value = answer["adjust"]["env"][1]["value"].as_str().unwrap_or_default();
        assert_eq!(value.len(), long);
    }
    let refusal = node.create("a", json!({"cpus": "1", "long": "4200000"})).unwrap_err();
    assert!(refusal.contains("the plug-in's answer is too long"), "{refusal}");
    assert!(node.create("a", json!({"cpus": "1"})).is_ok());
}

#[test]
#[ignore = "builds a Go program, for minutes where nothing is cached: make soak"]
fn a_resize_is_answered_with_other_cpus_or_refused() {
    let Some(mut node) = Node::new(&populated(2), LIMIT) else { return };
    node.create("a", json!({"cpus": "2"})).unwrap();
    let answer = node.resize("a", 3).unwrap();
    assert!(answer["update"].to_string().contains(r#""cpus":"1,2,3""#), "{answer}");
    assert_eq!(node.cpus("a"), "1,2,3");
    assert!(node.cpus("other0").starts_with("0,4,"));
    let refusal = node.resize("a", 40).unwrap_err();
    assert!(refusal.contains("40 CPUs asked"), "{refusal}");
    assert_eq!(node.cpus("a"), "1,2,3");
    node.resize("a", 1).unwrap();
    assert_eq!(node.cpus("a"), "1");
    assert!(node.cpus("other0").starts_with("0,2,"));
}

#[test]
#[ignore = "builds a Go program, for minutes where nothing is cached: make soak"]
fn containers_are_updated_at_any_time_and_those_that_are_not_there_come_back() {
    let Some(mut node) = Node::new(&populated(2), LIMIT) else { return };
    let update = |id: &str| ContainerUpdate::new(id, LinuxResources::on_cpus("5-6"));
    let failed = node.runtime.update_containers(vec![update("other1"), update("gone")], LIMIT).unwrap();
    assert_eq!(failed, [update("gone")]);
    assert_eq!(node.cpus("other1"), "5-6");
    // While a request is being handled, too.
    node.upstream.send("CreateContainer", &of("a", json!({"wait": "300"})));
    node.calls.iter().find(|call| call == "create a").unwrap();
    assert_eq!(node.runtime.update_containers(vec![update("other0")], LIMIT).unwrap(), []);
    node.upstream.answer().unwrap();
    assert_eq!(node.cpus("other0"), "5-6");
}

#[test]
#[ignore = "builds a Go program, for minutes where nothing is cached: make soak"]
fn a_plug_in_that_is_late_fails_the_request_is_notified_and_kept() {
    let Some(mut node) = Node::new(&populated(0), Duration::from_millis(400)) else { return };
    let failure = node.create("a", json!({"cpus": "1", "wait": "1500"})).unwrap_err();
    assert!(failure.contains("plugin 10-pinner failed to handle"), "{failure}");
    let late = node.calls.iter().find(|call| call.starts_with("late")).unwrap();
    assert_eq!(late, "late CreateContainer a true");
    assert!(node.create("b", json!({"cpus": "1"})).is_ok());
    assert_eq!(node.cpus("b"), "2");
}

#[test]
#[ignore = "builds a Go program, for minutes where nothing is cached: make soak"]
fn either_side_may_end_and_the_plug_in_may_come_back() {
    let Some(mut node) = Node::new(&populated(2), LIMIT) else { return };
    node.runtime.close();
    assert_eq!(node.plugin.join().unwrap().unwrap(), Ended::Closed);
    // The runtime goes on without it, at the latest from the second request on.
    let mut without = || node.upstream.ask("CreateContainer", &of("a", json!({"cpus": "1"}))).unwrap_or_default();
    let is_without = |answer: &Value| answer["adjust"]["env"].is_null() && answer["adjust"].is_object();
    assert!((0..100).any(|_| is_without(&without())));

    let (runtime, calls, plugin) = connect(&node.folder);
    node.upstream.synchronized();
    assert_eq!(calls.iter().nth(1).unwrap(), "synchronize 2 2 120");
    drop(node.upstream);
    assert_eq!(plugin.join().unwrap().unwrap(), Ended::Runtime);
    assert!(matches!(runtime.update_containers(Vec::new(), LIMIT).unwrap_err(), Error::Gone { .. }));
    let error = Stub::connect(socket(&node.folder), Registration::new("pinner", "10").unwrap()).unwrap_err();
    assert!(matches!(error, Error::Connect { .. }), "{error}");
}

#[test]
#[ignore = "builds a Go program, for minutes where nothing is cached: make soak"]
fn every_event_comes_once_in_order() {
    let Some(mut node) = Node::new(&populated(0), LIMIT) else { return };
    node.calls.try_iter().count();
    let mut shares = of("a", json!({}));
    shares["linuxResources"] = json!({"cpu": {"shares": {"value": "512"}}});
    let events = [
        ("RunPodSandbox", "run a"),
        ("CreateContainer", "create a"),
        ("PostCreateContainer", "created a"),
        ("StartContainer", "start a"),
        ("PostStartContainer", "started a"),
        ("UpdatePodSandbox", "update-pod a None Some(512)"),
        ("UpdateContainer", "update a"),
        ("PostUpdateContainer", "updated a"),
        ("PostUpdatePodSandbox", "updated-pod a"),
        ("StopContainer", "stop a"),
        ("RemoveContainer", "remove a"),
        ("StopPodSandbox", "stop-pod a"),
        ("RemovePodSandbox", "remove-pod a"),
    ];
    for (method, _) in events {
        let mut request = if method.starts_with("Update") { shares.clone() } else { of("a", json!({})) };
        if method.contains("PodSandbox") {
            request.as_object_mut().unwrap().remove("container");
        }
        node.upstream.ask(method, &request).unwrap();
    }
    let calls: Vec<String> = node.calls.iter().take(events.len()).collect();
    assert_eq!(calls, events.map(|(_, call)| call));
}

/// Random creations, resizes and ends; after each, as the runtime has it: no CPU is in two reservations, none is empty, and the shared
/// containers are on none of them.
#[test]
#[ignore = "builds a Go program, for minutes where nothing is cached: make soak"]
fn in_ten_thousand_random_events_no_cpu_is_exclusive_twice() {
    let Some(mut node) = Node::new(&json!({}), LIMIT) else { return };
    let mut random = 88_172_645_463_325_252_u64;
    let mut next = move |most: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % most
    };
    let mut exclusive: BTreeMap<String, bool> = BTreeMap::new();
    let mut refused = 0;
    for event in 0..10_000 {
        let id = format!("c{}", next(12));
        let outcome = match (exclusive.get(&id), next(3)) {
            (None, kind) => {
                let annotations = if kind == 0 { json!({}) } else { json!({"cpus": (1 + next(4)).to_string()}) };
                let created = node.create(&id, annotations);
                if created.is_ok() {
                    exclusive.insert(id, kind != 0);
                }
                created
            }
            (Some(_), 0) => {
                exclusive.remove(&id);
                node.upstream.ask("StopContainer", &of(&id, json!({})))
            }
            (Some(_), _) => node.resize(&id, 1 + next(5) as usize),
        };
        if let Err(words) = outcome {
            assert!(words.contains("are left: ask for less"), "{words}");
            refused += 1;
        }
        if event % 10 == 0 {
            let cpus = node.upstream.ask("Cpus", &Value::Null).unwrap();
            let of = |id: &str| -> BTreeSet<usize> {
                cpus[id].as_str().unwrap().split(',').map(|cpu| cpu.parse().expect("a CPU")).collect()
            };
            let mut taken = BTreeSet::new();
            for id in exclusive.iter().filter(|(_, own)| **own).map(|(id, _)| id) {
                assert!(of(id).iter().all(|cpu| *cpu > 0 && taken.insert(*cpu)), "event {event}: {cpus}");
            }
            let left: BTreeSet<usize> = (0..CPUS).filter(|cpu| !taken.contains(cpu)).collect();
            for id in exclusive.iter().filter(|(_, own)| !**own).map(|(id, _)| id) {
                assert_eq!(of(id), left, "event {event}: {id} of {cpus}");
            }
        }
    }
    assert!(refused > 100 && refused < 5000, "{refused} refused");
}

/// Reads a message of which upstream has set every field, and writes it again.
fn again<M: Message + Default>(upstream: &mut Upstream, name: &str) {
    let bytes = upstream.ask("Filled", &json!(name)).unwrap();
    let bytes = BASE64_STANDARD.decode(bytes.as_str().unwrap()).unwrap();
    let message = M::decode(&*bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
    let written = BASE64_STANDARD.encode(message.encode_to_vec());
    let differs = upstream.ask("Same", &json!({"name": name, "bytes": written})).unwrap();
    assert_eq!(differs, "", "{name}");
}

#[test]
#[ignore = "builds a Go program, for minutes where nothing is cached: make soak"]
fn no_field_of_any_message_is_lost() {
    let Some(program) = side::program() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut upstream = Upstream::new(program, &socket(&folder), folder.path(), LIMIT);
    again::<nri::PodSandbox>(&mut upstream, "PodSandbox");
    again::<nri::Container>(&mut upstream, "Container");
    again::<LinuxResources>(&mut upstream, "LinuxResources");
    again::<nri::ContainerAdjustment>(&mut upstream, "ContainerAdjustment");
    again::<ContainerUpdate>(&mut upstream, "ContainerUpdate");
    again::<nri::Configuration>(&mut upstream, "ConfigureRequest");
    again::<nri::Validation>(&mut upstream, "ValidateContainerAdjustmentRequest");
}

/// Refuses CPUs that another plug-in gave to a pod with an annotation.
struct Validator(Sender<String>);

impl Plugin for Validator {
    fn configure(&mut self, _: nri::Configuration) -> Answer<Events> {
        Ok(Events::of(&[Event::ValidateContainerAdjustment]))
    }

    fn synchronize(&mut self, _: Vec<nri::PodSandbox>, _: Vec<nri::Container>) -> Answer<Vec<ContainerUpdate>> {
        let _ = self.0.send("ready".into());
        Ok(Vec::new())
    }

    fn validate_container_adjustment(&mut self, validation: nri::Validation) -> Answer<()> {
        const CPUS: i32 = 21;
        let id = validation.container.unwrap_or_default().id;
        let owners = validation.owners.unwrap_or_default().owners;
        let owner = owners.get(&id).and_then(|owners| owners.simple.get(&CPUS)).cloned().unwrap_or_default();
        let _ = self.0.send(format!("{id} {owner}"));
        let is_refused = validation.pod.unwrap_or_default().annotations.contains_key("refused");
        if is_refused { Err(format!("no CPUs by {owner}: remove the annotation").into()) } else { Ok(()) }
    }
}

#[test]
#[ignore = "builds a Go program, for minutes where nothing is cached: make soak"]
fn a_validator_gets_what_others_set_and_may_refuse_it() {
    let Some(mut node) = Node::new(&populated(0), LIMIT) else { return };
    let stub = Stub::connect(socket(&node.folder), Registration::new("validator", "90").unwrap()).unwrap();
    let (to_calls, calls) = channel();
    thread::spawn(move || stub.run(&mut Validator(to_calls)));
    assert_eq!(calls.recv().unwrap(), "ready");
    // Upstream asks it shortly after it is synchronised.
    let asked = (0..1000).find_map(|_| {
        node.create("a", json!({"cpus": "1"})).unwrap();
        thread::sleep(Duration::from_millis(10));
        calls.try_recv().ok()
    });
    assert_eq!(asked.as_deref(), Some("a 10-pinner"));
    let refusal = node.create("b", json!({"cpus": "1", "refused": ""})).unwrap_err();
    assert!(refusal.contains("no CPUs by 10-pinner: remove the annotation"), "{refusal}");
}

/// A plug-in that the runtime starts itself: a script that runs this test's program for [`started_by_the_runtime`] alone.
#[test]
#[ignore = "builds a Go program, for minutes where nothing is cached: make soak"]
fn a_plug_in_is_started_by_the_runtime() {
    let Some(program) = side::program() else { return };
    let folder = tempfile::tempdir().unwrap();
    let plugins = folder.path().join("plugins");
    fs::create_dir(&plugins).unwrap();
    let own = std::env::current_exe().unwrap();
    let script = format!("#!/bin/sh\nexec {} --exact started_by_the_runtime --nocapture\n", own.display());
    fs::write(plugins.join("20-started"), script).unwrap();
    fs::set_permissions(plugins.join("20-started"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(plugins.join("started.conf"), "of the runtime's folder").unwrap();
    let mut upstream = Upstream::new(program, &socket(&folder), &plugins, LIMIT);
    upstream.ask("Start", &json!({})).unwrap();
    upstream.synchronized();
    let answer = upstream.ask("CreateContainer", &of("a", json!({"cpus": "1"}))).unwrap();
    assert_eq!(answer["adjust"]["env"][0]["key"], "PINNED");
}

#[test]
#[ignore = "builds a Go program, for minutes where nothing is cached: make soak"]
fn started_by_the_runtime() {
    let Some(stub) = Stub::from_environment(POLICY).unwrap() else { return };
    let again = Stub::from_environment(POLICY).unwrap_err().to_string();
    assert!(again.contains("in use already"), "{again}");
    let (to_calls, calls) = channel();
    let _ = stub.run(&mut Pinner::new(to_calls));
    assert!(calls.iter().next().unwrap().contains("of the runtime's folder"));
}

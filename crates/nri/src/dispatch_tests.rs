use super::*;
use crate::events::Events;
use crate::message::{Configuration, ContainerUpdate, LinuxResources};
use crate::plugin::Creation;

/// Notes each call, and answers by the pod's name.
#[derive(Default)]
struct Notes(Vec<String>);

impl Notes {
    fn note(&mut self, call: &str, pod: &PodSandbox, container: &Container) -> Answer<()> {
        self.0.push(format!("{call} {}/{}", pod.name, container.name));
        if pod.name == "bad" { Err(format!("{call}: bad").into()) } else { Ok(()) }
    }
}

impl Plugin for Notes {
    fn configure(&mut self, runtime: Configuration) -> Answer<Events> {
        match runtime.config.as_str() {
            "" => Ok(Events::of(&[Event::CreateContainer])),
            "none" => Ok(Events::default()),
            other => Err(format!("what is {other}?").into()),
        }
    }

    fn synchronize(&mut self, pods: Vec<PodSandbox>, containers: Vec<Container>) -> Answer<Vec<ContainerUpdate>> {
        self.0.push(format!("{} pods, {} containers", pods.len(), containers.len()));
        Ok(containers.iter().map(|it| ContainerUpdate::new(&it.id, LinuxResources::on_cpus("0"))).collect())
    }

    fn run_pod_sandbox(&mut self, pod: PodSandbox) -> Answer<()> {
        self.note("run", &pod, &Container::default())
    }

    fn create_container(&mut self, pod: PodSandbox, container: Container) -> Answer<Creation> {
        self.note("create", &pod, &container).map(|()| Creation::on_cpus("1-2"))
    }

    fn stop_container(&mut self, pod: PodSandbox, container: Container) -> Answer<Vec<ContainerUpdate>> {
        self.note("stop", &pod, &container).map(|()| Vec::new())
    }

    fn post_start_container(&mut self, pod: PodSandbox, container: Container) -> Answer<()> {
        self.note("started", &pod, &container)
    }

    fn validate_container_adjustment(&mut self, validation: Validation) -> Answer<()> {
        self.note("validate", &validation.pod.unwrap_or_default(), &Container::default())
    }

    fn state_change(&mut self, event: i32, pod: Option<PodSandbox>, _: Option<Container>) -> Answer<()> {
        self.0.push(format!("event {event} {}", pod.unwrap_or_default().name));
        Ok(())
    }

    fn shutdown(&mut self) {
        self.0.push("shutdown".into());
    }
}

const IN_TIME: Waited = Waited { since: Duration::ZERO, allowed: Some(Duration::from_secs(2)) };
const TOO_LATE: Waited = Waited { since: Duration::from_secs(3), allowed: Some(Duration::from_secs(2)) };

fn request(method: &str, message: &impl Message) -> Request {
    Request { service: SERVICE.into(), method: method.into(), payload: message.encode_to_vec(), timeout_nano: 0 }
}

fn about_pod(name: &str) -> About {
    let pod = PodSandbox { id: format!("p-{name}"), name: name.into(), ..PodSandbox::default() };
    let container = Container { id: format!("c-{name}"), name: "main".into(), ..Container::default() };
    About { pod: Some(pod), container: Some(container) }
}

fn answer(plugin: &mut Notes, request: &Request) -> Bytes {
    Dispatch::new(FailurePolicy { fail_request: true, keep_connected: true }).answer(plugin, request, IN_TIME)
}

fn code(answer: Bytes) -> i32 {
    answer.unwrap_err().code
}

#[test]
fn the_subscription_carries_the_failure_policy_and_must_name_an_event() {
    let with = |config: &str| {
        let runtime = Configuration { config: config.into(), ..Configuration::default() };
        answer(&mut Notes::default(), &request("Configure", &runtime))
    };
    let configured = Configured::decode(&*with("").unwrap()).unwrap();
    assert_eq!(configured.events, 8);
    assert_eq!(configured.failure_policy, Some(FailurePolicy { fail_request: true, keep_connected: true }));
    assert!(with("none").unwrap_err().message.contains("name some"));
    assert_eq!(with("x"), Err(status(UNKNOWN, "what is x?")));
}

#[test]
fn a_synchronization_in_parts_is_one_call_and_the_next_begins_anew() {
    let (mut plugin, mut dispatch) = (Notes::default(), Dispatch::new(FailurePolicy::default()));
    let part = |more| Synchronize {
        pods: vec![PodSandbox::default()],
        containers: vec![Container { id: "c".into(), ..Container::default() }; 2],
        more,
    };
    for round in [1, 2] {
        for more in [true, true, false] {
            let bytes = dispatch.answer(&mut plugin, &request("Synchronize", &part(more)), IN_TIME).unwrap();
            let Synchronized { update, more: answered } = Synchronized::decode(&*bytes).unwrap();
            assert_eq!((answered, update.len()), (more, if more { 0 } else { 6 }));
        }
        assert_eq!(plugin.0.len(), round);
    }
    assert_eq!(plugin.0[1], "3 pods, 6 containers");
}

#[test]
fn a_synchronization_without_end_is_refused() {
    let (mut plugin, mut dispatch) = (Notes::default(), Dispatch::new(FailurePolicy::default()));
    let part = Synchronize { containers: vec![Container::default(); 60_000], more: true, ..Synchronize::default() };
    let request = request("Synchronize", &part);
    let refused = (0..100).find_map(|_| dispatch.answer(&mut plugin, &request, IN_TIME).err()).unwrap();
    assert_eq!(refused.code, RESOURCE_EXHAUSTED);
    assert!(dispatch.parts.containers.len() < 400_000);
}

#[test]
fn a_message_of_many_empty_elements_is_refused_before_it_is_decoded() {
    let part = Synchronize { containers: vec![Container::default(); 100_000], ..Synchronize::default() };
    let request = request("Synchronize", &part);
    assert!(request.payload.len() < 1 << 20);
    assert_eq!(code(answer(&mut Notes::default(), &request)), RESOURCE_EXHAUSTED);
}

#[test]
fn answers_and_refusals_go_back_with_the_plug_ins_words() {
    let mut plugin = Notes::default();
    let bytes = answer(&mut plugin, &request("CreateContainer", &about_pod("good"))).unwrap();
    let created = Created::decode(&*bytes).unwrap();
    let cpus = created.adjust.unwrap().linux.unwrap().resources.unwrap().cpu.unwrap().cpus;
    assert_eq!(cpus, "1-2");
    let refused = answer(&mut plugin, &request("CreateContainer", &about_pod("bad"))).unwrap_err();
    assert_eq!(refused, status(UNKNOWN, "create: bad"));
    let validation = |name| Validation { pod: about_pod(name).pod, ..Validation::default() };
    let mut validate = |name| {
        let bytes = answer(&mut plugin, &request("ValidateContainerAdjustment", &validation(name))).unwrap();
        Validated::decode(&*bytes).unwrap()
    };
    assert_eq!(validate("good"), Validated::default());
    assert_eq!(validate("bad"), Validated { reject: true, reason: "validate: bad".into() });
}

#[test]
fn events_by_state_change_become_calls_and_unknown_ones_keep_their_number() {
    let mut plugin = Notes::default();
    let mut change = |event, with_container| {
        let About { pod, container } = about_pod("good");
        let message = StateChange { event, pod, container: container.filter(|_| with_container) };
        answer(&mut plugin, &request("StateChange", &message))
    };
    assert_eq!(change(1, false), Ok(Vec::new()));
    assert_eq!(change(7, true), Ok(Vec::new()));
    assert_eq!(change(99, false), Ok(Vec::new()));
    assert_eq!(change(7, false).unwrap_err().code, INVALID);
    assert_eq!(plugin.0, ["run good/", "started good/main", "event 99 good"]);
}

#[test]
fn what_makes_no_sense_calls_nothing() {
    let mut plugin = Notes::default();
    assert_eq!(code(answer(&mut plugin, &request("Dance", &Empty {}))), UNIMPLEMENTED);
    let elsewhere = Request { service: "other".into(), ..request("Shutdown", &Empty {}) };
    assert_eq!(code(answer(&mut plugin, &elsewhere)), UNIMPLEMENTED);
    assert_eq!(code(answer(&mut plugin, &request("CreateContainer", &Empty {}))), INVALID);
    let broken = Request { payload: vec![0x0a, 9, 1], ..request("RunPodSandbox", &Empty {}) };
    assert_eq!(code(answer(&mut plugin, &broken)), INVALID);
    assert_eq!(plugin.0, Vec::<String>::new());
    assert_eq!(answer(&mut plugin, &request("Shutdown", &Empty {})), Ok(Vec::new()));
    assert_eq!(plugin.0, ["shutdown"]);
}

#[test]
fn a_late_creation_is_not_handled_and_a_late_end_is() {
    let (mut plugin, mut dispatch) = (Notes::default(), Dispatch::new(FailurePolicy::default()));
    let create = request("CreateContainer", &about_pod("good"));
    assert_eq!(code(dispatch.answer(&mut plugin, &create, TOO_LATE)), DEADLINE_EXCEEDED);
    let stop = request("StopContainer", &about_pod("good"));
    assert!(dispatch.answer(&mut plugin, &stop, TOO_LATE).is_ok());
    assert_eq!(plugin.0, ["stop good/main"]);
    let report = late(&create, TOO_LATE, false).unwrap();
    assert_eq!((report.pod.as_str(), report.container.as_str()), ("p-good", "c-good"));
    assert_eq!(late(&create, IN_TIME, true), None);
    assert_eq!(late(&create, Waited { since: Duration::MAX, allowed: None }, true), None);
}

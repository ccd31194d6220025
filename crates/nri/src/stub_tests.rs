//! A runtime that does what a test says, over a pair of sockets.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use prost::Message;

use super::*;
use crate::message::service::{About, Created, Request, Status, UpdateContainers, UpdatedContainers};
use crate::message::{Configuration, Container, ContainerUpdate, LinuxResources, PodSandbox};
use crate::wire::frame::{PLUGIN, REQUEST, RESPONSE, RUNTIME};
use crate::wire::{Decoder, Frame};
use crate::{Answer, Creation, Event, Events, Late};

struct Fake {
    socket: UnixStream,
    decoder: Decoder,
    arrived: VecDeque<Frame>,
    stream: u32,
}

impl Fake {
    fn next(&mut self) -> Option<Frame> {
        let mut buffer = [0; 4096];
        while self.arrived.is_empty() {
            let length = self.socket.read(&mut buffer).unwrap_or(0);
            if length == 0 {
                return None;
            }
            let mut bytes = &buffer[..length];
            while let Some(frame) = self.decoder.next(&mut bytes).unwrap() {
                self.arrived.push_back(frame);
            }
        }
        self.arrived.pop_front()
    }

    fn send(&mut self, connection: u32, stream: u32, kind: u8, body: Vec<u8>) {
        let frame = Frame { connection, stream, kind, flags: 0, body };
        self.socket.write_all(&frame.encode().unwrap()).unwrap();
    }

    /// The plug-in's next call.
    fn called<M: Message + Default>(&mut self, method: &str) -> (u32, M) {
        let frame = self.next().expect("a call");
        assert_eq!((frame.connection, frame.kind), (RUNTIME, REQUEST));
        let request = Request::decode(&*frame.body).unwrap();
        assert_eq!((request.service.as_str(), request.method.as_str()), ("nri.pkg.api.v1alpha1.Runtime", method));
        (frame.stream, M::decode(&*request.payload).unwrap())
    }

    fn answer(&mut self, stream: u32, message: &impl Message) {
        let response = Response { status: None, payload: message.encode_to_vec() };
        self.send(RUNTIME, stream, RESPONSE, response.encode_to_vec());
    }

    /// Sends a request; the stream on which the answer will come.
    fn ask(&mut self, method: &str, message: &impl Message, limit: Duration) -> u32 {
        self.stream += 2;
        let request = Request {
            service: "nri.pkg.api.v1alpha1.Plugin".into(),
            method: method.into(),
            payload: message.encode_to_vec(),
            timeout_nano: limit.as_nanos() as i64,
        };
        self.send(PLUGIN, self.stream, REQUEST, request.encode_to_vec());
        self.stream
    }

    fn answered(&mut self, stream: u32) -> Response {
        let frame = self.next().expect("an answer");
        assert_eq!((frame.connection, frame.kind, frame.stream), (PLUGIN, RESPONSE, stream));
        Response::decode(&*frame.body).unwrap()
    }
}

/// Creates containers on CPUs 0-1; does for a pod named `wait` what the test sends.
struct Waits {
    begun: Sender<()>,
    go_on: Receiver<()>,
    calls: Sender<String>,
    runtime: Option<Runtime>,
}

impl Plugin for Waits {
    fn configure(&mut self, _: Configuration) -> Answer<Events> {
        Ok(Events::FIRST)
    }

    fn create_container(&mut self, pod: PodSandbox, _: Container) -> Answer<Creation> {
        let _ = self.calls.send(format!("create {}", pod.name));
        match pod.name.as_str() {
            "wait" => {
                self.begun.send(()).unwrap();
                self.go_on.recv().unwrap();
            }
            "call" => {
                let runtime = self.runtime.as_ref().unwrap();
                return Err(runtime.update_containers(Vec::new(), LIMIT).unwrap_err().to_string().into());
            }
            "panic" => panic!("of the test's plug-in"),
            "long" => {
                let mut creation = Creation::on_cpus("0-1");
                creation.adjust.args = vec!["x".repeat(3 << 20)];
                return Ok(creation);
            }
            _ => {}
        }
        Ok(Creation::on_cpus("0-1"))
    }

    fn remove_container(&mut self, pod: PodSandbox, _: Container) -> Answer<()> {
        let _ = self.calls.send(format!("remove {}", pod.name));
        Ok(())
    }

    fn late(&mut self, late: Late) {
        let words = format!("late {} {} {} {}", late.request, late.pod, late.container, late.handled);
        let _ = self.calls.send(words);
    }
}

const LIMIT: Duration = Duration::from_secs(60);

struct Pair {
    fake: Fake,
    runtime: Runtime,
    begun: Receiver<()>,
    go_on: Sender<()>,
    calls: Receiver<String>,
    plugin: JoinHandle<Result<Ended, Error>>,
}

fn pair() -> Pair {
    let (theirs, ours) = UnixStream::pair().unwrap();
    let mut fake = Fake { socket: theirs, decoder: Decoder::default(), arrived: VecDeque::new(), stream: 1 };
    let registration = Registration::new("waits", "42").unwrap();
    let connecting = thread::spawn(move || Stub::from_stream(ours, registration).unwrap());
    let (stream, register) = fake.called::<RegisterPlugin>("RegisterPlugin");
    assert_eq!((register.name.as_str(), register.index.as_str()), ("waits", "42"));
    fake.answer(stream, &Empty {});
    let stub = connecting.join().unwrap();
    let runtime = stub.runtime();
    let (begun_sender, begun) = channel();
    let (go_on, go_on_receiver) = channel();
    let (calls_sender, calls) = channel();
    let mut waits =
        Waits { begun: begun_sender, go_on: go_on_receiver, calls: calls_sender, runtime: Some(runtime.clone()) };
    let plugin = thread::spawn(move || stub.run(&mut waits));
    Pair { fake, runtime, begun, go_on, calls, plugin }
}

fn of_pod(name: &str) -> About {
    let pod = PodSandbox { id: "p1".into(), name: name.into(), ..PodSandbox::default() };
    About { pod: Some(pod), container: Some(Container { id: "c1".into(), ..Container::default() }) }
}

fn cpus(response: Response) -> String {
    let adjust = Created::decode(&*response.payload).unwrap().adjust.unwrap();
    adjust.linux.unwrap().resources.unwrap().cpu.unwrap().cpus
}

#[test]
fn requests_are_answered_and_the_runtimes_end_is_no_error() {
    let Pair { mut fake, plugin, runtime, .. } = pair();
    let stream = fake.ask("CreateContainer", &of_pod("a"), LIMIT);
    assert_eq!(cpus(fake.answered(stream)), "0-1");
    let own = runtime.peer().unwrap();
    assert_eq!(own.pid, std::process::id() as i32);
    drop(fake);
    assert_eq!(plugin.join().unwrap().unwrap(), Ended::Runtime);
    let gone = runtime.update_containers(Vec::new(), LIMIT).unwrap_err();
    assert!(matches!(gone, Error::Gone { .. }), "{gone}");
}

#[test]
fn containers_are_updated_from_another_thread_while_a_request_is_handled() {
    let Pair { mut fake, runtime, begun, go_on, plugin, .. } = pair();
    let create = fake.ask("CreateContainer", &of_pod("wait"), LIMIT);
    begun.recv().unwrap();
    let update = vec![ContainerUpdate::new("c1", LinuxResources::on_cpus("3"))];
    let expected = update.clone();
    let calling = thread::spawn(move || (runtime.update_containers(update, LIMIT), runtime));
    let (stream, asked) = fake.called::<UpdateContainers>("UpdateContainers");
    assert_eq!(asked.update, expected);
    fake.answer(stream, &UpdatedContainers { failed: expected.clone() });
    let (failed, runtime) = calling.join().unwrap();
    assert_eq!(failed.unwrap(), expected);
    go_on.send(()).unwrap();
    assert_eq!(cpus(fake.answered(create)), "0-1");
    runtime.close();
    assert_eq!(plugin.join().unwrap().unwrap(), Ended::Closed);
}

#[test]
fn a_call_to_the_runtime_fails_when_it_refuses_is_late_or_ends() {
    let Pair { mut fake, runtime, .. } = pair();
    let call = |limit| {
        let runtime = runtime.clone();
        thread::spawn(move || runtime.update_containers(Vec::new(), limit).unwrap_err())
    };
    let refused = call(LIMIT);
    let (stream, _) = fake.called::<UpdateContainers>("UpdateContainers");
    let status = Status { code: 5, message: "no such container".into() };
    fake.send(RUNTIME, stream, RESPONSE, Response { status: Some(status), payload: Vec::new() }.encode_to_vec());
    let text = refused.join().unwrap().to_string();
    assert_eq!(text, "UpdateContainers: the runtime refuses: no such container (code 5)");
    let late = call(Duration::from_millis(50));
    let (stream, _) = fake.called::<UpdateContainers>("UpdateContainers");
    assert!(matches!(late.join().unwrap(), Error::Late { .. }));
    // An answer to a call that was given up is nothing.
    fake.answer(stream, &Empty {});
    let gone = call(LIMIT);
    fake.called::<UpdateContainers>("UpdateContainers");
    drop(fake);
    assert!(matches!(gone.join().unwrap(), Error::Gone { .. }));
}

#[test]
fn a_call_within_a_request_is_refused_rather_than_waited_for() {
    let Pair { mut fake, .. } = pair();
    let stream = fake.ask("CreateContainer", &of_pod("call"), LIMIT);
    let refusal = fake.answered(stream).status.unwrap();
    assert!(refusal.message.contains("return the updates with its answer"), "{}", refusal.message);
}

#[test]
fn late_requests_are_reported_and_those_that_waited_are_dropped_unless_they_are_events() {
    let Pair { mut fake, runtime, begun, go_on, calls, .. } = pair();
    let limit = Duration::from_millis(30);
    let first = fake.ask("CreateContainer", &of_pod("wait"), limit);
    begun.recv().unwrap();
    let second = fake.ask("CreateContainer", &of_pod("dropped"), limit);
    let third = fake.ask("RemoveContainer", &of_pod("event"), limit);
    let fourth = fake.ask("CreateContainer", &of_pod("in time"), LIMIT);
    // What was sent before an answer has arrived when the answer has.
    let calling = thread::spawn(move || runtime.update_containers(Vec::new(), LIMIT));
    let (stream, _) = fake.called::<UpdateContainers>("UpdateContainers");
    fake.answer(stream, &UpdatedContainers::default());
    calling.join().unwrap().unwrap();
    let at = Instant::now();
    while at.elapsed() < 2 * limit {
        thread::yield_now();
    }
    go_on.send(()).unwrap();
    let answers = [first, second, third, fourth].map(|stream| fake.answered(stream).status.map(|it| it.code));
    assert_eq!(answers, [None, Some(4), None, None]);
    let calls: Vec<String> = calls.iter().take(6).collect();
    assert_eq!(
        calls,
        [
            "create wait",
            "late CreateContainer p1 c1 true",
            "late CreateContainer p1 c1 false",
            "remove event",
            "late RemoveContainer p1 c1 true",
            "create in time",
        ]
    );
}

#[test]
fn a_runtime_that_asks_without_end_or_sends_no_nri_is_left() {
    let Pair { mut fake, begun, go_on, plugin, .. } = pair();
    fake.ask("CreateContainer", &of_pod("wait"), LIMIT);
    begun.recv().unwrap();
    for _ in 0..33 {
        fake.ask("RemoveContainer", &of_pod("x"), LIMIT);
    }
    assert!(fake.next().is_none(), "the connection is closed");
    go_on.send(()).unwrap();
    let error = plugin.join().unwrap().unwrap_err();
    assert!(matches!(error, Error::Overflow { requests: 33, .. }), "{error}");

    let Pair { mut fake, plugin, .. } = pair();
    fake.socket.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let error = plugin.join().unwrap().unwrap_err();
    assert!(error.to_string().contains("is it the socket of NRI?"), "{error}");
}

#[test]
fn a_plug_in_that_panics_leaves_no_connection_behind() {
    let Pair { mut fake, plugin, runtime, .. } = pair();
    fake.ask("CreateContainer", &of_pod("panic"), LIMIT);
    assert!(fake.next().is_none(), "the connection is closed");
    assert!(plugin.join().is_err());
    assert!(matches!(runtime.update_containers(Vec::new(), LIMIT).unwrap_err(), Error::Gone { .. }));
}

#[test]
fn a_runtime_that_does_not_read_is_left_after_the_time_for_a_write() {
    let Pair { mut fake, plugin, .. } = pair();
    fake.ask("CreateContainer", &of_pod("long"), LIMIT);
    let error = plugin.join().unwrap().unwrap_err();
    assert!(matches!(error, Error::Socket { operation: "answer over", .. }), "{error}");
    drop(fake);
}

#[test]
fn long_answers_and_requests_pass_whole() {
    let Pair { mut fake, .. } = pair();
    let stream = fake.ask("CreateContainer", &of_pod("long"), LIMIT);
    assert_eq!(cpus(fake.answered(stream)), "0-1");
    let mut long = of_pod("a");
    long.container.as_mut().unwrap().env = vec!["y".repeat(3 << 20)];
    let stream = fake.ask("CreateContainer", &long, LIMIT);
    assert_eq!(cpus(fake.answered(stream)), "0-1");
}

#[test]
fn a_runtime_that_closes_or_accepts_nothing_fails_the_registration() {
    let registration = || Registration::new("a", "10").unwrap();
    let (theirs, ours) = UnixStream::pair().unwrap();
    drop(theirs);
    let error = Stub::from_stream(ours, registration()).unwrap_err();
    assert!(matches!(error, Error::Gone { method: "RegisterPlugin" }), "{error}");

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nri.sock");
    let error = Stub::connect(&path, registration()).unwrap_err();
    assert!(error.to_string().contains("with NRI on?"), "{error}");
    let error = Stub::connect(folder.path().join("x".repeat(200)), registration()).unwrap_err();
    assert!(error.to_string().ends_with("a socket's path has 107 bytes at most"), "{error}");

    // Its backlog is filled by connections that are never accepted.
    let _listener = UnixListener::bind(&path).unwrap();
    let mut held = Vec::new();
    let error = loop {
        match dial(&path) {
            Ok(stream) => held.push(stream),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
}

#[test]
fn the_environment_must_name_an_open_socket() {
    assert_eq!(inherited(1).unwrap_err(), "that is standard input or output");
    assert_eq!(inherited(i32::MAX).unwrap_err(), "that descriptor is no open socket");
    let file = tempfile::tempfile().unwrap();
    let descriptor = std::os::fd::AsRawFd::as_raw_fd(&file);
    assert_eq!(inherited(descriptor).unwrap_err(), "that descriptor is no open socket");
}

#[test]
fn only_events_of_the_enumeration_are_subscribed() {
    assert_eq!(
        Events::FIRST | Events::of(&[Event::UpdatePodSandbox]),
        (1..=12).filter_map(|it| Event::try_from(it).ok()).collect()
    );
}

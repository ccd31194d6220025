//! Logs pods and containers of this node's runtime: `log [SOCKET]`, as root. Ends when the runtime has gone for good (Ctrl-C).

use std::thread::sleep;
use std::time::Instant;

use nri::{
    Answer, Backoff, Configuration, Container, ContainerUpdate, Creation, Error, Events, LinuxResources, PodSandbox,
    Registration, Stub,
};

struct Log;

fn log(event: &str, pod: &PodSandbox, container: &Container) {
    let cpus = container.linux.as_ref().and_then(|it| it.resources.as_ref()).and_then(|it| it.cpu.as_ref());
    let shares = cpus.and_then(|it| it.shares).map_or(String::new(), |shares| format!(" ({shares} shares)"));
    // Names and namespaces are the cluster's words: escaped, so that they cannot steer a terminal.
    println!("{event:9} {:?}/{:?} {:?}{shares}", pod.namespace, pod.name, container.name);
}

impl nri::Plugin for Log {
    fn configure(&mut self, runtime: Configuration) -> Answer<Events> {
        println!("{} {} (NRI {})", runtime.runtime_name, runtime.runtime_version, runtime.nri_version);
        Ok(Events::FIRST)
    }

    fn synchronize(&mut self, pods: Vec<PodSandbox>, containers: Vec<Container>) -> Answer<Vec<ContainerUpdate>> {
        for container in &containers {
            if let Some(pod) = pods.iter().find(|pod| pod.id == container.pod_sandbox_id) {
                log("there", pod, container);
            }
        }
        Ok(Vec::new())
    }

    fn create_container(&mut self, pod: PodSandbox, container: Container) -> Answer<Creation> {
        log("create", &pod, &container);
        Ok(Creation::default())
    }

    fn start_container(&mut self, pod: PodSandbox, container: Container) -> Answer<()> {
        log("start", &pod, &container);
        Ok(())
    }

    fn update_container(
        &mut self,
        pod: PodSandbox,
        container: Container,
        _: LinuxResources,
    ) -> Answer<Vec<ContainerUpdate>> {
        log("update", &pod, &container);
        Ok(Vec::new())
    }

    fn stop_container(&mut self, pod: PodSandbox, container: Container) -> Answer<Vec<ContainerUpdate>> {
        log("stop", &pod, &container);
        Ok(Vec::new())
    }

    fn remove_container(&mut self, pod: PodSandbox, container: Container) -> Answer<()> {
        log("remove", &pod, &container);
        Ok(())
    }
}

fn main() -> Result<(), Error> {
    let socket = std::env::args().nth(1).unwrap_or_else(|| nri::DEFAULT_SOCKET.into());
    let mut backoff = Backoff::default();
    loop {
        let began = Instant::now();
        match Stub::connect(&socket, Registration::new("log", "90")?).and_then(|stub| stub.run(&mut Log)) {
            Ok(ended) => println!("{ended}"),
            Err(error) => eprintln!("{error}"),
        }
        sleep(backoff.after(began.elapsed()));
    }
}

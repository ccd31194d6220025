//! A plug-in that gives pods with an annotation whole CPUs of their own, and all others what is left.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use nri::*;

/// CPUs of the machine; the first one is always shared.
pub const CPUS: usize = 16;

pub struct Pinner {
    own: BTreeMap<String, BTreeSet<usize>>,
    shared: BTreeSet<String>,
    calls: Sender<String>,
}

impl Pinner {
    pub fn new(calls: Sender<String>) -> Pinner {
        Pinner { own: BTreeMap::new(), shared: BTreeSet::new(), calls }
    }

    fn note(&self, words: String) -> Answer<()> {
        let _ = self.calls.send(words);
        Ok(())
    }

    fn left(&self) -> BTreeSet<usize> {
        (0..CPUS).filter(|cpu| !self.own.values().any(|own| own.contains(cpu))).collect()
    }

    fn updates(&self) -> Vec<ContainerUpdate> {
        let left = list(&self.left());
        self.shared.iter().map(|id| ContainerUpdate::new(id, LinuxResources::on_cpus(&left))).collect()
    }

    /// Makes a container's CPUs this many; keeps what it can.
    fn reserve(&mut self, id: &str, count: usize) -> Answer<String> {
        let mut own = self.own.get(id).cloned().unwrap_or_default();
        while own.len() > count {
            own.pop_last();
        }
        let missing = count - own.len();
        let free: Vec<usize> = self.left().into_iter().skip(1).take(missing).collect();
        if free.len() < missing {
            return Err(format!("{count} CPUs asked, {} are left: ask for less", free.len() + own.len()).into());
        }
        own.extend(free);
        let cpus = list(&own);
        self.own.insert(id.to_owned(), own);
        Ok(cpus)
    }
}

fn list(cpus: &BTreeSet<usize>) -> String {
    cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}

impl Plugin for Pinner {
    fn configure(&mut self, runtime: Configuration) -> Answer<Events> {
        self.note(format!(
            "configure {} {} {} {} {:?}",
            runtime.runtime_name, runtime.runtime_version, runtime.nri_version, runtime.request_timeout, runtime.config
        ))?;
        Ok(Events::FIRST | Events::of(&[Event::UpdatePodSandbox, Event::PostUpdatePodSandbox]))
    }

    fn synchronize(&mut self, pods: Vec<PodSandbox>, containers: Vec<Container>) -> Answer<Vec<ContainerUpdate>> {
        let variables: usize = containers.iter().map(|container| container.env.len()).sum();
        self.note(format!("synchronize {} {} {variables}", pods.len(), containers.len()))?;
        self.shared.extend(containers.into_iter().map(|container| container.id));
        Ok(self.updates())
    }

    fn run_pod_sandbox(&mut self, pod: PodSandbox) -> Answer<()> {
        self.note(format!("run {}", pod.name))
    }

    fn update_pod_sandbox(&mut self, pod: PodSandbox, overhead: LinuxResources, sum: LinuxResources) -> Answer<()> {
        let shares = |of: LinuxResources| of.cpu.and_then(|cpu| cpu.shares);
        self.note(format!("update-pod {} {:?} {:?}", pod.name, shares(overhead), shares(sum)))
    }

    fn post_update_pod_sandbox(&mut self, pod: PodSandbox) -> Answer<()> {
        self.note(format!("updated-pod {}", pod.name))
    }

    fn stop_pod_sandbox(&mut self, pod: PodSandbox) -> Answer<()> {
        self.note(format!("stop-pod {}", pod.name))
    }

    fn remove_pod_sandbox(&mut self, pod: PodSandbox) -> Answer<()> {
        self.note(format!("remove-pod {}", pod.name))
    }

    fn create_container(&mut self, pod: PodSandbox, container: Container) -> Answer<Creation> {
        self.note(format!("create {}", container.id))?;
        if let Some(wait) = pod.annotations.get("wait") {
            thread::sleep(Duration::from_millis(wait.parse().unwrap()));
        }
        let Some(count) = pod.annotations.get("cpus") else {
            self.shared.insert(container.id);
            return Ok(Creation::on_cpus(list(&self.left())));
        };
        let count = count.parse().map_err(|_| format!("cpus: {count:?} is no number: name one, as in 2"))?;
        let mut creation = Creation::on_cpus(self.reserve(&container.id, count)?);
        creation.update = self.updates();
        let long = pod.annotations.get("long").map_or(0, |long| long.parse().unwrap());
        creation.adjust.env = vec![
            KeyValue { key: "PINNED".into(), value: "yes".into() },
            KeyValue { key: "LONG".into(), value: "x".repeat(long) },
        ];
        let cpu = LinuxCpu {
            cpus: list(&self.own[&container.id]),
            shares: Some(1024 * count as u64),
            quota: Some(-1),
            period: Some(100_000),
            ..LinuxCpu::default()
        };
        creation.adjust.linux.get_or_insert_default().resources.get_or_insert_default().cpu = Some(cpu);
        Ok(creation)
    }

    fn post_create_container(&mut self, _: PodSandbox, container: Container) -> Answer<()> {
        self.note(format!("created {}", container.id))
    }

    fn start_container(&mut self, _: PodSandbox, container: Container) -> Answer<()> {
        self.note(format!("start {}", container.id))
    }

    fn post_start_container(&mut self, _: PodSandbox, container: Container) -> Answer<()> {
        self.note(format!("started {}", container.id))
    }

    fn update_container(
        &mut self,
        _: PodSandbox,
        container: Container,
        resources: LinuxResources,
    ) -> Answer<Vec<ContainerUpdate>> {
        self.note(format!("update {}", container.id))?;
        let shares = resources.cpu.and_then(|cpu| cpu.shares);
        let (Some(shares), true) = (shares, self.own.contains_key(&container.id)) else { return Ok(Vec::new()) };
        let cpus = self.reserve(&container.id, (shares / 1024) as usize)?;
        let mut updates = self.updates();
        updates.push(ContainerUpdate::new(container.id, LinuxResources::on_cpus(cpus)));
        Ok(updates)
    }

    fn post_update_container(&mut self, _: PodSandbox, container: Container) -> Answer<()> {
        self.note(format!("updated {}", container.id))
    }

    fn stop_container(&mut self, _: PodSandbox, container: Container) -> Answer<Vec<ContainerUpdate>> {
        self.note(format!("stop {}", container.id))?;
        self.own.remove(&container.id);
        self.shared.remove(&container.id);
        Ok(self.updates())
    }

    fn remove_container(&mut self, _: PodSandbox, container: Container) -> Answer<()> {
        self.note(format!("remove {}", container.id))
    }

    fn late(&mut self, late: Late) {
        let _ = self.note(format!("late {} {} {}", late.request, late.container, late.handled));
    }
}

//! The runtime's events, handed to the keeper.

use nri::{
    Answer, Configuration, Container, ContainerUpdate, Creation, Error, Event, Events, FailurePolicy, Late,
    LinuxResources, PodSandbox, Refusal, Registration,
};

use quell_model::CpuSet;

use super::convert::{self, cpu};
use super::keeper::{Shared, locked};

/// Name and index: after plug-ins that inject devices, before those that only log.
const NAME: &str = "quell";
const INDEX: &str = "50";

/// As what Quell registers. A runtime that knows the policy fails a request that gets no answer: a container never starts on CPUs that
/// are another one's. (Older ones go on without an answer; what they started is corrected at its start.)
pub(super) fn registration() -> Result<Registration, Error> {
    let policy = FailurePolicy { fail_request: true, keep_connected: true };
    Ok(Registration::new(NAME, INDEX)?.failure_policy(policy))
}

/// One connection's plug-in.
#[derive(Debug)]
pub(super) struct PluginOf {
    keeper: Shared,
}

impl PluginOf {
    /// That changes this keeper.
    pub fn new(keeper: Shared) -> PluginOf {
        PluginOf { keeper }
    }
}

impl nri::Plugin for PluginOf {
    fn configure(&mut self, runtime: Configuration) -> Answer<Events> {
        let Configuration { runtime_name, runtime_version, nri_version, .. } = runtime;
        let nri = if nri_version.is_empty() { String::new() } else { format!(" (NRI {nri_version})") };
        // Words of another program, on screens and in the log.
        let name = quell_model::foreign::text(&format!("{runtime_name} {runtime_version}{nri}")).into_owned();
        locked(&self.keeper).connected(name);
        Ok(Events::of(&[
            Event::RunPodSandbox,
            Event::StopPodSandbox,
            Event::RemovePodSandbox,
            Event::CreateContainer,
            Event::StartContainer,
            Event::PostStartContainer,
            Event::UpdateContainer,
            Event::PostUpdateContainer,
            Event::StopContainer,
            Event::RemoveContainer,
        ]))
    }

    fn synchronize(&mut self, pods: Vec<PodSandbox>, containers: Vec<Container>) -> Answer<Vec<ContainerUpdate>> {
        let sandboxes = pods.into_iter().map(convert::sandbox).collect();
        let containers = containers.into_iter().map(convert::container).collect();
        locked(&self.keeper).synchronize(sandboxes, containers);
        Ok(Vec::new())
    }

    fn run_pod_sandbox(&mut self, pod: PodSandbox) -> Answer<()> {
        locked(&self.keeper).sandbox_runs(convert::sandbox(pod));
        Ok(())
    }

    fn stop_pod_sandbox(&mut self, pod: PodSandbox) -> Answer<()> {
        locked(&self.keeper).sandbox_ends(&pod.id);
        Ok(())
    }

    fn remove_pod_sandbox(&mut self, pod: PodSandbox) -> Answer<()> {
        locked(&self.keeper).sandbox_ends(&pod.id);
        Ok(())
    }

    fn create_container(&mut self, pod: PodSandbox, container: Container) -> Answer<Creation> {
        let sandbox = convert::sandbox(pod);
        let created = locked(&self.keeper).create(&sandbox, convert::container(container));
        match created {
            Ok(Some(cpus)) => Ok(Creation::on_cpus(cpus.to_string())),
            Ok(None) => Ok(Creation::default()),
            Err(refused) => Err(Refusal::new(format!("quell: {refused}"))),
        }
    }

    fn start_container(&mut self, _: PodSandbox, container: Container) -> Answer<()> {
        locked(&self.keeper).starts(&container.id);
        Ok(())
    }

    fn post_start_container(&mut self, _: PodSandbox, container: Container) -> Answer<()> {
        locked(&self.keeper).starts(&container.id);
        Ok(())
    }

    fn update_container(
        &mut self,
        _: PodSandbox,
        container: Container,
        resources: LinuxResources,
    ) -> Answer<Vec<ContainerUpdate>> {
        let resized = locked(&self.keeper).resize(&container.id, &cpu(&resources));
        let cpus = resized.map_err(|refused| Refusal::new(format!("quell: {refused}")))?;
        // Else the runtime writes those that it was created with.
        let update = |cpus: CpuSet| ContainerUpdate::new(&container.id, LinuxResources::on_cpus(cpus.to_string()));
        Ok(cpus.map(update).into_iter().collect())
    }

    fn post_update_container(&mut self, _: PodSandbox, _: Container) -> Answer<()> {
        // What the runtime wrote meanwhile, as a quota of the new size, is put right.
        locked(&self.keeper).tick();
        Ok(())
    }

    fn stop_container(&mut self, _: PodSandbox, container: Container) -> Answer<Vec<ContainerUpdate>> {
        locked(&self.keeper).stops(&container.id);
        Ok(Vec::new())
    }

    fn remove_container(&mut self, _: PodSandbox, container: Container) -> Answer<()> {
        locked(&self.keeper).removed(&container.id);
        Ok(())
    }

    fn late(&mut self, late: Late) {
        let Late { request, container, took, allowed, .. } = late;
        tracing::warn!(%request, %container, "the runtime was answered after {took:?}, it waits {allowed:?}: it may have gone on without");
    }
}

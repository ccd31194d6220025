//! The runtime's events, handed to the keeper.

use nri::{
    Answer, Configuration, Container, ContainerUpdate, Creation, Error, Event, Events, FailurePolicy, Late,
    LinuxResources, Mount, PodSandbox, Refusal, Registration,
};

use std::path::Path;

use quell_model::CpuSet;

use super::convert::{self, cpu};
use super::keeper::{Shared, locked};

/// Name and index: after plug-ins that inject devices, before those that only log.
const NAME: &str = "quell";
const INDEX: &str = "50";

/// With this label, the containers of a pod get the directory in which programs that cooperate ask for their pages.
const COOPERATES: &str = "quell.dev/cooperate";
const RUNTIME: &str = "/run/quell/runtime";

/// The directory, never the socket: the next agent makes another. None: it is not wanted, or no agent has made it, and a container
/// with a mount of nothing would not start.
fn runtime(pod: &PodSandbox, directory: &Path) -> Option<Mount> {
    let is_wanted = pod.labels.get(COOPERATES).is_some_and(|value| value == "true");
    let path = directory.to_str().filter(|_| is_wanted && directory.is_dir())?.to_owned();
    let options = ["bind", "ro", "nosuid", "nodev", "noexec"].map(str::to_owned).to_vec();
    Some(Mount { destination: RUNTIME.to_owned(), r#type: "bind".to_owned(), source: path, options })
}

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
        let mut keeper = locked(&self.keeper);
        let mount = runtime(&pod, Path::new(RUNTIME)).filter(|_| keeper.enforces());
        let cpus = keeper.create(&convert::sandbox(pod), convert::container(container));
        let cpus = cpus.map_err(|refused| Refusal::new(format!("quell: {refused}")))?;
        let mut creation = cpus.map_or(Creation::default(), |cpus| Creation::on_cpus(cpus.to_string()));
        creation.adjust.mounts.extend(mount);
        Ok(creation)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_that_asks_gets_the_directory_of_pages_where_there_is_one() {
        let here = tempfile::tempdir().unwrap();
        let labelled = |value: &str| PodSandbox {
            labels: [(COOPERATES.to_owned(), value.to_owned())].into(),
            ..PodSandbox::default()
        };
        let mount = runtime(&labelled("true"), here.path()).unwrap();
        assert_eq!((mount.destination.as_str(), mount.source.as_str()), (RUNTIME, here.path().to_str().unwrap()));
        assert!(mount.options.contains(&"ro".to_owned()), "who connects needs no right to write there");
        assert!(runtime(&labelled("false"), here.path()).is_none());
        assert!(runtime(&PodSandbox::default(), here.path()).is_none());
        assert!(runtime(&labelled("true"), &here.path().join("none")).is_none(), "the container could not start");
    }
}

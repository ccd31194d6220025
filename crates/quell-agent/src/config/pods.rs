//! Pods in a configuration: workloads that stand in none of its files.

use std::path::PathBuf;

use quell_model::{Policy as _, Workload};
use quell_policy::AnyPolicy;
use quell_policy::guard::{Guard, GuardConfig};

use super::{Config, Layer, Member, Place};

/// A pod as a workload.
#[derive(Clone, Debug, PartialEq)]
pub struct PodWorkload {
    /// The workload: `namespace/name`, by its cgroup.
    pub workload: Workload,
    /// Does `guard` manage it? Best-effort pods are only watched: their cgroups' weights are the kubelet's.
    pub is_managed: bool,
}

impl Config {
    /// The same with the node's pods, after all others. Those that are managed join the first layer of `guard`; without one there is a
    /// new one, after all others. Layers that own all workloads own those of the files, and no pod.
    #[must_use]
    pub fn with_pods(&self, pods: &[PodWorkload]) -> Config {
        let mut config = self.clone();
        if pods.is_empty() {
            return config;
        }
        let own: Vec<String> = self.workloads.iter().map(|member| member.workload.name.clone()).collect();
        for layer in &mut config.policies {
            layer.workloads.get_or_insert_with(|| own.clone());
        }
        let place = Place::file(PathBuf::from("pods of this node"));
        let fresh = pods.iter().filter(|pod| !own.contains(&pod.workload.name));
        let mut managed = Vec::new();
        for pod in fresh {
            if pod.is_managed {
                managed.push(pod.workload.name.clone());
            }
            config.workloads.push(Member {
                workload: pod.workload.clone(),
                latency: None,
                leased_by: None,
                place: place.clone(),
            });
        }
        if managed.is_empty() {
            return config;
        }
        match config.policies.iter_mut().find(|layer| layer.policy.describe().name == "guard") {
            Some(layer) => layer.workloads.get_or_insert_default().append(&mut managed),
            None => {
                let policy = AnyPolicy::Guard(Guard::new(GuardConfig::default()));
                config.policies.push(Layer { policy, workloads: Some(managed), place });
            }
        }
        config
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use quell_model::{Class, CpuCount, Selector};

    use super::*;
    use crate::config::read_text;

    fn pod(name: &str, is_managed: bool) -> PodWorkload {
        let class = if is_managed { Class::LatencyCritical } else { Class::BestEffort };
        let selectors = vec![Selector::Cgroup(format!("kubepods/pod{name}").into())];
        PodWorkload { workload: Workload { selectors, ..Workload::new(name, class, CpuCount::whole(1)) }, is_managed }
    }

    fn base(policies: &str) -> Config {
        let web = "[[workload]]\nname = \"web\"\nclass = \"lc\"\ncpus = 1\nmatch = [{ command = \"x\" }]\n";
        read_text(Path::new("q.toml"), &format!("{policies}\n{web}")).unwrap()
    }

    fn owned(config: &Config) -> Vec<(&'static str, Option<Vec<String>>)> {
        config.policies.iter().map(|layer| (layer.policy.describe().name, layer.workloads.clone())).collect()
    }

    #[test]
    fn managed_pods_join_guard_and_others_belong_to_no_policy() {
        let config = base("[[policy]]\nname = \"guard\"").with_pods(&[pod("a/db", true), pod("a/batch", false)]);
        let names: Vec<&str> = config.workloads.iter().map(|member| member.workload.name.as_str()).collect();
        assert_eq!(names, ["web", "a/db", "a/batch"]);
        assert_eq!(owned(&config), [("guard", Some(vec!["web".to_owned(), "a/db".to_owned()]))]);
    }

    #[test]
    fn without_guard_there_is_one_for_pods_alone() {
        let kubernetes = read_text(Path::new("q.toml"), "[kubernetes]\n").unwrap();
        assert!(kubernetes.policies.is_empty());
        assert_eq!(owned(&kubernetes.with_pods(&[pod("a/db", true)])), [("guard", Some(vec!["a/db".to_owned()]))]);
        assert_eq!(owned(&kubernetes.with_pods(&[pod("a/batch", false)])), []);
        let rkube = base("[[policy]]\nname = \"rkube\"").with_pods(&[pod("a/db", true)]);
        let expected = [("rkube", Some(vec!["web".to_owned()])), ("guard", Some(vec!["a/db".to_owned()]))];
        assert_eq!(owned(&rkube), expected);
    }

    #[test]
    fn a_pod_of_a_name_that_is_in_the_files_is_no_second_workload() {
        let config = base("[[policy]]\nname = \"guard\"").with_pods(&[pod("web", true)]);
        assert_eq!(config.workloads.len(), 1);
    }
}

use std::os::unix::net::UnixListener;

use quell_model::Topology;

use super::super::{examine, roots};
use super::*;
use crate::testkit::FakeTree;

/// A node about which there is nothing to say: containerd with NRI, systemd as driver, the kubelet as it ships.
struct Node {
    tree: FakeTree,
    sockets: Vec<UnixListener>,
}

impl Node {
    fn clean() -> Node {
        let tree = FakeTree::new(&Topology::synthetic(1, 1, 4, 1));
        tree.write("cgroup/kubepods.slice/cgroup.subtree_control", "cpuset cpu io memory pids");
        tree.write(
            "var/lib/kubelet/cpu_manager_state",
            r#"{"policyName":"none","defaultCpuSet":"","checksum":1353318690}"#,
        );
        tree.write("run/systemd/system/x", "");
        tree.write("proc/1/mountinfo", "31 23 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw");
        let mut node = Node { tree, sockets: Vec::new() };
        node.listen("run/containerd/containerd.sock");
        node.listen("run/nri/nri.sock");
        node
    }

    fn listen(&mut self, path: &str) {
        let path = self.tree.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        self.sockets.push(UnixListener::bind(path).unwrap());
    }

    fn facts(&self) -> Facts {
        examine(self.tree.path(), &self.tree.roots())
    }

    fn found(&self) -> Vec<Finding> {
        findings(&self.facts())
    }
}

fn kinds(found: &[Finding]) -> Vec<&str> {
    found.iter().map(|finding| finding.what.as_str()).collect()
}

#[test]
fn a_node_as_quell_wants_it_has_no_finding() {
    let node = Node::clean();
    assert_eq!(node.found(), []);
    let facts = node.facts();
    assert_eq!(facts.unread, Vec::<String>::new());
    assert_eq!(facts.driver(), Some(Driver::Systemd));
    assert_eq!(facts.cpu_manager.unwrap().value, "none");
    assert_eq!(facts.runtimes[0].value, Runtime::Containerd);
}

/// Each file that is written leads to exactly one finding, whose first evidence is that file.
#[test]
fn every_trouble_is_found_by_its_file() {
    let state = r#"{"policyName":"static","defaultCpuSet":"0-1","entries":{},"checksum":1}"#;
    let cases = [
        ("var/lib/kubelet/cpu_manager_state", state, "the kubelet's CPU manager is static", "static"),
        ("opt/nri/plugins/10-balloons", "", "other NRI plug-ins are installed", "a plug-in's"),
        ("etc/nri/conf.d/10-balloons.conf", "x: 1", "other NRI plug-ins are installed", "a plug-in's"),
        ("proc/77/comm", "koordlet", "another program sets the CPUs of pods: koordlet", "koordlet"),
        ("proc/cmdline", "quiet isolcpus=2-3", "CPUs are isolated at boot", "isolcpus=2-3"),
        (
            "cgroup/kubepods.slice/cgroup.subtree_control",
            "cpu memory pids",
            "the cgroups of pods have no cpu or no cpuset controller",
            "'cpu memory pids'",
        ),
        ("cgroup/cgroup.controllers", "memory pids", "the node has no cgroup v2 with cpu and cpuset", "'memory pids'"),
    ];
    for (file, text, what, value) in cases {
        let node = Node::clean();
        node.tree.write(file, text);
        let found = node.found();
        assert_eq!(kinds(&found), [what], "{file}: {text}");
        let shown = &found[0].evidence[0];
        assert_eq!(shown.value, value);
        assert_eq!(shown.path, node.tree.path().join(file).display().to_string());
        assert!(!found[0].fix.is_empty() && !found[0].consequence.is_empty());
    }
}

#[test]
fn the_static_managers_fix_names_its_state_file() {
    let node = Node::clean();
    node.tree.write("var/lib/kubelet/cpu_manager_state", r#"{"policyName":"static"}"#);
    let found = node.found();
    assert!(
        found[0].fix.contains("cpuManagerPolicy: none") && found[0].fix.contains("cpu_manager_state;"),
        "{found:?}"
    );
}

#[test]
fn a_state_file_that_is_no_state_is_noted() {
    let node = Node::clean();
    node.tree.write("var/lib/kubelet/cpu_manager_state", "static");
    let facts = node.facts();
    assert_eq!((facts.cpu_manager, facts.unread.len()), (None, 1));
    assert!(facts.unread[0].contains("cpu_manager_state: not the state"), "{}", facts.unread[0]);
}

#[test]
fn without_nri_the_fix_is_that_of_the_runtime() {
    for (socket, part) in [
        ("run/containerd/containerd.sock", "io.containerd.nri.v1.nri"),
        ("run/crio/crio.sock", "enable_nri = true"),
        ("run/cri-dockerd.sock", "Docker has no NRI"),
    ] {
        let mut node = Node::clean();
        for other in ["run/nri", "run/containerd"] {
            node.tree.remove(other);
        }
        node.listen(socket);
        let found = node.found();
        assert_eq!(kinds(&found), ["the container runtime offers no NRI"], "{socket}");
        assert!(found[0].fix.contains(part), "{}", found[0].fix);
        assert!(found[0].evidence[1].path.ends_with(socket));
    }
}

#[test]
fn a_file_in_the_place_of_the_socket_is_no_nri() {
    let node = Node::clean();
    node.tree.remove("run/nri/nri.sock");
    node.tree.write("run/nri/nri.sock", "");
    assert_eq!(kinds(&node.found()), ["the container runtime offers no NRI"]);
}

#[test]
fn cgroup_v1_is_that_of_the_first_process() {
    let node = Node::clean();
    node.tree.write("cgroup/cgroup.controllers", "");
    node.tree.write("proc/self/mountinfo", "");
    node.tree.write("proc/1/mountinfo", "30 23 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct");
    let found = node.found();
    assert_eq!(kinds(&found), ["the node has no cgroup v2 with cpu and cpuset"]);
    assert_eq!(found[0].evidence[1].value, "cgroup v1 with cpu");
}

#[test]
fn drivers_are_known_by_the_cgroups_that_they_made() {
    let node = Node::clean();
    node.tree.write("cgroup/kubepods/cgroup.subtree_control", "cpuset cpu");
    assert_eq!(kinds(&node.found()), ["there are pods' cgroups of two drivers"]);
    assert_eq!(node.facts().driver(), None);
    node.tree.remove("cgroup/kubepods.slice");
    assert_eq!(node.facts().driver(), Some(Driver::Cgroupfs));
    assert_eq!(kinds(&node.found()), ["the cgroup driver is cgroupfs, beside systemd"]);
    node.tree.remove("run/systemd");
    assert_eq!(node.found(), [], "without systemd cgroupfs is right");
}

#[test]
fn rt_group_scheduling_is_compiled_in_and_not_switched_off() {
    let node = Node::clean();
    node.tree.write("proc/sys/kernel/osrelease", "6.18.1");
    let cases = [
        ("CONFIG_RT_GROUP_SCHED=y", "quiet", true),
        ("CONFIG_RT_GROUP_SCHED=y", "rt_group_sched=0", false),
        ("CONFIG_RT_GROUP_SCHED=y\nCONFIG_RT_GROUP_SCHED_DEFAULT_DISABLED=y", "quiet", false),
        ("CONFIG_RT_GROUP_SCHED=y\nCONFIG_RT_GROUP_SCHED_DEFAULT_DISABLED=y", "rt_group_sched=1", true),
        ("# CONFIG_RT_GROUP_SCHED is not set", "rt_group_sched=1", false),
    ];
    for (config, boot, is_on) in cases {
        node.tree.write("boot/config-6.18.1", config);
        node.tree.write("proc/cmdline", boot);
        let found = node.found();
        assert_eq!(!found.is_empty(), is_on, "{config}, {boot}: {found:?}");
        assert!(found.iter().all(|finding| finding.what.contains("SCHED_FIFO")));
    }
}

#[test]
fn a_machine_without_kubelet_is_no_node() {
    let node = Node::clean();
    node.tree.remove("var/lib/kubelet");
    assert_eq!(node.found(), [], "its cgroups show that there is one");
    node.tree.remove("cgroup/kubepods.slice");
    assert_eq!(kinds(&node.found()), ["no kubelet was found"]);
}

#[test]
fn the_kubelets_own_cpus_are_read_from_its_configuration() {
    let node = Node::clean();
    let reserved = |text: &str| {
        node.tree.write("var/lib/kubelet/config.yaml", text);
        node.facts().reserved_by_kubelet.map(|reserved| reserved.value)
    };
    assert_eq!(reserved("kind: X\nreservedSystemCPUs: \"0,2\" # two").as_deref(), Some("0,2"));
    assert_eq!(reserved("kind: X\nx:\n  reservedSystemCPUs: 1"), None);
    assert_eq!(reserved("reservedSystemCPUs: \"\""), None);
}

#[test]
fn many_plug_ins_are_counted() {
    let node = Node::clean();
    for number in 0..9 {
        node.tree.write(format!("opt/nri/plugins/{number}0-x"), "");
    }
    let found = node.found();
    assert_eq!(found[0].evidence.len(), NAMED + 1);
    assert_eq!(found[0].evidence[NAMED].value, "3");
}

#[test]
fn another_root_has_its_own_cgroups_and_run_directory() {
    let found = roots("/proc/1/root".as_ref());
    assert_eq!(found.cgroup, std::path::Path::new("/proc/1/root/sys/fs/cgroup"));
    assert_eq!(found.run, std::path::Path::new("/proc/1/root/run"));
    assert!(!found.is_this_machine() && roots("/".as_ref()).is_this_machine());
}

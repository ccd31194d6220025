//! Reading the facts. A file that cannot be read is noted and nothing else is lost.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use quell_model::foreign;
use serde::Deserialize;

use super::super::Valued;
use super::super::read::Reader;
use super::facts::{Driver, Facts, Runtime};
use crate::Roots;

/// What makes the cgroups of pods, and what each calls the topmost one.
const DRIVERS: [(Driver, &str); 2] = [(Driver::Systemd, "kubepods.slice"), (Driver::Cgroupfs, "kubepods")];

/// Container runtimes and their sockets below `/run`.
const RUNTIMES: [(Runtime, &str); 3] = [
    (Runtime::Containerd, "containerd/containerd.sock"),
    (Runtime::CriO, "crio/crio.sock"),
    (Runtime::Docker, "cri-dockerd.sock"),
];

/// How the kernel's names of programs begin (15 letters of them) that write CPU sets, weights or quotas of pods.
const RIVALS: [&str; 4] = ["koordlet", "katalyst-agent", "nri-resource-po", "dracpu"];

/// The trees of a machine whose root is mounted here, as that of a node is at `/proc/1/root` in a container.
#[must_use]
pub fn roots(root: &Path) -> Roots {
    if root == Path::new("/") {
        return Roots::default();
    }
    Roots { cgroup: root.join("sys/fs/cgroup"), ..Roots::under(root) }
}

/// Reads the facts of the node below this root.
#[must_use]
pub fn examine(root: &Path, roots: &Roots) -> Facts {
    let mut reader = Reader::default();
    let kubelet = Some(root.join("var/lib/kubelet")).filter(|folder| folder.is_dir());
    let pods: Vec<Valued<Driver>> = DRIVERS
        .iter()
        .map(|&(value, name)| Valued { path: roots.cgroup.join(name), value })
        .filter(|pods| pods.path.is_dir())
        .collect();
    let mut facts = Facts {
        cpu_manager: kubelet.as_ref().and_then(|folder| cpu_manager(&mut reader, &folder.join("cpu_manager_state"))),
        reserved_by_kubelet: kubelet.as_ref().and_then(|folder| reserved(&mut reader, &folder.join("config.yaml"))),
        kubelet,
        withheld: pods.iter().filter_map(|pods| withheld(&mut reader, &pods.path)).collect(),
        pods,
        systemd: Some(roots.run.join("systemd/system")).filter(|folder| folder.is_dir()),
        cgroup_v2: reader.text(&roots.cgroup.join("cgroup.controllers")),
        // The first process has the node's mounts; an ordinary user may not look at it.
        cgroup_v1: reader.cgroup_v1(&readable(&roots.proc, &["1/mountinfo", "self/mountinfo"])),
        rt_groups: rt_groups(&mut reader, root, roots),
        runtimes: RUNTIMES
            .iter()
            .map(|&(value, name)| Valued { path: roots.run.join(name), value })
            .filter(|runtime| is_socket(&runtime.path))
            .collect(),
        nri: Some(roots.run.join("nri/nri.sock")).filter(|socket| is_socket(socket)),
        plugins: ["opt/nri/plugins", "etc/nri/conf.d"].iter().flat_map(|name| below(&mut reader, root, name)).collect(),
        rivals: rivals(&mut reader, &roots.proc),
        isolcpus: reader.isolcpus(&roots.proc.join("cmdline")),
        unread: Vec::new(),
    };
    facts.unread = reader.unread;
    facts
}

fn is_socket(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.file_type().is_socket())
}

/// The first file that may be read, or else the last one.
fn readable(folder: &Path, names: &[&str; 2]) -> PathBuf {
    let [first, other] = names.map(|name| folder.join(name));
    if fs::File::open(&first).is_ok() { first } else { other }
}

fn below(reader: &mut Reader, root: &Path, name: &str) -> Vec<PathBuf> {
    let folder = root.join(name);
    reader.names(&folder).into_iter().map(|file| folder.join(file)).collect()
}

fn cpu_manager(reader: &mut Reader, path: &Path) -> Option<Valued<String>> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct State {
        policy_name: String,
    }
    let read = reader.text(path)?;
    match serde_json::from_str::<State>(&read.value) {
        Ok(state) => Some(Valued { path: read.path, value: state.policy_name }),
        Err(error) => {
            reader.unread.push(format!("{}: not the state of a CPU manager: {error}", read.path.display()));
            None
        }
    }
}

/// A key of the topmost level: no more of the format is needed here.
fn reserved(reader: &mut Reader, path: &Path) -> Option<Valued<String>> {
    let read = reader.text(path)?;
    let value = read.value.lines().find_map(|line| line.strip_prefix("reservedSystemCPUs:"))?;
    let value = value.split('#').next()?.trim().trim_matches(['"', '\'']).to_owned();
    (!value.is_empty()).then_some(Valued { path: read.path, value })
}

fn withheld(reader: &mut Reader, pods: &Path) -> Option<Valued<String>> {
    let given = reader.text(&pods.join("cgroup.subtree_control"))?;
    let has = |name: &str| given.value.split(' ').any(|other| other == name);
    (!has("cpu") || !has("cpuset")).then_some(given)
}

/// Compiled in and not switched off at boot (from 6.15 on `rt_group_sched=` does that, and a kernel can be compiled with it off).
fn rt_groups(reader: &mut Reader, root: &Path, roots: &Roots) -> Option<Valued<String>> {
    let release = reader.text(&roots.proc.join("sys/kernel/osrelease"))?;
    let config = reader.text(&root.join("boot").join(format!("config-{}", release.value)))?;
    let has = |option: &str| config.value.lines().any(|line| line.trim() == option);
    let boot = reader.text(&roots.proc.join("cmdline")).map(|read| read.value).unwrap_or_default();
    let asked = boot.split_whitespace().rev().find_map(|word| word.strip_prefix("rt_group_sched="));
    let is_on = match asked {
        Some(asked) => asked != "0",
        None => !has("CONFIG_RT_GROUP_SCHED_DEFAULT_DISABLED=y"),
    };
    let compiled = "CONFIG_RT_GROUP_SCHED=y";
    (has(compiled) && is_on).then(|| Valued { path: config.path.clone(), value: compiled.into() })
}

fn rivals(reader: &mut Reader, proc: &Path) -> Vec<Valued<String>> {
    let pids = reader.names(proc).into_iter().filter(|name| name.bytes().all(|letter| letter.is_ascii_digit()));
    let mut found = Vec::new();
    for pid in pids {
        // A process that ends meanwhile is none.
        let path = proc.join(pid).join("comm");
        let Ok(name) = fs::read_to_string(&path) else { continue };
        let value = foreign::text(name.trim()).into_owned();
        if RIVALS.iter().any(|rival| value.starts_with(rival)) {
            found.push(Valued { path, value });
        }
    }
    found
}

//! Cgroup paths of pods and containers, of both drivers of the kubelet.
//!
//! What a path is made of was chosen by the kubelet and the runtime. Anything else is refused, so that no file outside a pod's
//! own cgroup is ever written.

use crate::pod::Sandbox;
use crate::qos::Qos;

/// Where a pod's cgroup lies below the root of the hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodPath {
    /// Without a slash in front: `kubepods/burstable/pod1234`.
    pub path: String,
    /// The pod's class, from its place.
    pub qos: Qos,
}

/// A cgroup path that is not a pod's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "its cgroup '{path}' {problem}: it is not managed; pods are expected below kubepods, as the kubelet makes them"
)]
pub struct BadPath {
    /// The path, as the runtime says it.
    pub path: String,
    /// What is wrong with it.
    pub problem: &'static str,
}

impl PodPath {
    /// The place of this pod's cgroup.
    pub fn of(sandbox: &Sandbox) -> Result<PodPath, BadPath> {
        let bad = |problem| BadPath { path: sandbox.cgroup.clone(), problem };
        let parts = parts(&sandbox.cgroup).ok_or_else(|| bad("is no plain path"))?;
        let slice = parts.last().and_then(|last| last.strip_suffix(".slice"));
        let (names, path, uid) = match slice {
            Some(slice) => {
                let expanded = expanded(slice).ok_or_else(|| bad("is no slice of systemd"))?;
                if parts.len() > 1 && expanded != parts.join("/") {
                    return Err(bad("is no slice of systemd"));
                }
                (slice.split('-').collect(), expanded, sandbox.uid.replace('-', "_"))
            }
            None => (parts.clone(), parts.join("/"), sandbox.uid.clone()),
        };
        let (qos, pod) = match names.as_slice() {
            [.., "kubepods", "burstable", pod] => (Qos::Burstable, *pod),
            [.., "kubepods", "besteffort", pod] => (Qos::BestEffort, *pod),
            [.., "kubepods", pod] => (Qos::Guaranteed, *pod),
            _ => return Err(bad("is not below kubepods")),
        };
        match pod.strip_prefix("pod") {
            Some(its) if !its.is_empty() && its == uid => Ok(PodPath { path, qos }),
            _ => Err(bad("is not the one of the pod's uid")),
        }
    }

    /// The path of a container's cgroup, which the runtime names `path/id` or `slice:prefix:id`.
    pub fn container(&self, cgroup: &str) -> Result<String, BadPath> {
        let bad = |problem| BadPath { path: cgroup.to_owned(), problem };
        let path = match cgroup.split(':').collect::<Vec<_>>().as_slice() {
            [slice, prefix, id] => {
                if ![slice, prefix, id].iter().all(|part| is_plain(part)) {
                    return Err(bad("is no plain path"));
                }
                let parent = slice.strip_suffix(".slice").and_then(expanded);
                let parent = parent.ok_or_else(|| bad("is no slice of systemd"))?;
                format!("{parent}/{prefix}-{id}.scope")
            }
            _ => parts(cgroup).ok_or_else(|| bad("is no plain path"))?.join("/"),
        };
        let below = path.strip_prefix(&self.path).and_then(|rest| rest.strip_prefix('/'));
        match below {
            Some(name) if !name.contains('/') => Ok(path),
            _ => Err(bad("is not directly below its pod's")),
        }
    }
}

/// The components of a path, if it can lead nowhere else.
fn parts(path: &str) -> Option<Vec<&str>> {
    let parts: Vec<&str> = path.strip_prefix('/').unwrap_or(path).split('/').collect();
    parts.iter().all(|part| is_plain(part)).then_some(parts)
}

fn is_plain(part: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.@".contains(c);
    !part.is_empty() && part.chars().all(allowed) && part != "." && part != ".."
}

/// Where systemd puts the slice of this name: `a-b` is `a.slice/a-b.slice`.
fn expanded(slice: &str) -> Option<String> {
    let ends = slice.match_indices('-').map(|(at, _)| at).chain([slice.len()]);
    if slice.split('-').any(str::is_empty) {
        return None;
    }
    Some(ends.map(|end| format!("{}.slice", &slice[..end])).collect::<Vec<_>>().join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(uid: &str, cgroup: &str) -> Result<PodPath, BadPath> {
        PodPath::of(&Sandbox { uid: uid.into(), cgroup: cgroup.into(), ..Sandbox::default() })
    }

    fn good(uid: &str, cgroup: &str) -> PodPath {
        pod(uid, cgroup).unwrap()
    }

    const SLICE: &str = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-poda_b.slice";

    #[test]
    fn the_driver_cgroupfs() {
        let burstable = good("a-b", "/kubepods/burstable/poda-b");
        assert_eq!((burstable.path.as_str(), burstable.qos), ("kubepods/burstable/poda-b", Qos::Burstable));
        assert_eq!(good("a", "/kubepods/poda").qos, Qos::Guaranteed);
        assert_eq!(good("a", "/kubepods/besteffort/poda").qos, Qos::BestEffort);
        assert_eq!(
            good("a", "/kubelet/kubepods/poda").path,
            "kubelet/kubepods/poda",
            "a kubelet with a root of its own"
        );
        assert_eq!(burstable.container("/kubepods/burstable/poda-b/0123").unwrap(), "kubepods/burstable/poda-b/0123");
    }

    #[test]
    fn the_driver_systemd() {
        for cgroup in [format!("/{SLICE}"), "kubepods-burstable-poda_b.slice".to_owned()] {
            let pod = good("a-b", &cgroup);
            assert_eq!((pod.path.as_str(), pod.qos), (SLICE, Qos::Burstable));
            let container = pod.container("kubepods-burstable-poda_b.slice:cri-containerd:0123").unwrap();
            assert_eq!(container, format!("{SLICE}/cri-containerd-0123.scope"));
        }
        assert_eq!(good("a", "kubepods-poda.slice").path, "kubepods.slice/kubepods-poda.slice");
    }

    #[test]
    fn nothing_leads_out_of_a_pod() {
        let bad = [
            "",
            "/",
            "/kubepods/../system.slice/poda",
            "/kubepods//poda",
            "/kubepods/poda/",
            "/system.slice/poda",
            "/kubepods",
            "/kubepods/podb",
            "/kubepods/pod",
            "/kubepods/./poda",
            "/kubepods/po\nda",
            "kubepods-podb.slice",
            "kubepods--poda.slice",
            "-kubepods-poda.slice",
            "other.slice/kubepods-poda.slice",
            "system-poda.slice",
        ];
        for cgroup in bad {
            assert!(pod("a", cgroup).is_err(), "{cgroup:?}");
        }
        assert!(pod("", "/kubepods/pod").is_err(), "without a uid it could be any pod's");
    }

    #[test]
    fn a_container_is_directly_below_its_pod() {
        let cgroupfs = good("a", "/kubepods/poda");
        let bad = [
            "/kubepods/poda",
            "/kubepods/poda/",
            "/kubepods/poda/..",
            "/kubepods/poda/x/y",
            "/kubepods/podab/x",
            "/kubepods/podb/x",
            "kubepods-poda.slice:cri-containerd:x",
            "",
            "::",
            "a:b:c:d",
        ];
        for cgroup in bad {
            assert!(cgroupfs.container(cgroup).is_err(), "{cgroup:?}");
        }
        let systemd = good("a", "kubepods-poda.slice");
        for cgroup in [
            "kubepods-podb.slice:cri:x",
            "kubepods-poda.slice:cri:../x",
            "kubepods-poda.slice::x",
            "kubepods-poda:cri:x",
        ] {
            assert!(systemd.container(cgroup).is_err(), "{cgroup:?}");
        }
    }
}

//! Obstacles to tracing for this process, found without loading anything.

use std::path::Path;

/// Capabilities by their bits: CAP_PERFMON, CAP_BPF.
const NEEDED: [(u32, &str); 2] = [(38, "CAP_PERFMON"), (39, "CAP_BPF")];

/// The reason why [`crate::Collector::open`] would fail, and the fix; None if no obstacle is known.
#[must_use]
pub fn obstacle() -> Option<(String, String)> {
    let known = |why: &str, fix: &str| Some((why.to_owned(), fix.to_owned()));
    if in_a_namespace() {
        return known("process numbers are a container's own", "run in the host's pid namespace");
    }
    if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        return known("the kernel has no type information", "use a kernel with CONFIG_DEBUG_INFO_BTF");
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("CapEff:")?.trim(), 16).ok());
    let lacks = |bit: u32| effective.is_some_and(|set| set >> bit & 1 == 0);
    let lacking: Vec<&str> = NEEDED.iter().filter(|(bit, _)| lacks(*bit)).map(|(_, name)| *name).collect();
    (!lacking.is_empty()).then(|| (format!("tracing needs {}", lacking.join(" and ")), "run as root".to_owned()))
}

/// Are this process's numbers others than the kernel's? The first namespace has a fixed inode number
/// (PROC_PID_INIT_INO).
pub(crate) fn in_a_namespace() -> bool {
    std::fs::read_link("/proc/self/ns/pid").is_ok_and(|link| link.as_os_str() != "pid:[4026531836]")
}

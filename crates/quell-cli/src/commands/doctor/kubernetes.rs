//! `quell doctor --kubernetes`: what on this node is in the way of reservations for pods.

use std::io::{self, Write};
use std::path::Path;

use anyhow::{Result, bail};
use quell_command::output;
use quell_linux::doctor::Finding;
use quell_linux::doctor::kubernetes::{Driver, Facts, Runtime, examine, findings, roots};
use quell_model::amount;
use quell_report::screen::Screen;
use serde::Serialize;

use super::text;

/// Everything that it says.
#[derive(Serialize)]
struct Report {
    /// What makes the pods' cgroups; None: nothing does, or two do.
    cgroup_driver: Option<Driver>,
    /// The policy of the kubelet's CPU manager.
    cpu_manager: Option<String>,
    /// The CPUs that the kubelet keeps for the system.
    reserved_by_kubelet: Option<String>,
    runtimes: Vec<Runtime>,
    /// Does the runtime offer a socket for plug-ins?
    has_nri: bool,
    findings: Vec<Finding>,
    unread: Vec<String>,
}

impl Report {
    fn of(facts: Facts) -> Report {
        Report {
            findings: findings(&facts),
            cgroup_driver: facts.driver(),
            cpu_manager: facts.cpu_manager.map(|manager| manager.value),
            reserved_by_kubelet: facts.reserved_by_kubelet.map(|reserved| reserved.value),
            runtimes: facts.runtimes.iter().map(|runtime| runtime.value).collect(),
            has_nri: facts.nri.is_some(),
            unread: facts.unread,
        }
    }

    fn text(&self, screen: &Screen) -> String {
        let unknown = |known: Option<&str>| known.unwrap_or("not known").to_owned();
        let runtimes: Vec<&str> = self.runtimes.iter().map(|runtime| runtime.name()).collect();
        let nri = if self.has_nri { "with NRI" } else { "without NRI" };
        let mut lines = vec![
            format!("cgroup driver   {}", unknown(self.cgroup_driver.map(Driver::name))),
            format!("CPU manager     {}", unknown(self.cpu_manager.as_deref())),
            format!(
                "runtime         {}, {nri}",
                unknown((!runtimes.is_empty()).then(|| runtimes.join(", ")).as_deref())
            ),
        ];
        if let Some(cpus) = &self.reserved_by_kubelet {
            let same =
                format!("kept for system  CPUs {cpus}; write reserved = \"{cpus}\" below [kubernetes] for Quell, too");
            lines.push(screen.hang(&same, 17));
        }
        lines.push(String::new());
        lines.push(match self.findings.len() {
            0 => "No problem found.".to_owned(),
            count => amount(count, "finding", "findings"),
        });
        for finding in &self.findings {
            lines.push(String::new());
            lines.extend(text::finding(finding, screen));
        }
        lines.extend(self.unread.iter().map(|why| screen.wrap(&format!("! {why}"))));
        lines.join("\n") + "\n"
    }
}

/// Reads below this root, and prints.
pub fn run(root: &Path, json: bool) -> Result<()> {
    if !root.join("proc").is_dir() {
        bail!("{} is no machine's root: it has no folder proc; write --root / or --root /proc/1/root", root.display());
    }
    let report = Report::of(examine(root, &roots(root)));
    if json {
        return output::json_line(&report);
    }
    write!(io::stdout(), "{}", report.text(&Screen::here()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use quell_linux::doctor::Valued;

    use super::*;

    fn facts() -> Facts {
        Facts {
            kubelet: Some("/var/lib/kubelet".into()),
            cpu_manager: Some(Valued { path: "/var/lib/kubelet/cpu_manager_state".into(), value: "static".into() }),
            reserved_by_kubelet: Some(Valued { path: "/var/lib/kubelet/config.yaml".into(), value: "0-1".into() }),
            pods: vec![Valued { path: "/sys/fs/cgroup/kubepods.slice".into(), value: Driver::Systemd }],
            cgroup_v2: Some(Valued { path: "/sys/fs/cgroup/cgroup.controllers".into(), value: "cpuset cpu".into() }),
            runtimes: vec![Valued { path: "/run/containerd/containerd.sock".into(), value: Runtime::Containerd }],
            ..Facts::default()
        }
    }

    #[test]
    fn a_node_is_shown_with_its_findings_and_fits_the_terminal() {
        for columns in [80, 200] {
            let text = Report::of(facts()).text(&Screen::columns(columns));
            quell_report::testing::assert_fits(&text, columns);
            for part in [
                "driver   systemd",
                "manager     static",
                "containerd, without NRI",
                "reserved = \"0-1\"",
                "2 findings",
            ] {
                assert!(text.contains(part), "{part}: {text}");
            }
        }
    }

    #[test]
    fn programs_get_the_same() {
        let json = serde_json::to_value(Report::of(facts())).unwrap();
        assert_eq!(json["cgroup_driver"], "systemd");
        assert_eq!((&json["has_nri"], &json["runtimes"][0]), (&false.into(), &"containerd".into()));
        let what: Vec<&str> =
            json["findings"].as_array().unwrap().iter().filter_map(|one| one["what"].as_str()).collect();
        assert_eq!(what, ["the container runtime offers no NRI", "the kubelet's CPU manager is static"]);
    }

    #[test]
    fn a_root_without_proc_is_refused_with_the_fix() {
        let folder = tempfile::tempdir().unwrap();
        let error = run(folder.path(), false).unwrap_err().to_string();
        assert!(error.contains("no machine's root") && error.contains("--root /"), "{error}");
    }
}

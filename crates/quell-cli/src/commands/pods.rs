//! The pods of a node, for `quell status --pods`.

use quell_agent::api::wire::{Kubernetes, Pod};
use quell_report::screen::Screen;
use quell_report::table::table;

/// The pods: a headline, a table, and a line for each that is not as its labels ask.
pub fn text(kubernetes: Option<&Kubernetes>, screen: &Screen) -> String {
    let Some(kubernetes) = kubernetes else {
        let line = "the agent has no part in Kubernetes; write [kubernetes] into its configuration, see `quell doctor --kubernetes`";
        return screen.wrap(line) + "\n";
    };
    let mut lines = vec![screen.wrap(&headline(kubernetes)), String::new()];
    if kubernetes.pods.is_empty() {
        lines.push("no pod".to_owned());
    } else {
        let head = ["namespace", "pod", "QoS", "class", "requested", "limit", "own CPUs", "containers"];
        lines.push(table(head, kubernetes.pods.iter().map(row)).least(["QoS", "containers", "limit"]).fit(screen));
    }
    for pod in &kubernetes.pods {
        let say = |remark: &String| screen.wrap(&format!("! {}/{}: {remark}", pod.namespace, pod.name));
        lines.extend(pod.remarks.iter().map(say));
    }
    lines.extend(kubernetes.refused.iter().map(|line| screen.wrap(&format!("! not set: {line}"))));
    if kubernetes.set_again > 0 {
        let line =
            format!("files of pods that another program changed, and that were set again: {}", kubernetes.set_again);
        lines.push(screen.wrap(&line));
    }
    lines.join("\n") + "\n"
}

fn headline(kubernetes: &Kubernetes) -> String {
    let runtime = match (&kubernetes.runtime, &kubernetes.not_connected) {
        (Some(runtime), _) => format!("connected to {runtime}"),
        (None, Some(why)) => format!("not connected: {why}"),
        (None, None) => "connecting".to_owned(),
    };
    let running = |pod: &&Pod| pod.containers.iter().any(|container| container.is_running);
    let (count, strict) = (kubernetes.pods.iter().filter(running).count(), kubernetes.strict_cpus.as_str());
    let cpus = match (kubernetes.mode.as_str(), strict) {
        ("enforce", "") => format!("all share CPUs {}", kubernetes.shared_cpus),
        ("enforce", strict) => {
            format!("CPUs {strict} are strict pods' own, the others share {}", kubernetes.shared_cpus)
        }
        _ => "observing: nothing is set (mode = \"enforce\" sets it)".to_owned(),
    };
    format!("{count} pods run; {cpus}; {runtime}")
}

fn row(pod: &Pod) -> Vec<String> {
    let running = pod.containers.iter().filter(|container| container.is_running).count();
    vec![
        pod.namespace.clone(),
        pod.name.clone(),
        pod.qos.clone(),
        pod.class.clone(),
        number(pod.cpus_requested),
        pod.cpus_limit.map_or("-".to_owned(), number),
        pod.cpus.clone().unwrap_or_else(|| if pod.is_strict { "none yet" } else { "shared" }.to_owned()),
        format!("{running} of {} run", pod.containers.len()),
    ]
}

fn number(cpus: f64) -> String {
    if cpus == 0.0 {
        "-".to_owned()
    } else {
        format!("{:.3}", cpus).trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_agent::api::wire::PodContainer;

    fn kubernetes() -> Kubernetes {
        let pod = |name: &str, class: &str, cpus: Option<&str>, remarks: &[&str]| Pod {
            namespace: "shop".into(),
            name: name.into(),
            uid: "0f1e".into(),
            workload: format!("shop/{name}"),
            qos: if class == "be" { "BestEffort" } else { "Guaranteed" }.into(),
            class: class.into(),
            is_strict: cpus.is_some(),
            cpus_requested: if class == "be" { 0.0 } else { 1.5 },
            cpus_limit: Some(2.0).filter(|_| class != "be"),
            cpus: cpus.map(str::to_owned),
            cgroup: None,
            containers: vec![PodContainer { name: "a".into(), id: "1".into(), cpus_requested: 1.5, is_running: true }],
            remarks: remarks.iter().map(|remark| (*remark).to_owned()).collect(),
        };
        Kubernetes {
            mode: "enforce".into(),
            runtime: Some("containerd 2.2.9".into()),
            not_connected: None,
            shared_cpus: "0-1".into(),
            strict_cpus: "2-3".into(),
            set_again: 2,
            refused: vec!["kubepods/pod1/cpuset.cpus: no such file".into()],
            pods: vec![
                pod("batch", "be", None, &[]),
                pod("db", "lc", Some("2-3"), &[]),
                pod("web", "lc", None, &["asks for a class that its namespace may not have; add it to lc_namespaces"]),
            ],
        }
    }

    #[test]
    fn a_headline_comes_first_and_each_remark_has_its_pod() {
        let text = text(Some(&kubernetes()), &Screen::columns(100));
        assert!(
            text.starts_with(
                "3 pods run; CPUs 2-3 are strict pods' own, the others share 0-1; connected to containerd"
            )
        );
        for part in ["shop/web: asks for a class", "not set: kubepods", "set again: 2", "2-3", "shared", "1.5"] {
            assert!(text.contains(part), "{part}:\n{text}");
        }
    }

    #[test]
    fn without_a_part_in_kubernetes_the_fix_is_said() {
        assert!(text(None, &Screen::columns(80)).contains("[kubernetes]"));
        let observed =
            Kubernetes { mode: "observe".into(), runtime: None, not_connected: Some("gone".into()), ..kubernetes() };
        let text = text(Some(&observed), &Screen::columns(200));
        assert!(text.contains("nothing is set") && text.contains("not connected: gone"), "{text}");
    }
}

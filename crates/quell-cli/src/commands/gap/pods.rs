//! `quell gap --pods`: what the node's pods requested, what they get, and what they wait for: by the running agent's account.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Result, bail};
use quell_agent::api::wire::{Pod, Status, Workload};
use quell_report::human;
use quell_report::screen::Screen;
use quell_report::table::table;
use serde::Serialize;

use crate::commands::agent_socket::AgentSocket;
use crate::commands::waits;
use quell_command::output;

/// A pod, and what the agent knows of its time.
#[derive(Debug, Serialize)]
struct Row<'a> {
    pod: &'a Pod,
    /// CPUs that it got over the last second or so.
    cpus_used: Option<f64>,
    /// Part of the last seconds for which one of its threads, on average, waited for a CPU.
    waiting: Option<f64>,
    workload: &'a Workload,
}

/// Asks the agent once.
pub fn run(agent: &AgentSocket, json: bool) -> Result<ExitCode> {
    let status = agent.client()?.get::<Status>("/v1/status")?;
    if status.kubernetes.is_none() {
        bail!(
            "the agent has no part in Kubernetes; write [kubernetes] into its configuration, see `quell doctor --kubernetes`"
        );
    }
    let rows = rows(&status);
    if json {
        output::json_line(&rows)?;
    } else {
        write!(io::stdout(), "{}", text(&rows, &Screen::here()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Those that wait most come first.
fn rows(status: &Status) -> Vec<Row<'_>> {
    let mut rows: Vec<Row<'_>> =
        status.kubernetes.iter().flat_map(|it| &it.pods).filter_map(|pod| row(status, pod)).collect();
    rows.sort_by(|a, b| b.waiting.unwrap_or(0.0).total_cmp(&a.waiting.unwrap_or(0.0)));
    rows
}

fn row<'a>(status: &'a Status, pod: &'a Pod) -> Option<Row<'a>> {
    let workload = status.workloads.iter().find(|workload| workload.name == pod.workload)?;
    let waiting = workload.waited.as_ref().filter(|waited| waited.lately.window_ns > 0);
    let waiting = waiting.map(|waited| waited.lately.waited_ns as f64 / waited.lately.window_ns as f64);
    Some(Row { pod, cpus_used: workload.cpus_used.map(|used| used.value), waiting, workload })
}

fn text(rows: &[Row<'_>], screen: &Screen) -> String {
    let Some(first) = rows.first() else { return "no pod runs\n".to_owned() };
    let worth = rows.iter().filter(|row| row.waiting.is_some_and(|waiting| waiting >= 0.01)).count();
    let headline = match (worth, waits::largest(first.workload).as_str()) {
        (0, _) => format!("none of {} pods waits for CPUs", rows.len()),
        (_, "") => format!("{worth} of {} pods wait for CPUs, most of all {}", rows.len(), first.workload.name),
        (_, by) => {
            format!("{worth} of {} pods wait for CPUs, most of all {}, for {by}", rows.len(), first.workload.name)
        }
    };
    let cells = |row: &Row<'_>| {
        let or_dash = |number: Option<f64>| number.map_or("-".to_owned(), |number| format!("{number:.2}"));
        let causes = waits::causes(row.workload).unwrap_or_default();
        let name = row.workload.name.clone();
        vec![
            name,
            row.pod.class.clone(),
            format!("{:.2}", row.pod.cpus_requested),
            or_dash(row.cpus_used),
            or_dash(row.waiting),
            causes,
        ]
    };
    let head = ["pod", "class", "requested", "got", "waiting", "for"];
    let table = table(head, rows.iter().map(cells)).least(["class"]).fit(screen);
    let note = "waiting: threads that waited for a CPU, on average";
    let window = first.workload.waited.as_ref().map_or(0, |waited| waited.lately.window_ns);
    let note = screen.wrap(&format!("{note}, over the last {}", human::nanoseconds(window)));
    format!("{}\n\n{table}\n{note}\n", screen.wrap(&headline))
}

#[cfg(test)]
mod tests {
    use quell_agent::api::wire::{Class, Known, Kubernetes, Waited, WaitedFor, WaitedLately};

    use super::*;
    use crate::commands::sample;

    fn pod(name: &str) -> Pod {
        Pod {
            namespace: "shop".into(),
            name: name.into(),
            uid: name.into(),
            workload: format!("shop/{name}"),
            qos: "Burstable".into(),
            class: "none".into(),
            is_strict: false,
            cpus_requested: 1.0,
            cpus_limit: None,
            cpus: None,
            cgroup: None,
            containers: Vec::new(),
            remarks: Vec::new(),
        }
    }

    fn status(waited_ms: u64) -> Status {
        let waited_ns = waited_ms * 1_000_000;
        let by = vec![WaitedFor {
            cause: "workload".into(),
            by: "shop/batch".into(),
            waited_ns,
            at_least_ns: waited_ns,
            at_most_ns: waited_ns,
        }];
        let lately = WaitedLately { window_ns: 10_000_000_000, waited_ns, known: Known::Traced, by: by.clone() };
        let waited = Some(Waited { waited_ns, unsettled_ns: 0, by, lately });
        let mut status = sample::status(2);
        status.workloads = vec![
            sample::workload("shop/batch", Class::Be, 0.0, 1.5),
            Workload { waited, ..sample::workload("shop/web", Class::Be, 1.0, 0.5) },
        ];
        status.kubernetes = Some(Kubernetes {
            mode: "observe".into(),
            runtime: None,
            not_connected: None,
            shared_cpus: "0-1".into(),
            strict_cpus: String::new(),
            set_again: 0,
            refused: Vec::new(),
            pods: vec![pod("batch"), pod("web"), pod("gone")],
        });
        status
    }

    #[test]
    fn the_pod_that_waits_most_comes_first_with_what_for() {
        let status = status(4_000);
        let rows = rows(&status);
        assert_eq!(rows.iter().map(|row| row.pod.name.as_str()).collect::<Vec<_>>(), ["web", "batch"]);
        let text = text(&rows, &Screen::columns(100));
        assert!(text.starts_with("1 of 2 pods wait for CPUs, most of all shop/web, for shop/batch"), "{text}");
        assert!(text.contains("0.40"), "{text}");
    }

    #[test]
    fn a_quiet_node_says_so() {
        let status = status(1);
        assert!(text(&rows(&status), &Screen::columns(100)).starts_with("none of 2 pods waits"));
        assert_eq!(text(&[], &Screen::columns(80)), "no pod runs\n");
    }
}

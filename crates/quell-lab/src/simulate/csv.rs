//! The outcomes as CSV, one line for each workload. Times are ns; unknown values are empty.

use quell_model::Nanos;
use quell_sim::scenario::label;

use super::compare::Outcome;

const HEAD: &str = "policy,workload,class,completed,throughput_per_s,mean_ns,p50_ns,p90_ns,p99_ns,p999_ns,p9999_ns,\
    max_ns,slo_violations,missed_deadlines,cpus_got,cpus_requested,threads_waiting,p50_low_ns,p50_high_ns,p90_low_ns,\
    p90_high_ns,p99_low_ns,p99_high_ns,p999_low_ns,p999_high_ns,p9999_low_ns,p9999_high_ns,utilisation,commands,\
    refused,decision_time_ns";

/// All of it, with a head line. Swept keys are columns before the others.
pub fn text(outcomes: &[Outcome]) -> String {
    let swept = outcomes.iter().take(1).flat_map(|outcome| &outcome.point).map(|(key, _)| quoted(key) + ",");
    let mut text = format!("{}{HEAD}\n", swept.collect::<String>());
    for outcome in outcomes {
        let report = &outcome.report;
        for workload in &report.workloads {
            let w = workload;
            let latencies = [w.mean, w.p50, w.p90, w.p99, w.p999, w.p9999, w.max].map(time);
            let intervals = workload.intervals.unwrap_or_default().all();
            let ends = intervals.iter().flat_map(|interval| [interval.map(|i| i.0), interval.map(|i| i.1)]).map(time);
            let mut cells: Vec<String> = outcome.point.iter().map(|(_, value)| quoted(&label(value))).collect();
            cells.extend([report.policy.clone(), quoted(&w.name), w.class.to_string()]);
            cells.extend([w.completed.to_string(), w.throughput.to_string()]);
            cells.extend(latencies);
            cells.push(w.slo_violations.map_or(String::new(), |share| share.to_string()));
            cells.push(w.missed_deadlines.to_string());
            cells.extend([w.cpus_got, w.cpus_requested, w.threads_waiting].map(|number| number.to_string()));
            cells.extend(ends);
            cells.extend([report.utilisation.to_string(), report.commands.to_string(), report.refused.to_string()]);
            cells.push(report.decision_time.0.to_string());
            text += &cells.join(",");
            text.push('\n');
        }
    }
    text
}

fn time(time: Option<Nanos>) -> String {
    time.map_or(String::new(), |time| time.0.to_string())
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

//! A controller's status as Prometheus reads it.

use std::fmt::Write as _;

use super::Status;

const ENDS: [&str; 2] = ["arrived", "failed"];

impl Status {
    /// In Prometheus' text format. No label is a name that someone else chose.
    #[must_use]
    pub fn metrics(&self) -> String {
        let mut text = String::new();
        let mut family = |name: &str, kind: &str, help: &str, rows: &[(&str, &str, f64)]| {
            let _ = writeln!(text, "# HELP quell_cluster_{name} {help}\n# TYPE quell_cluster_{name} {kind}");
            for (label, value, number) in rows {
                let labels = if label.is_empty() { String::new() } else { format!("{{{label}=\"{value}\"}}") };
                let _ = writeln!(text, "quell_cluster_{name}{labels} {number}");
            }
        };
        let [count, of_ends] = [&self.counts, &self.counts];
        let hosts = [("ready", self.ready), ("not_ready", self.not_ready), ("gone", self.gone)];
        let rows = |label, of: &[(&'static str, u32)]| -> Vec<_> {
            of.iter().map(|(value, number)| (label, *value, f64::from(*number))).collect()
        };
        family("hosts", "gauge", "Hosts by state.", &rows("state", &hosts));
        let [quiet, busy, contended] = self.classes;
        let classes = [("quiet", quiet), ("busy", busy), ("contended", contended)];
        family("hosts_marked", "gauge", "Hosts by class of contention.", &rows("class", &classes));
        let workloads = [("placed", self.placed), ("waiting", self.pending), ("moving", self.moving)];
        family("workloads", "gauge", "Workloads by state.", &rows("state", &workloads));
        let single = |number: u32| [("", "", f64::from(number))];
        family("services_beyond_slo", "gauge", "Services beyond their SLO.", &single(self.violated));
        family("bad_reports", "gauge", "Reports of nodes that count for nothing.", &single(count.bad_reports));
        let evictions = [
            ("begun", of_ends.evicted),
            ("recommended", of_ends.recommended),
            ("refused", of_ends.refused),
            ("failed", of_ends.failed),
        ];
        family("evictions_total", "counter", "Evictions by what became of them.", &rows("outcome", &evictions));
        let ends = [(ENDS[0], self.arrived), (ENDS[1], self.failed)];
        family("moves_total", "counter", "Moves that ended.", &rows("end", &ends));
        let [helped, none, worse] = self.verdicts;
        let verdicts = [("helped", helped), ("no_effect", none), ("worse", worse)];
        family("judged_moves", "gauge", "Moves that were judged, of the last 4096.", &rows("verdict", &verdicts));
        family("marks_total", "counter", "Marks that were written.", &single(count.marked));
        let seconds = self.turns.0.0 as f64 / 1e9;
        family("turn_seconds", "gauge", "Time of the last turn.", &[("", "", seconds)]);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_family_has_help_type_and_numbers() {
        let text = Status { ready: 3, verdicts: [2, 1, 0], ..Status::default() }.metrics();
        for line in ["quell_cluster_hosts{state=\"ready\"} 3", "quell_cluster_judged_moves{verdict=\"no_effect\"} 1"] {
            assert!(text.lines().any(|is| is == line), "{line}: {text}");
        }
        let families = text.matches("# HELP").count();
        assert!(families >= 9 && families == text.matches("# TYPE").count(), "{text}");
    }
}

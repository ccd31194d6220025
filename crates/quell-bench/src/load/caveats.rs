//! Caveats about a run's numbers for the reader, in plain sentences.

use quell_report::human;

use super::report::LoadReport;

/// A generator that is later than this share of the latency at the same quantile shows in the result.
const LATE_SHARE: f64 = 0.2;
/// Lateness below this is not worth a word, ns.
const LATE_NS: u64 = 50_000;
/// Above this share of the median latency it is the generator that cannot keep up, not the server.
const OWN_SHARE: f64 = 0.5;

impl LoadReport {
    /// The run's caveats, one sentence or two each; empty for a clean run.
    #[must_use]
    pub fn caveats(&self) -> Vec<String> {
        let counts = &self.counts;
        let mut caveats = Vec::new();
        if counts.due == 0 {
            caveats.push("No request came due in the measured part: the run is too short for its rate.".into());
        }
        if self.saturated {
            caveats.push(self.saturation());
        } else if let Some(late) = self.shown_lateness() {
            caveats.push(format!(
                "The generator itself was late by {} at p99, and the latencies contain that. {}",
                human::nanoseconds(late),
                self.protection()
            ));
        }
        if counts.unanswered > 0 {
            caveats.push(format!(
                "{} requests had no answer {} after the end. The latencies are those of the others; the true ones are higher.",
                counts.unanswered,
                human::nanoseconds(self.spec.drain_ns)
            ));
        }
        if counts.refused > 0 {
            caveats.push(format!("{} requests were answered with an error.", counts.refused));
        }
        if self.closed_connections > 0 {
            caveats.push(format!(
                "{} of {} connections were closed by the server.",
                self.closed_connections, self.spec.connections
            ));
        }
        if let Some(why) = &self.keys_left {
            caveats.push(format!("Its keys may be left on the server: {why}"));
        }
        if counts.misses > 0 && self.spec.stores_keys() {
            caveats.push(format!(
                "{} GETs missed although all keys were stored: the server's memory is too small for them.",
                counts.misses
            ));
        }
        caveats
    }

    fn saturation(&self) -> String {
        let (asked, served) = (human::rate(self.offered_per_s), human::rate(self.served_per_s));
        let own = self.lateness.at(0.5) as f64 > OWN_SHARE * self.latency.at(0.5) as f64;
        if own {
            return format!(
                "The generator did not keep up: {asked} were asked, {served} served, and most of the latency is its \
                 own lateness. {}",
                self.protection()
            );
        }
        format!(
            "The server did not keep up: {asked} were asked, {served} served. The latencies are those of a growing \
             queue."
        )
    }

    /// The generator's lateness at p99, ns, where it is large enough to be seen in the latency.
    fn shown_lateness(&self) -> Option<u64> {
        let late = self.lateness.at(0.99);
        (late > LATE_NS && late as f64 > LATE_SHARE * self.latency.at(0.99) as f64).then_some(late)
    }

    fn protection(&self) -> &'static str {
        match self.spec.realtime {
            None => "Run it with --realtime, or lower the rate.",
            Some(_) => "Lower the rate, or give it a CPU of its own.",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{LoadSpec, Record, schedule::Schedule};

    /// Half a second in which every request is turned to after `late` and answered after `latency`, ns.
    fn report(late: u64, latency: u64, realtime: Option<u8>) -> LoadReport {
        let spec = LoadSpec { warmup_ns: 0, duration_ns: 500_000_000, realtime, ..LoadSpec::default() };
        let mut record = Record::new(Schedule::new(&spec));
        record.end_ns = spec.duration_ns;
        record.due = record.schedule.slots.len();
        record.lateness_ns.fill(late);
        record.latency_ns.fill(latency);
        LoadReport::new(spec, &record, None)
    }

    #[test]
    fn who_did_not_keep_up_is_said() {
        let second = 1_000_000_000;
        let server = report(1_000, second, None).caveats();
        assert!(server[0].starts_with("The server did not keep up"), "{server:?}");
        let own = report(second * 9 / 10, second, None).caveats();
        assert!(own[0].starts_with("The generator did not keep up") && own[0].contains("--realtime"), "{own:?}");
    }

    #[test]
    fn own_lateness_is_said_where_it_shows() {
        assert!(report(40_000, 100_000, None).caveats().is_empty(), "too small to matter");
        assert!(report(100_000, 10_000_000, None).caveats().is_empty(), "drowned in the latency");
        let late = report(100_000, 200_000, Some(10)).caveats();
        assert!(late[0].contains("late by 100 µs") && late[0].contains("CPU of its own"), "{late:?}");
    }
}

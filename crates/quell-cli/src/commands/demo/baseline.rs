//! Is there something to compare with? The server alone, undisturbed, and phases with enough answers.

use quell_bench::load::LoadReport;
use quell_effect::quantile::needed;
use quell_report::human;

use super::others::quiet;
use super::result::{DemoReport, PhaseResult};

/// A phase beside the antagonist with less than this share of the p99 alone: something else disturbed the server alone.
const DISTURBED: f64 = 0.7;
/// Above this share of a p99 the load generator's own lateness is what was measured.
const LATE: f64 = 0.5;
/// Above this share of the machine's time, taken by the hypervisor, the server alone was not undisturbed.
const STOLEN: f64 = 0.05;

/// Are there enough answers for this quantile?
pub fn is_sound(load: &LoadReport, q: f64) -> bool {
    load.counts.answered >= needed(q)
}

impl PhaseResult {
    /// Why its p99 is not to be compared with another's, if so.
    pub fn doubt(&self) -> Option<String> {
        let answers = self.runs.iter().map(|run| run.load.counts.answered).min()?;
        if answers > 0 && !self.runs.iter().all(|run| is_sound(&run.load, 0.99)) {
            return Some(format!("{answers} answers, and a p99 needs {}", needed(0.99)));
        }
        let late = self.lateness_ns();
        let p99 = self.quantile_ns(0.99)?;
        (late as f64 > LATE * p99 as f64).then(|| {
            let own = if self.runs.iter().all(|run| run.generator_kept_off) {
                ", on CPUs that it shares with the antagonist"
            } else {
                ""
            };
            format!("the load generator itself was late by {} at p99{own}", human::nanoseconds(late))
        })
    }
}

impl DemoReport {
    /// The server's p99 alone, ns, where others may be compared with it; else why not, and what to do.
    pub fn baseline(&self) -> Result<u64, String> {
        let Some(alone) = self.phase("alone").filter(|phase| !phase.runs.is_empty()) else {
            return Err("the server alone was not measured: give --phases alone among the others".into());
        };
        let Some(p99) = alone.quantile_ns(0.99).filter(|ns| *ns > 0) else {
            return Err("the server alone answered nothing in time: run the demo again with a lower --rate".into());
        };
        if let Some(few) = alone.runs.iter().find(|run| !is_sound(&run.load, 0.99)) {
            return Err(format!(
                "the server alone gave {} answers, and a p99 needs {}: give more --seconds or a higher --rate",
                few.load.counts.answered,
                needed(0.99)
            ));
        }
        if let Some(others) =
            most(alone.runs.iter().filter_map(|run| run.others_cpus)).filter(|used| self.is_busy(*used))
        {
            return Err(format!(
                "other programs used {others:.1} CPUs while the server ran alone: run the demo again when the machine is \
                 quiet"
            ));
        }
        if let Some(stolen) = most(alone.runs.iter().filter_map(|run| run.load.stolen)).filter(|share| *share > STOLEN)
        {
            return Err(format!(
                "the hypervisor took {} of the machine while the server ran alone: run the demo again, with --repeat 3, \
                 or on a machine of its own",
                human::percent(stolen)
            ));
        }
        if let Some(doubt) = alone.doubt() {
            return Err(format!("with the server alone {doubt}: lower --rate, or run the demo as root"));
        }
        let beside = self.phases.iter().filter(|phase| phase.name != "alone" && phase.doubt().is_none());
        let least = beside.filter_map(|phase| Some((phase.quantile_ns(0.99)?, phase))).min_by_key(|(ns, _)| *ns);
        if let Some((least, phase)) = least.filter(|(ns, _)| (*ns as f64) < DISTURBED * p99 as f64) {
            return Err(format!(
                "the server alone (p99 {}) was slower than beside the antagonist ({}: {}): {}",
                human::nanoseconds(p99),
                phase.title,
                human::nanoseconds(least),
                self.why_slower(alone, phase)
            ));
        }
        Ok(p99)
    }

    /// Why the server alone was slower than beside the antagonist, as far as is known, and what to do.
    fn why_slower(&self, alone: &PhaseResult, beside: &PhaseResult) -> &'static str {
        let is_known = alone.runs.iter().all(|run| run.others_cpus.is_some());
        match (is_known, self.awake) {
            (true, false) if alone.quantile_ns(0.5) > beside.quantile_ns(0.5) => {
                "no other program ran, and idle CPUs that sleep wake up late: run the demo as root, which keeps them awake"
            }
            (true, _) => "no other program ran, but something disturbed it: run the demo again, with --repeat 3",
            (false, _) => "something else disturbed it: run the demo again when the machine is quiet",
        }
    }

    fn is_busy(&self, others: f64) -> bool {
        others > quiet(self.cpus)
    }
}

fn most(values: impl Iterator<Item = f64>) -> Option<f64> {
    values.max_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::super::result::Run;
    use super::super::tests::{demo, run};
    use super::*;

    const ALL: [Option<u64>; 6] = [Some(40), Some(336), Some(80), Some(40), Some(50), Some(40)];

    /// The report after a change of the first phase's run.
    fn with_alone(change: impl Fn(&mut Run)) -> DemoReport {
        let mut report = demo(ALL, 1);
        change(&mut report.phases[0].runs[0]);
        report
    }

    /// No ratio stands anywhere, and what is said has the reason and something to do.
    fn assert_none(report: &DemoReport, reason: &str, remedy: &str) {
        let result = report.in_words();
        assert!(result.starts_with("result: no ratios: "), "{result}");
        assert!(result.contains(reason) && result.contains(remedy), "{result}");
        let screen = quell_report::screen::Screen::columns(80);
        let shown = [report.bars(&screen), report.table(&screen), report.findings().join("\n"), result].join("\n");
        assert!(!shown.contains('×'), "a ratio: {shown}");
    }

    #[test]
    fn a_quiet_machine_has_a_baseline() {
        let report = with_alone(|run| {
            run.others_cpus = Some(0.1);
            run.load.stolen = Some(0.01);
        });
        assert!((39_000..41_000).contains(&report.baseline().unwrap()));
        assert!(report.in_words().contains("8.4 ×") && !report.findings().is_empty());
    }

    #[test]
    fn work_of_others_beside_the_server_alone_leaves_no_ratio() {
        assert_none(
            &with_alone(|run| run.others_cpus = Some(1.3)),
            "other programs used 1.3 CPUs",
            "when the machine is quiet",
        );
        assert_none(&with_alone(|run| run.load.stolen = Some(0.2)), "hypervisor took 20", "--repeat 3");
    }

    #[test]
    fn a_server_that_is_slower_alone_leaves_no_ratio() {
        let report = demo([Some(800), Some(4000), Some(300), Some(40), Some(90), Some(60)], 1);
        assert_none(
            &report,
            "slower than beside the antagonist (server SCHED_FIFO (unsafe): 40.0 µs)",
            "run the demo again",
        );
    }

    #[test]
    fn cpus_that_wake_up_late_are_named_where_no_program_ran() {
        let mut report = demo([Some(800), Some(4000), Some(300), Some(40), Some(90), Some(60)], 1);
        report.phases[0].runs[0].others_cpus = Some(0.0);
        assert_none(&report, "idle CPUs that sleep wake up late", "run the demo as root");
        report.awake = true;
        assert_none(&report, "no other program ran, but something disturbed it", "--repeat 3");
    }

    #[test]
    fn a_late_generator_leaves_no_ratio() {
        assert_none(&demo(ALL, 30), "the load generator itself was late by 30.0 µs", "lower --rate");
    }

    #[test]
    fn too_few_answers_leave_no_ratio() {
        assert_none(
            &with_alone(|run| run.load.counts.answered = 999),
            "999 answers, and a p99 needs 1000",
            "more --seconds",
        );
        assert!(with_alone(|run| run.load.counts.answered = 1000).baseline().is_ok());
    }

    #[test]
    fn a_server_that_was_not_measured_alone_leaves_no_ratio() {
        let mut report = demo(ALL, 1);
        report.phases.remove(0);
        assert_none(&report, "not measured", "--phases alone");
        assert_none(&with_alone(|run| run.load.counts.answered = 0), "answered nothing in time", "lower --rate");
    }

    #[test]
    fn a_phase_with_a_late_generator_is_not_compared_and_the_others_are() {
        let mut report = demo(ALL, 1);
        report.phases[4].runs = vec![run(10_000_000, 9_000_000)];
        let result = report.in_words();
        assert!(result.contains("Quell rkube not compared: the load generator itself was late by 9.0"), "{result}");
        assert!(
            result.contains("on CPUs that it shares with the antagonist") && result.contains("plain Linux 8.4 ×"),
            "{result}"
        );
        assert!(!report.findings().iter().any(|line| line.contains("rkube")), "{:?}", report.findings());
    }
}

//! The demo's figures in words.

use quell_report::human;

use super::others::quiet;
use super::result::{DemoReport, PhaseResult};

/// rKube's latency may be so much above Linux's best and still count as equal.
const AS_GOOD: f64 = 1.05;
/// The load generator's own lateness is named as a cause above this share of a latency.
const OWN_SHARE: f64 = 0.2;
/// A server whose threads wait longer than this share of the time for a CPU of their own shares it.
const WAITED: f64 = 0.01;

impl DemoReport {
    /// A phase's p99, if it may be compared.
    fn p99(&self, name: &str) -> Option<u64> {
        self.phase(name).filter(|phase| phase.doubt().is_none())?.quantile_ns(0.99)
    }

    fn work(&self, name: &str) -> Option<f64> {
        self.phase(name)?.antagonist_per_s()
    }

    /// One figure over another, at the same quantile.
    fn times(&self, name: &str, of: &str) -> Option<f64> {
        Some(self.p99(name)? as f64 / self.p99(of)?.max(1) as f64)
    }

    /// The name of the better one of Linux's own: plain, or the antagonist SCHED_IDLE.
    fn best_of_linux(&self) -> Option<&'static str> {
        ["linux", "linux-best"].into_iter().filter(|name| self.p99(name).is_some()).min_by_key(|name| self.p99(name))
    }

    /// The findings, one sentence a line; none without something to compare with.
    pub fn findings(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if self.baseline().is_err() {
            return lines;
        }
        if let Some(times) = self.times("linux", "alone") {
            lines.push(format!("plain Linux: p99 is {times:.1}× the server's own"));
        }
        if let (Some(alone), Some(fifo), Some(guard)) = (self.p99("alone"), self.p99("fifo"), self.p99("guard")) {
            let limit = alone.max(fifo).max(1);
            let mut line =
                format!("guard: p99 is {:.2}× the larger of alone and SCHED_FIFO", guard as f64 / limit as f64);
            if let (Some(beside_fifo), Some(beside_guard)) = (self.work("fifo"), self.work("guard")) {
                let kept = beside_guard / beside_fifo;
                line += &format!("; the antagonist does {} of its work beside SCHED_FIFO", human::percent(kept));
            }
            lines.push(line);
        }
        if let (Some(best), Some(phase)) = (self.best_of_linux(), self.phase("rkube"))
            && let Some(times) = self.times("rkube", best)
        {
            let mut line = format!("rkube: p99 is {times:.2}× that of Linux's best");
            if let (Some(beside_best), Some(beside_rkube)) = (self.work(best), self.work("rkube")) {
                line += &format!(
                    "; the antagonist does {} of its work there, what the exclusive CPUs leave",
                    human::percent(beside_rkube / beside_best)
                );
            }
            if phase.runs.iter().all(|run| run.generator_kept_off) {
                line += "; the load generator was kept off the server's own CPUs";
            }
            lines.push(line);
        }
        lines
    }

    /// The result in one line: each phase's p99 over the server's alone, and the antagonist's remaining work.
    pub fn in_words(&self) -> String {
        let alone = match self.baseline() {
            Ok(alone) => alone,
            Err(why) => return format!("result: no ratios: {why}"),
        };
        let over_alone = |phase: &PhaseResult| {
            let name = short(&phase.name)?;
            if let Some(doubt) = phase.doubt() {
                return Some(format!("{name} not compared: {doubt}"));
            }
            let Some(p99) = phase.quantile_ns(0.99) else {
                return (!phase.runs.is_empty()).then(|| format!("{name} no answer in time"));
            };
            let least = if phase.runs.iter().any(|run| run.load.saturated) { "over " } else { "" };
            Some(format!("{name} {least}{:.1} × the p99 alone", p99 as f64 / alone as f64))
        };
        let mut said: Vec<String> = self.phases.iter().filter_map(over_alone).collect();
        // The unit once, behind the first.
        said.iter_mut().skip(1).for_each(|text| *text = text.replace(" the p99 alone", ""));
        if said.is_empty() {
            return format!("result: p99 alone {}; no phase beside {}", human::nanoseconds(alone), self.neighbours);
        }
        let mut parts = vec![format!("beside {}: {}", self.neighbours, said.join(", "))];
        parts.extend(self.kept());
        parts.extend(self.worse_than_linux());
        let skipped: Vec<&str> =
            self.phases.iter().filter(|phase| phase.runs.is_empty()).filter_map(|phase| short(&phase.name)).collect();
        if !skipped.is_empty() {
            parts.push(format!("skipped: {}", skipped.join(", ")));
        }
        format!("result: {}", parts.join("; "))
    }

    /// The antagonist's remaining work under Quell.
    fn kept(&self) -> Option<String> {
        let plain = self.work("linux").filter(|work| *work > 0.0)?;
        let share = |name: &str| {
            Some(format!(
                "{:.0} % under {}",
                100.0 * self.work(name)? / plain,
                short(name)?.trim_start_matches("Quell ")
            ))
        };
        let shares: Vec<String> = ["guard", "rkube"].into_iter().filter_map(share).collect();
        (!shares.is_empty()).then(|| format!("of its work on plain Linux the antagonist keeps {}", shares.join(", ")))
    }

    /// The reason why rKube's own CPUs are no better than plain Linux, if they are not.
    fn worse_than_linux(&self) -> Option<String> {
        let best = self.best_of_linux()?;
        let times = self.times("rkube", best).filter(|times| *times > AS_GOOD)?;
        let phase = self.phase("rkube")?;
        let late = phase.lateness_ns();
        let because = if late as f64 > OWN_SHARE * self.p99("rkube")? as f64 {
            format!("the load generator, kept off the server's CPUs, was late by {}", human::nanoseconds(late))
        } else if !phase.runs.iter().all(|run| run.generator_kept_off) {
            "the load generator ran on the server's own CPUs".into()
        } else if let Some(waited) = phase.waited().filter(|share| *share > WAITED) {
            let others = phase.runs.iter().any(|run| run.others_cpus.is_some_and(|used| used > quiet(self.cpus)));
            let ran = if others { "other programs, which are unmanaged, ran" } else { "the kernel and Quell ran, too" };
            format!("its threads waited {} of the time for their own CPUs, where {ran}", human::percent(waited))
        } else {
            "the server cannot use a CPU that is briefly idle elsewhere, and unmanaged work may run on its own".into()
        };
        Some(format!("rkube is {times:.1} × Linux's best: {because}"))
    }
}

/// A phase's name in the result; none for that which the others are compared with.
fn short(name: &str) -> Option<&'static str> {
    match name {
        "linux" => Some("plain Linux"),
        "linux-best" => Some("SCHED_IDLE"),
        "fifo" => Some("SCHED_FIFO"),
        "rkube" => Some("Quell rkube"),
        "guard" => Some("Quell guard"),
        _ => None,
    }
}

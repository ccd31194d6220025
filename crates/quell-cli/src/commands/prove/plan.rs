//! What is fixed before the first block, and said.

use std::time::Duration;

use anyhow::{Result, bail};
use quell_effect::prove::{Arms, Design, Request};
use quell_effect::{Measure, Phase};
use quell_model::{Nanos, Policy as _, Slo, foreign};
use quell_policy::AnyPolicy;
use quell_report::screen::Screen;
use quell_thread::clock;

use super::{Arguments, slo};

/// What is compared with, where it is nothing.
pub const OFF: &str = "off";
/// The quantile that is wanted.
const QUANTILE: f64 = 0.99;
/// A difference up to this share does not matter.
const MARGIN: f64 = 0.1;
/// Requests from before a change end within this time, if no knob takes longer.
const LEAST_SETTLING: Nanos = Nanos::from_millis(250);

/// The plan.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The workload's name.
    pub workload: String,
    /// The policy, or what stands for it.
    pub policy: String,
    /// The blocks, and when a verdict is possible.
    pub design: Design,
    /// What is measured.
    pub measure: Measure,
    /// The objective, if there is one.
    pub slo: Option<Slo>,
}

fn request(arguments: &Arguments, per_second: f64, settling: Nanos) -> Request {
    Request {
        quantile: QUANTILE,
        per_second,
        settling: Duration::from(settling),
        length: arguments.length.into(),
        off_share: arguments.off_share,
        margin: MARGIN,
        seed: arguments.seed.unwrap_or_else(|| clock::now().0),
    }
}

/// Refuses what no service could be measured by.
///
/// # Errors
/// With the fix.
pub fn check(arguments: &Arguments) -> Result<()> {
    Design::of(&request(arguments, 1e6, LEAST_SETTLING))?;
    Ok(())
}

/// Time in which what these policies set takes effect.
fn settling(policies: &[&AnyPolicy]) -> Nanos {
    let knobs = policies.iter().flat_map(|policy| policy.describe().knobs.iter());
    knobs.map(|need| need.what.effect_latency()).max().unwrap_or_default().max(LEAST_SETTLING)
}

impl Plan {
    /// From what was measured before.
    ///
    /// # Errors
    /// If the time is too short, or the objective is missed already.
    pub fn of(
        arguments: &Arguments,
        workload: &str,
        policy: &str,
        before: &Phase,
        policies: &[&AnyPolicy],
        configured: Option<Slo>,
    ) -> Result<Plan> {
        let slo = arguments.slo.or(configured);
        let missed = slo.as_ref().and_then(|objective| slo::is_missed(objective, 1.0, before));
        if let (Some(objective), Some(found), false) = (&slo, missed, arguments.yes) {
            bail!(
                "{}: its objective of {} is missed already ({found}), and it would be unprotected for a part of the time: give --yes \
                 to begin all the same",
                foreign::text(workload),
                objective.bound
            );
        }
        let design = Design::of(&request(arguments, before.per_second(), settling(policies)))?;
        Ok(Plan { workload: workload.to_owned(), policy: policy.to_owned(), design, measure: before.measure, slo })
    }

    /// What is compared, in words.
    #[must_use]
    pub fn arms<'a>(&'a self, arguments: &'a Arguments) -> Arms<'a> {
        match arguments.against.as_str() {
            OFF => Arms { measure: self.measure, off: OFF, on: Arms::ON },
            against => Arms { measure: self.measure, off: against, on: &self.policy },
        }
    }

    /// Says it on standard error.
    pub fn say(&self, arguments: &Arguments) {
        if arguments.wanted.asked.say().quiet {
            return;
        }
        let screen = Screen::of_errors();
        self.text(arguments).lines().for_each(|line| eprintln!("{}", screen.wrap(line).trim_end()));
    }

    fn text(&self, arguments: &Arguments) -> String {
        let arms = self.arms(arguments);
        let measured = match self.measure {
            Measure::Histogram => "latency, by the service's own histogram",
            Measure::Probe => "latency, by a probe",
            Measure::QueueingDelay => "queueing delay: how long its threads wait for a CPU",
        };
        let what = if arms.off == OFF {
            format!("policy {} against nothing", self.policy)
        } else {
            format!("policy {} (on) against policy {} (off)", self.policy, arms.off)
        };
        let mut text =
            format!("{}: {what}, measured: {measured}.\n{}\n", foreign::text(&self.workload), self.design.text());
        match &self.slo {
            Some(_) if self.measure == Measure::QueueingDelay => {
                text += "The objective is not watched: it is one of latency, which is not measured.\n";
            }
            Some(slo) => {
                text += &format!(
                    "A block ends at once where {} exceeds {} × {}; it counts as it stands.\n",
                    quell_effect::quantile::name(slo.quantile),
                    arguments.abort_factor,
                    slo.bound
                );
            }
            None => {}
        }
        text
    }
}

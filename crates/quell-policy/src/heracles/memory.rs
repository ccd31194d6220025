//! The core and memory controller (Heracles, ISCA 2015, Algorithm 2): gradient descent in one dimension after the other,
//! LLC first. Its model of the service's bandwidth is what was measured.

use serde::{Deserialize, Serialize};

use super::config::{Form, HeraclesConfig};

/// The dimension in which best-effort work grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Grows {
    /// Cache ways.
    #[default]
    Llc,
    /// Cores.
    Cores,
}

/// What was measured, bytes a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Seen {
    /// All traffic.
    pub total: f64,
    /// Best-effort work's.
    pub best_effort: f64,
    /// Best-effort instructions a second, where they are measured.
    pub done: Option<f64>,
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Step {
    /// Nothing changes.
    None,
    /// Best-effort work loses this number of cores, or, if frequencies are set, a step of frequency.
    Lose(u32),
    /// It gets one way more.
    Way,
    /// It gives the way back that it got last.
    WayBack,
    /// It gets one core more.
    Core,
}

/// Its state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Memory {
    grows: Grows,
    /// What was measured before the last way was given, if it was given in the last step.
    tried: Option<Seen>,
    last: Option<Seen>,
}

impl Memory {
    /// The next step with this number of best-effort cores.
    pub fn step(&mut self, seen: Seen, cores: u32, can_grow: bool, slack: f64, config: &HeraclesConfig) -> Step {
        let limit = config.bandwidth_limit * config.peak_bandwidth.0;
        let each = seen.best_effort / f64::from(cores.max(1));
        let derivative = self.last.replace(seen).map_or(0.0, |last| seen.total - last.total);
        if let Some(before) = self.tried.take() {
            let benefits = seen.done.zip(before.done).is_none_or(|(now, before)| now > before);
            // "If bandwidth does not fall, it is undone."
            if seen.total >= before.total {
                self.grows = Grows::Cores;
                return Step::WayBack;
            }
            if !benefits {
                self.grows = Grows::Cores;
            }
        }
        if seen.total > limit {
            let over = if each > 0.0 { ((seen.total - limit) / each).ceil() as u32 } else { 1 };
            return Step::Lose(over.clamp(1, cores.max(1)));
        }
        if !can_grow {
            return Step::None;
        }
        if self.grows == Grows::Llc {
            if seen.total + derivative.max(0.0) > limit {
                self.grows = Grows::Cores;
            } else {
                self.tried = Some(seen);
                return Step::Way;
            }
        }
        if seen.total + each > limit {
            self.grows = Grows::Llc;
            return Step::None;
        }
        if slack > config.slack_grow || config.form == Form::Thesis { Step::Core } else { Step::None }
    }

    /// There is no way left to give: cores are next.
    pub fn has_no_way(&mut self) {
        (self.grows, self.tried) = (Grows::Cores, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(total: f64, best_effort: f64) -> Seen {
        Seen { total, best_effort, done: None }
    }

    #[test]
    fn above_the_limit_it_loses_as_many_cores_as_are_over() {
        let mut memory = Memory::default();
        let config = HeraclesConfig::default();
        assert_eq!(memory.step(seen(65.2e9, 40e9), 10, true, 0.5, &config), Step::Lose(1), "4 GB/s over 61.2");
        assert_eq!(memory.step(seen(68e9, 40e9), 20, true, 0.5, &config), Step::Lose(4), "2 GB/s each");
    }

    #[test]
    fn a_way_that_saves_no_bandwidth_is_taken_back_and_cores_are_next() {
        let mut memory = Memory::default();
        let config = HeraclesConfig::default();
        assert_eq!(memory.step(seen(20e9, 10e9), 2, true, 0.5, &config), Step::Way);
        assert_eq!(memory.step(seen(19e9, 9e9), 2, true, 0.5, &config), Step::Way, "it saved some");
        assert_eq!(memory.step(seen(19e9, 9e9), 2, true, 0.5, &config), Step::WayBack);
        assert_eq!(memory.step(seen(20e9, 10e9), 2, true, 0.5, &config), Step::Core);
        assert_eq!(memory.step(seen(20e9, 10e9), 2, true, 0.1, &config), Step::None, "slack of 10 %");
        assert_eq!(memory.step(seen(20e9, 10e9), 2, false, 0.5, &config), Step::None);
        let thesis = HeraclesConfig { form: Form::Thesis, ..config };
        assert_eq!(memory.step(seen(20e9, 10e9), 2, true, 0.0, &thesis), Step::Core, "it does not ask for slack");
    }
}

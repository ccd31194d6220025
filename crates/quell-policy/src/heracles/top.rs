//! The top-level controller (Heracles, ISCA 2015, Algorithm 1).

use serde::{Deserialize, Serialize};

use super::config::{Form, HeraclesConfig};

/// What it allows best-effort work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Allowed {
    /// Off, after a missed SLO: for the cooldown.
    OffForCooldown,
    /// Off.
    Off,
    /// It may grow.
    Grow,
    /// It may not grow.
    Stay,
    /// It may not grow, and keeps few cores.
    Shrink,
}

/// What is allowed with this slack, (target − latency) / target, at this load, 0–1; None: as before.
pub(super) fn allowed(slack: f64, load: Option<f64>, is_on: bool, config: &HeraclesConfig) -> Option<Allowed> {
    let load_on = if config.form == Form::Thesis { config.load_on.min(THESIS_LOAD) } else { config.load_on };
    let by_slack = || match slack {
        slack if slack < config.slack_shrink => Allowed::Shrink,
        slack if slack < config.slack_grow => Allowed::Stay,
        _ => Allowed::Grow,
    };
    if slack < 0.0 {
        return Some(if config.form == Form::Thesis { Allowed::Off } else { Allowed::OffForCooldown });
    }
    let Some(load) = load else {
        return Some(if config.form == Form::Prose { by_slack() } else { Allowed::Grow });
    };
    if load > config.load_off {
        return Some(Allowed::Off);
    }
    let may_be_on = is_on || load < load_on;
    match config.form {
        Form::Printed if load < load_on => Some(Allowed::Grow),
        Form::Thesis => may_be_on.then_some(Allowed::Grow),
        _ => may_be_on.then(by_slack),
    }
}

/// Load below which the thesis' controller lets best-effort work grow (the issue of its Figures 3.11–3.13: 70 %).
const THESIS_LOAD: f64 = 0.70;

#[cfg(test)]
mod tests {
    use super::*;

    fn with(form: Form, slack: f64, load: f64) -> Option<Allowed> {
        allowed(slack, Some(load), true, &HeraclesConfig { form, ..HeraclesConfig::default() })
    }

    #[test]
    fn the_three_forms_differ_where_slack_is_small_at_low_load() {
        for form in [Form::Printed, Form::Prose, Form::Thesis] {
            assert_eq!(with(form, 0.5, 0.9), Some(Allowed::Off), "85 % load");
            assert_eq!(with(form, 0.5, 0.5), Some(Allowed::Grow));
        }
        let at_low_load = [Form::Printed, Form::Prose, Form::Thesis].map(|form| with(form, 0.03, 0.5));
        assert_eq!(at_low_load, [Some(Allowed::Grow), Some(Allowed::Shrink), Some(Allowed::Grow)]);
        let between = [Form::Printed, Form::Prose, Form::Thesis].map(|form| with(form, 0.07, 0.82));
        assert_eq!(between, [Some(Allowed::Stay), Some(Allowed::Stay), Some(Allowed::Grow)]);
        let missed = [Form::Printed, Form::Prose, Form::Thesis].map(|form| with(form, -0.1, 0.5));
        assert_eq!(missed, [Some(Allowed::OffForCooldown), Some(Allowed::OffForCooldown), Some(Allowed::Off)]);
    }

    #[test]
    fn what_is_off_comes_on_below_the_lower_load_alone() {
        let off = |load| allowed(0.5, Some(load), false, &HeraclesConfig::default());
        assert_eq!((off(0.82), off(0.79)), (None, Some(Allowed::Grow)));
    }
}

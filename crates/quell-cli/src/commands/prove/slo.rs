//! The service's objective on the command line, and whether it is missed.

use quell_command::units;
use quell_effect::{Measure, Phase, quantile};
use quell_model::{Nanos, Slo};

/// `p99=5ms`
pub fn parse(text: &str) -> Result<Slo, String> {
    let example = || format!("`{text}` is no objective; write p99=5ms");
    let (quantile, bound) = text.split_once('=').ok_or_else(example)?;
    let percent: f64 = quantile.strip_prefix('p').and_then(|number| number.parse().ok()).ok_or_else(example)?;
    if !(percent > 0.0 && percent < 100.0) {
        return Err(example());
    }
    Ok(Slo { quantile: percent / 100.0, bound: units::positive_duration(bound)? })
}

/// A factor above 1.
pub fn factor(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|factor: &f64| *factor >= 1.0 && factor.is_finite());
    number.ok_or_else(|| format!("`{text}` is no factor of 1 or more; write 3"))
}

/// Is the objective missed by more than a factor? By the highest quantile up to the objective's that there are values enough for: if
/// that one exceeds the bound, the objective's does. Only of latency: a queueing delay is none.
#[must_use]
pub fn is_missed(slo: &Slo, by: f64, phase: &Phase) -> Option<Nanos> {
    if phase.measure == Measure::QueueingDelay {
        return None;
    }
    let sound = quantile::highest_sound(slo.quantile, phase.count())?;
    let found = phase.at(sound);
    (found as f64 > slo.bound.0 as f64 * by).then_some(Nanos(found))
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_effect::Slice;

    #[test]
    fn an_objective_is_a_quantile_and_a_time() {
        assert_eq!(parse("p99=5ms").unwrap(), Slo { quantile: 0.99, bound: Nanos::from_millis(5) });
        assert_eq!(parse("p99.9=1s").unwrap().bound, Nanos::from_secs(1));
        for wrong in ["5ms", "p=5ms", "p0=5ms", "p100=1s", "99=5ms", "pNaN=1s", "p99=0s", "p99=soon"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert!(factor("1").is_ok() && factor("0.5").is_err() && factor("inf").is_err() && factor("x").is_err());
    }

    #[test]
    fn it_is_missed_where_a_quantile_up_to_it_is_above_the_bound() {
        let slo = parse("p99=5ms").unwrap();
        let phase = |measure, ns, count| {
            let slice = Slice { from_ns: 0, to_ns: 1, cells: vec![(ns, count)] };
            Phase { slices: vec![slice], ..Phase::new(measure, Vec::new()) }
        };
        let ms = 1_000_000;
        assert_eq!(is_missed(&slo, 1.0, &phase(Measure::Probe, 6 * ms, 20)), Some(Nanos(6 * ms)));
        assert_eq!(is_missed(&slo, 1.0, &phase(Measure::Probe, 4 * ms, 2_000)), None);
        assert_eq!(is_missed(&slo, 3.0, &phase(Measure::Probe, 14 * ms, 20)), None);
        assert_eq!(is_missed(&slo, 1.0, &phase(Measure::Probe, 60 * ms, 19)), None, "too few to say");
        assert_eq!(is_missed(&slo, 1.0, &phase(Measure::QueueingDelay, 60 * ms, 900)), None, "no latency");
    }
}

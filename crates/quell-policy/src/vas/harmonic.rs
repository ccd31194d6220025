//! Shorter periods of which each divides the next: their hyperperiod is the longest of them (vas-rtns21, end of §4).

use quell_model::Nanos;
use quell_model::demand::Task;

/// Words that name harmonic periods with the least utilisation, if they leave it below 1.
pub(super) fn fix(tasks: &[Task]) -> String {
    match periods(tasks) {
        Some(periods) => {
            let named: Vec<String> = periods.into_iter().map(|period| Nanos(period).exact()).collect();
            format!("harmonic periods would do: {}", named.join(", "))
        }
        None => "and no harmonic periods leave the utilisation below 100 %: take rounder ones".into(),
    }
}

/// Every period cut to the next shorter one of base × 2^k; the base is tried from each task's period.
fn periods(tasks: &[Task]) -> Option<Vec<u64>> {
    let shortest = tasks.iter().map(|task| task.period.0).min()?;
    let bases = tasks.iter().map(|task| task.period.0 >> steps(task.period.0, shortest));
    let cut = |base: u64| -> Vec<u64> {
        let cut = |task: &Task| base << (task.period.0 / base).ilog2();
        tasks.iter().map(cut).collect()
    };
    let share = |periods: &Vec<u64>| -> f64 {
        tasks.iter().zip(periods).map(|(task, &period)| task.work.0 as f64 / period as f64).sum()
    };
    let best = bases.map(cut).min_by(|a, b| share(a).total_cmp(&share(b)))?;
    let most = *best.iter().max()?;
    let releases: u64 = best.iter().map(|period| most / period).sum();
    let fits = tasks.iter().zip(&best).all(|(task, &period)| task.work.0 < period);
    (fits && share(&best) < 1.0 && releases <= 10_000_000).then_some(best)
}

/// Halvings after which a period is no longer than the shortest one.
fn steps(period: u64, shortest: u64) -> u32 {
    let halvings = (period / shortest).ilog2();
    if period >> halvings > shortest { halvings + 1 } else { halvings }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_period_divides_the_next_one_and_none_is_longer_than_asked_for() {
        let set: Vec<Task> =
            ["0,4ms,20ms", "0,6ms,30ms", "0,7ms,50ms", "0,7ms,70ms"].iter().map(|text| text.parse().unwrap()).collect();
        let periods = periods(&set).unwrap();
        assert!(periods.iter().zip(&set).all(|(&period, task)| period <= task.period.0), "{periods:?}");
        let longest = periods.iter().max().unwrap();
        assert!(periods.iter().all(|period| longest.is_multiple_of(*period)), "{periods:?}");
    }
}

//! Randomised task sets (vas-rtns21 §6.1, "Multi-Testcase Evaluation").

use quell_model::Nanos;
use quell_model::demand::Task;

use crate::Stream;

/// The utilisations, ten task sets each.
pub const UTILISATIONS: [f64; 5] = [0.1, 0.3, 0.5, 0.7, 0.9];

/// The harmonic periods, ms.
const PERIODS: [u64; 8] = [10, 20, 40, 80, 160, 320, 640, 1280];

/// Less work than this is none.
const LEAST: f64 = 1e-4;

/// A task set of this utilisation: periods, offsets and utilisations drawn as the paper does, the last task cut to fit.
#[must_use]
pub fn random_tasks(utilisation: f64, seed: u64) -> Vec<Task> {
    let mut random = Stream::new(seed, 0);
    let (mut tasks, mut left) = (Vec::new(), utilisation);
    while left > LEAST {
        let period = Nanos::from_millis(PERIODS[random.below(PERIODS.len() as u32) as usize]);
        let offset = period.scaled(random.unit() * 0.999_999);
        let own = match random.below(3) {
            0 => 0.5 + random.unit() * 0.4,
            _ => LEAST + random.unit() * (0.5 - LEAST),
        };
        let own = own.min(left);
        left -= own;
        tasks.push(Task { offset, work: period.scaled(own), period });
    }
    tasks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_utilisation_is_the_one_that_was_asked_for() {
        for utilisation in UTILISATIONS {
            for seed in 0..20 {
                let tasks = random_tasks(utilisation, seed);
                let sum: f64 = tasks.iter().map(|task| task.work.0 as f64 / task.period.0 as f64).sum();
                assert!((sum - utilisation).abs() < 2.0 * LEAST, "{sum} of {utilisation}");
                assert!(tasks.iter().all(|task| task.offset < task.period && task.work > Nanos::ZERO));
            }
        }
    }
}

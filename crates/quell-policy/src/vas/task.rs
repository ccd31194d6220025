//! A service's work: tasks (vas-rtns21 §4.1).

use quell_model::Nanos;
use quell_model::demand::Task;

use super::error::VasError;
use super::harmonic;

/// More releases in a hyperperiod are refused.
const MOST_RELEASES: u64 = 10_000_000;

/// Pattern of releases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Releases {
    /// Exactly every period.
    #[default]
    Periodic,
    /// A period or more apart; offsets mean nothing.
    Sporadic,
}

/// Tasks on one CPU that together ask for less than the whole of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskSet {
    tasks: Vec<Task>,
    releases: Releases,
    hyperperiod: u64,
    work: u64,
}

impl TaskSet {
    /// A set of tasks.
    ///
    /// # Errors
    /// If a task is outside the model, all of them ask for a CPU or more, or a hyperperiod has more than 10^7 releases.
    pub fn new(tasks: Vec<Task>, releases: Releases) -> Result<TaskSet, VasError> {
        for (&task, number) in tasks.iter().zip(1..) {
            let why = match task {
                Task { work: Nanos::ZERO, .. } => "it has no work; give the longest time of a job",
                Task { period: Nanos::ZERO, .. } => "it has no period; give the time between two releases",
                Task { work, period, .. } if work >= period => "its work is not shorter than its period",
                Task { offset, period, .. } if offset >= period && releases == Releases::Periodic => {
                    "its offset is not shorter than its period; take whole periods off it"
                }
                _ => continue,
            };
            return Err(VasError::Task { number, task, why });
        }
        let overload = |number, task, share: f64| VasError::Overload { number, task, percent: share * 100.0 };
        // An excessive share is reported as such, whatever the hyperperiod is.
        let mut share = 0.0;
        for (&task, number) in tasks.iter().zip(1..) {
            share += task.work.0 as f64 / task.period.0 as f64;
            if share > 1.0 + 1e-9 {
                return Err(overload(number, task, share));
            }
        }
        let hyperperiod = hyperperiod(&tasks)?;
        let mut work = 0;
        for (&task, number) in tasks.iter().zip(1..) {
            // Below a hyperperiod each, so the sum of two is no more than 64 bits hold.
            work += task.work.0 * (hyperperiod / task.period.0);
            if work >= hyperperiod {
                return Err(overload(number, task, work as f64 / hyperperiod as f64));
            }
        }
        Ok(TaskSet { tasks, releases, hyperperiod, work })
    }

    /// The tasks, as they were given.
    #[must_use]
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// Pattern of releases.
    #[must_use]
    pub fn releases(&self) -> Releases {
        self.releases
    }

    /// H: the least common multiple of the periods.
    #[must_use]
    pub fn hyperperiod(&self) -> Nanos {
        Nanos(self.hyperperiod)
    }

    /// H × U: the work of a hyperperiod.
    #[must_use]
    pub fn work(&self) -> Nanos {
        Nanos(self.work)
    }

    /// U: the share of a CPU that the tasks ask for, below 1.
    #[must_use]
    pub fn utilisation(&self) -> f64 {
        self.work as f64 / self.hyperperiod as f64
    }

    /// Releases in a hyperperiod.
    #[must_use]
    pub fn release_count(&self) -> u64 {
        self.tasks.iter().map(|task| self.hyperperiod / task.period.0).sum()
    }
}

/// The least common multiple of the periods.
fn hyperperiod(tasks: &[Task]) -> Result<u64, VasError> {
    let mut common: u64 = 1;
    for (at, &task) in tasks.iter().enumerate() {
        let period = task.period.0;
        let wider = u128::from(common / greatest_divisor(common, period)) * u128::from(period);
        let releases: u128 = tasks[..=at].iter().map(|task| wider / u128::from(task.period.0)).sum();
        let fits = releases <= u128::from(MOST_RELEASES) && wider < u128::from(u64::MAX / 4);
        if !fits {
            let fix = harmonic::fix(tasks);
            return Err(VasError::TooManyReleases { number: at + 1, task, most: MOST_RELEASES, fix });
        }
        common = wider as u64;
    }
    if tasks.is_empty() { Err(VasError::NoTask) } else { Ok(common) }
}

fn greatest_divisor(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_model::ModelError;

    fn refused(tasks: &[&str]) -> String {
        let tasks: Result<Vec<Task>, ModelError> = tasks.iter().map(|text| text.parse()).collect();
        match tasks {
            Ok(tasks) => TaskSet::new(tasks, Releases::Periodic).unwrap_err().to_string(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn what_is_outside_the_model_is_refused_by_the_task() {
        for (tasks, says) in [
            (&["0,1ms"][..], "'0,1ms' is not a task: it has 2 of the three times"),
            (&["0,1,4ms"], "add a unit"),
            (&["1,1ms,4ms"], "add a unit"),
            (&["0,1ms,4ms", "0,0,4ms"], "task 2 (0 ns, 0 ns, 4 ms): it has no work"),
            (&["0,1ms,0"], "it has no period"),
            (&["0,4ms,4ms"], "its work is not shorter"),
            (&["4ms,1ms,4ms"], "its offset is not shorter"),
            (&["0,2ms,4ms", "0,1ms,4ms", "0,1ms,4ms"], "task 3 (0 ns, 1 ms, 4 ms) brings the utilisation to 100.00 %"),
            (
                &["0,3ms,4ms", "0,6ms,7ms", "0,1ns,999999937ns"],
                "task 2 (0 ns, 6 ms, 7 ms) brings the utilisation to 160.71 %",
            ),
            (&[], "there is no task"),
        ] {
            let error = refused(tasks);
            assert!(error.contains(says), "{tasks:?}: {error}");
        }
    }

    #[test]
    fn too_many_releases_are_refused_with_harmonic_periods_that_would_do() {
        let error = refused(&["0,1us,1000003ns", "0,1us,999983ns", "0,1us,999979ns"]);
        assert!(error.contains("task 3") && error.contains("10000000 releases"), "{error}");
        assert!(error.contains("harmonic periods") && error.contains("999.979 us"), "{error}");
        let full = refused(&["0,600us,1000003ns", "0,580us,1499977ns", "0,1ns,1999957ns"]);
        assert!(full.contains("no harmonic periods"), "{full}");
    }

    #[test]
    fn a_sporadic_set_has_no_offsets() {
        let task: Task = "9ms,1ms,4ms".parse().unwrap();
        assert!(TaskSet::new(vec![task], Releases::Sporadic).is_ok());
    }
}

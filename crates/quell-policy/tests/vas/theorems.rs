//! Theorems 4.1 and 4.2: with B(P) the schedule is that of a whole CPU, wherever the server's periods begin; with a unit
//! less it is not, for some beginning.

use proptest::prelude::*;
use quell_model::Nanos;
use quell_policy::vas::{Busy, Releases, TaskSet};

use crate::schedule::{Job, ORDERS, Order, Server, schedule};
use crate::sets;

/// All releases of the first units of time; each of task n comes `later(n)` after a period, from its offset on.
fn jobs(set: &TaskSet, units: u64, mut later: impl FnMut() -> u64) -> Vec<Job> {
    let mut jobs = Vec::new();
    for (number, task) in set.tasks().iter().enumerate() {
        let mut release = if set.releases() == Releases::Sporadic { later() } else { task.offset.0 };
        while release < units {
            jobs.push(Job { task: number, release, work: task.work.0, period: task.period.0 });
            release += task.period.0 + if set.releases() == Releases::Sporadic { later() } else { 0 };
        }
    }
    jobs.sort_by_key(|job| (job.release, job.task));
    jobs
}

fn differs(jobs: &[Job], order: Order, server: Server, units: u64) -> bool {
    schedule(jobs, order, Some(server), units) != schedule(jobs, order, None, units)
}

proptest! {
    #[test]
    fn periodic_tasks_are_scheduled_as_on_a_whole_cpu(
        set in sets(Releases::Periodic),
        period in 1u64..80,
        phases in prop::collection::vec(0u64..80, 4),
    ) {
        let units = 3 * set.hyperperiod().0 + 2 * period;
        let jobs = jobs(&set, units, || 0);
        let budget = Busy::of(&set).budget(Nanos(period)).0;
        for order in ORDERS {
            for &phase in &phases {
                let server = Server { budget, period, phase };
                prop_assert!(!differs(&jobs, order, server, units), "{:?} {:?} {:?}", order, server, set.tasks());
            }
        }
    }

    #[test]
    fn with_a_unit_less_some_phase_shows_it(set in sets(Releases::Periodic), period in 1u64..40) {
        let budget = Busy::of(&set).budget(Nanos(period)).0 - 1;
        let units = 3 * set.hyperperiod().0 + 2 * period;
        let jobs = jobs(&set, units, || 0);
        for order in ORDERS {
            let shows = |phase| differs(&jobs, order, Server { budget, period, phase }, units);
            prop_assert!((0..period).any(shows), "{:?}, {} of {} for {:?}", order, budget, period, set.tasks());
        }
    }

    #[test]
    fn sporadic_tasks_are_scheduled_as_on_a_whole_cpu(
        set in sets(Releases::Sporadic),
        period in 1u64..80,
        phase in 0u64..80,
        gaps in prop::collection::vec(prop_oneof![3 => Just(0u64), 1 => 0u64..12], 64),
    ) {
        let units = 400;
        let mut gaps = gaps.into_iter().cycle();
        let jobs = jobs(&set, units, || gaps.next().unwrap());
        let budget = Busy::of(&set).budget(Nanos(period)).0;
        for order in ORDERS {
            let server = Server { budget, period, phase };
            prop_assert!(!differs(&jobs, order, server, units), "{:?} {:?} {:?}", order, server, set.tasks());
        }
    }

    #[test]
    fn with_a_unit_less_dense_arrivals_show_it(set in sets(Releases::Sporadic), period in 1u64..80) {
        let budget = Busy::of(&set).budget(Nanos(period)).0 - 1;
        let units = 2 * period;
        // All at once when a period of the server begins, and as densely as they may from then on.
        let jobs = jobs(&set, units, || 0);
        for order in ORDERS {
            let server = Server { budget, period, phase: 0 };
            prop_assert!(differs(&jobs, order, server, units), "{:?} {:?} {:?}", order, server, set.tasks());
        }
    }
}

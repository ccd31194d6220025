//! B(P) by its definition.

use proptest::prelude::*;
use quell_model::Nanos;
use quell_policy::vas::{Analysis, Bounds, Busy, Interface, Margin, Releases, TaskSet};

use crate::sets;

/// S(0), S(1), … of a whole CPU, by eq. 2 to 4, from the first release on.
fn supply(set: &TaskSet, units: u64) -> Vec<u64> {
    let offset = |task: &quell_policy::vas::Task| if set.releases() == Releases::Sporadic { 0 } else { task.offset.0 };
    let released_at = |now: u64| -> u64 {
        let comes =
            |task: &&quell_policy::vas::Task| now >= offset(task) && (now - offset(task)).is_multiple_of(task.period.0);
        set.tasks().iter().filter(comes).map(|task| task.work.0).sum()
    };
    let (mut demand, mut done) = (0, vec![0]);
    for now in 0..units {
        demand += released_at(now);
        let before = done[now as usize];
        done.push(before + u64::from(before < demand));
    }
    done
}

/// The most in any window, those before the steady state included.
fn most(supply: &[u64], period: u64) -> u64 {
    supply.windows(period as usize + 1).map(|window| window[period as usize] - window[0]).max().unwrap()
}

/// Long enough for any window of so much in the steady state, of a hyperperiod's every beginning.
fn units(set: &TaskSet, period: u64) -> u64 {
    3 * set.hyperperiod().0 + period
}

fn any_releases() -> impl Strategy<Value = TaskSet> {
    prop_oneof![sets(Releases::Periodic), sets(Releases::Sporadic)]
}

proptest! {
    #[test]
    fn the_budget_is_the_most_of_all_windows(set in any_releases(), longer in 0u64..40) {
        let busy = Busy::of(&set);
        let hyperperiod = set.hyperperiod().0;
        let supply = supply(&set, units(&set, hyperperiod + longer));
        for period in 1..=hyperperiod + longer {
            prop_assert_eq!(busy.budget(Nanos(period)).0, most(&supply, period), "P = {} of {:?}", period, set.tasks());
        }
        prop_assert_eq!(busy.least().budget, set.work());
    }

    #[test]
    fn the_interfaces_are_the_best_of_all_periods(set in any_releases(), bound in 2u64..200, points in 0u32..20) {
        let busy = Busy::of(&set);
        let margin = Margin::points(f64::from(points)).unwrap();
        let hyperperiod = set.hyperperiod().0;
        let all: Vec<Interface> = (1..=hyperperiod)
            .map(|period| Interface { budget: busy.budget(Nanos(period)), period: Nanos(period) })
            .collect();
        let cross = |a: &Interface, b: &Interface| (a.budget.0 * b.period.0).cmp(&(b.budget.0 * a.period.0));
        let best = |all: &mut dyn Iterator<Item = &Interface>| all.min_by(|a, b| cross(a, b).then(a.period.cmp(&b.period))).copied();

        let least = Analysis::least(&busy, margin);
        prop_assert_eq!(Some(least.shorter.unwrap_or(least.interface)), best(&mut all.iter()));

        let blackout = |interface: &Interface| interface.with(margin).blackout();
        let mut fitting = all.iter().filter(|interface| blackout(interface).is_some_and(|blackout| blackout.0 <= bound));
        let bounds = Bounds { enforced: Some(Nanos(bound)), conforming: None };
        match Analysis::within(&busy, margin, bounds) {
            Ok(analysis) => prop_assert_eq!(Some(analysis.interface), best(&mut fitting), "{:?}", set.tasks()),
            Err(quell_policy::vas::VasError::Impossible { least, .. }) => {
                prop_assert!(fitting.next().is_none());
                prop_assert_eq!(Some(least), all.iter().filter_map(blackout).min(), "{:?}", set.tasks());
            }
            Err(_) => prop_assert!(all.iter().all(|interface| blackout(interface).is_none())),
        }
    }
}

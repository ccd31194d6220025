//! The analysis of VAS: the paper's examples, brute force, and its theorems by an exact simulation of schedules.

mod brute;
mod paper;
mod schedule;
mod theorems;

use proptest::prelude::*;
use quell_model::Nanos;
use quell_policy::vas::{Releases, Task, TaskSet};

/// A task in whole units.
pub fn task((offset, work, period): (u64, u64, u64)) -> Task {
    Task { offset: Nanos(offset), work: Nanos(work), period: Nanos(period) }
}

/// Small random sets whose hyperperiod is short.
pub fn sets(releases: Releases) -> impl Strategy<Value = TaskSet> {
    let period = prop::sample::select(vec![3u64, 4, 5, 6, 8, 10, 12, 15, 20]);
    let task = (0u64..20, 1u64..6, period).prop_map(|(offset, work, period)| task((offset % period, work, period)));
    prop::collection::vec(task, 1..4)
        .prop_filter_map("asks for a CPU or more", move |tasks| TaskSet::new(tasks, releases).ok())
}

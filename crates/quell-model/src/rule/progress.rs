//! The next thread of a queue that all CPUs of a cache take from, first come, first served (ours, after dasec-socc22 §3: a thread
//! that is ready while others of its service sleep on it holds all of them up).

use crate::Nanos;

/// A thread that waits in such a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// When it came.
    pub since: Nanos,
    /// CPU time of its service over its share, by a clock that goes on with the service that runs. It goes round.
    pub used: Nanos,
    /// Threads of its service that sleep on one of it that waits.
    pub blocked: u32,
}

/// What the choice is bound by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// A service is within its share while it has used no more than this beyond the one that used the least.
    pub lead: Nanos,
    /// A thread that has waited for this long is overdue.
    pub overdue: Nanos,
}

/// Place of the next thread to run among those that wait, in the order of their coming: the first of a service within its share; of those
/// that are overdue, the one whose service is blocked most. `None`: none waits.
#[must_use]
pub fn next_by_progress(waiting: impl Iterator<Item = Waiting> + Clone, now: Nanos, bounds: Bounds) -> Option<usize> {
    let ahead_of = |least: u64, used: Nanos| used.0.wrapping_sub(least) as i64;
    let mut all = waiting.clone().map(|one| one.used.0);
    let first = all.next()?;
    let least = all.fold(first, |least, used| if ahead_of(least, Nanos(used)) < 0 { used } else { least });
    let mut chosen: Option<(usize, u32)> = None;
    for (place, one) in waiting.enumerate() {
        if ahead_of(least, one.used) > bounds.lead.0.min(i64::MAX as u64) as i64 {
            continue;
        }
        let is_overdue = now.0.wrapping_sub(one.since.0) as i64 >= bounds.overdue.0.min(i64::MAX as u64) as i64;
        match chosen {
            None if !is_overdue => return Some(place),
            None => chosen = Some((place, one.blocked)),
            Some((_, most)) if is_overdue && one.blocked > most => chosen = Some((place, one.blocked)),
            Some(_) => {}
        }
    }
    chosen.map(|(place, _)| place)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { lead: Nanos(10), overdue: Nanos(100) };

    fn next(now: u64, waiting: &[(u64, u64, u32)]) -> Option<usize> {
        let all =
            waiting.iter().map(|&(since, used, blocked)| Waiting { since: Nanos(since), used: Nanos(used), blocked });
        next_by_progress(all, Nanos(now), BOUNDS)
    }

    #[test]
    fn the_first_runs_if_its_service_is_within_its_share() {
        assert_eq!(next(50, &[]), None);
        assert_eq!(next(50, &[(1, 10, 0), (2, 0, 9)]), Some(0));
        assert_eq!(next(50, &[(1, 11, 0), (2, 0, 0)]), Some(1), "the first one's service is beyond its share");
        assert_eq!(next(50, &[(1, 5, 0), (2, u64::MAX - 1, 0)]), Some(0), "the clock goes round");
        assert_eq!(next(50, &[(1, 15, 0), (2, u64::MAX - 1, 0)]), Some(1));
    }

    #[test]
    fn of_overdue_threads_the_most_blocked_services_one_runs() {
        assert_eq!(next(200, &[(1, 0, 1), (2, 0, 3), (3, 0, 3), (150, 0, 9)]), Some(1));
        assert_eq!(next(90, &[(1, 0, 1), (2, 0, 3)]), Some(0), "none is overdue");
        assert_eq!(next(200, &[(1, 0, 1), (2, 11, 3)]), Some(0), "beyond its share");
    }
}

//! What the CPUs of one core take from each other.

use super::profile::Profile;

/// References that a core can have under way to the last-level cache and memory: the 16 entries of the super queue
/// between a core's second-level cache and the rest of an Intel processor (his-edgeiso-sdc-snu2020 §5.3.1 counts the
/// requests that find it full).
pub const OUTSTANDING: f64 = 16.0;

/// Cycles within the core, as times those alone: 1 + sensitivity · pressure of those who run on its siblings. Two equal
/// threads do 2 / (1 + sensitivity · pressure) times the work of one: from 1 to 2, and about 1.2 with the usual numbers.
#[must_use]
pub fn slowdown<'a>(own: &Profile, siblings: impl Iterator<Item = &'a Profile>) -> f64 {
    1.0 + own.sensitivity * siblings.map(|sibling| sibling.pressure).sum::<f64>()
}

/// References that a thread has under way beside its siblings: what it has alone, as far as the core has room for all.
#[must_use]
pub fn parallelism<'a>(own: &Profile, siblings: impl Iterator<Item = &'a Profile>) -> f64 {
    own.parallelism * (OUTSTANDING / all(own, siblings)).min(1.0)
}

/// Which part of the core's super queue is full while the thread and its siblings wait.
#[must_use]
pub fn part_of_queue<'a>(own: &Profile, siblings: impl Iterator<Item = &'a Profile>) -> f64 {
    (all(own, siblings) / OUTSTANDING).min(1.0)
}

/// References that all threads of a core would have under way.
fn all<'a>(own: &Profile, siblings: impl Iterator<Item = &'a Profile>) -> f64 {
    let wants = |profile: &Profile| if profile.llc_references > 0.0 { profile.parallelism } else { 0.0 };
    own.parallelism + siblings.map(wants).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contention::library::named;

    #[test]
    fn siblings_share_a_core() {
        let computing = named("computing").unwrap();
        let streaming = named("streaming").unwrap();
        assert_eq!(slowdown(computing, [].into_iter()), 1.0);
        let pair = 2.0 / slowdown(computing, [computing].into_iter());
        assert!((1.0..=1.3).contains(&pair), "{pair}");
        assert_eq!(parallelism(streaming, [].into_iter()), streaming.parallelism);
        assert_eq!(parallelism(streaming, [streaming].into_iter()), OUTSTANDING / 2.0);
        let spinning = &Profile::SPINNING;
        assert_eq!(parallelism(streaming, [spinning].into_iter()), streaming.parallelism);
    }
}

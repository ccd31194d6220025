//! Choice of the next technique against contention: untried ones first (snu2020 §3.4.2).

use serde::{Deserialize, Serialize};

/// The techniques of a policy, and the knowledge of each. The order of the tries is the caller's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ladder<T> {
    tried: Vec<T>,
    lacking: Vec<T>,
}

impl<T> Default for Ladder<T> {
    fn default() -> Ladder<T> {
        Ladder { tried: Vec::new(), lacking: Vec::new() }
    }
}

impl<T: Copy + PartialEq> Ladder<T> {
    /// The one of these to use next: the first that has not been tried; once all have been, "the scheduler reconsiders
    /// all techniques". None if the host has none of them.
    pub fn choose(&mut self, among: &[T]) -> Option<T> {
        let untried = among.iter().find(|means| self.has(**means) && !self.tried.contains(means));
        let chosen = match untried {
            Some(means) => *means,
            None => {
                let first = *among.iter().find(|means| self.has(**means))?;
                self.tried.retain(|means| !among.contains(means));
                first
            }
        };
        self.tried.push(chosen);
        Some(chosen)
    }

    /// The first of these that has not been tried, which it is from now on; None: all have been.
    pub fn untried(&mut self, among: &[T]) -> Option<T> {
        let means = *among.iter().find(|means| self.has(**means) && !self.tried.contains(means))?;
        self.tried.push(means);
        Some(means)
    }

    /// The host has not got this one.
    pub fn lacks(&mut self, means: T) {
        if self.has(means) {
            self.lacking.push(means);
        }
    }

    /// Has the host got it, as far as known?
    #[must_use]
    pub fn has(&self, means: T) -> bool {
        !self.lacking.contains(&means)
    }

    /// Nothing has been tried in this phase.
    pub fn forget_tries(&mut self) {
        self.tried.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_untried_comes_first_and_all_are_reconsidered_in_the_end() {
        let mut ladder = Ladder::default();
        let chosen: Vec<_> = (0..4).filter_map(|_| ladder.choose(&["ways", "cores"])).collect();
        assert_eq!(chosen, ["ways", "cores", "ways", "cores"]);
        let mut ladder = Ladder::default();
        assert_eq!(ladder.choose(&["frequency", "cores"]), Some("frequency"));
        assert_eq!(ladder.choose(&["cores"]), Some("cores"));
        assert_eq!(ladder.choose(&["frequency", "cores"]), Some("frequency"), "cores are tried already");
    }

    #[test]
    fn each_is_tried_once() {
        let mut ladder = Ladder::default();
        ladder.lacks("quota");
        let tries: Vec<_> = (0..3).map(|_| ladder.untried(&["ways", "quota", "cores"])).collect();
        assert_eq!(tries, [Some("ways"), Some("cores"), None]);
        ladder.forget_tries();
        assert_eq!(ladder.untried(&["ways"]), Some("ways"));
    }

    #[test]
    fn what_the_host_lacks_is_not_chosen() {
        let mut ladder = Ladder::default();
        ladder.lacks("ways");
        assert_eq!(ladder.choose(&["ways", "cores"]), Some("cores"));
        ladder.lacks("cores");
        assert_eq!(ladder.choose(&["ways", "cores"]), None);
        assert!(ladder.has("frequency") && !ladder.has("cores"));
    }
}

//! Sums are kept, strict sets are disjoint, and all CPUs are given out.

use super::Rkube;
use crate::invariant::{Calm, Invariants};

impl Invariants for Rkube {
    const VARIANTS: &'static [&'static str] = &[r#"{"system_reserve": 1, "partition": true}"#];

    fn check(&self, calm: &Calm<'_>) {
        let placement = self.placement();
        let mut taken = placement.system().union(&placement.shared());
        assert!(placement.system().is_disjoint(&placement.shared()));
        for (id, spec) in calm.view.owned() {
            let own = placement.exclusive(id);
            assert!(own.is_disjoint(&taken), "{own:?} of {} overlaps {taken:?}", spec.name);
            taken = taken.union(&own);
            let expected = match (own.is_empty(), spec.cpus.fraction().0) {
                (true, _) => placement.shared(),
                (false, 0) => own,
                (false, _) => own.union(&placement.shared()),
            };
            if !expected.is_empty() {
                assert_eq!(calm.of(id).cpus, expected, "{} has what was decided", spec.name);
            }
        }
        assert_eq!(taken, calm.cpus, "reserved, shared and system CPUs are all CPUs");
    }
}

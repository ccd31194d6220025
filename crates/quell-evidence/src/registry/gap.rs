//! rKube's finding on this machine: what a container gets of the CPUs that it requested, and why not all.

use super::Topic;
use crate::claim::{Claim, Expected, Source, Tolerance};

/// The topic.
pub const TOPIC: Topic = Topic {
    id: "gap",
    title: "the CPU reservation gap: forced runqueue sharing and phantom CPU time, with real threads",
    claims: &[
        &BURSTABLE3,
        &CAPPED3,
        &BURSTABLE,
        &BURSTABLE_CAUSE,
        &BURSTABLE_ESTIMATE,
        &CAPPED,
        &CAPPED_CAUSE,
        &CAPPED_ESTIMATE,
        &UNPINNED,
    ],
};

const SLICES: Tolerance = Tolerance {
    relative: 0.03,
    reason: "the weights hold on average; slices of 3 ms, quota handed out in pieces of 5 ms a CPU, and what else runs on \
             the machine, move a run of seconds by 1 to 2 %",
};

/// Fig. 3a as drawn, on 3 CPUs.
pub const BURSTABLE3: Claim = Claim {
    id: "gap.burstable3",
    statement: "3 CPUs, burstable neighbour: the target gets 60 % of the CPU that it requested",
    source: Source { text: "rkube-socc21", place: "§4.2, Table 2, Fig. 3a: \"only gets 60% of CPU0\"" },
    expected: Expected::Number(0.6),
    tolerance: SLICES,
    no_effect: 1.0,
    known_difference: None,
};

/// Fig. 3b as drawn, on 3 CPUs.
pub const CAPPED3: Claim = Claim {
    id: "gap.capped3",
    statement: "3 CPUs, neighbour capped at its 2: 60 % until 0.4 + 1 + 1 CPUs have used 2 up at 0.83 of the period, \
                then all: 66.7 %",
    source: Source { text: "rkube-socc21", place: "§4.2, Table 2, Fig. 3b (computed from the weights and the quota)" },
    expected: Expected::Computed(2.0 / 3.0),
    tolerance: SLICES,
    no_effect: 1.0,
    known_difference: None,
};

/// Fig. 3a scaled to 2 CPUs.
pub const BURSTABLE: Claim = Claim {
    id: "gap.burstable",
    statement: "2 CPUs, burstable neighbour of 1 CPU and 2 threads: weights 1024 : 512, the target gets 66.7 %",
    source: Source { text: "rkube-socc21", place: "§4.2, Table 2, Fig. 3a (scaled to 2 CPUs)" },
    expected: Expected::Computed(2.0 / 3.0),
    tolerance: SLICES,
    no_effect: 1.0,
    known_difference: None,
};

/// The cause in Fig. 3a.
pub const BURSTABLE_CAUSE: Claim = Claim {
    id: "gap.burstable.frs",
    statement: "no CPU idles, so all of its gap of 33.3 % is forced runqueue sharing (FRS as a share of the request)",
    source: Source { text: "rkube-socc21", place: "§4.1 (scaled to 2 CPUs)" },
    expected: Expected::Computed(1.0 / 3.0),
    tolerance: SLICES_OF_A_CAUSE,
    no_effect: 0.0,
    known_difference: None,
};

const SLICES_OF_A_CAUSE: Tolerance = Tolerance {
    relative: 0.06,
    reason: "3 % of what the target gets is 6 % of a cause half as large; and idle moments that other programs leave count \
             as phantom time",
};

const WITHIN_ITS_OWN_ERROR: Tolerance = Tolerance { relative: 0.0, reason: "the estimate states its error itself" };

/// The estimate in Fig. 3a.
pub const BURSTABLE_ESTIMATE: Claim = Claim {
    id: "gap.burstable.estimate",
    statement: "the estimate from /proc/PID/schedstat is off by no more than the error that it states (as a share of it)",
    source: Source { text: "quell", place: "docs/gap.md" },
    expected: Expected::AtMost(1.0),
    tolerance: WITHIN_ITS_OWN_ERROR,
    no_effect: 0.0,
    known_difference: None,
};

/// Fig. 3b scaled to 2 CPUs.
pub const CAPPED: Claim = Claim {
    id: "gap.capped",
    statement: "2 CPUs, neighbour capped at its 1: 66.7 % until 0.33 + 1 CPUs have used 1 up at 0.75 of the period, \
                then all: 75 %",
    source: Source { text: "rkube-socc21", place: "§4.2, Table 2, Fig. 3b (scaled to 2 CPUs)" },
    expected: Expected::Computed(0.75),
    tolerance: SLICES,
    no_effect: 1.0,
    known_difference: None,
};

/// The cause in Fig. 3b.
pub const CAPPED_CAUSE: Claim = Claim {
    id: "gap.capped.pct",
    statement: "the other CPU idles for a quarter, just as long as the target is short of: all of its gap of 25 % is \
                phantom CPU time (PCT as a share of the request)",
    source: Source { text: "rkube-socc21", place: "§4.2, Fig. 3b (scaled to 2 CPUs)" },
    expected: Expected::Computed(0.25),
    tolerance: SLICES_OF_A_CAUSE,
    no_effect: 0.0,
    known_difference: None,
};

/// The estimate in Fig. 3b.
pub const CAPPED_ESTIMATE: Claim = Claim {
    id: "gap.capped.estimate",
    statement: "the estimate from /proc/PID/schedstat is off by no more than the error that it states (as a share of it)",
    source: Source { text: "quell", place: "docs/gap.md" },
    expected: Expected::AtMost(1.0),
    tolerance: WITHIN_ITS_OWN_ERROR,
    no_effect: 0.0,
    known_difference: None,
};

/// Without pins.
pub const UNPINNED: Claim = Claim {
    id: "gap.unpinned",
    statement: "the same burstable neighbour, nothing pinned: the kernel's balancer may give the target a CPU of its own, \
                and leaves it a gap no larger than the pinned one (gap as a share of the request)",
    source: Source { text: "quell", place: "docs/gap.md" },
    expected: Expected::AtMost(1.0 / 3.0 * 1.06),
    tolerance: Tolerance { relative: 0.0, reason: "the bound has the pinned case's tolerance in it" },
    no_effect: 0.0,
    known_difference: None,
};

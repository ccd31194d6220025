//! What the simulated kernel's schedulers give, against what they promise, rKube's drawings and SimSo's schedules.

use super::Topic;
use crate::claim::{Claim, Expected, Source, Tolerance};

/// A claim about the fair schedulers, for each of them.
macro_rules! topic {
    ($($name:literal $statement:literal $rest:expr;)+) => {
        /// The topic.
        pub const TOPIC: Topic = Topic {
            id: "fairness",
            title: "shares of simulated CPUs: weights, groups, quotas, rKube's figures; real-time schedules against SimSo's",
            claims: &[
                $(
                    &claim(concat!("fairness.", $name, ".eevdf"), concat!($statement, " (EEVDF)"), $rest),
                    &claim(concat!("fairness.", $name, ".cfs"), concat!($statement, " (CFS)"), $rest),
                )+
                &RATE_MONOTONIC,
                &EARLIEST_DEADLINE,
            ],
        };
    };
}

topic! {
    "weights" "one CPU, weights 1 : 2 : 5: how far the worst of the three is from its part, as a share of it"
        promised("cpu.weight, Documentation/admin-guide/cgroup-v2.rst");
    "nested" "groups within groups on one CPU, due 1, 3, 6 and 6 sixteenths: how far the worst is from its part"
        promised("cpu.weight, Documentation/admin-guide/cgroup-v2.rst");
    "quota" "quotas of 0.3, 0.5, 1.5 and 2.5 CPUs for 1 to 8 threads: how far the worst is from its quota"
        promised("cpu.max, Documentation/admin-guide/cgroup-v2.rst");
    "idle-thread" "a SCHED_IDLE thread beside an ordinary one: 3 : 1024, so 0.00292 of the CPU"
        idle("SCHED_IDLE, WEIGHT_IDLEPRIO in kernel/sched/sched.h");
    "idle-group" "a cpu.idle group beside an ordinary one of weight 100: 3 : 1024, so 0.00292 of the CPU"
        idle("cpu.idle, WEIGHT_IDLEPRIO in kernel/sched/sched.h");
    "figure3a" "Table 2 pinned as drawn, burstable neighbour: the target gets 60 % of the CPU that it requested"
        drawn("§4.2, Table 2, Fig. 3a: \"only gets 60% of CPU0\"", Expected::Number(0.6));
    "figure3b" "Table 2 pinned as drawn, neighbour capped at its 2, quota in pieces of 0.1 ms: 60 % until 0.4 + 1 + 1 CPUs \
                have used 2 up at 0.83 of the period, then all: 66.7 %"
        drawn("§4.2, Table 2, Fig. 3b (computed from the weights and the quota)", Expected::Computed(2.0 / 3.0));
    "figure3b-pieces" "the same with the kernel's own pieces of quota, 5 ms"
        IN_PIECES;
    "unpinned" "Table 2 with a burstable neighbour, nothing pinned: the balancer leaves the target a gap no larger than the \
                drawn one (gap as a share of the request)"
        UNPINNED;
    "unpinned-capped" "the same with the capped neighbour"
        UNPINNED_CAPPED;
    "figure4a" "an interactive target beside a burstable neighbour: \"an increased requests processing latency\" (latency \
                alone over latency there)"
        sentence("§4.2, Fig. 4a");
    "figure4b" "\"capping the neighbors does not help\": the latency is still increased (latency alone over latency there)"
        sentence("§4.2, Fig. 4b");
    "figure4b-frequency" "\"only when the neighboring application's threads exhaust all their CPU quota, T can finally wake \
                          up more frequently than before\" (requests a second, burstable over capped)"
        sentence("§4.2, Fig. 4b");
    "figure4b-phantom" "\"T still cannot take advantage of the phantom CPU time on CPU1 and CPU2\": what it gets of what it \
                        uses alone, while CPUs idle"
        sentence("§4.2, Fig. 4b");
}

/// Rate-monotonic priorities.
pub const RATE_MONOTONIC: Claim = Claim {
    id: "fairness.simso.rm",
    statement: "100 random task sets under SCHED_FIFO with rate-monotonic priorities: so many have SimSo's schedule, stretch \
                by stretch",
    ..SIMSO
};

/// Earliest deadline first.
pub const EARLIEST_DEADLINE: Claim = Claim {
    id: "fairness.simso.edf",
    statement: "100 random task sets under SCHED_DEADLINE: so many have SimSo's EDF schedule, stretch by stretch",
    ..SIMSO
};

const SIMSO: Claim = Claim {
    id: "",
    statement: "",
    source: Source { text: "simso", place: "SimSo 0.8.5, RM_mono and EDF_mono; scripts/simso-schedules" },
    expected: Expected::Computed(100.0),
    tolerance: Tolerance { relative: 0.0, reason: "both work out the same schedule from whole microseconds" },
    no_effect: 0.0,
    known_difference: None,
};

/// All of a claim but its name and statement.
type Rest = (Source, Expected, Tolerance, f64, Option<&'static str>);

const fn claim(id: &'static str, statement: &'static str, rest: Rest) -> Claim {
    let (source, expected, tolerance, no_effect, known_difference) = rest;
    Claim { id, statement, source, expected, tolerance, no_effect, known_difference }
}

const ONE_PERCENT: Tolerance = Tolerance {
    relative: 0.01,
    reason: "the weights hold in the long run; the time is cut somewhere within a slice, or a tick of a rare thread",
};

const fn in_the_bound(bound: f64, source: Source) -> Rest {
    let tolerance = Tolerance { relative: 0.0, reason: "the bound is the tolerance" };
    (source, Expected::AtMost(bound), tolerance, 0.0, None)
}

const fn promised(place: &'static str) -> Rest {
    in_the_bound(0.01, Source { text: "linux", place })
}

const fn idle(place: &'static str) -> Rest {
    (Source { text: "linux", place }, Expected::Computed(3.0 / 1027.0), ONE_PERCENT, 0.5, None)
}

const fn drawn(place: &'static str, expected: Expected) -> Rest {
    (Source { text: "rkube-socc21", place }, expected, ONE_PERCENT, 1.0, None)
}

const IN_PIECES: Rest = {
    let place = "§4.2, Table 2, Fig. 3b (computed from the weights and the quota)";
    let (source, expected, tolerance, no_effect, _) = drawn(place, Expected::Computed(2.0 / 3.0));
    let why = "the drawing knows no pieces of quota: the neighbour's thread on CPU 0 still has some when the others have \
               none left, and takes it from the target";
    (source, expected, tolerance, no_effect, Some(why))
};

const UNPINNED: Rest = in_the_bound(0.4, Source { text: "quell", place: "docs/sim.md" });
const UNPINNED_CAPPED: Rest = in_the_bound(1.0 / 3.0, Source { text: "quell", place: "docs/sim.md" });

const fn sentence(place: &'static str) -> Rest {
    let tolerance = Tolerance { relative: 0.0, reason: "a sentence without a number, drawn without a scale" };
    (Source { text: "rkube-socc21", place }, Expected::Below(1.0), tolerance, 1.0, None)
}

//! Simulated queues against queueing theory.

use super::Topic;
use crate::claim::{Claim, Expected, Source, Tolerance};

/// Writes the claims down: for each queue its name, what it is, where the theory stands, and by load what the mean and
/// the 99th percentile are. `no_effect` is what a request takes that never waits.
macro_rules! claims {
    ($($name:literal $what:literal $place:literal
       $([$load:literal mean $mean:literal $(p99 $p99:literal no_effect $alone:literal)?])+)+) => {
        &[$($(
            &claim(
                concat!("queueing.", $name, ".", $load, ".mean"),
                concat!($what, ", load ", $load, ": mean latency, in mean service times"),
                $place, $mean, 1.0,
            ),
            $(&claim(
                concat!("queueing.", $name, ".", $load, ".p99"),
                concat!($what, ", load ", $load, ": 99th percentile of latency, in mean service times"),
                $place, $p99, $alone,
            ),)?
        )+)+]
    };
}

/// The topic. The values are those of `quell_sim::experiment::theory`, to five digits and more.
pub const TOPIC: Topic = Topic {
    id: "queueing",
    title: "latencies of simulated queues against queueing theory",
    claims: claims! {
        "m-m-1" "M/M/1" "sojourn times are exponential with mean 1 / (1 - load)"
            ["0.3" mean 1.428571 p99 6.578815 no_effect 4.605170]
            ["0.7" mean 3.333333 p99 15.350567 no_effect 4.605170]
            ["0.9" mean 10.0 p99 46.051702 no_effect 4.605170]
            ["0.95" mean 20.0 p99 92.103404 no_effect 4.605170]
        "m-m-4" "M/M/4" "Erlang's C formula; who waits, waits exponentially with rate 4 (1 - load)"
            ["0.3" mean 1.013232 p99 4.625540 no_effect 4.605170]
            ["0.7" mean 1.357212 p99 5.492557 no_effect 4.605170]
            ["0.9" mean 2.969383 p99 12.193167 no_effect 4.605170]
            ["0.95" mean 5.457095 p99 23.566865 no_effect 4.605170]
        "m-d-1" "M/D/1" "Pollaczek and Khinchine; Franx 2001 for the distribution"
            ["0.3" mean 1.214286 p99 2.890873 no_effect 1.0]
            ["0.7" mean 2.166667 p99 7.485499 no_effect 1.0]
            ["0.9" mean 5.5 p99 22.898237 no_effect 1.0]
            ["0.95" mean 10.5 p99 45.937766 no_effect 1.0]
        "m-g-1" "M/G/1, one service time in ten eleven times as long as the others" "Pollaczek and Khinchine"
            ["0.3" mean 1.696429]
            ["0.7" mean 4.791667]
            ["0.9" mean 15.625]
            ["0.95" mean 31.875]
        "sharing" "processor sharing, uniform service times"
            "mean 1 / (1 - load), whatever the distribution of service times"
            ["0.3" mean 1.428571]
            ["0.7" mean 3.333333]
            ["0.9" mean 10.0]
            ["0.95" mean 20.0]
    },
};

const fn claim(id: &'static str, statement: &'static str, place: &'static str, latency: f64, no_effect: f64) -> Claim {
    Claim {
        id,
        statement,
        source: Source { text: "queueing theory", place },
        expected: Expected::Computed(latency),
        tolerance: Tolerance {
            relative: 0.02,
            reason: "or the 99 % batch-means interval has the claimed value in it: a queue's latencies depend on each other \
                     for long, and 2 % of a tail at high load takes longer to tell than anybody waits",
        },
        no_effect,
        known_difference: None,
    }
}

//! What Quell's kernel half promises on a real kernel, with unmodified programs. The paper's own evaluation is on hardware
//! that nobody rents out; these are Quell's own bounds.

use crate::claim::{Claim, Expected, Source, Tolerance};

/// One scene on one number of CPUs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Real {
    /// The scene's name in the lab (`quell lab peers --list`).
    pub scene: &'static str,
    /// Quell's name there as a peer: its loop sleeps, or polls on a CPU of its own.
    pub peer: &'static str,
    /// CPUs of the machine.
    pub cpus: u32,
    /// 99th percentile of latency, as a multiple of the server's alone.
    pub p99: &'static Claim,
    /// 99.9th percentile, as a multiple of the SCHED_FIFO server's.
    pub p999: &'static Claim,
    /// The part of the neighbours' work beside a SCHED_FIFO server, less that of a CPU that polls, that is lost.
    pub work: &'static Claim,
}

/// Who keeps what when there is not enough for all, on four CPUs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Crowded {
    /// The scene's name in the lab.
    pub scene: &'static str,
    /// 99th percentile of the first server's latency, of all servers' where they are alike, as a multiple of its own alone.
    pub p99: &'static Claim,
    /// The part that is lost, beside SCHED_FIFO servers, of what else the scene is about.
    pub lost: Option<&'static Claim>,
}

macro_rules! real {
    ($($name:ident $scene:literal $cpus:literal $loop:literal $what:literal)+) => {
        $(const $name: [Claim; 3] = [
            claim(
                concat!("caladan.real.", $scene, ".", $cpus, $loop, ".p99"),
                concat!($what, ", ", $cpus, " CPUs: p99 of latency, as a multiple of what it is alone"),
                1.05,
            ),
            claim(
                concat!("caladan.real.", $scene, ".", $cpus, $loop, ".p999"),
                "the same: p99.9, as a multiple of the p99.9 of a SCHED_FIFO server",
                1.25,
            ),
            claim(
                concat!("caladan.real.", $scene, ".", $cpus, $loop, ".work"),
                "the same: the part that they lose of their work beside a SCHED_FIFO server, on CPUs that do not poll",
                0.03,
            ),
        ];)+
        /// By scene and number of CPUs.
        pub const REAL: &[Real] = &[
            $(Real {
                scene: $scene,
                peer: concat!("caladan", $loop),
                cpus: $cpus,
                p99: &$name[0],
                p999: &$name[1],
                work: &$name[2],
            },)+
        ];

        /// All of them.
        pub(super) const CLAIMS: &[&Claim] = &[
            $(&$name[0], &$name[1], &$name[2],)+
            &RUNAWAY_P99, &OVERLOAD_P99, &OVERLOAD_LOST, &MANY_P99, &MANY_LOST,
        ];
    };
}

real! {
    SPIN_2 "spin" 2 "" "memcached beside spinning threads"
    SPIN_4 "spin" 4 "" "memcached beside spinning threads"
    SPIN_4_DEDICATED "spin" 4 "-dedicated"
        "memcached beside spinning threads, Quell's loop on a CPU of its own"
    PHASED_2 "phased" 2 "" "memcached beside threads that all wake up every 200 ms"
    PHASED_4 "phased" 4 "" "memcached beside threads that all wake up every 200 ms"
    PHASED_4_DEDICATED "phased" 4 "-dedicated"
        "memcached beside threads that all wake up every 200 ms, Quell's loop on a CPU of its own"
    POOL_2 "pool" 2 "" "memcached with four worker threads beside spinning threads"
    POOL_4 "pool" 4 "" "memcached with four worker threads beside spinning threads"
    POOL_4_DEDICATED "pool" 4 "-dedicated"
        "memcached with four worker threads beside spinning threads, Quell's loop on a CPU of its own"
    POOL_PHASED_2 "pool-phased" 2 "" "memcached with four worker threads beside threads that all wake up every 200 ms"
    POOL_PHASED_4 "pool-phased" 4 "" "memcached with four worker threads beside threads that all wake up every 200 ms"
    POOL_PHASED_4_DEDICATED "pool-phased" 4 "-dedicated"
        "memcached with four worker threads beside threads that all wake up every 200 ms, Quell's loop on a CPU of its own"
}

const RUNAWAY_P99: Claim = claim(
    "caladan.real.runaway.p99",
    "memcached beside a latency-critical program that spins on as many threads as CPUs: p99, as a multiple of what it is alone",
    1.25,
);
const OVERLOAD_P99: Claim = claim(
    "caladan.real.overload.p99",
    "memcached beside an overloaded one: p99, as a multiple of what it is alone",
    1.25,
);
const OVERLOAD_LOST: Claim = claim(
    "caladan.real.overload.lost",
    "the same: the part that the overloaded one loses of its answers as a SCHED_FIFO server",
    0.05,
);
const MANY_P99: Claim = claim(
    "caladan.real.many.p99",
    "eleven memcacheds beside two best-effort programs: p99 of all requests, as a multiple of what it is without those",
    1.25,
);
const MANY_LOST: Claim = claim(
    "caladan.real.many.lost",
    "the same: the part that the two programs lose of their work beside SCHED_FIFO servers",
    0.05,
);

/// The crowded scenes.
pub const CROWDED: &[Crowded] = &[
    Crowded { scene: "runaway", p99: &RUNAWAY_P99, lost: None },
    Crowded { scene: "overload", p99: &OVERLOAD_P99, lost: Some(&OVERLOAD_LOST) },
    Crowded { scene: "many", p99: &MANY_P99, lost: Some(&MANY_LOST) },
];

const fn claim(id: &'static str, statement: &'static str, bound: f64) -> Claim {
    Claim {
        id,
        statement,
        source: Source { text: "quell", place: "docs/scx.md" },
        expected: Expected::AtMost(bound),
        tolerance: Tolerance { relative: 0.0, reason: "a bound that Quell sets itself" },
        no_effect: f64::INFINITY,
        known_difference: Some(
            "a third is the cgroups' own cost (compare `quell lab peers --only alone-grouped,fifo-grouped`); the rest is \
             sched_ext's calls at each switch, and that a real-time thread, as the load generator is, displaces a \
             latency-critical thread that is not",
        ),
    }
}

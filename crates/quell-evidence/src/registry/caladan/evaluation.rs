//! Caladan's evaluation on a simulated machine with simulated contention.
//!
//! Latencies are a client's: the simulated server's and 10 µs for two network cards and a switch (assumed).

use crate::claim::{Claim, Expected, Source, Tolerance};

/// Writes the claims down: name, what is expected, statement, place in the paper, and why it is not reproduced if that
/// is known.
macro_rules! claims {
    ($($name:literal $what:ident($($of:expr),*) $statement:literal $place:literal $(why $why:literal)?;)+) => {
        /// All of them.
        pub(super) const CLAIMS: &[&Claim] =
            &[$(&claim(concat!("caladan.", $name), $statement, $place, $what($($of),*), &[$($why)?])),+];
    };
}

claims! {
    "table1.reaction" number(20.0, 500e3)
        "from the start of a collection until the first core is revoked, µs (two decisions of 10 µs; no effect would be \
         Parties' 500 ms)"
        "Table 1: \"10–20 µs\"; §5.2.2, Algorithm 2";
    "table1.convergence" number(20.0, 500e3)
        "from the start of a collection until memory is no longer saturated, µs"
        "Table 1: \"20 µs\""
        why "a collector on 20 CPUs has to lose a dozen of them, and Algorithm 2 as printed revokes one every 10 µs";
    "table1.parties-convergence" number(15.0, 0.0)
        "Parties* beside stream-DRAM: until memcached keeps its target for two seconds while CPUs stay where they are, s \
         (the middle of 10 to 20)"
        "Table 1: \"10–20 s\""
        why "depends on where the search begins (an even division) and on the load, of which the text says nothing for \
             this table";
    "fig1.rate" number(0.5, 1.0)
        "CPUs divided for good: what memcached can answer beside the collector over what it can answer beside the program"
        "§2, Fig. 1: \"causing the rate at which memcached can service requests to drop by about half\"";
    "fig1.growth" number(5.0, 0.0)
        "the same: by how much queueing delay grows in 10 µs, µs"
        "§2, Fig. 1: \"queueing delay increases at a rate of 5 μs every 10 μs\""
        why "whole cores are the unit, so that memcached has more of them than it needs when it is calm";
    "fig1.tail" number(1000.0, 1.0)
        "the same: the longest p99.9 over 20 ms while it collects, as a multiple of that alone"
        "§2, Fig. 1: \"eventually reaching a tail latency that is 1000× higher than normal\""
        why "as fig1.growth";
    "fig1.bandwidth" number(1.0, 0.0)
        "the same: memory bandwidth in use while it collects, of what the machine has (\"saturates memory bandwidth\")"
        "§2, Fig. 1";
    "fig4.linux" number(235.0, 1.0)
        "memcached beside stream-DRAM under Linux: p99.9 as a multiple of that alone, the largest over the loads"
        "§7.1, Fig. 4: \"reaching tail latencies up to 235× and 6× higher than without interference, respectively\""
        why "the simulated kernel lets a woken thread take an idle-class CPU at once; the real one's network work in \
             interrupts, which the antagonist slows down too, is not simulated";
    "fig4.shenango" number(6.0, 1.0)
        "the same under Shenango"
        "§7.1, Fig. 4: \"reaching tail latencies up to 235× and 6× higher than without interference, respectively\""
        why "its scheduler's core forwards packets, and is slowed down by the antagonist: not simulated";
    "fig4.shenango-rate" number(0.25, 1.0)
        "the same under Shenango: what it can answer over what it can answer alone"
        "§7.1, Fig. 4: \"Shenango's throughput also decreases by 75%\"";
    "fig4.caladan" computed(1.0, 0.0)
        "the same under Caladan: \"similar tail latency with and without interference\""
        "§7.1, Fig. 4";
    "fig4.parties" computed(1.0, 0.0)
        "the same under Parties*, once it has settled, at 800,000 requests a second: \"similar tail latency\""
        "§7.1, Fig. 4";
    "fig4.linux-rate" sentence()
        "\"Both also achieve much higher throughput than Linux\": what Linux answers alone over what Caladan does"
        "§7.1, Fig. 4";
    "fig5.caladan" number(52.0, 580e3)
        "memcached at 800,000 requests a second beside swaptions-GC under Caladan: p99.9 while it collects, µs"
        "abstract; §7.1, Fig. 5: \"reducing tail latency from 580 ms to 52 μs\"";
    "fig5.parties" number(580.0, 0.052)
        "the same under Parties*, ms"
        "abstract; §7.1, Fig. 5: \"reducing tail latency from 580 ms to 52 μs\""
        why "the smallest core that memcached can have, two hyperthreads, carries it through a collection here; its tail is \
             that of Parties*' own trials with less";
    "fig5.factor" number(11_000.0, 1.0)
        "Parties*' tail as a multiple of Caladan's"
        "§7.1, Fig. 5: \"99.9% latency that is 11,000× higher than Caladan during GC cycles\""
        why "as fig5.parties";
    "fig5.worst" sentence()
        "the longest p99.9 over 20 ms, whether it collects or not: Caladan's over Parties*'"
        "§7.1, Fig. 5";
    "fig5.be" number(1.05, 1.0)
        "swaptions-GC's throughput under Caladan as a multiple of that under Parties*"
        "§7.1: \"achieving an average of 5% less than Caladan\"";
}

/// What should come out, what would mean "no effect", and how far off still counts.
type What = (Expected, f64, Tolerance);

const fn claim(
    id: &'static str,
    statement: &'static str,
    place: &'static str,
    (expected, no_effect, tolerance): What,
    why: &[&'static str],
) -> Claim {
    let known_difference = if let [why] = why { Some(*why) } else { None };
    let source = Source { text: "caladan-osdi20", place };
    Claim { id, statement, source, expected, tolerance, no_effect, known_difference }
}

const STAND_INS: &str =
    "programs are stand-ins of a few numbers each, calibrated alone, and the machine's memory is assumed";

/// A number in the text.
const fn number(value: f64, no_effect: f64) -> What {
    (Expected::Number(value), no_effect, Tolerance { relative: 0.2, reason: STAND_INS })
}

/// A number that follows from the text; the statement says how.
const fn computed(value: f64, no_effect: f64) -> What {
    (Expected::Computed(value), no_effect, Tolerance { relative: 0.2, reason: STAND_INS })
}

/// A sentence that says which of two is less; the value is that one over the other.
const fn sentence() -> What {
    (Expected::Below(1.0), 1.0, Tolerance { relative: 0.0, reason: "a sentence without a number" })
}

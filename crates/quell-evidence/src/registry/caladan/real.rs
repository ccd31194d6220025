//! What Quell's kernel half promises on a real kernel, with unmodified programs. The paper's own evaluation is on hardware
//! that nobody rents out; these are Quell's own bounds.

use crate::claim::{Claim, Expected, Source, Tolerance};

/// One number of CPUs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Real {
    /// CPUs of the machine.
    pub cpus: u32,
    /// 99th percentile of latency, as a multiple of the server's alone.
    pub p99: &'static Claim,
    /// 99.9th percentile, as a multiple of the SCHED_FIFO server's.
    pub p999: &'static Claim,
    /// The part of the antagonist's work beside a SCHED_FIFO server that is lost.
    pub work: &'static Claim,
}

macro_rules! real {
    ($($name:ident $cpus:literal)+) => {
        $(const $name: [Claim; 3] = [
            claim(
                concat!("caladan.real.", $cpus, ".p99"),
                concat!("memcached beside spinning threads, ", $cpus, " CPUs: p99 of latency, as a multiple of what it is alone"),
                1.05,
            ),
            claim(
                concat!("caladan.real.", $cpus, ".p999"),
                "the same: p99.9, as a multiple of the p99.9 of a SCHED_FIFO server",
                1.25,
            ),
            claim(
                concat!("caladan.real.", $cpus, ".work"),
                "the same: the part that the spinning threads lose of their work beside a SCHED_FIFO server",
                0.03,
            ),
        ];)+
        /// By number of CPUs.
        pub const REAL: &[Real] = &[$(Real { cpus: $cpus, p99: &$name[0], p999: &$name[1], work: &$name[2] },)+];

        /// All of them.
        pub(super) const CLAIMS: &[&Claim] = &[$(&$name[0], &$name[1], &$name[2],)+];
    };
}

real! { TWO 2 FOUR 4 }

const fn claim(id: &'static str, statement: &'static str, bound: f64) -> Claim {
    Claim {
        id,
        statement,
        source: Source { text: "quell", place: "docs/scx.md" },
        expected: Expected::AtMost(bound),
        tolerance: Tolerance { relative: 0.0, reason: "a bound that Quell sets itself" },
        no_effect: f64::INFINITY,
        known_difference: Some(
            "the loop and the scheduler's own instructions take part of a CPU, which is slow here: 125 million \
             instructions a second",
        ),
    }
}

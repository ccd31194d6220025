//! Series resampled from latencies that were recorded of a real service, for tests.

mod record;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{Design, Measured};
use crate::phase::{Measure, Phase, Slice};

/// A line for each tenth of a second: latencies in microseconds (`record.rs`).
const RECORDED: &str = include_str!("latencies.txt");
pub const NANOS_PER_LINE: u64 = 100_000_000;
/// Lines that stay together in a resampled series: as long as four blocks, so that what neighbouring blocks have in common stays.
const TOGETHER: usize = 60;

/// The recording.
pub fn lines() -> Vec<Vec<u64>> {
    let line = |line: &str| line.split(' ').filter_map(|value| value.parse().ok()).collect();
    RECORDED.lines().map(line).collect()
}

/// The recording itself as blocks of an experiment, as far as it goes.
pub fn in_order(lines: &[Vec<u64>], design: &Design) -> Vec<Measured> {
    let mut lines = lines.iter();
    cut(design, &mut || lines.next().map(Vec::as_slice))
}

/// The blocks of an experiment in which nothing is changed: stretches of the recording, drawn at random and put one after the other
/// (a moving-block bootstrap, Künsch 1989, with the recording as a ring).
pub fn blocks(lines: &[Vec<u64>], design: &Design, seed: u64) -> Vec<Measured> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let (mut at, mut left) = (0, 0);
    cut(design, &mut || {
        if left == 0 {
            (at, left) = (random.random_range(0..lines.len()), TOGETHER);
        }
        left -= 1;
        at = (at + 1) % lines.len();
        Some(&lines[at])
    })
}

/// Cuts what `next` has into the design's blocks, until it has no more.
fn cut<'a>(design: &Design, next: &mut dyn FnMut() -> Option<&'a [u64]>) -> Vec<Measured> {
    let in_block = (design.block_seconds * 1e9) as u64 / NANOS_PER_LINE;
    let dropped = ((design.dropped_seconds * 1e9) as u64).div_ceil(NANOS_PER_LINE);
    let mut measured = Vec::new();
    for (number, turn) in (0..).zip(design.turns()) {
        let mut phase = Phase::new(Measure::Probe, Vec::new());
        for line in 0..in_block {
            let Some(values) = next() else { return measured };
            let from_ns = (number * in_block + line) * NANOS_PER_LINE;
            if line >= dropped {
                let cells = values.iter().map(|micros| (micros * 1_000, 1)).collect();
                phase.slices.push(Slice { from_ns, to_ns: from_ns + NANOS_PER_LINE, cells });
            }
        }
        measured.push(Measured { turn, phase });
    }
    measured
}

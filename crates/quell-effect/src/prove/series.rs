//! From blocks that were measured to one number each.

use crate::phase::Phase;
use crate::prove::design::Turn;

/// A block as it was measured, without what is dropped at its beginning. One that ended early stands as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured {
    /// Which one.
    pub turn: Turn,
    /// What was measured.
    pub phase: Phase,
}

/// A group with a value for each block.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Group {
    /// Its number.
    pub number: u32,
    /// The logarithms of the blocks' quantiles, in their order.
    pub values: Vec<f64>,
    /// The block that is off.
    pub off: usize,
}

/// The groups that are complete, and the number of those that are set aside: in a block of theirs nothing was measured.
pub(super) fn groups(blocks: &[Measured], per_group: usize, quantile: f64) -> (Vec<Group>, u32) {
    let (mut groups, mut empty) = (Vec::new(), 0);
    for blocks in blocks.chunk_by(|one, other| one.turn.group == other.turn.group) {
        let Some(off) = blocks.iter().position(|block| !block.turn.on) else { continue };
        if blocks.len() < per_group {
            continue;
        }
        if blocks.iter().any(|block| block.phase.count() == 0) {
            empty += 1;
            continue;
        }
        let values = blocks.iter().map(|block| logarithm(&block.phase, quantile)).collect();
        groups.push(Group { number: blocks[0].turn.group, values, off });
    }
    (groups, empty)
}

/// The logarithm of a quantile; nothing counts as a nanosecond.
pub(super) fn logarithm(phase: &Phase, quantile: f64) -> f64 {
    (phase.at(quantile).max(1) as f64).ln()
}

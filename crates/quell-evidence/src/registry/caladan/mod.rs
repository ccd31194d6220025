//! Caladan: its evaluation, simulated, and what Quell's kernel half promises on a real kernel.

mod evaluation;
mod real;

use super::Topic;
use crate::claim::Claim;

pub use real::{CROWDED, Crowded, REAL, Real};

/// The topic.
pub const TOPIC: Topic = Topic {
    id: "caladan",
    title: "Caladan's evaluation on its machine, simulated with contention; for unmodified programs on a real kernel (--real)",
    claims: &join::<{ evaluation::CLAIMS.len() + real::CLAIMS.len() }>(evaluation::CLAIMS, real::CLAIMS),
};

const fn join<const N: usize>(
    first: &'static [&'static Claim],
    second: &'static [&'static Claim],
) -> [&'static Claim; N] {
    let mut all = [first[0]; N];
    let mut at = 0;
    while at < N {
        all[at] = if at < first.len() { first[at] } else { second[at - first.len()] };
        at += 1;
    }
    all
}

/// The claim of this name, without the topic's.
#[must_use]
pub fn claim(name: &str) -> Option<&'static Claim> {
    let is = |claim: &&&'static Claim| claim.id.strip_prefix("caladan.") == Some(name);
    TOPIC.claims.iter().find(is).copied()
}

/// The place of its row.
#[must_use]
pub fn place(id: &str) -> Option<usize> {
    TOPIC.claims.iter().position(|claim| claim.id == id)
}

//! Known pieces of work, each a few numbers with their source.

use std::borrow::Cow;

use super::profile::{LINE, MissCurve, Profile};

/// A profile with its name.
#[derive(Clone, Debug)]
pub struct Known {
    /// Its name in scenarios.
    pub name: &'static str,
    /// Where its numbers are from.
    pub source: &'static str,
    /// What it asks of the machine.
    pub profile: Profile,
}

/// All of them.
pub static LIBRARY: &[Known] = &[
    Known {
        name: "computing",
        source: "assumed: arithmetic on what fits into the core's own caches",
        profile: Profile {
            cpi: 0.6,
            llc_references: 0.05,
            misses: MissCurve(Cow::Borrowed(&[(0.0, 0.5), (1.0, 0.05)])),
            shared: false,
            parallelism: 2.0,
            bytes_per_miss: LINE,
            pressure: 0.8,
            sensitivity: 0.8,
        },
    },
    Known {
        name: "streaming",
        source: "assumed: a loop over arrays that no cache holds, with prefetching, as STREAM's copy: a line read, half \
                 a line written back for each",
        profile: Profile {
            cpi: 0.5,
            llc_references: 60.0,
            misses: MissCurve(Cow::Borrowed(&[(0.0, 1.0)])),
            shared: false,
            parallelism: 10.0,
            bytes_per_miss: 1.5 * LINE,
            pressure: 0.5,
            sensitivity: 0.5,
        },
    },
];

/// The profile of this name.
#[must_use]
pub fn named(name: &str) -> Option<&'static Profile> {
    LIBRARY.iter().find(|known| known.name == name).map(|known| &known.profile)
}

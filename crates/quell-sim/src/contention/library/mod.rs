//! Known pieces of work, each a few numbers with their source.
//!
//! All are of a program alone. What comes out when programs meet is the model's result, and no number here was chosen for
//! it. `docs/lab/workloads.md` says how they were found and how far to trust them.

mod antagonists;
mod batch;
mod servers;

use std::borrow::Cow;

use quell_model::Nanos;

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
    /// A server's mean CPU time for a request, alone.
    pub service: Option<Nanos>,
}

/// Cycles an instruction within the core, references to the last-level cache in a thousand instructions, and how many of
/// those are under way at a time.
struct Core(f64, f64, f64);

/// The part of references that misses by MiB of cache.
type Curve = &'static [(f64, f64)];

impl Known {
    /// A piece of work whose threads share their data, which reads more than it writes, and is a usual sibling.
    const fn new(name: &'static str, source: &'static str, core: Core, curve: Curve) -> Known {
        let Core(cpi, llc_references, parallelism) = core;
        let profile = Profile {
            cpi,
            llc_references,
            misses: MissCurve(Cow::Borrowed(curve)),
            shared: true,
            parallelism,
            bytes_per_miss: LINE,
            pressure: 0.8,
            sensitivity: 0.8,
        };
        Known { name, source, profile, service: None }
    }

    /// Each thread has data of its own, to which the curve applies.
    const fn apart(mut self) -> Known {
        self.profile.shared = false;
        self
    }

    /// Lines that a miss moves: one is read, and this many in all with those written back.
    const fn lines(mut self, lines: f64) -> Known {
        self.profile.bytes_per_miss = lines * LINE;
        self
    }

    /// Its pressure on siblings, and its sensitivity to theirs.
    const fn sibling(mut self, pressure: f64, sensitivity: f64) -> Known {
        (self.profile.pressure, self.profile.sensitivity) = (pressure, sensitivity);
        self
    }

    /// It is a server with this mean CPU time for a request.
    const fn serves(mut self, mean: Nanos) -> Known {
        self.service = Some(mean);
        self
    }
}

/// All of them.
pub fn all() -> impl Iterator<Item = &'static Known> {
    servers::SERVERS.iter().chain(batch::BATCH).chain(antagonists::ANTAGONISTS)
}

/// The mean CPU time of a request of the server of this name, alone.
#[must_use]
pub fn service(name: &str) -> Option<Nanos> {
    all().find(|known| known.name == name)?.service
}

/// The profile of this name.
#[must_use]
pub fn named(name: &str) -> Option<&'static Profile> {
    all().find(|known| known.name == name).map(|known| &known.profile)
}

#[cfg(test)]
mod tests;

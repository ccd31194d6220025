//! What each workload waits for while it could run, as a running account: seconds by cause and by whom.
//!
//! Amounts come from counters that are always there (run delay). Causes come from *bursts*: a second of tracing now and then,
//! and at once where a workload waits much more than before. A burst looks at random instants, some 3,800 a second, at who waits
//! for which CPU and what has it: of a wait of a second a share is known to 2 %, at a tenth of the cost of every switch. What was waited within a burst goes by that burst's shares. What was
//! waited between two bursts goes to a cause as far as both bursts agree on its share, and the rest is *unknown*: a cause that
//! came or went in between is not stated. Without tracing all is unknown.
//!
//! All but [`Probe`] is pure: [`Burst`] makes shares of a window of events, [`Ledger`] keeps a workload's account, [`Budget`] and
//! [`Pace`] decide when the next burst may and should be.

mod budget;
mod burst;
#[cfg(test)]
mod burst_tests;
mod cause;
#[cfg(test)]
mod exact;
mod ledger;
mod limited;
mod names;
mod pace;
mod probe;
#[cfg(test)]
mod probe_tests;
mod recent;
mod series;
mod shares;
#[cfg(test)]
mod tests;

pub use budget::Budget;
pub use burst::{Around, Burst, Interrupted};
pub use cause::{Cause, Key};
pub use ledger::Ledger;
pub use pace::{Due, Pace};
pub use probe::{Crew, Probe, Traced};
pub use recent::{How, Part, Recent};
pub use series::{Entry, MOST_NAMED, Series};
pub use shares::{Share, Shares};

pub use crate::services::Limited;

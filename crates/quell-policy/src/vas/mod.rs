//! VAS: the smallest share of a CPU that leaves a service's latency as on a whole CPU (Li et al., RTNS 2021, §4).
//!
//! A service is a set of periodic or sporadic tasks ([`TaskSet`]), or a Poisson stream of requests ([`Poisson`]). It gets
//! a server at the highest priority of its CPU: a *budget* every *period* ([`Interface`]). As long as the budget is never
//! exhausted the schedule is that of a whole CPU (Theorem 4.1). [`Busy`] has the stretches in which the service would
//! keep a whole CPU busy, B(P) is the most of them in any window of one period, and [`Analysis`] chooses. The policy
//! [`Vas`] asks the host for such servers.
//!
//! Times are whole nanoseconds, products 128 bits wide. The paper's W(P) lacks its division: here W = B(P) / P.

mod analysis;
mod busy;
mod curve;
mod error;
mod harmonic;
mod interface;
mod invariants;
mod place;
mod poisson;
mod policy;
mod service;
mod task;
mod wanted;

pub use analysis::{Analysis, Bounds};
pub use busy::Busy;
pub use curve::{Curve, Flat};
pub use error::VasError;
pub use interface::{Interface, Margin};
pub use poisson::{Reached, latency, least_budget};
pub use policy::{Vas, VasConfig};
pub use quell_model::demand::{Poisson, Service, Task};
pub use task::{Releases, TaskSet};

//! A Kubernetes cluster as a driver: nodes are hosts, pods are workloads, and every scheduler stays as it is.
//!
//! `world` is what the API server says, reduced (`seen`); `seats` gives pods that replace each other one number; `show` makes a
//! view of it; `driver` carries plans out through `calls`, as long as `lease` says that this controller leads. `publish` is the
//! other side: a node's reports. `show`, `seats`, `seen`, `bounds` and `cooling` are pure.

mod bounds;
pub mod calls;
mod clean;
mod cooling;
mod driver;
mod lease;
mod publish;
mod seats;
mod seen;
mod show;
mod watch;
mod world;

pub use bounds::Bounds;
pub use calls::Calls;
pub use clean::clean;
pub use driver::{Kubernetes, Mode};
pub use lease::{Leads, campaign};
pub use publish::{Publish, publish};
pub use watch::follow;
pub use world::World;

/// The taint of a contended node; its effect is `PreferNoSchedule`.
pub const TAINT: &str = "quell.dev/contended";
/// The label with a node's class.
pub const LABEL: &str = "quell.dev/contention-class";
/// The label with which a pod's owner allows or forbids moves: `evict` or `never`.
pub const MOVE: &str = "quell.dev/move";
/// The label with a pod's class: `lc`, `be` or `none`.
pub const CLASS: &str = "quell.dev/class";
/// The annotation of an owner until when its pods are left alone.
pub const COOL_DOWN: &str = "quell.dev/cool-down";
/// The Lease of the controller that leads.
pub const LEASE: &str = "quell-cluster";

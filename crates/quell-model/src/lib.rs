//! The nouns of Quell and the contract between policies and hosts.
//!
//! A policy is a deterministic state machine over its observations: it reads a [`View`] and [`Event`]s and writes a
//! [`Plan`]. A host observes and obeys: it fills the view with the signals that it can measure and carries the plan out
//! with its knobs. One loop drives them ([`stack::Stack`]): observe → step → apply.
//!
//! Nothing here does I/O, reads a clock or draws a random number.

pub mod allowance;
pub mod amount;
pub mod bounds;
pub mod cluster;
pub mod contract;
pub mod controls;
pub mod cpuset;
pub mod demand;
pub mod domain;
pub mod event;
pub mod foreign;
pub mod holders;
pub mod key;
pub mod knob;
pub mod lease;
pub mod need;
pub mod plan;
mod random;
pub mod rule;
pub mod sched_class;
pub mod scheduler;
pub mod scope;
mod shape;
pub mod signal;
pub mod stack;
pub mod suggest;
pub mod thread;
pub mod time;
pub mod topology;
pub mod trial;
pub mod view;
pub mod workload;

mod error;

pub use allowance::Allowance;
pub use amount::amount;
pub use bounds::{Bounds, is_way_mask};
pub use contract::{Host, Policy, Wake};
pub use controls::{Controls, FrequencyControl, GpuControl, ThrottleControl, ThrottleUnit, WayControl};
pub use cpuset::{CpuId, CpuSet, MAX_CPUS};
pub use demand::Demand;
pub use domain::{Domain, HostDomain};
pub use error::ModelError;
pub use event::{Event, Outcome, Part, Refusal, SoloEnd, Verdict};
pub use holders::Holders;
pub use key::{Key, Uses};
pub use knob::{Knob, KnobInfo, KnobKind, KnobSetting, LlcWays, NodeSet, PreemptionMode, Target, TargetKind, Warp};
pub use lease::{Lease, LeaseBook, LeaseLimits, LeaseRequest};
pub use need::{Capabilities, Description, Impossible, Need, Support};
pub use plan::{GrantCommand, Note, NoteKind, Plan, SampleRequest};
pub use random::Stream;
pub use rule::{DeferrableServer, QueueOrder, Rule, RuleKind};
pub use sched_class::SchedClass;
pub use scheduler::Scheduler;
pub use scope::{Claimed, Overlap, Scope};
pub use shape::Shape;
pub use signal::{BytesPerSecond, Quality, Sample, Signal, SignalInfo, SignalSet};
pub use stack::{Clash, Layer, Stack, clashes};
pub use thread::{ThreadId, ThreadState};
pub use time::Nanos;
pub use topology::{Cpu, Topology};
pub use trial::Trial;
pub use view::View;
pub use workload::{
    Class, CommandLine, CpuCount, Grace, GraceSignal, Reservation, Selector, Slo, Workload, WorkloadId,
};

//! The CPU reservation gap: the CPU time that workloads requested, demanded and got, and the causes of the difference.
//!
//! It is the finding of rkube-socc21 (§3.4, §4) as a diagnosis: a workload that requested CPUs and wants them gets
//! fewer, although the machine is not over-committed, for two reasons: *forced runqueue sharing* (§4.1) and *phantom
//! CPU time* (§4.2).
//!
//! # Definitions
//!
//! At an instant, a workload with a request of `c` CPUs has `n` threads that are runnable or running, `r` of which run.
//! The window is cut into periods (100 ms if not said otherwise: the kernel's quota period, and the "scheduling period"
//! that rkube-socc21 Fig. 3 draws). In a period of length `P`, in CPU time:
//!
//! | name | is | in words |
//! |---|---|---|
//! | requested | `c · P` | |
//! | demanded | `∫ min(n, CPUs of the machine)` | what it could have used of the whole machine |
//! | due | `∫ min(n, c, CPUs of the machine)` | demand, capped by the request *at each instant*: what it could have used of its own CPUs |
//! | got | `∫ r` | |
//! | gap | `max(0, due − got)` | what it was short of within its request |
//! | kept | `due − gap` | the part of the request that was honoured |
//!
//! Demand is capped at each instant and not over the window, because two threads that wake together on one requested
//! CPU wait for each other even if the CPU is theirs alone: that is no gap. A fractional request is a CPU of that
//! speed. Within a period, CPU time above the request (a burst) pays back a shortage; from one period to another it
//! does not: a reservation cannot be consumed in advance. A workload's own wait is a gap also where the work was finite
//! and got done: the gap is then a delay and no lost work.
//!
//! Causes. `s = max(0, min(n, c, CPUs) − r)` is the shortage at an instant. Waiting threads are classified by the state
//! of the CPU on whose runqueue they are. Four measures, each over the period:
//!
//! | measure | is |
//! |---|---|
//! | dispatch | `∫ min(s, threads that wait on an idle CPU)`: on their way to it, or held back by the workload's own limit |
//! | shared | `∫ min(s − dispatch's part, threads that wait on a CPU that runs another workload's thread)` |
//! | stacked | `∫` of what is left of `s`: they wait for threads of their own |
//! | phantom | `∫ idle CPUs, except those on which its threads wait`, while `n > 0` |
//!
//! A CPU-second can be lost to sharing *and* stand idle elsewhere: in rkube-socc21 Fig. 3b the target loses a third of
//! the period to a neighbour, and exactly a third stands idle on the other CPUs that its one thread cannot use. To add up,
//! the gap is split in this order:
//!
//! 1. the part that dispatch explains goes to *rest*;
//! 2. **phantom CPU time** (PCT) is the part that idle CPU time of the same period would have covered, had its threads
//!    been able to use it: `min(remainder, phantom)`;
//! 3. **forced runqueue sharing** (FRS) is the part that was lost to sharing and that no idle time could have covered:
//!    `min(remainder, shared)`;
//! 4. the remainder is *rest*: threads of one workload on one runqueue, dispatch, its own limit.
//!
//! So `kept + frs + pct + rest = due`, exactly and always. `shared` and `phantom` are reported beside the split, each
//! whole. A burstable neighbour (Fig. 3a) leaves no idle time and all is FRS; a capped one (Fig. 3b) leaves idle time
//! and it is PCT.
//!
//! Time is as the scheduler sees it: steal time (taken by a hypervisor) counts as run time.

pub mod attribution;
pub mod constructed;
pub mod services;

mod account;
mod crew;
mod error;
mod estimate;
mod integrals;
mod machine;
mod measure;
mod report;
mod request;
mod sample;
#[cfg(test)]
mod stage;
mod tracer;

pub use account::{Accounting, Settled};
pub use error::GapError;
pub use estimate::{Estimate, estimate};
pub use integrals::{Account, Integrals};
pub use machine::Machine;
pub use measure::{Method, Session, Window, measure};
pub use report::{Report, Taker, WorkloadGap};
pub use request::Request;
pub use sample::{MachineTimes, Sample, ThreadTimes};

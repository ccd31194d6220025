//! Which policy suits a machine and, where something is known of it, a workload: a pure function over facts.
//!
//! [`RULES`] is the whole of it: questions in order, the first yes is the answer. A fact that is not known answers no question,
//! and the advice says that it is missing. `docs/start/which-policy.md` has the same questions for people.

mod advice;
mod facts;
mod paste;
mod rules;
mod watch;

pub use advice::{Advice, Answer, recommend};
pub use facts::{Contended, MachineFacts, OwnScheduler, WorkloadFacts};
pub use rules::{RULES, Rule};
pub use watch::{Looks, Watch};

#[cfg(test)]
mod tests;

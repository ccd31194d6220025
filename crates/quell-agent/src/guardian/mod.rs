//! However Quell is killed, everything is restored: a small parent process watches the one that does the work.
//!
//! ```no_run
//! use quell_agent::guardian::{Options, RunDir, supervise};
//! use quell_linux::{HostOptions, LinuxHost, Roots};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let claim = RunDir::locate(None)?.claim(&format!("exec-{}", std::process::id()))?;
//! // Before the process has a second thread:
//! let ending = supervise(Options::new(claim), &mut |worker, journal| {
//!     // This runs in a child process. Every write must go through the journal.
//!     let Ok(host) = LinuxHost::new(Roots::default(), HostOptions::default()) else { return 1 };
//!     let mut host = host.with_journal(journal);
//!     // … turn until worker.stop() is set, then put everything back:
//!     host.restore();
//!     0
//! })?;
//! // Here is the guardian again, after everything has been put back.
//! std::process::exit(ending.exit_status().into());
//! # }
//! ```
//!
//! The parent is the *guardian*: it holds a handle of its child (a pidfd), sleeps, and knows the journal's path. The
//! child is the *worker*. Each watches the other:
//!
//! * The worker ends, however: the guardian restores what the journal says ([`restore`]) and, if the worker did not end
//!   on purpose, restarts it ([`backoff`]).
//! * The worker hangs, or lets a solo run outlive its time ([`pulse`]): the guardian kills it; then as before. One that the
//!   machine does not let run is spared ([`patience`]).
//! * The guardian is killed: the worker sees its end of a pipe close ([`Worker`]). `stop` is set; if the work has not
//!   ended half a second later, a thread of its own restores everything, and the worker exits.
//! * Another program removes the run directory: the guardian has the journal open (`kept`), puts everything back, makes the
//!   directory again, and starts the worker again.
//! * Both are killed at once: the journal stays in the run directory, and `quell restore` (which the systemd unit calls
//!   when the service has ended) or the next `quell run` restores everything.
//!
//! A worker may leave something for the next one in the guardian's [`Store`], which outlives it.
//!
//! SIGTERM, SIGINT, SIGHUP and SIGQUIT that are sent to the guardian alone are forwarded to the worker; the guardian
//! itself ends only after the worker has. Signals from the terminal reach the worker anyway.

pub mod backoff;
mod child;
mod kept;
mod leftover;
pub mod patience;
mod processes;
pub mod pulse;
pub mod restore;
mod rundir;
mod signals;
mod store;
mod supervise;
mod sweep;
mod worker;

pub use leftover::{Leftover, leftovers};
pub use restore::{Report, Site, put_back, put_back_journal};
pub use rundir::{Claim, RunDir, Stale, VARIABLE as RUN_DIR_VARIABLE, commands_in};
pub use store::Store;
pub use supervise::{Ending, News, Options, REFUSED, START_AGAIN, supervise};
pub use worker::{Beside, Worker};

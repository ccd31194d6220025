//! All services of the machine at once: which lost CPU time, and what took it.
//!
//! A service loses a CPU's time while at least one of its threads waits on that CPU and something else has it: however many
//! of its threads wait there, one CPU's time is lost. Requests play no part; `crate::Accounting` measures those.

mod guess;
pub(crate) mod limits;
mod ranking;
mod sampled;
mod traced;
mod waits;
mod watch;

pub use guess::{Guess, Reading};
pub use limits::Limited;
pub use ranking::{Cause, Loss, Losses, Row, rank};
pub use waits::{Holder, Lost, Pieces, Waited, Waits};
pub use watch::{Services, watch};

//! A scene's workloads as real threads, so that a real kernel schedules what the simulator simulates.
//!
//! A scene is a scenario of `quell-lab run`. Each workload is played by one process: its threads do CPU work that was measured
//! on this machine alone ([`Pace`]), arrive, sleep and wait as the simulated ones do, with the same random numbers. No thread
//! generates load: an idle thread of a server sleeps until the next request's arrival.

/// What is played of a scene: one more with every change after which a real kernel would do something else with the same
/// file. What was found before is not comparable then.
pub const PLAYED_AS: u32 = 1;

mod body;
mod check;
mod counted;
mod course;
mod ended;
mod error;
mod pace;
mod play;
mod requests;
mod threads;

pub use check::check;
pub use counted::Counted;
pub use course::Course;
pub use error::{Error, Result};
pub use pace::Pace;
pub use play::{Part, Played, play};
pub use threads::{Had, had};

//! Antagonists: best-effort work that takes the same resources from its neighbours as real work — CPU time, memory
//! bandwidth, cache — and counts its own progress, in *blocks* of equal work.

mod phase;
mod progress;
mod report;
mod run;
mod spec;
mod work;

pub use phase::Phase;
pub use progress::Progress;
pub use report::{AntagonistReport, Sample};
pub use run::{SAMPLE_NS, run};
pub use spec::{AntagonistSpec, Kind};

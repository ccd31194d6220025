//! Antagonists: best-effort work that takes from its neighbours what the real one takes — CPU time, memory
//! bandwidth, cache — and counts what it gets done, in *blocks* of equal work.

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

//! procfs: processes, threads, command lines, the machine's own times.

mod machine;
mod numbers;
mod reader;
mod stat;
mod times;

pub use machine::{steal, ticks};
pub(crate) use numbers::Numbers;
pub use reader::{FileId, ProcFs};
pub use stat::{SchedStat, ThreadStat};
pub use times::TimesFile;

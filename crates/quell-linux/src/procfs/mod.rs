//! procfs: processes, threads, command lines, the machine's own times.

mod autogroup;
mod ended;
mod machine;
mod name;
mod numbers;
mod population;
mod reader;
mod stat;
mod times;

pub use autogroup::Autogroup;
pub use ended::has_ended;
pub use machine::{busy, steal, ticks};
pub(crate) use numbers::Numbers;
pub(crate) use population::Population;
pub use reader::{FileId, ProcFs};
pub use stat::{SchedStat, ThreadStat};
pub use times::TimesFile;

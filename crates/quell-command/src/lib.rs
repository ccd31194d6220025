//! What the command lines of `quell` and `quell-lab` have in common: the grammar of values, output and its end, help,
//! man pages, Ctrl-C, and the programs that both start.

mod ending;
pub mod generate;
pub mod help;
pub mod output;
pub mod outputs;
pub mod parameters;
pub mod programs;
pub mod progress;
pub mod request;
pub mod signals;
pub mod units;

pub use ending::main;

//! Bad inputs of `quell-lab`: see [`quell_checks::bad_inputs`].

mod command_line;
mod scenarios;

const QUELL_LAB: &str = env!("CARGO_BIN_EXE_quell-lab");

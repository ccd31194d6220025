//! Bad inputs of `quell`: see [`quell_checks::bad_inputs`].

mod api;
mod command_line;
mod configuration;

const QUELL: &str = env!("CARGO_BIN_EXE_quell");

#[test]
fn there_are_many_rows() {
    let rows = command_line::ROWS.len() + configuration::ROWS.len() + api::ROWS.len();
    assert!(rows >= 200, "{rows}");
}

//! Bad inputs: each is refused at once, in a line or a list of lines that say where the mistake is and what would be right.
//! Nothing changes by it, and nothing panics.
//!
//! The tables hold an input and what the message says, in this order, `…` between parts of it. A new mistake is a new row.

mod api;
mod command_line;
mod configuration;
mod quell;
mod scenarios;

/// Does the text hold the parts, in their order?
fn holds(text: &str, parts: &str) -> bool {
    let mut rest = text;
    parts.split('…').map(str::trim).all(|part| {
        let found = rest.find(part);
        rest = found.map_or("", |at| &rest[at + part.len()..]);
        found.is_some()
    })
}

/// All that is wrong with what came out, at once.
fn assert_none(wrong: &[String], rows: usize) {
    assert!(wrong.is_empty(), "{} of {rows} rows:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn there_are_two_hundred_rows() {
    let rows = command_line::ROWS.len() + configuration::ROWS.len() + scenarios::ROWS.len() + api::ROWS.len();
    assert!(rows >= 200, "{rows}");
}

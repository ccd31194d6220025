//! Any text as a configuration: it is taken or refused with a place and a fix, nothing else.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use quell_agent::config::read_text;

fuzz_target!(|text: &str| {
    if let Err(problems) = read_text(Path::new("quell.toml"), text) {
        assert!(!problems.to_string().is_empty());
    }
});

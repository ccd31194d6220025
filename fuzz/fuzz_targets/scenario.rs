//! Any text as a scenario: it is taken or refused with a reason, nothing else.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use quell_sim::scenario::Scenario;

fuzz_target!(|text: &str| {
    if let Err(error) = Scenario::parse(Path::new("scenario.toml"), text, &[]) {
        assert!(!error.to_string().is_empty());
    }
});

//! Any bytes as a record, compressed or not: read and replayed, or refused. Replayed with a policy of our own: the state
//! that a made-up record claims for a policy may break that policy's promises to itself, which `replay` reports, but
//! libFuzzer takes every panic for a crash.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quell_agent::record::{Record, With, replay};
use quell_policy::AnyPolicy;

fuzz_target!(|bytes: &[u8]| {
    let Some((first, rest)) = bytes.split_first() else { return };
    // Mostly what a compressor wrote, or the fuzzer would test the decompressor only.
    let compressed;
    let input = if first & 7 == 0 {
        rest
    } else {
        compressed = zstd::encode_all(rest, 1).unwrap();
        &compressed
    };
    if let Ok(mut record) = Record::read(input, "fuzzed") {
        if record.header().layers.len() == 1 {
            let policy = Box::new(AnyPolicy::named("guard").unwrap());
            let _ = replay(&mut record, &With::Other { layer: 0, policy }, |_| true);
        } else {
            while let Ok(Some(_)) = record.turn() {}
        }
    }
});

//! Any bytes as a record, compressed or not: read and replayed, or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quell_agent::record::{Record, With, replay};

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
        let _ = replay(&mut record, &With::Recorded, |_| true);
    }
});

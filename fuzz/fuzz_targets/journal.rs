//! Any bytes as a journal: understood as far as they can be. What a torn end leaves out, nothing else may add.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quell_agent::journal::replay;

fuzz_target!(|bytes: &[u8]| {
    let whole = replay(bytes);
    let open = |state: &quell_agent::journal::Replay| state.entries().filter(|entry| !entry.is_closed()).count();
    let complete = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
    let told = replay(&bytes[..complete]);
    assert_eq!(open(&whole), open(&told), "a line without its end was not written");
    assert_eq!(whole.broken, told.broken + usize::from(complete < bytes.len()));
});

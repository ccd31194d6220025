//! Any bytes as a program's page, and as the messages by which it is handed out: what is read of them is within bounds.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quell_page::{Answer, Copied, Hello, LINE, SIZE, WORKERS};

fuzz_target!(|input: (u64, u64, &[u8])| {
    let (attached, now, bytes) = input;
    if let Some(copied) = Copied::new(bytes, attached, now) {
        assert!((LINE..=SIZE).contains(&copied.next_size()));
        for (at, worker) in copied.workers() {
            assert!(at < WORKERS && worker.delay <= now.saturating_sub(attached));
            assert!(worker.request.is_none_or(|start| start >= attached.min(now) && start <= now));
        }
        assert!(copied.seen().delay <= now.saturating_sub(attached));
    }
    let _ = Hello::read(bytes);
    assert!(Answer::read(bytes).is_none_or(|answer| answer.words().len() <= bytes.len()));
});
